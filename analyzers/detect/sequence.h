/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of unequal length: in each step another replica is the longest, and all of it is. Part of detect/imbalance.c.
 *
 * The spread within classes of what ranks do themselves (self time less data loading and garbage collection) is larger
 * than noise makes it, another rank (or replica) is the longest in nearly each frame, the longest costs gain_min of the
 * step, and one of these, over about SEQUENCE_FRAMES frames:
 *   shared  the ranks of a replica (replicas.h) are long together: the correlation within replicas of their deviations
 *           from their classes, each cut to SEQUENCE_CUT spreads
 *   pieces  forward and the rest are long together, where forward is seen (HOST, no replicas)
 *   alone   on devices without replicas, where a host's forward tells nothing of it, the spread must do
 *   steps   where only stages are seen, waits hide all but forward: steps are longer by a multiple of what the longest
 *           forward is over the median one, as backward is longer with it. Noise in forward lengthens the step by
 *           itself alone.
 */
#ifndef RANKTRACE_DETECT_SEQUENCE_H
#define RANKTRACE_DETECT_SEQUENCE_H

#include "analyzers/detect/measure.h"
#include "analyzers/detect/replicas.h"

#define SEQUENCE_FRAMES 16
#define SEQUENCE_RANKS_MIN 4
#define SEQUENCE_CUT 5
#define SEQUENCE_TOPS 8

/* Ranks that are here, by class. */
struct sequence_classes {
	size_t classes;
	const uint32_t *member, *start; /* classes + 1 */
	double *value;			/* room, one a rank */
};

/* Means over about SEQUENCE_FRAMES frames. */
struct sequence {
	double xx, yy, xy, spread, stays, over; /* over: of the step, what the longest has over the median */
	double shared, all;			/* of deviations: products within replicas, squares */
	double step, step_over, over_over, step_mean, over_mean; /* of stages: of the step and of the longest forward */
	uint64_t frames, since_step, since_ns;
	uint32_t *longest; /* of each class */
	double *deviation, *sum, *square;
	uint32_t *count;
	size_t room;
	uint32_t longest_replica;
	struct replicas replicas;
};

void sequence_free(struct sequence *sequence);
/* true: lengths differ. false where memory is short, too. */
bool sequence_frame(struct sequence *sequence, const struct sequence_classes *classes, const struct frame *frame,
	const struct measures *measures, double gain_min);

#endif
