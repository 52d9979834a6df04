/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks took for a checkpoint, beside each other. Pure. Inside slow_rank.c: from the measures of a frame with a
 * checkpoint it makes such that slow_rank_series.c can judge, with checkpoints for frames.
 *
 * Only the checkpoint's own stage counts, and of it no more than the rank's self time is over its class's:
 *   excess_r = min(checkpoint_r - median of its class, self_r - median of its class)
 * so that neither waits within it (gathering the state) nor what is slow elsewhere in the step is laid to the
 * checkpoint. ratio = 1 + excess / median self time; z is by the spread of the stage in the class.
 *
 * What one rank writes for others is no fault: where less than half of a class write, or one of them writes
 * CHECKPOINT_APART times as long as the middle one (the model, where the others write the state of their random
 * numbers), only that counts by which it is over what it took itself in its first CHECKPOINT_USUAL checkpoints, and
 * only from CHECKPOINT_MORE times of that on. The first rank of a class or of a node may have more to write than the
 * others (indices, what is replicated), and others of its role have that too: of these only that counts by which they
 * are over what they were in their first CHECKPOINT_USUAL checkpoints, or over CHECKPOINT_ROLE times what the middle
 * one of its role is, whichever is less. Of the role of a class's first rank are those of the other classes, of a
 * node's first rank all that are first anywhere: who has more duties may take longer. The job's first rank has no peer.
 *
 * Checkpoints are rare, so that to wait for five of them takes long. One is far where it took CHECKPOINT_MORE times
 * what the longest of this rank's last CHECKPOINT_RECENT took (CHECKPOINT_KNOWN at least; without its very first, which
 * finds nothing prepared), and what the middle one of its class takes; where its excess is CHECKPOINT_FAR_Z times the
 * spread; and where that much of it that is also above the longest of the others' costs the job CHECKPOINT_COSTS of its
 * time. CHECKPOINT_IN_A_ROW far ones are enough. One never is: storage has hiccups, and one that was far once counts
 * among what is usual of the rank. Nothing is far where more than a CHECKPOINT_PART-th of those that write take that
 * much longer than they did (their storage is slow); of whoever writes for others (CHECKPOINT_LIKE), who has no peer;
 * and where each step has a checkpoint, as two steps in a row may be of one hiccup.
 */
#ifndef RANKTRACE_DETECT_SLOW_RANK_CHECKPOINT_H
#define RANKTRACE_DETECT_SLOW_RANK_CHECKPOINT_H

#include "analyzers/detect/measure.h"

#define CHECKPOINT_APART 8
#define CHECKPOINT_USUAL 4
#define CHECKPOINT_MORE 1.5
#define CHECKPOINT_ROLE 2
#define CHECKPOINT_RECENT 16
#define CHECKPOINT_KNOWN 3
#define CHECKPOINT_LIKE 2 /* times the middle one of its class: who usually takes more writes for others */
#define CHECKPOINT_FAR_Z 5
#define CHECKPOINT_COSTS 0.1
#define CHECKPOINT_PART 4
#define CHECKPOINT_IN_A_ROW 2
/* Of the stage: one in a frame that is that far out says little, most of eight in a row do. It is timed by itself and
 * nothing that others do is in it, so that less is asked for than of a step's self time. */
#define CHECKPOINT_Z 2

/* Of what it is the first rank. */
enum checkpoint_lead { CHECKPOINT_LEADS_NONE, CHECKPOINT_LEADS_NODE, CHECKPOINT_LEADS_CLASS, CHECKPOINT_LEADS_JOB };

struct checkpoint_rank {
	float usual[CHECKPOINT_USUAL];	 /* excess of its first ones, as a share of the class's self time */
	float own[CHECKPOINT_USUAL];	 /* its first ones, as a share of the class's self time */
	float recent[CHECKPOINT_RECENT]; /* its last ones, ns, n-th at n % CHECKPOINT_RECENT */
	float once;			 /* the newest, if it was far and the one before it was not: ns; 0: not */
	uint32_t recents;		 /* so many were kept */
	uint32_t far;			 /* so many were far, up to the newest */
	/* of this frame */
	double share;	     /* excess, as a share of the class's self time; NAN: not compared */
	double self, spread; /* of its class, ns */
	double middle;	     /* checkpoint of its class, ns */
	bool is_long;	     /* by what is usual of it */
	bool begun;	     /* it wrote one before */
	uint8_t seen, seen_own;
	uint8_t lead; /* enum checkpoint_lead */
};

struct slow_rank_checkpoint {
	struct measures measures;
	struct measure_rank *measured;
	struct checkpoint_rank *rank;
	double *self, *stage;	    /* of a class; then of first ranks' shares, sorted: of nodes, of classes */
	size_t leads, class_leads;  /* of these */
	uint32_t *start, *by_class; /* ranks, class by class; also scratch */
	size_t ranks;
	uint64_t last_step, distance; /* of the last one; the most steps between two, 0: not known */
	bool any;
};

void checkpoint_free(struct slow_rank_checkpoint *checkpoint);
/* Of a frame of class FRAME_CHECKPOINT: its measures, with those of ranks by their checkpoints. step_ns: of steps
 * without, 0 not known. NULL: out of memory. Valid until the next call. */
const struct measures *checkpoint_measures(struct slow_rank_checkpoint *checkpoint, const struct frame *frame,
	const struct measures *measures, double step_ns);
/* The last ones of this rank were far, as many as are enough. */
bool checkpoint_is_far(const struct slow_rank_checkpoint *checkpoint, size_t rank);
/* For how long the others could not but wait for this rank's checkpoint: what it is over the longest of those that are
 * not among the n of set, which are in the order of their numbers, ns; 0 if it is not. */
double checkpoint_lead_ns(const struct frame *frame, const uint32_t *set, size_t n, uint32_t rank);
/* Is what was seen at the last checkpoint too long ago to be said still, at this step? */
bool checkpoint_past(const struct slow_rank_checkpoint *checkpoint, uint64_t step);
/* How much longer the job takes, where a checkpoint, of so long a step, loses lost_ns: steps between are of step_ns. */
double checkpoint_slowdown(
	const struct slow_rank_checkpoint *checkpoint, double lost_ns, double checkpoint_ns, double step_ns);

#endif
