/* SPDX-License-Identifier: Apache-2.0 */
/* Lost marks, bounds, hostile names, and random marks that must keep the invariants. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/steps_script.h"

TEST(a_lost_end_costs_no_further_step)
{
	/* Each loop has lost one end; the step count is what it would have been. */
	const char *const lost[] = {
		"LZz.BbOo", "LlZ.BbOo", "LlZz.BOo", "LlZz.BbO", "LlZzF.BbOo", "LlZz.BbOoK", "LlUZz.BbOo"};
	const char *const lost_unloaded[] = {"Z.BbOo", "Zz.BOo", "Zz.BbO", "ZzF.BbOo", "Zz.BbOoGS"};

	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
		start(1, true);
		repeat("LlZz.BbOo", 5);
		play(lost[i]);
		repeat("LlZz.BbOo", 5);
		steps_end(steps, now_ns);
		if (count_steps("train") != 11)
			fail_msg("%s: %zu steps", lost[i], count_steps("train"));
		check_invariants(1);
		assert_int_equal(count_stages("optimizer", 9), 1);
	}
	for (size_t i = 0; i < sizeof(lost_unloaded) / sizeof(lost_unloaded[0]); i++) {
		start(1, true);
		repeat("Zz.BbOo", 5);
		play(lost_unloaded[i]);
		repeat("Zz.BbOo", 5);
		steps_end(steps, now_ns);
		if (count_steps("train") != 11)
			fail_msg("%s: %zu steps", lost_unloaded[i], count_steps("train"));
		check_invariants(1);
	}
}

TEST(a_lost_backward_end_without_names_recovers)
{
	start(1, true);
	steps_names_readable(steps, false);
	repeat("Bb..", 5);
	play("B");
	repeat("Bb..", 50);
	assert_in_range(count_steps("backward"), 45, 56);
	check_invariants(1);
}

/* A mark with a stack pointer, as a probe brings it; frame: the function's entry or return itself. */
static void feed_at(uint64_t stack_pointer, bool is_frame, enum steps_edge edge, const char *stage, const char *name)
{
	const struct steps_mark mark = {.time_ns = now_ns += US,
		.thread_id = 1,
		.edge = edge,
		.stage = stage,
		.name = name,
		.stack_pointer = stack_pointer,
		.is_frame = is_frame};

	steps_feed(steps, &mark);
}

/* Every backward but the last of a step raises: its entry is seen, its return is not. */
TEST(a_backward_that_an_exception_left_disturbs_nothing)
{
	start(1, true);
	for (int i = 0; i < 7; i++) {
		feed_at(900, false, STEPS_BEGIN, NULL, "Optimizer.zero_grad#SGD.zero_grad");
		feed_at(900, false, STEPS_END, NULL, NULL);
		feed_at(800, true, STEPS_BEGIN, "backward", "backward");
		feed_at(700, true, STEPS_BEGIN, "backward", "backward"); /* within the first one, and left with it */
		feed_at(800, true, STEPS_BEGIN, "backward", "backward"); /* again, from the same call site */
		feed_at(800, true, STEPS_END, "backward", NULL);
		feed_at(900, false, STEPS_BEGIN, NULL, "Optimizer.step#SGD.step");
		feed_at(900, false, STEPS_END, NULL, NULL);
	}
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 7);
	assert_int_equal(counts().unpaired, 14);
	for (int i = 1; i <= 7; i++)
		assert_int_equal(count_stages("backward", i), 1);
	check_invariants(1);
}

TEST(lost_begins_are_counted)
{
	start(1, true);
	repeat("LlZz.BbOo", 3);
	play("lZz.BbOo");
	repeat("LlZz.BbOo", 3);
	steps_end(steps, now_ns);
	assert_int_equal(counts().unpaired, 1);
	assert_in_range(count_steps("train"), 6, 7);
	check_invariants(1);
}

TEST(an_end_with_a_stage_drops_what_is_above)
{
	start(1, true);
	play("LlBGUb");
	assert_int_equal(counts().unpaired, 2);
	assert_int_equal(count_stages("gc", 1), 0);
	assert_int_equal(count_stages("backward", 1), 1);
	play("UBu"); /* a nameless end is of a name, whatever lies above */
	assert_int_equal(count_stages("mine", 1), 1);
	assert_int_equal(counts().unpaired, 3);
}

