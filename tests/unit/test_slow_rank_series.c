/* SPDX-License-Identifier: Apache-2.0 */
/* detect/slow_rank_series, slow_rank_growth: classes of few ranks; detect/measure_stages: collections that lie in
 * forward. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "analyzers/detect/slow_rank_internal.h"

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

/*
 * Two ranks with gloo on a machine of two cores, as they were seen: ln of what the first does itself by what the second
 * does, in thousandths, before and while the first computes half as long again.
 */
static const int healthy[] = {284, -180, 133, 117, 270, 54, 140, 129, 153, 300, -110, -310, -130, 330, 100, -107, 46,
	-56, -160, -43, 7, 42, 46, 250, -120, -80, 35, 250};
static const int slower[] = {700, 717, 503, 532, 471, 462, 212, 334, 443, 290, 503, 510, 814};
#define HEALTHY (sizeof(healthy) / sizeof(healthy[0]))
#define SLOWER (sizeof(slower) / sizeof(slower[0]))

struct two {
	struct series series;
	struct growth growth;
	uint64_t frames;
};

static void two_frame(struct two *two, enum frame_tier tier, int thousandths, uint64_t step_ms)
{
	const struct measures measures = {.ranks = 2, .classes = 1, .rank = measured, .step_ns = step_ms * MS};
	struct frame of_two = frame;

	of_two.world_size = of_two.cards = 2;
	of_two.ranks = 2;
	of_two.tier = tier;
	of_two.step = two->frames;
	for (int i = 0; i < 2; i++) {
		double ratio = exp((i ? -thousandths : thousandths) * 0.001);

		rank[i] = (struct frame_rank){
			.here = true, .step_ns = step_ms * MS, .end_ns = ++two->frames * step_ms * MS};
		measured[i] = (struct measure_rank){
			.self_ns = (uint64_t)(200 * ratio) * MS, .ratio = ratio, .z = (ratio - 1) * 100};
	}
	growth_step(&two->growth, two->frames, step_ms * MS, step_ms * MS, tier);
	two->series.grown = growth_ln(&two->growth);
	assert_int_equal(series_frame(&two->series, &of_two, &measures), 0);
}

/* In that many frames; steps take so long. Returns in which of them, from 1, the first rank is a candidate first; 0: in
 * none. The second never is. */
static unsigned two_frames(struct two *two, const int *thousandths, size_t many, unsigned frames, uint64_t step_ms)
{
	unsigned first = 0;

	for (unsigned k = 0; k < frames; k++) {
		two_frame(two, FRAME_TIER_HOST, thousandths[k % many], step_ms + 11 * (k % 5));
		assert_false(two->series.rank[1].candidate);
		if (two->series.rank[0].candidate && !first)
			first = k + 1;
	}
	return first;
}

static void one_of_two_on_a_noisy_machine(void **state)
{
	struct two two = {.frames = 0};

	(void)state;
	series_init(&two.series, &options);
	assert_int_equal(two_frames(&two, healthy, HEALTHY, 10 * HEALTHY, 260), 0);
	assert_in_range(two_frames(&two, slower, SLOWER, SLOWER, 400), 5, 8);
	/* And once more, when it has been well again for a while. */
	two_frames(&two, healthy, HEALTHY, 8, 260);
	assert_int_equal(two_frames(&two, healthy, HEALTHY, HEALTHY, 260), 0);
	assert_in_range(two_frames(&two, slower, SLOWER, SLOWER, 400), 5, 8);
	series_free(&two.series);
}

/* Two ranks with NCCL, as they were seen: one of them costs the job 6 % for good, another process being on its CPUs. */
static void little_that_lasts(void **state)
{
	static const int well[] = {3, -10, 8, -4, 12, -15, 6, -2},
			 hogged[] = {57, 68, 39, 63, 92, 39, 82, 19, 57, 157, 14, 112, -5, 85, 80, 57, 30, 140, 48, 61};
	struct two two = {.frames = 0};
	unsigned first = 0;

	(void)state;
	series_init(&two.series, &options);
	assert_int_equal(two_frames(&two, well, 8, 80, 212), 0);
	for (unsigned k = 0; k < 26 && !first; k++)
		first = two_frames(&two, hogged + k % 20, 1, 1, 218) ? k + 1 : 0;
	assert_in_range(first, 5, 26);
	assert_in_range(two.series.rank[0].since_step, 2 * 76, 2 * 84); /* two a frame */
	series_free(&two.series);
}

/* What the job loses to something else makes none of the two the culprit. */
static void steps_that_grew_by_themselves(void **state)
{
	struct two two = {.frames = 0};

	(void)state;
	series_init(&two.series, &options);
	assert_int_equal(two_frames(&two, healthy, HEALTHY, 3 * HEALTHY, 260), 0);
	assert_int_equal(two_frames(&two, healthy, HEALTHY, 3 * HEALTHY, 400), 0);
	series_free(&two.series);
}

