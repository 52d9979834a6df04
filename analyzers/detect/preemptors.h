/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What preempted a rank's step thread while it was ready to run, and for how long, since the sample before. Pure. Fed
 * with the waits that L3 saw, by the daemon as they happen and by tracectl analyze from stores; what comes out goes
 * into the aligner with the sample of their time (struct align_host).
 *
 * The preemptor is the task that took most, if that is a third of the waits at least: one among many that ran for a
 * moment each is none. A rank's own threads, as one that computes beside the training loop, are named as that.
 *
 * PREEMPTORS_MAX are kept: one more replaces the one that took least, so that the time of one is never
 * more than it took.
 */
#ifndef RANKTRACE_DETECT_PREEMPTORS_H
#define RANKTRACE_DETECT_PREEMPTORS_H

#include <stdint.h>

#define PREEMPTOR_MAX 8
#define PREEMPTOR_PART 3 /* a third of the waits at least */

struct preemptor {
	uint32_t pid; /* 0: the place is free */
	uint64_t ns;
	char name[16];
};

/* All zero: nothing was seen. */
struct preemptors {
	uint64_t waited_ns; /* by whomever */
	struct preemptor preemptor[PREEMPTOR_MAX];
};

/* own: the rank's process. pid: whose thread ran; 0: unknown. name: as long as it may be, cut to fit. What
 * would make a sum overflow is left out. */
void preemptors_add(struct preemptors *preemptors, uint32_t own, uint32_t pid, const char *name, uint64_t ns);
/* NULL: there is none. Valid until the next preemptors_add(). */
const struct preemptor *preemptors_most(const struct preemptors *preemptors);

#endif