TEST(depth_is_bounded)
{
	struct steps_open open[2 * STEPS_DEPTH_MAX];

	start(1, true);
	play("Zz");
	repeat("U", STEPS_DEPTH_MAX + 6);
	assert_int_equal(counts().too_deep, 6);
	assert_int_equal(steps_in_flight(steps, open, 2 * STEPS_DEPTH_MAX), STEPS_DEPTH_MAX);
	repeat("u", STEPS_DEPTH_MAX + 6);
	assert_int_equal(counts().unpaired, 0);
	assert_int_equal(count_stages("mine", 1), STEPS_DEPTH_MAX);
	/* A stack full of lost ends gives way to the loop. */
	repeat("U", STEPS_DEPTH_MAX + 6);
	repeat("LlBbOo", 3);
	steps_end(steps, now_ns);
	assert_in_range(count_steps(NULL), 3, 4);
	check_invariants(1);
}

TEST(threads_are_bounded)
{
	struct steps_open open[STEPS_THREADS_MAX + 10];

	start(1, true);
	play("LlB");
	for (uint32_t i = 100; i < 100 + STEPS_THREADS_MAX + 50; i++)
		play_on(i, "U"); /* these threads end without a word */
	assert_int_equal(steps_in_flight(steps, open, STEPS_THREADS_MAX + 10), STEPS_THREADS_MAX);
	assert_int_equal(open[0].thread_id, 1);
	assert_string_equal(open[0].stage, "backward");
	assert_int_equal(counts().unpaired, 51);
	play("bOoLl");
	assert_int_equal(count_steps(NULL), 1);
}

TEST(waiting_stages_are_bounded)
{
	start(1, true);
	play("LlBbOoLl");
	repeat("Uu", STEPS_HELD_MAX + 9);
	assert_int_equal(counts().not_held, 10); /* the data loading waits as well */
	assert_int_equal(count_stages("mine", STEPS_NONE), 10);
	play("BbOo");
	steps_end(steps, now_ns);
	assert_int_equal(count_stages("mine", 2), STEPS_HELD_MAX - 1);
	check_invariants(1);
}

TEST(names_are_bytes_and_cut)
{
	char name[3 * STEPS_NAME_BYTES];

	start(1, true);
	play("Zz");
	feed(1, STEPS_BEGIN, NULL, "\x01\n\x1b[31m\"\xff");
	play("u");
	assert_int_equal(count_stages("\x01\n\x1b[31m\"\xff", 1), 1);
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = 0;
	memcpy(name + STEPS_NAME_BYTES - 2, "\xc3\xa4", 2); /* would be cut in the middle */
	feed(1, STEPS_BEGIN, NULL, name);
	play("u");
	name[STEPS_NAME_BYTES - 2] = 0;
	assert_int_equal(count_stages(name, 1), 1);
	assert_int_equal(counts().names_cut, 1);
	feed(1, STEPS_BEGIN, "compile", NULL);
	feed(1, STEPS_END, "compile", NULL);
	assert_int_equal(count_stages("compile", 1), 1);
}

TEST(in_flight_shows_what_is_open)
{
	struct steps_open open[4];

	start(1, true);
	assert_int_equal(steps_step_thread(steps), 0);
	play("LlBbOoULlF");
	play_on(2, "K");
	assert_int_equal(steps_in_flight(steps, open, 4), 3);
	assert_string_equal(open[0].stage, "mine");
	assert_string_equal(open[1].stage, "forward");
	assert_string_equal(open[1].name, "DistributedDataParallel.forward");
	assert_int_equal(open[1].depth, 1);
	assert_int_equal(open[1].step, 2);
	assert_int_equal(open[1].start_ns, now_ns - US);
	assert_string_equal(open[2].stage, "checkpoint");
	assert_int_equal(steps_in_flight(steps, open, 2), 2);
}

TEST(random_marks_keep_the_invariants)
{
	static const char script[] = "LlFfZzBbOoPpKkGgSsUu.";

	for (unsigned int seed = 1; seed <= 40; seed++) {
		uint64_t random = seed * 0x9e3779b97f4a7c15ULL;

		start(5, seed % 2);
		for (int i = 0; i < 10000; i++) {
			char letter[2] = {0};

			random = random * 6364136223846793005ULL + 1442695040888963407ULL;
			letter[0] = script[(random >> 33) % (sizeof(script) - 1)];
			play_on(1 + (uint32_t)((random >> 50) % 8 == 0), letter);
			if ((random >> 40) % 1000 == 0)
				steps_idle(steps, now_ns + 20 * US, 10 * US);
			if (seed % 10 == 0 && i == 5000)
				steps_names_readable(steps, false);
		}
		steps_end(steps, now_ns);
		assert_true(count_steps(NULL) > 100);
		check_invariants(5);
	}
}

TEST_MAIN(NULL, done)
