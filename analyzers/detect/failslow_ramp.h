/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slow rise of a series, which a reference that follows would swallow: medians of blocks of steps, and the Theil-Sen
 * slope (the median slope of all pairs) of the last FAILSLOW_RAMP_BLOCKS of them. Pure.
 */
#ifndef RANKTRACE_DETECT_FAILSLOW_RAMP_H
#define RANKTRACE_DETECT_FAILSLOW_RAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAILSLOW_RAMP_BLOCKS 10
#define FAILSLOW_RAMP_SAMPLES 20 /* a block: of longer ones every so manieth step */

struct failslow_ramp {
	size_t every;			 /* one sample of so many steps: a block is 20 times that */
	size_t skipped, samples, blocks; /* blocks: as many as there are, the oldest first */
	double sample[FAILSLOW_RAMP_SAMPLES];
	double block[FAILSLOW_RAMP_BLOCKS];
	uint64_t step[FAILSLOW_RAMP_BLOCKS], time_ns[FAILSLOW_RAMP_BLOCKS]; /* of each block's first sample */
};

struct failslow_rise {
	double rise;		/* slope times the length of all blocks */
	double ends;		/* median of the last three blocks less that of the first three */
	double base;		/* the median of the first three */
	double rising;		/* the part of the pairs of blocks that rise */
	uint64_t step, time_ns; /* where it began */
};

void failslow_ramp_reset(struct failslow_ramp *ramp, size_t every);
/* True: a block was completed, there are enough of them, their ends are more than `least` apart, and ret was written.
 */
bool failslow_ramp_add(struct failslow_ramp *ramp, double value, uint64_t step, uint64_t time_ns, double least,
	struct failslow_rise *ret);

#endif