/* Stages show two peers equal, again once operations are no longer seen: values from operations are not
 * noise of values from stages. */
static void noise_of_another_tier(void **state)
{
	static const int alike[] = {1, -2, 2, 0, -1};
	struct two two = {.frames = 0};
	unsigned first = 0;

	(void)state;
	series_init(&two.series, &options);
	assert_int_equal(two_frames(&two, healthy, HEALTHY, 3 * HEALTHY, 260), 0);
	for (unsigned k = 0; k < 20; k++)
		two_frame(&two, FRAME_TIER_STAGES, alike[k % 5], 270);
	for (unsigned k = 0; k < 10 && !first; k++) {
		two_frame(&two, FRAME_TIER_STAGES, 80 + alike[k % 5], 270);
		if (two.series.rank[0].candidate)
			first = k + 1;
	}
	assert_in_range(first, 5, 6);
	series_free(&two.series);
}

/* Collections differ from step to step, but are never less than none; stalls on both in turn are. */
static void excess_of_stages_that_varies(void **state)
{
	static const int alike[] = {1, -2, 2, 0, -1}, collected[] = {460, 520, 784, 384, 815, 412, 287, 393},
			 stalls[] = {460, -520, 784, -384, 815, 412, -287, -393};
	struct two two = {.frames = 0};
	unsigned first = 0;

	(void)state;
	series_init(&two.series, &options);
	two.series.by_stages = true;
	for (unsigned k = 0; k < 40; k++)
		two_frame(&two, FRAME_TIER_STAGES, alike[k % 5], 270);
	for (unsigned k = 0; k < 8; k++) {
		two_frame(&two, FRAME_TIER_STAGES, collected[k], 270);
		first = two.series.rank[0].candidate && !first ? k + 1 : first;
	}
	assert_int_equal(first, 5);
	series_free(&two.series);
	series_init(&two.series, &options);
	two.series.by_stages = true;
	for (unsigned k = 0; k < 40; k++)
		two_frame(&two, FRAME_TIER_STAGES, alike[k % 5], 270);
	for (unsigned k = 0; k < 24; k++) {
		two_frame(&two, FRAME_TIER_STAGES, stalls[k % 8], 270);
		assert_false(two.series.rank[0].candidate || two.series.rank[1].candidate);
	}
	series_free(&two.series);
}

static struct growth grow_in(enum frame_tier tier, struct growth growth, unsigned steps, uint64_t step_ms)
{
	for (unsigned k = 0; k < steps; k++)
		growth_step(&growth, growth.steps, (step_ms + 20 * (growth.steps % 3)) * MS,
			(step_ms + 20 * (growth.steps % 3)) * MS, tier);
	return growth;
}

static struct growth grow(struct growth growth, unsigned steps, uint64_t step_ms)
{
	return grow_in(FRAME_TIER_HOST, growth, steps, step_ms);
}

static void growth_of_steps(void **state)
{
	struct growth growth = {.steps = 0};

	(void)state;
	assert_true(growth_typical(&growth) == 0);
	for (unsigned k = 0; k < 100; k++) {
		growth = grow(growth, 1, 250);
		assert_true(growth_ln(&growth) == 0);
		assert_false(growth_slower(&growth));
	}
	for (unsigned k = 1; k <= 3; k++) {
		growth = grow(growth, 1, 400);
		assert_true((growth_ln(&growth) > 0) == (k == 3)); /* of five */
		assert_true(growth_slower(&growth) == (k == 3));
	}
	assert_true(growth_ln(&growth) > 0.35 && growth_ln(&growth) < 0.5);
	assert_true(growth_typical(&growth) == 270.0 * MS);
	growth = grow(growth, GROWTH_STEPS, 400);
	assert_true(growth_ln(&growth) == 0);
	/* A step that ends at once, or never, is a step. */
	growth_step(&growth, growth.steps, 0, 0, FRAME_TIER_HOST);
	growth_step(&growth, growth.steps, UINT64_MAX, UINT64_MAX, FRAME_TIER_HOST);
	assert_true(growth_ln(&growth) == 0);
}

/* Steps of which one rank's are longer. */
static struct growth longer(struct growth growth, unsigned steps, uint64_t step_ms, uint64_t longest_ms)
{
	for (unsigned k = 0; k < steps; k++)
		growth_step(&growth, growth.steps, step_ms * MS, longest_ms * MS, FRAME_TIER_HOST);
	return growth;
}

