/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The culprit of a hung job, as far as one snapshot shows. Pure, no state. For detect/hang.c alone.
 *
 * Best first: a process that is stopped; who is missing in a communicator and waits in no other one (L1); a process
 * that has ended; operations that all have entered; where none is in a stage, who has not begun the step that others
 * have; who stopped first, in no stage, while the others wait for their devices; the stages. Some stages hold no wait
 * for others (data loading, checkpoint, garbage collection, zero_grad): who is in one of them while no rank makes
 * progress is a culprit. Some often are a wait (backward, synchronisation), and the others can be both: who is in one
 * of those while most wait is a culprit only if it stopped before those who wait, for what is stuck stops first.
 */
#ifndef RANKTRACE_DETECT_HANG_WHO_H
#define RANKTRACE_DETECT_HANG_WHO_H

#include "analyzers/detect/detector.h"

enum hang_flag { HANG_ACCUSED = 1, HANG_WAITS = 2, HANG_STANDS = 4 };

struct hang_who {
	enum finding_cause cause;
	double confidence;
	size_t culprits;	   /* 0: unknown */
	uint32_t *culprit;	   /* indices in who, space for snapshot.ranks */
	uint8_t *flags;		   /* scratch, space for snapshot.ranks: enum hang_flag of each index */
	uint32_t *at;		   /* scratch, the same: its index in standing */
	const struct stuck *stuck; /* that it was seen from, NULL: stages */
	bool outside;		   /* no rank that lives is in a stage, nor begun a step that another has not: nothing says
				    * that they are in a step at all */
	bool together;		   /* all that live are in the same stage, which holds no wait for others */
	uint64_t since_ns;	   /* newest sign of life that counts */
};

/* ret->culprit, flags and at are the caller's. false: nothing to judge (no rank lives, or no sign of life was ever
 * seen). */
bool hang_who(const struct snapshot *snapshot, struct hang_who *ret);
bool hang_stopped(const struct standing *standing); /* by a signal, or in a debugger */
/* Its standing, NULL if there is none. After hang_who(). */
const struct standing *hang_standing(const struct snapshot *snapshot, const struct hang_who *who, uint32_t rank);
/* Where those stand that live and are no culprits, most first: "backward (5), sync (2)"; returns how many. */
size_t hang_where(const struct snapshot *snapshot, const struct hang_who *who, char *ret, size_t size);

#endif
