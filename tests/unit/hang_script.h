/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of eight hung ranks, and the verdicts of the detector. */
#ifndef RANKTRACE_TESTS_HANG_SCRIPT_H
#define RANKTRACE_TESTS_HANG_SCRIPT_H

#include "analyzers/detect/detector.h"
#include "analyzers/coll/coll_judge.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SECOND 1000000000ULL
#define RANKS 8
#define START (1000 * SECOND)

extern const struct detector hang_detector;

static struct standing standing[RANKS];
static struct frame_who who[RANKS];
static struct stuck stuck[4];
static struct snapshot snapshot;
static struct verdict said[8];
static size_t n_said, n_wants;
static unsigned wants;
static void *hang;

static inline void on_verdict(void *arg, const struct verdict *verdict)
{
	assert_true(n_said < 8);
	said[n_said++] = *verdict;
}

static inline void on_want(void *arg, unsigned want, const char *why)
{
	assert_true(strlen(why) > 0);
	wants |= want;
	n_wants++;
}

static const struct detector_out out = {on_verdict, on_want, NULL};

/* All ranks are in the backward of a step of a second. */
static inline int begin(void **state)
{
	const struct detect_options options = {.hang_ns = 30 * SECOND, .hang_busy_ns = 600 * SECOND};

	hang = hang_detector.new(&options);
	assert_non_null(hang);
	memset(stuck, 0, sizeof(stuck));
	snapshot = (struct snapshot){.now_ns = START,
		.step_ns = SECOND,
		.world_size = RANKS,
		.cards = RANKS,
		.ranks = RANKS,
		.who = who,
		.standing = standing,
		.stuck = stuck};
	for (uint32_t i = 0; i < RANKS; i++) {
		who[i] = (struct frame_who){.rank = (int32_t)i + 100};
		standing[i] = (struct standing){.rank = i,
			.state = 'S',
			.progress_ns = START,
			.step_end_ns = START - SECOND / 2,
			.steps = 50,
			.stage = STAGE_BACKWARD,
			.stage_since_ns = START};
	}
	return 0;
}

static inline int end(void **state)
{
	hang = hang_detector.free(hang);
	return 0;
}

/* Feeds a snapshot a second; cpu[]: CPU use by rank. Returns seconds until the first confirmed verdict, 0 if none. */
static double cpu[RANKS];

static inline unsigned seconds(unsigned n)
{
	unsigned first = 0;

	for (unsigned s = 0; s < n; s++) {
		snapshot.now_ns += SECOND;
		for (size_t i = 0; i < RANKS; i++)
			standing[i].cpu_ns += (uint64_t)(cpu[i] * SECOND);
		for (size_t i = 0; i < snapshot.stucks; i++)
			stuck[i].waited_ns += SECOND;
		n_said = 0;
		hang_detector.snapshot(hang, &snapshot, &out);
		for (size_t i = 0; i < n_said && first == 0; i++)
			first = said[i].confirmed ? s + 1 : 0;
	}
	return first;
}

static inline int begin_idle(void **state)
{
	memset(cpu, 0, sizeof(cpu));
	n_said = n_wants = 0;
	wants = 0;
	return begin(state);
}

#endif
