/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of unequal length: in each step another replica is the longest, and all of it is. Part of detect/imbalance.c.
 *
 * Compares the own work of ranks of a class, less what no sample's length is in (loading data, garbage
 * collection; on the host also waiting for a CPU), as deviations from their class, each cut to twice what they are on
 * average. Reported after HOLD frames in a row, if over about SEQUENCE_FRAMES frames
 *   the longest is another one again and again, and what is constant for a rank is little (lasting / squares),
 *   the longest has gain_min more than the median (in pipelines half of that, as micro-batches differ by more than
 * their sum does), and no rank has half as much more of loading and collecting, and one of these: replicas  ranks of
 * one replica (sequence.h) are long together: of pairs in different classes (where there are such), the correlation of
 * their deviations is above SHARED pieces    HOST, without replicas: forward and the rest are long together alone
 * DEVICE, without replicas: the spread must do, a host's forward does not show it steps     STAGES, where waits hide
 * all but forward: steps are longer by more than the longest forward is over the median one, as backward is longer with
 * it; noise in forward lengthens the step by itself alone. Ranks of tensor groups and pipelines wait in forward, as
 * long as others: there the longest has no lead.
 */
#ifndef RANKTRACE_DETECT_SEQUENCE_H
#define RANKTRACE_DETECT_SEQUENCE_H

#include "analyzers/align/frame.h"
#include "analyzers/judge/measure.h"

/*
 * Which ranks work on the same samples: those that send each other (pipeline neighbours), and those of one tensor or
 * context group. Pure. What is long for one of them is long for all.
 */

struct replicas {
	size_t ranks, count; /* count 0: not known, or all ranks are one */
	uint32_t *of;	     /* of each rank its replica, FRAME_NONE: alone */
	uint32_t *lead;	     /* scratch: of communicators and groups, the first rank seen */
	size_t capacity, rank_capacity;
	uint64_t frames;
};

void replicas_free(struct replicas *replicas);
/* Uses the first frames and one in REPLICAS_EVERY; cost linear in operations then. -ENOMEM */
#define REPLICAS_EVERY 64
int replicas_frame(struct replicas *replicas, const struct frame *frame);

#define SEQUENCE_FRAMES 16
#define SEQUENCE_RANKS_MIN 4

/* Ranks that are here, by class. */
struct sequence_classes {
	size_t classes;
	const uint32_t *member, *start; /* classes + 1 */
	double *value;			/* scratch, one a rank */
};

/* Its mean, and the means of products of its deviations and others'. */
struct sequence_series {
	double mean, step, most, median;
};

/* Of a replica's ranks in one frame: sums of deviations and of their squares. */
struct sequence_sum {
	double part, part_ranks; /* of one class */
	double all, ranks, square, squares_of_parts, pairs_in_parts;
};

/* Means over about SEQUENCE_FRAMES frames. */
struct sequence {
	double xx, yy, xy, spread, intervals, over;	   /* over: of the step, what the longest has over the median */
	double shared, all;			   /* of deviations: products within replicas, squares */
	struct sequence_series step, most, median; /* STAGES: the step, the longest and the median forward, ns */
	double lead;				   /* STAGES: of the longest forward over the second longest, ns */
	double other; /* of the step, what one rank has more of than the median: loading data, collecting garbage */
	double lasting, squares; /* of deviations: squares of ranks' means, and of themselves */
	enum frame_tier tier;
	size_t ranks;
	uint64_t frames, held, since_step, since_ns;
	uint32_t *longest; /* of each class */
	double *deviation; /* NAN: of a class of too few */
	double *mean;	   /* of each rank's deviations */
	double *work;	   /* scratch: of the members of one class */
	struct sequence_sum *sum;
	size_t capacity;
	uint32_t longest_replica;
	struct replicas replicas;
};

void sequence_free(struct sequence *sequence);
/* true: lengths differ. false where memory is short, too. */
bool sequence_frame(struct sequence *sequence, const struct sequence_classes *classes, const struct frame *frame,
	const struct measures *measures, double gain_min);

#endif
