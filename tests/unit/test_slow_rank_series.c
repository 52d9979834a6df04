/* SPDX-License-Identifier: Apache-2.0 */
/* detect/slow_rank_series: classes of few ranks; detect/measure_stages: collections that lie in forward. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "analyzers/detect/slow_rank_series.h"

#define MS 1000000ULL
#define RANKS 4
#define QUIET 40

static struct frame_who who[RANKS];
static struct frame_rank rank[RANKS];
static struct measure_rank measured[RANKS];
static struct frame frame = {.world_size = RANKS, .cards = RANKS, .ranks = RANKS, .who = who, .rank = rank};
static const struct detect_options options = {.slow_ratio = 1.05, .slow_z = 5, .slow_frames = 5, .slow_of = 8};

/* Excesses of the ranks in thousandths, frame by frame, after a quiet time; how often somebody is a candidate. */
static unsigned candidates(const int (*excess)[RANKS], size_t frames)
{
	const struct measures measures = {.ranks = RANKS, .classes = 1, .rank = measured, .step_ns = 1000 * MS};
	struct series series;
	unsigned n = 0;

	series_init(&series, &options);
	for (size_t k = 0; k < QUIET + frames; k++) {
		for (uint32_t i = 0; i < RANKS; i++) {
			int quiet = (int)((k * 3 + (size_t)i * 5) % 7) - 3;
			double ratio = 1 + (k < QUIET ? quiet : quiet + excess[k - QUIET][i]) * 0.001;

			rank[i] = (struct frame_rank){.here = true, .step_ns = 1000 * MS, .end_ns = k * 1000 * MS};
			measured[i] = (struct measure_rank){
				.self_ns = (uint64_t)(500 * ratio) * MS, .ratio = ratio, .z = (ratio - 1) * 100};
		}
		frame.step = k;
		assert_int_equal(series_frame(&series, &frame, &measures), 0);
		for (uint32_t i = 0; i < RANKS; i++)
			n += series.rank[i].candidate;
	}
	series_free(&series);
	return n;
}

/* Replicas of two ranks: which has the longer samples changes, and happens to be the same for a while. */
static void half_of_a_class_is_not_slow(void **state)
{
	static const int excess[][RANKS] = {{200, 200, -200, -200}, {180, 180, -180, -180}, {210, 210, -210, -210},
		{190, 190, -190, -190}, {-200, -200, 200, 200}, {200, 200, -200, -200}, {190, 190, -190, -190},
		{-180, -180, 180, 180}};

	(void)state;
	assert_int_equal(candidates(excess, sizeof(excess) / sizeof(excess[0])), 0);
}

/* Steps vary from now on by as much as any rank is ahead of the others. */
static void noise_that_grew(void **state)
{
	static const int excess[][RANKS] = {{400, -300, 0, 0}, {90, -60, 250, -200}, {350, 60, -300, 0},
		{80, 300, -100, -200}, {-300, 100, 200, -90}, {300, -200, -80, 80}, {100, 200, -300, -60}};

	(void)state;
	assert_int_equal(candidates(excess, sizeof(excess) / sizeof(excess[0])), 0);
}

static void one_that_became_slow(void **state)
{
	static const int excess[8][RANKS] = {
		[0][2] = 60, [1][2] = 70, [2][2] = 60, [3][2] = 65, [4][2] = 70, [5][2] = 60, [6][2] = 70, [7][2] = 60};

	(void)state;
	/* From the fifth frame on. */
	assert_in_range(candidates(excess, 8), 3, 4);
}

/* It lies in forward, and is counted once, however long it is. */
static void a_collection_in_forward(void **state)
{
	static const uint64_t collected_ns[] = {100 * MS, 500 * MS, 1000 * MS, 3000 * MS};
	struct measure *measure = measure_new();

	(void)state;
	assert_non_null(measure);
	frame.class = FRAME_TRAIN;
	frame.tier = FRAME_TIER_STAGES;
	for (size_t k = 0; k < sizeof(collected_ns) / sizeof(collected_ns[0]); k++) {
		const struct measures *measures;

		for (uint32_t i = 0; i < RANKS; i++) {
			who[i] = (struct frame_who){.rank = (int32_t)i, .stage = FRAME_NONE};
			rank[i] = (struct frame_rank){.here = true, .step_ns = 1000 * MS + collected_ns[k]};
			rank[i].stage_ns[STAGE_FORWARD] = 300 * MS + (i == 1 ? collected_ns[k] : 0);
			rank[i].stage_ns[STAGE_BACKWARD] = 700 * MS + (i == 1 ? 0 : collected_ns[k]);
			rank[i].stage_ns[STAGE_GC] = i == 1 ? collected_ns[k] : 0;
		}
		assert_int_equal(measure_frame(measure, &frame, &measures), 0);
		assert_in_range(measures->rank[1].self_ns, 999 * MS + collected_ns[k], 1001 * MS + collected_ns[k]);
		assert_in_range(measures->rank[0].self_ns, 999 * MS, 1001 * MS);
	}
	measure_free(measure);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_of_a_class_is_not_slow),
		cmocka_unit_test(noise_that_grew),
		cmocka_unit_test(one_that_became_slow),
		cmocka_unit_test(a_collection_in_forward),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
