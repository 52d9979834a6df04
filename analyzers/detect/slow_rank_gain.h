/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the step would be without the excess of those who stand out, in one frame. Pure. Inside slow_rank_court.c.
 *
 * Several at once: where two are equally slow, one alone gains nothing, so the set is judged, gain = 1 - T(all without
 * their excess) / T; and each one's share of it goes by what it would cost if the others alone were repaired. One that
 * costs nothing then is idle rather than slow, and nobody is told of it.
 *
 * Where records were lost, the replay misses waits and finds less or nothing. Then what others waited for the rank as
 * the last to come, beyond what they did for its peers, counts by LOST_SHARE (some of that hides in others' slack), up
 * to all of its excess. Of a checkpoint it is the time by which it was longer than anybody else's that counts.
 */
#ifndef RANKTRACE_DETECT_SLOW_RANK_GAIN_H
#define RANKTRACE_DETECT_SLOW_RANK_GAIN_H

#include "analyzers/detect/measure.h"

#define GAIN_SET_MAX 8 /* judged at once: the slowest ones */

enum gain_loss { GAIN_WHOLE, GAIN_LOST_WAITS, GAIN_LOST_CHECKPOINT };

struct gain_set {
	const struct frame *frame;
	const struct measures *measures;
	struct measure *measure;
	enum gain_loss loss;
	double least; /* share of the step that one must gain */
	size_t n;
	const uint32_t *rank;	/* n, GAIN_SET_MAX at most */
	const uint64_t *excess; /* of each, ns */
	double *scratch;	/* room for as many values as there are ranks */
};

/* Of each of the set, its share of the step. */
void gain_of_set(const struct gain_set *set, double *ret);

#endif
