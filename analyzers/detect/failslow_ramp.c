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

static void measure(const struct failslow_ramp *ramp, struct failslow_rise *ret)
{
	double slope[PAIRS];
	size_t n = 0, rising = 0, first = 0;

	for (size_t i = 0; i < BLOCKS; i++) {
		for (size_t j = i + 1; j < BLOCKS; j++) {
			double rise = ramp->block[j] - ramp->block[i];

			rising += rise > 0;
			slope[n++] = rise / (double)(j - i);
		}
	}
	ret->rise = failslow_median(slope, n) * BLOCKS;
	ret->base = median_of(ramp->block, END);
	ret->ends = median_of(ramp->block + BLOCKS - END, END) - ret->base;
	ret->rising = (double)rising / PAIRS;
	/* It began with the last block that was still near the base. */
	for (size_t i = 0; i < BLOCKS; i++) {
		if (ramp->block[i] - ret->base < ret->ends / BLOCKS)
			first = i;
	}
	ret->step = ramp->step[first];
	ret->end_ns = ramp->end_ns[first];
}

bool failslow_ramp_add(
	struct failslow_ramp *ramp, double value, uint64_t step, uint64_t end_ns, struct failslow_rise *ret)
{
	bool full = ramp->blocks == BLOCKS;

	if (ramp->skipped++ % ramp->every != 0)
		return false;
	if (ramp->samples == 0 && full) {
		memmove(ramp->block, ramp->block + 1, (BLOCKS - 1) * sizeof(*ramp->block));
		memmove(ramp->step, ramp->step + 1, (BLOCKS - 1) * sizeof(*ramp->step));
		memmove(ramp->end_ns, ramp->end_ns + 1, (BLOCKS - 1) * sizeof(*ramp->end_ns));
		ramp->blocks--;
	}
	if (ramp->samples == 0) {
		ramp->step[ramp->blocks] = step;
		ramp->end_ns[ramp->blocks] = end_ns;
	}
	ramp->sample[ramp->samples++] = value;
	if (ramp->samples < FAILSLOW_RAMP_SAMPLES)
		return false;
	ramp->samples = 0;
	ramp->block[ramp->blocks++] = failslow_median(ramp->sample, FAILSLOW_RAMP_SAMPLES);
	if (ramp->blocks < BLOCKS)
		return false;
	measure(ramp, ret);
	return true;
}
