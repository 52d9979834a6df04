/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a rank whose marks are watched in windows: analyzers/steps/steps.h, "Sampling". */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/steps_script.h"

#define LOOP "LlZz..BbOo" /* 10 us */

/* What comes of a script between windows: backward alone. */
static void play_unwatched(const char *script)
{
	for (; *script; script++)
		play((const char[]){*script == 'B' || *script == 'b' ? *script : '.', 0});
}

static void unwatched(const char *script, int times)
{
	for (int i = 0; i < times; i++)
		play_unwatched(script);
}

/* In the middle of a whole loop; the next mark is the loop's first. */
static void sample(const char *script)
{
	start(1, true);
	repeat(script, STEPS_STEADY + 2);
	assert_true(steps_may_sample(steps));
	steps_sample(steps, true);
}

static size_t count_unsplit(bool is)
{
	size_t n = 0;

	for (size_t i = 0; i < n_rows; i++)
		n += rows[i].is_step && rows[i].unsplit == is;
	return n;
}

static uint64_t sum_ns(void)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n_rows; i++)
		sum += rows[i].is_step ? rows[i].duration_ns : 0;
	return sum;
}

TEST(every_step_is_counted_in_and_between_windows)
{
	size_t before;

	sample(LOOP);
	before = STEPS_STEADY + 2;
	assert_int_equal(count_steps(NULL), before); /* the last one is not waited for */
	for (int i = 0; i < 10; i++) {
		steps_watch(steps, false, 0);
		unwatched(LOOP, 50);
		steps_watch(steps, true, now_ns);
		repeat(LOOP, 5);
	}
	assert_int_equal(count_steps(NULL), before + 550);
	/* Of each window the first step has begun before it. The last step before the first window is one that was
	 * watched. */
	assert_int_equal(count_unsplit(false), before + 10 * 4);
	check_invariants(1);
	assert_int_equal(counts().unpaired, 0);
	/* No time is lost: from the first mark to the newest backward's end, 2 us before now. */
	assert_int_equal(sum_ns(), now_ns - 2 * US - 1001 * US);
	/* Neither a window's begin nor its end moves a boundary. */
	for (int64_t i = (int64_t)before + 2; i <= (int64_t)before + 550; i++)
		assert_int_equal(find(NULL, i)->duration_ns, 10 * US);
	assert_int_equal(find(NULL, (int64_t)before + 1)->duration_ns, 8 * US);
}

TEST(stages_are_known_in_windows_alone)
{
	int64_t step;

	sample(LOOP);
	steps_watch(steps, false, 0);
	unwatched(LOOP, 10);
	steps_watch(steps, true, now_ns);
	repeat(LOOP, 3);
	step = steps_next(steps) - 1;
	assert_false(find(NULL, step)->unsplit);
	assert_int_equal(count_stages("optimizer", step), 1);
	assert_int_equal(count_stages("dataloader", step), 1);
	assert_int_equal(count_stages("forward", step), 1);
	assert_int_equal(find("forward", step)->duration_ns, 3 * US);
	steps_watch(steps, false, 0);
	unwatched(LOOP, 3);
	step = steps_next(steps) - 1;
	assert_true(find(NULL, step)->unsplit);
	assert_int_equal(count_stages("backward", step), 1);
	assert_int_equal(count_stages("forward", step), 0); /* nothing shows where it began */
}

/* Wherever windows and sampling begin and end, no step is lost and none is counted twice. */
TEST(any_moment_will_do)
{
	static const char *const loops[] = {
		LOOP, "Ll.BbZz.BbOo", "LlFf.BbOoZz.BbPp", "ZzFf.BbOo", "Ll.BbLl.BbLl.BbOoZz", "ZzL.l.BOob"};

	for (size_t l = 0; l < sizeof(loops) / sizeof(loops[0]); l++) {
		size_t length = strlen(loops[l]);

		for (size_t at = 0; at <= length; at++) {
			for (size_t to = 0; to <= length; to++) {
				size_t steps_now;

				start(1, true);
				repeat(loops[l], STEPS_STEADY + 2);
				for (size_t i = 0; i < at; i++)
					play((const char[]){loops[l][i], 0});
				assert_true(steps_may_sample(steps));
				steps_sample(steps, true);
				steps_watch(steps, false, 0);
				play_unwatched(loops[l] + at);
				unwatched(loops[l], 20);
				for (size_t i = 0; i < to; i++)
					play_unwatched((const char[]){loops[l][i], 0});
				steps_watch(steps, true, now_ns);
				steps_sample(steps, false);
				play(loops[l] + to);
				repeat(loops[l], STEPS_STEADY + 10);
				steps_idle(steps, now_ns + 20 * US, 10 * US);
				steps_end(steps, now_ns);
				steps_now = count_steps(NULL);
				if (steps_now != 2 * STEPS_STEADY + 34)
					fail_msg("%s: %zu steps, sampled from mark %zu to %zu", loops[l], steps_now, at,
						to);
				check_invariants(1);
			}
		}
	}
}

TEST(only_ranks_whose_steps_are_alike_are_sampled)
{
	start(1, true);
	repeat(LOOP, STEPS_STEADY);
	assert_false(steps_may_sample(steps)); /* the last one is not over */
	play(LOOP);
	assert_true(steps_may_sample(steps));
	play("LlZz..Bb" /* AMP found an infinity */ LOOP LOOP);
	assert_false(steps_may_sample(steps));
	steps_sample(steps, true); /* in vain */
	repeat(LOOP, STEPS_STEADY + 1);
	assert_true(steps_may_sample(steps));
	start(1, true);
	repeat(LOOP "LlZz.Bb.BbOo", STEPS_STEADY); /* one has two */
	assert_false(steps_may_sample(steps));
	start(1, true);
	repeat("LlFf", 4 * STEPS_STEADY); /* inference */
	assert_false(steps_may_sample(steps));
	steps_names_readable(steps, false);
	assert_true(steps_may_sample(steps)); /* its steps are those of backward anyway */
}

TEST(a_job_that_changes_is_watched_again)
{
	sample(LOOP);
	steps_watch(steps, false, 0);
	unwatched(LOOP, 10);
	assert_true(steps_may_sample(steps));
	unwatched("LlZz..Bb..BbOo", 10); /* nothing shows it */
	assert_true(steps_may_sample(steps));
	steps_watch(steps, true, now_ns);
	repeat("LlZz..Bb..BbOo", 2);
	assert_false(steps_may_sample(steps));
	steps_sample(steps, false);
	repeat("LlZz..Bb..BbOo", STEPS_STEADY + 2);
	assert_true(steps_may_sample(steps));
}

TEST(a_mark_that_is_open_when_a_window_ends_is_forgotten)
{
	sample(LOOP);
	play("LlZz..BbO");
	steps_watch(steps, false, 0);
	play("..");
	assert_int_equal(steps_in_flight(steps, &(struct steps_open){0}, 1), 0);
	unwatched(LOOP, 3);
	play("B");
	steps_watch(steps, true, now_ns);
	steps_watch(steps, false, 0);
	assert_int_equal(steps_in_flight(steps, &(struct steps_open){0}, 1), 1); /* backward's end comes */
	play("b");
	assert_int_equal(count_stages("backward", steps_next(steps) - 1), 1);
	check_invariants(1);
}

TEST_MAIN(NULL, done)
