/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is measured on a frame before the judge runs: who waited, who kept others waiting, and who can be compared with
 * whom. Pure; cost linear in records; no clocks compared.
 *
 * Waits, of frames with operations. All members of a collective leave it together, so for member r of group g
 *   wait_r(g) = duration_r - min over members of duration        transfer(g) = that minimum
 * and of a point-to-point pair the same with two members. A group of which fewer than half the members (less than two;
 * of point to point: one of the two) have a record is left out, and counted; its records wait for what is over the mean
 * transfer of groups of its kind, name and size. The waits of one rank that overlap in time count once, and a wait
 * counts only from the rank's last sign of life on: where it began another operation before g had ended, g did not
 * block it until then (asynchronous ones, hidden behind computing). Whether it did from then on is not known from one
 * record: what is posted together is waited for together, and a send that no rank waits for goes on behind what is
 * computed next. In a job where some of point to point are in flight still when what began after them has ended and a
 * third one begins, no rank waits for those during which another begins, and those that begin as
 * such a one ends were queued behind it: they are no sign of life. Operations that follow each other in one
 * communicator for data, of the same name and at about equal intervals, are taken for one asynchronous run (buckets of
 * gradients): the wait in each is the lead that the rank has by then, so of all of them only the longest wait counts.
 *   wait_r = length of the union of [last begin of any operation of r before the end of g, start + wait_r(g))
 *   self_r = step_r - wait_r
 * is the time for which no rank but r (and the transfers, equal for all) can be blamed.
 *
 * Frames of stages only have no waits: self_r = step_r. What stages show is judged by activities (judge.h).
 *
 * Classes. Ranks are compared only with ranks of the same role: the same pipeline stage, where it is known from
 * outside; otherwise those that are joined by collectives (replicas of the same parameters, shards of the same layers),
 * where these do not span pipeline neighbours; see measure_class.c. What they call does not count: one-off operations
 * and lost records would part equals, and the first and last stages call the same. A class of less than
 * MEASURE_CLASS_MIN ranks is compared with no rank by self time; what it does alone may still be known from its stages
 * by its own past.
 */
#ifndef RANKTRACE_JUDGE_MEASURE_H
#define RANKTRACE_JUDGE_MEASURE_H

#include "analyzers/align/frame.h"

#define MEASURE_CLASS_MIN 2

struct measure_rank {
	uint64_t wait_ns;  /* FRAME_UNKNOWN: not in this frame */
	uint64_t apart_ns; /* of wait_ns, in operations that lie before or after all activities that hold waits; 0 where
			    * operations are timed on devices: the host does not wait */
	uint64_t self_ns;
	uint64_t last_ns; /* for how long others waited on it as the last to come: sum over groups where its duration
			   * was the shortest, of the second shortest wait there; what it waited itself before in this
			   * step is passed on and not counted */
	uint32_t class;	  /* index, FRAME_NONE: compared with no rank */
	double ratio; /* self / median of its class (of the others, where the class has two); 1 where there is none */
	double z;     /* (self - median) / max(1.4826 MAD, 1 % of the median) */
};

struct measure_group {
	uint64_t transfer_ns; /* FRAME_UNKNOWN: left out */
	uint32_t last;	      /* index of the rank that came last, FRAME_NONE */
	uint32_t before;      /* the one that came before it: of point to point the other side */
};

struct measures {
	size_t ranks, groups, classes;
	const struct measure_rank *rank;
	const struct measure_group *group;
	/* Ranks that are here, class by class: of class c class_ranks[c] of them from member[class_start[c]] on. */
	const uint32_t *class_ranks, *class_start, *member;
	uint64_t left_out; /* groups */
	uint64_t lost;	  /* records that are missing: said by the frame, or of collectives that have fewer records than
			   * others of their communicator */
	uint64_t step_ns; /* median of the ranks' */
	bool sends_overlap; /* an operation of point to point that has not ended when the next one begins blocks nothing
			     * any more: see above */
};

struct measure;

struct measure *measure_new(void);
struct measure *measure_free(struct measure *measure);
/* What it returns is valid until the next call. -ENOMEM; -EINVAL: an index in the frame is out of its range. */
int measure_frame(struct measure *measure, const struct frame *frame, const struct measures **ret);

#endif
