/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching in mid-run, nested marks, jobs without names, and marks of several threads. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/steps_script.h"

TEST(attached_in_mid_step_waits_for_a_close)
{
	start(1, false);
	play("zGgBbOo"); /* an end whose begin was before us comes first */
	repeat("LlZz.BbOo", 5);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps(NULL), 5);
	assert_int_equal(count_stages("backward", STEPS_NONE), 1);
	assert_int_equal(count_stages("gc", STEPS_NONE), 1);
	assert_int_equal(counts().unpaired, 1);
	assert_int_equal(find("dataloader", 1)->start_ns, find(NULL, 1)->start_ns + US);
	check_invariants(1);
	start(1, false);
	play("oZz");
	repeat("LlZz.BbOo", 5);
	play("Ll");
	assert_int_equal(count_steps("train"), 5);
	assert_int_equal(count_steps(NULL), 5);
	check_invariants(1);
}

TEST(seen_from_its_start_nothing_is_left_out)
{
	start(1, true);
	play("GgKk...UBbOou");
	play("LlZz");
	assert_int_equal(count_steps(NULL), 1);
	assert_int_equal(count_stages("mine", 1), 1);
	assert_int_equal(count_stages("gc", STEPS_NONE), 1);
	assert_int_equal(find(NULL, 1)->start_ns, find("mine", 1)->start_ns);
	check_invariants(1);
}

TEST(closures_of_lbfgs_are_nested)
{
	const char *const loops[] = {"LlOZz.BbZz.Bbo", "OZz.BbZz.Bbo"};

	for (size_t i = 0; i < 2; i++) {
		start(1, true);
		repeat(loops[i], 10);
		steps_end(steps, now_ns);
		assert_int_equal(count_steps("train"), 10);
		assert_int_equal(count_stages("backward", 5), 2);
		assert_int_equal(find("backward", 5)->depth, 1);
		assert_int_equal(count_stages("forward", 5), 0);
		assert_int_equal(count_stages("optimizer", 5), 1);
		check_invariants(1);
		assert_int_equal(counts().unpaired, 0);
	}
}

TEST(nested_backward_closes_nothing_twice)
{
	start(1, true);
	repeat("LlZz.BF.fBbBbbOo", 10);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps(NULL), 10);
	assert_int_equal(count_stages("backward", 3), 3);
	check_invariants(1);
	start(1, true);
	steps_names_readable(steps, false);
	repeat("BBbBbb", 10);
	assert_int_equal(count_steps("backward"), 10);
	assert_int_equal(count_stages("backward", 3), 3);
	check_invariants(1);
}

TEST(optimizers_inside_backward_close_with_it)
{
	start(1, true);
	repeat("Ll.BOoOoOob", 10);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 10);
	assert_int_equal(count_stages("optimizer", 7), 3);
	check_invariants(1);
	start(1, true);
	for (int i = 0; i < 10; i++) { /* on autograd's own thread */
		play("Ll.B");
		play_on(2, "OoOo");
		play("b");
	}
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 10);
	assert_int_equal(steps_step_thread(steps), 1);
	check_invariants(1);
}

/* A job that updates its parameters by itself marks no optimizer, whatever else it marks. */
TEST(without_an_optimizer_backward_closes)
{
	static const char *const loops[] = {"..Bb", "LlF.fBb", "Zz.Bb", "LlGgBb"};

	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
		start(1, true);
		repeat(loops[i], 63);
		assert_int_equal(count_steps(NULL), 0);
		repeat(loops[i], 1);
		assert_int_equal(count_steps("backward"), 1);
		repeat(loops[i], 9);
		assert_int_equal(count_steps("backward"), 10);
		assert_int_equal(count_stages("backward", 1), 64);
		assert_int_equal(count_stages("backward", 3), 1);
		assert_int_equal(count_stages("dataloader", 3), loops[i][0] == 'L');
		assert_int_equal(count_stages("forward", 5), loops[i][2] == 'F');
		check_invariants(1);
		repeat("Zz.BbOo", 5); /* an optimizer after all: what the first backward closed, it closes again */
		steps_end(steps, now_ns);
		assert_int_equal(count_steps("backward"), 11);
		assert_int_equal(count_steps("train"), 5);
		check_invariants(1);
	}
}

