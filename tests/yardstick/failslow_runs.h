/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synthetic step times of jobs, each with one slowdown: 6,000 steps whose logarithms are an AR(1) of phi 0, 0.5 or 0.8
 * and of 0.5 to 4 % deviation, with garbage collections (one step in 100 to 400 is 20 to 100 % longer, in two runs of
 * three), checkpoints (one step in 250 to 1,000 takes 2 to 8 times as long; marked in half of the runs), bursts (about
 * one in 1,000 steps: 2 to 4 steps that are 20 to 100 % longer), and a slowdown by 10, 15, 20 or 50 % that begins at
 * step 2,500 to 4,000 and lasts 1,000 to 1,500 steps; one in three is a ramp over 20 to 200 steps. Deterministic by
 * seed.
 */
#ifndef RANKTRACE_TESTS_FAILSLOW_RUNS_H
#define RANKTRACE_TESTS_FAILSLOW_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_STEPS 6000
#define RUN_DAY 17280 /* steps of 5 s */
#define RUN_SIZES 4

struct run {
	double ms[RUN_STEPS];
	bool checkpoint[RUN_STEPS]; /* marked as one */
	size_t onset, end;	    /* the slow steps: [onset, end) */
	size_t ramp;		    /* its steps; 0: none */
	size_t size;		    /* index in run_sizes */
	double phi, deviation;
};

extern const double run_sizes[RUN_SIZES]; /* 0.10, ... */

void run_make(uint64_t seed, struct run *ret);

#endif
