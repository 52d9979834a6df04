/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the job's steps are, and were. Pure; 64 steps. Inside slow_rank.c.
 *
 * Steps have grown where the median of the last GROWTH_NEW is more than that of those from GROWTH_FROM back by a factor
 * of GROWTH_LEAST, and by GROWTH_SPREADS times their spread. It is so for about as many steps as half of those that are
 * remembered: long enough to look who it is.
 *
 * What one rank costs, where it alone is slow: the what-if leaves what operations themselves take, which may be the
 * same rank's fault. A process that computes on the same card takes it away from the operations' part, too, which all
 * members then wait for as if it were a transfer. So by how much steps have grown since the rank became slow is the
 * least that it costs, if they did so then, and neither before nor later: the median of the GROWTH_BEFORE steps before
 * its onset, of which the newer half is no longer than the older one, to that of the first GROWTH_NEW from its onset
 * on.
 *
 * Operations are often watched only since steps are longer, so that who it is shows later than that it is so. Of a rank
 * that was slow in the first frames that tell more than those before (of a better tier), nothing says that it was not
 * slow before: then the steps may have grown earlier, by up to GROWTH_UNSEEN steps of the tier that told less. Since
 * they did, it is slow.
 *
 * For levels to be raised, three longer steps in a row are enough, or GROWTH_FAR_STEPS whose longest rank took longer
 * than any did in the GROWTH_RECENT steps before: by a factor of GROWTH_FAR over their median, and by
 * GROWTH_FAR_SPREADS times their spread. (The longest rank: where ranks wait for each other within the next step only,
 * the others' first longer step comes one later.) Two that have nothing to do with each other are not that far out.
 */
#ifndef RANKTRACE_DETECT_SLOW_RANK_GROWTH_H
#define RANKTRACE_DETECT_SLOW_RANK_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzers/detect/frame.h"

#define GROWTH_STEPS 64
#define GROWTH_RECENT 32 /* of them, for what is usual */
#define GROWTH_MIN 16
#define GROWTH_NEW 5 /* as many as it takes the median of eight to follow */
#define GROWTH_FROM 8
#define GROWTH_LEAST 1.05
#define GROWTH_SPREADS 3
#define GROWTH_BEFORE 16
#define GROWTH_AFTER 8
#define GROWTH_UNSEEN 16
#define GROWTH_FIRST 2 /* frames of a tier that are its first ones */
#define GROWTH_FAR_STEPS 2
#define GROWTH_FAR 1.1
#define GROWTH_FAR_SPREADS 6

struct growth {
	double step[GROWTH_STEPS], longest[GROWTH_STEPS]; /* median of the ranks', and the longest */
	uint64_t number[GROWTH_STEPS];
	uint64_t steps;
	enum frame_tier tier;	  /* of the newest */
	uint64_t of_tier, unseen; /* steps of it in a row; and before, of one that told less */
};

/* Of the steps around an onset, in ns; before_ns 0: they did not grow then, or too few are known. */
struct growth_onset {
	float before_ns, after_ns;
	uint64_t steps; /* since the first one that was longer, and its number */
	uint64_t step;
	uint64_t earlier_ns; /* so long before the rank's onset it began, in steps of a tier that told less */
};

/* Numbers rise. longest_ns: of a rank. */
void growth_step(struct growth *growth, uint64_t number, uint64_t step_ns, uint64_t longest_ns, enum frame_tier tier);
/* Median of the last ones; 0: there is none yet. */
double growth_usual(const struct growth *growth);
/* Is the newest one longer than is usual, by GROWTH_FAR? */
bool growth_is_long(const struct growth *growth);
/* Each of the last three is longer than those before by GROWTH_LEAST, or the last GROWTH_FAR_STEPS are far out. */
bool growth_slower(const struct growth *growth);
/* ln of the factor; 0 where they have not, or too few are known. */
double growth_ln(const struct growth *growth);
/* Of the rank's onset. After GROWTH_NEW steps from then on, and before so many have gone that those before it are
 * forgotten. */
struct growth_onset growth_since(const struct growth *growth, uint64_t onset);
/* Of the step as it is now, the share by which it has grown; not more than it did then. */
double growth_share(const struct growth *growth, const struct growth_onset *onset);

#endif
