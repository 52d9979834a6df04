/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the job's steps are, and were. Pure; 64 steps. Inside slow_rank.c.
 *
 * Steps have grown where the median of the last GROWTH_NEW is more than that of those from GROWTH_FROM back by a factor
 * of GROWTH_LEAST, and by GROWTH_SPREADS times their spread. It is so for about as many steps as half of those that are
 * remembered: long enough to look who it is.
 */
#ifndef RANKTRACE_DETECT_SLOW_RANK_GROWTH_H
#define RANKTRACE_DETECT_SLOW_RANK_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#define GROWTH_STEPS 64
#define GROWTH_RECENT 32 /* of them, for what is usual */
#define GROWTH_MIN 16
#define GROWTH_NEW 5 /* as many as it takes the median of eight to follow */
#define GROWTH_FROM 8
#define GROWTH_LEAST 1.05
#define GROWTH_SPREADS 3

struct growth {
	double step[GROWTH_STEPS];
	uint64_t steps;
};

void growth_step(struct growth *growth, uint64_t step_ns);
/* Median of the last ones; 0: there is none yet. */
double growth_usual(const struct growth *growth);
/* Each of the last three is longer than those before by GROWTH_LEAST. */
bool growth_slower(const struct growth *growth);
/* ln of the factor; 0 where they have not, or too few are known. */
double growth_ln(const struct growth *growth);

#endif
