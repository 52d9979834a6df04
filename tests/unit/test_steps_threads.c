/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching in mid-run, nested marks, jobs without names, and marks of several threads. */
#include "tests/unit/steps_script.h"

static void attached_in_mid_step_waits_for_a_close(void **state)
{
	(void)state;
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

static void seen_from_its_start_nothing_is_left_out(void **state)
{
	(void)state;
	start(1, true);
	play("GgKk...UBbOou");
	play("LlZz");
	assert_int_equal(count_steps(NULL), 1);
	assert_int_equal(count_stages("mine", 1), 1);
	assert_int_equal(count_stages("gc", STEPS_NONE), 1);
	assert_int_equal(find(NULL, 1)->start_ns, find("mine", 1)->start_ns);
	check_invariants(1);
}

static void closures_of_lbfgs_are_nested(void **state)
{
	const char *const loops[] = {"LlOZz.BbZz.Bbo", "OZz.BbZz.Bbo"};

	(void)state;
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

static void nested_backward_closes_nothing_twice(void **state)
{
	(void)state;
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

static void optimizers_inside_backward_close_with_it(void **state)
{
	(void)state;
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

static void whatif_names_backward_closes(void **state)
{
	(void)state;
	start(1, true);
	repeat("..Bb", 2);
	assert_int_equal(n_rows, 0);
	play("..Bb");
	assert_int_equal(count_steps("backward"), 3);
	repeat("GgBb", 7);
	assert_int_equal(count_steps("backward"), 10);
	assert_int_equal(count_stages("backward", 1), 1);
	assert_int_equal(count_stages("backward", 3), 1);
	assert_int_equal(count_stages("forward", 5), 0);
	check_invariants(1);
	repeat("Zz.BbOo", 5); /* names after all: what the first backward closed, its optimizer closes again */
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("backward"), 11);
	assert_int_equal(count_steps("train"), 5);
	check_invariants(1);
}

static void a_name_in_the_first_step_means_names_work(void **state)
{
	(void)state;
	start(1, true);
	play("BbBbOo");
	repeat("LlBbOo", 3);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 4);
	assert_int_equal(count_stages("backward", 1), 2);
	check_invariants(1);
}

static void unreadable_names_close_by_backward(void **state)
{
	(void)state;
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

static void stages_of_other_threads_go_to_the_open_step(void **state)
{
	(void)state;
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

static void late_marks_of_other_threads_find_their_step(void **state)
{
	uint64_t late_ns;

	(void)state;
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

static void the_step_thread_is_the_optimizers(void **state)
{
	(void)state;
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

static void training_may_move_to_another_thread(void **state)
{
	(void)state;
	start(1, true);
	repeat("Zz.BbOo", 5);
	for (int i = 0; i < 10; i++)
		play_on(2, "Zz.BbOo");
	steps_end(steps, now_ns);
	assert_int_equal(steps_step_thread(steps), 2);
	assert_in_range(count_steps("train"), 12, 15);
	check_invariants(1);
}

static void wrappers_around_steps_have_the_steps_number(void **state)
{
	(void)state;
	start(1, true);
	repeat("ULlZz.BbOou", 6);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 6);
	for (int64_t i = 1; i <= 6; i++)
		assert_int_equal(count_stages("mine", i), 1);
	assert_int_equal(find("backward", 3)->depth, 1);
	check_invariants(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attached_in_mid_step_waits_for_a_close),
		cmocka_unit_test(seen_from_its_start_nothing_is_left_out),
		cmocka_unit_test(closures_of_lbfgs_are_nested),
		cmocka_unit_test(nested_backward_closes_nothing_twice),
		cmocka_unit_test(optimizers_inside_backward_close_with_it),
		cmocka_unit_test(whatif_names_backward_closes),
		cmocka_unit_test(a_name_in_the_first_step_means_names_work),
		cmocka_unit_test(unreadable_names_close_by_backward),
		cmocka_unit_test(stages_of_other_threads_go_to_the_open_step),
		cmocka_unit_test(late_marks_of_other_threads_find_their_step),
		cmocka_unit_test(the_step_thread_is_the_optimizers),
		cmocka_unit_test(training_may_move_to_another_thread),
		cmocka_unit_test(wrappers_around_steps_have_the_steps_number),
	};

	return cmocka_run_group_tests(tests, NULL, done);
}
