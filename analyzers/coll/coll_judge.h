/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a communicator across its members, and which are missing. Pure. Names of states are those of PyTorch's
 * Flight Recorder (torch/distributed/flight_recorder): COLLECTIVE_TYPE_MISMATCH (different operations under one
 * number), SIZE_OR_SYNTAX_MISMATCH (the same with different sizes or data types), and missing ranks.
 *
 * Libraries that only queue work on the device let a rank run ahead of its peers, so being behind is no fault: a member
 * is missing if another called a number that it did not, more than patience_ns ago, and its own last call on this
 * communicator is as old. Members on other nodes are counted, not judged.
 *
 * Only numbers of one kind are compared: from the init or the marker, the library's, or the process group's; the kind
 * of most members. COLL_SEQ_ATTACH is never compared. A difference counts at once, within the last COLL_RECENT numbers,
 * unless that number is complete on all members that called it; a member missing under a lower number has precedence.
 * Operations that may differ in count (all-to-all with splits, gather, scatter, batches) are compared by name alone.
 */
#ifndef RANKTRACE_COLL_COLL_JUDGE_H
#define RANKTRACE_COLL_COLL_JUDGE_H

#include "analyzers/coll/coll.h"

#include <stddef.h>
#include <stdint.h>

struct coll_judged {  /* a member on this node */
	int32_t rank; /* global */
	uint32_t pid;
	const struct coll *ops; /* for coll_at(); NULL: recall does the same: */
	bool (*recall)(const void *arg, uint64_t seq, struct coll_point *ret);
	const void *recall_arg;
	struct coll_standing standing;
	/* set by coll_judge() */
	bool compared; /* its numbers are of the compared kind */
	bool missing;
	bool differs;	 /* differs from the majority under the verdict's number */
	uint64_t behind; /* numbers behind the farthest member */
};

enum coll_state {
	COLL_STATE_RUNNING,
	COLL_STATE_MISSING,
	COLL_STATE_TYPE_MISMATCH,
	COLL_STATE_SIZE_MISMATCH,
	COLL_STATE_MAX
};

struct coll_verdict {
	enum coll_state state;
	uint64_t seq;		/* the first number that is missing, or differs */
	uint64_t waited_ns;	/* since the first call of that number */
	uint32_t here, members; /* members on this node, of all (0: unknown) */
	char called[64];	/* difference: "Broadcast 356 (16 KiB) instead of AllReduce (16 KiB)"; else "" */
	char sentence[256]; /* "rank 1 has not called AllReduce 118 (4 MiB) of communicator X; rank 0 has waited 7.1 s"
			     */
};

/* "RUNNING", "MISSING_RANKS", "COLLECTIVE_TYPE_MISMATCH", "SIZE_OR_SYNTAX_MISMATCH" */
const char *coll_state_name(enum coll_state state);

/* All members of one communicator, in any order. now_ns of the events' clock. Cost: members * COLL_RECENT *
 * (COLL_RECENT + COLL_MAJORITY_MAX). */
void coll_judge(
	struct coll_judged *member, size_t members, uint64_t now_ns, uint64_t patience_ns, struct coll_verdict *ret);

/*
 * Distinct calls of members under one number, with their counts, in order of addition. Beyond COLL_MAJORITY_MAX of
 * them, a call made by more than one member in COLL_MAJORITY_MAX is always kept.
 */

#define COLL_MAJORITY_MAX 32

struct coll_majority_call {
	struct coll_point point; /* of the first member */
	size_t weight;
};

struct coll_majority {
	size_t count;
	struct coll_majority_call call[COLL_MAJORITY_MAX];
};

#endif
