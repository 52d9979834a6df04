/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/failslow_ramp.h"

#include "analyzers/detect/failslow_reference.h"

#include <string.h>

#define BLOCKS FAILSLOW_RAMP_BLOCKS
#define PAIRS (BLOCKS * (BLOCKS - 1) / 2)
#define END 3 /* blocks at either end */

void failslow_ramp_reset(struct failslow_ramp *ramp, size_t every)
{
	*ramp = (struct failslow_ramp){.every = every};
}

static double median_of(const double *block, size_t n)
{
	double copy[BLOCKS];

	memcpy(copy, block, n * sizeof(*copy));
	return failslow_median(copy, n);
}

static bool measure(const struct failslow_ramp *ramp, double least, struct failslow_rise *ret)
{
	double slope[PAIRS];
	size_t n = 0, rising = 0, first = 0;

	ret->base = median_of(ramp->block, END);
	ret->ends = median_of(ramp->block + BLOCKS - END, END) - ret->base;
	if (ret->ends <= least)
		return false;
	for (size_t i = 0; i < BLOCKS; i++) {
		for (size_t j = i + 1; j < BLOCKS; j++) {
			double rise = ramp->block[j] - ramp->block[i];

			rising += rise > 0;
			slope[n++] = rise / (double)(j - i);
		}
	}
	ret->rise = failslow_median(slope, n) * BLOCKS;
	ret->rising = (double)rising / PAIRS;
	/* It began with the last block that was still near the base. */
	for (size_t i = 0; i < BLOCKS; i++) {
		if (ramp->block[i] - ret->base < ret->ends / BLOCKS)
			first = i;
	}
	ret->step = ramp->step[first];
	ret->time_ns = ramp->time_ns[first];
	return true;
}

static void begin_block(struct failslow_ramp *ramp, uint64_t step, uint64_t time_ns)
{
	if (ramp->blocks == BLOCKS) {
		memmove(ramp->block, ramp->block + 1, (BLOCKS - 1) * sizeof(*ramp->block));
		memmove(ramp->step, ramp->step + 1, (BLOCKS - 1) * sizeof(*ramp->step));
		memmove(ramp->time_ns, ramp->time_ns + 1, (BLOCKS - 1) * sizeof(*ramp->time_ns));
		ramp->blocks--;
	}
	ramp->step[ramp->blocks] = step;
	ramp->time_ns[ramp->blocks] = time_ns;
}

bool failslow_ramp_add(struct failslow_ramp *ramp, double value, uint64_t step, uint64_t time_ns, double least,
	struct failslow_rise *ret)
{
	if (++ramp->skipped < ramp->every)
		return false;
	ramp->skipped = 0;
	if (ramp->samples == 0)
		begin_block(ramp, step, time_ns);
	ramp->sample[ramp->samples++] = value;
	if (ramp->samples < FAILSLOW_RAMP_SAMPLES)
		return false;
	ramp->samples = 0;
	ramp->block[ramp->blocks++] = failslow_median(ramp->sample, FAILSLOW_RAMP_SAMPLES);
	return ramp->blocks == BLOCKS && measure(ramp, least, ret);
}
