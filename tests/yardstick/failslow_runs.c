/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/yardstick/failslow_runs.h"

#include <math.h>
#include <string.h>

#define TAU 6.283185307179586

const double run_sizes[RUN_SIZES] = {0.10, 0.15, 0.20, 0.50};

/* SplitMix64. */
static uint64_t next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ULL;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static double between(uint64_t *state, double low, double high)
{
	return low + (high - low) * ((double)(next(state) >> 11) + 0.5) / 9007199254740992.0;
}

static size_t among(uint64_t *state, size_t low, size_t high)
{
	return low + (size_t)(next(state) % (high - low + 1));
}

static double normal(uint64_t *state)
{
	double radius = sqrt(-2 * log(between(state, 0, 1)));

	return radius * cos(TAU * between(state, 0, 1));
}

static void add_noise(struct run *run, uint64_t *state)
{
	double base = log(between(state, 300, 8000)), own = sqrt(1 - run->phi * run->phi), y = normal(state);

	for (size_t i = 0; i < RUN_STEPS; i++) {
		run->ms[i] = exp(base + run->deviation * y);
		y = run->phi * y + own * normal(state);
	}
}

static void add_slowdown(struct run *run, uint64_t *state, bool ramp)
{
	run->onset = among(state, 2500, 4000);
	run->end = run->onset + among(state, 1000, 1500);
	run->ramp = ramp ? among(state, 20, 200) : 0;
	for (size_t i = run->onset; i < run->end; i++) {
		double part =
			run->ramp && i - run->onset < run->ramp ? (double)(i - run->onset + 1) / (double)run->ramp : 1;

		run->ms[i] *= 1 + run_sizes[run->size] * part;
	}
}

static void add_disturbances(struct run *run, uint64_t *state)
{
	size_t collect = among(state, 0, 2) ? among(state, 100, 400) : RUN_STEPS, save = among(state, 250, 1000);
	double collected = between(state, 0.2, 1), saved = between(state, 2, 8);
	bool says = among(state, 0, 1);

	for (size_t i = among(state, 1, collect); i < RUN_STEPS; i += collect)
		run->ms[i] *= 1 + collected * between(state, 0.8, 1.2);
	for (size_t i = save; i < RUN_STEPS; i += save) {
		run->ms[i] *= saved * between(state, 0.8, 1.2);
		run->checkpoint[i] = says;
	}
	for (size_t i = 0; i < RUN_STEPS; i++) {
		size_t length = among(state, 2, 4);
		double factor = 1 + between(state, 0.2, 1);

		if (between(state, 0, 1) >= 0.001)
			continue;
		for (size_t k = i; k < i + length && k < RUN_STEPS; k++)
			run->ms[k] *= factor;
		i += length;
	}
}

void run_make(uint64_t seed, struct run *ret)
{
	static const double phis[] = {0, 0.5, 0.8};
	uint64_t state = seed * 0x2545f4914f6cdd1dULL + 1;

	memset(ret, 0, sizeof(*ret));
	ret->phi = phis[seed % 3];
	ret->size = seed / 3 % RUN_SIZES;
	ret->deviation = between(&state, 0.005, 0.04);
	add_noise(ret, &state);
	add_slowdown(ret, &state, seed / 12 % 3 == 0);
	add_disturbances(ret, &state);
}