static void steps_that_are_far_out(void **state)
{
	struct growth quiet = {.steps = 0}, growth;

	(void)state;
	for (unsigned k = 0; k < 40; k++)
		quiet = longer(quiet, 1, 248 + k % 5, 250 + k % 5);
	/* One rank's first, then all wait for it. */
	growth = longer(quiet, 1, 270, 400);
	assert_false(growth_slower(&growth));
	growth = longer(growth, 1, 400, 400);
	assert_true(growth_slower(&growth));
	/* Not so far: it takes three. */
	growth = longer(quiet, 2, 270, 270);
	assert_false(growth_slower(&growth));
	growth = longer(growth, 1, 270, 270);
	assert_true(growth_slower(&growth));
	/* There was one like that. */
	growth = longer(longer(longer(quiet, 1, 420, 420), 10, 252, 252), 2, 400, 400);
	assert_false(growth_slower(&growth));
	/* Just enough is known: the third one would be compared with these. */
	growth = longer(longer((struct growth){.steps = 0}, GROWTH_MIN, 250, 250), 2, 400, 400);
	assert_true(growth_slower(&growth));
	/* Too little is known. */
	growth = longer(longer((struct growth){.steps = 0}, 10, 250, 250), 2, 400, 400);
	assert_false(growth_slower(&growth));
}

/* Share of the step that is new since that onset, in hundredths. */
static int share_since(const struct growth *growth, uint64_t number)
{
	const struct growth_onset onset = growth_since(growth, number);

	return (int)(100 * growth_share(growth, &onset) + 0.5);
}

static void growth_that_began_with_somebody(void **state)
{
	struct growth growth = grow((struct growth){.steps = 0}, 40, 180), then;
	struct growth_onset onset;

	(void)state;
	assert_int_equal(share_since(&growth, 30), 0); /* nothing grew */
	then = grow(growth, 4, 380);
	assert_int_equal(share_since(&then, 40), 0); /* too few */
	then = grow(growth, 12, 380);
	assert_in_range(share_since(&then, 40), 48, 52);
	assert_in_range(share_since(&then, 38), 46, 52); /* an onset is not known to the step */
	assert_in_range(share_since(&then, 42), 48, 52);
	assert_int_equal(share_since(&then, 32), 0); /* it was there for long before steps grew */
	assert_int_equal(share_since(&then, 51), 0); /* too few */
	onset = growth_since(&then, 40);
	/* What grows later is not its, and what is over is over. */
	growth = grow(then, 40, 900);
	assert_in_range((int)(100 * growth_share(&growth, &onset)), 48, 52);
	growth = grow(then, 40, 180);
	assert_true(growth_share(&growth, &onset) == 0);
	/* Steps grew before. */
	growth = grow(grow((struct growth){.steps = 0}, 40, 180), 6, 380);
	growth = grow(growth, 12, 500);
	assert_int_equal(share_since(&growth, 46), 0);
}

/* Operations are watched because steps are longer: who it is shows only then, from the first frame on. */
static void growth_before_anybody_was_seen(void **state)
{
	const struct growth before = grow_in(FRAME_TIER_STAGES, (struct growth){.steps = 0}, 40, 180);
	struct growth growth = grow_in(FRAME_TIER_STAGES, before, 6, 380), then;

	(void)state;
	then = grow_in(FRAME_TIER_DEVICE, growth, 5, 380);
	assert_in_range(share_since(&then, 46), 48, 52);
	then = grow_in(FRAME_TIER_DEVICE, growth, 12, 380);
	assert_in_range(share_since(&then, 46), 48, 52);
	assert_in_range(share_since(&then, 47), 48, 52);
	/* It was seen, and was not slow. */
	assert_int_equal(share_since(&then, 50), 0);
	then = grow_in(FRAME_TIER_STAGES, growth, 12, 380);
	assert_int_equal(share_since(&then, 46), 0);
	growth = grow_in(FRAME_TIER_DEVICE, grow_in(FRAME_TIER_DEVICE, (struct growth){.steps = 0}, 40, 180), 6, 380);
	then = grow_in(FRAME_TIER_STAGES, growth, 12, 380);
	assert_int_equal(share_since(&then, 46), 0);
	/* Only while it was not seen: earlier frames of few ranks had shown it. */
	growth = grow_in(FRAME_TIER_STAGES, grow_in(FRAME_TIER_DEVICE, before, 6, 380), 2, 380);
	then = grow_in(FRAME_TIER_DEVICE, growth, 12, 380);
	assert_int_equal(share_since(&then, 48), 0);
	/* It is too long ago. */
	growth = grow_in(FRAME_TIER_STAGES, before, 40, 380);
	then = grow_in(FRAME_TIER_DEVICE, growth, 12, 380);
	assert_int_equal(share_since(&then, 80), 0);
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
		cmocka_unit_test(one_of_two_on_a_noisy_machine),
		cmocka_unit_test(little_that_lasts),
		cmocka_unit_test(steps_that_grew_by_themselves),
		cmocka_unit_test(noise_of_another_tier),
		cmocka_unit_test(excess_of_stages_that_varies),
		cmocka_unit_test(growth_of_steps),
		cmocka_unit_test(steps_that_are_far_out),
		cmocka_unit_test(growth_that_began_with_somebody),
		cmocka_unit_test(growth_before_anybody_was_seen),
		cmocka_unit_test(a_collection_in_forward),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