/* As many as a job accumulates, and an optimizer once: it is known that there is one. */
TEST(accumulation_waits_for_its_optimizer)
{
	start(1, true);
	for (int i = 0; i < 3; i++) {
		repeat("LlF.fBb", 63);
		play("Oo");
	}
	repeat("LlF.fBb", 100); /* as with gradients that overflow */
	play("Oo");
	steps_end(steps, now_ns);
	assert_int_equal(count_steps(NULL), 4);
	assert_int_equal(count_steps("train"), 4);
	check_invariants(1);
}

TEST(a_name_in_the_first_step_means_names_work)
{
	start(1, true);
	play("BbBbOo");
	repeat("LlBbOo", 3);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 4);
	assert_int_equal(count_stages("backward", 1), 2);
	check_invariants(1);
}

TEST(unreadable_names_close_by_backward)
{
	start(1, true);
	steps_names_readable(steps, false);
	repeat("LlBbOo", 4);
	assert_int_equal(count_steps("backward"), 4);
	assert_int_equal(count_stages("optimizer", 2), 1);
	check_invariants(1);
	start(1, false); /* the first backward may be half a step */
	steps_names_readable(steps, false);
	repeat("Bb", 4);
	assert_int_equal(count_steps("backward"), 3);
	check_invariants(1);
}

TEST(stages_of_other_threads_go_to_the_open_step)
{
	start(1, true);
	play("LlZz.B");
	play_on(2, "K"); /* a checkpoint in a side thread outlives its step */
	play("bOo");
	repeat("LlZz.BbOo", 3);
	play_on(2, "k");
	play("Ll");
	assert_int_equal(count_steps(NULL), 4);
	assert_int_equal(count_stages("checkpoint", 1), 1);
	assert_true(find("checkpoint", 1)->duration_ns > 2 * find(NULL, 1)->duration_ns);
	assert_int_equal(find("checkpoint", 1)->thread_id, 2);
	check_invariants(1);
}

TEST(late_marks_of_other_threads_find_their_step)
{
	uint64_t late_ns;

	start(1, true);
	play("LlZz.BbOo");
	late_ns = now_ns - US;
	play("LlZz.B");
	now_ns = late_ns;
	play_on(2, "Gg");
	assert_int_equal(count_stages("gc", 2), 1); /* one microsecond after the mark before: step 2's first instant */
	now_ns = late_ns - 2 * US;
	play_on(3, "Gg");
	assert_int_equal(count_stages("gc", 1), 1);
	now_ns = 10 * US;
	play_on(4, "Gg");
	assert_int_equal(count_stages("gc", STEPS_NONE), 1);
}

TEST(the_step_thread_is_the_optimizers)
{
	start(1, true);
	for (int i = 0; i < 10; i++) { /* a thread that loads ahead is not */
		play_on(9, "L");
		play("Z");
		play_on(9, "l");
		play("z..BbOo");
	}
	steps_end(steps, now_ns);
	assert_int_equal(steps_step_thread(steps), 1);
	assert_int_equal(count_steps("train"), 10);
	assert_int_equal(
		count_stages("dataloader", 5) + count_stages("dataloader", 6) + count_stages("dataloader", 4), 3);
	check_invariants(1);
}

TEST(training_may_move_to_another_thread)
{
	start(1, true);
	repeat("Zz.BbOo", 5);
	for (int i = 0; i < 10; i++)
		play_on(2, "Zz.BbOo");
	steps_end(steps, now_ns);
	assert_int_equal(steps_step_thread(steps), 2);
	assert_in_range(count_steps("train"), 12, 15);
	check_invariants(1);
}

TEST(wrappers_around_steps_have_the_steps_number)
{
	start(1, true);
	repeat("ULlZz.BbOou", 6);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 6);
	for (int64_t i = 1; i <= 6; i++)
		assert_int_equal(count_stages("mine", i), 1);
	assert_int_equal(find("backward", 3)->depth, 1);
	check_invariants(1);
}

TEST_MAIN(NULL, done)
