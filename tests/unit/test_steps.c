/* SPDX-License-Identifier: Apache-2.0 */
/* Where steps begin and end: the rules of analyzers/steps/steps.h, one test a rule. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/steps_script.h"

TEST(a_plain_loop_counts_every_step)
{
	start(1, true);
	repeat("LlZz..BbOo", 30);
	assert_int_equal(count_steps(NULL), 29);
	play("Ll"); /* the loader's last call */
	assert_int_equal(count_steps("train"), 30);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps(NULL), 30);
	for (int64_t i = 1; i <= 30; i++) {
		assert_int_equal(count_stages("dataloader", i), 1);
		assert_int_equal(count_stages("zero_grad", i), 1);
		assert_int_equal(count_stages("forward", i), 1);
		assert_int_equal(count_stages("backward", i), 1);
		assert_int_equal(count_stages("optimizer", i), 1);
		assert_string_equal(find("forward", i)->name, "(derived)");
		assert_int_equal(find("forward", i)->duration_ns, 3 * US);
		assert_int_equal(find("forward", i)->start_ns,
			find("zero_grad", i)->start_ns + find("zero_grad", i)->duration_ns);
	}
	assert_int_equal(find(NULL, 1)->start_ns, 1001 * US);
	assert_int_equal(find(NULL, 1)->duration_ns, 9 * US);
	assert_int_equal(find(NULL, 2)->duration_ns, 10 * US);
	check_invariants(1);
	assert_int_equal(counts().unpaired, 0);
}

TEST(the_last_step_is_reported_when_idle)
{
	start(7, true);
	play("LlZz.BbOo");
	steps_idle(steps, now_ns + 9 * US, 10 * US);
	assert_int_equal(count_steps(NULL), 0);
	steps_idle(steps, now_ns + 10 * US, 10 * US);
	assert_int_equal(count_steps(NULL), 1);
	assert_int_equal(find(NULL, 7)->duration_ns, 8 * US);
	assert_int_equal(steps_next(steps), 8);
	play("LlZz.Bb");
	steps_idle(steps, now_ns + 100 * US, 10 * US);
	assert_int_equal(count_steps(NULL), 1);
	play("Oo");
	steps_end(steps, now_ns);
	assert_int_equal(count_steps(NULL), 2);
	check_invariants(7);
}

TEST(waiting_stages_are_reported_when_long_idle)
{
	start(1, true);
	play("LlZz.BbOoKk");
	steps_idle(steps, now_ns + 10 * US, 10 * US);
	assert_int_equal(count_stages("checkpoint", 2), 0);
	steps_idle(steps, now_ns + 160 * US, 10 * US);
	assert_int_equal(count_stages("checkpoint", 2), 1);
	check_invariants(1);
}

TEST(an_open_step_dies_with_its_rank)
{
	start(1, true);
	play("LlZz.BbOoLlZz.B");
	steps_end(steps, now_ns);
	assert_int_equal(count_steps(NULL), 1);
	assert_int_equal(count_stages("dataloader", 2), 1);
	assert_int_equal(count_stages("backward", 2), 0);
	assert_int_equal(steps_in_flight(steps, NULL, 0), 0);
}

TEST(stages_come_as_soon_as_their_step_is_certain)
{
	start(1, true);
	play("LlZz.BbOo");
	n_rows = 0;
	play("LlZz.");
	assert_int_equal(count_steps("train"), 1);
	assert_int_equal(n_rows, 1);
	play("B"); /* training, so all that waited comes */
	assert_int_equal(count_stages("dataloader", 2), 1);
	assert_int_equal(count_stages("zero_grad", 2), 1);
	assert_int_equal(count_stages("forward", 2), 1);
	play("b");
	assert_int_equal(count_stages("backward", 2), 1);
	play("Oo");
	assert_int_equal(count_stages("optimizer", 2), 1);
	assert_int_equal(count_steps(NULL), 1);
}

TEST(accumulated_gradients_are_one_step)
{
	start(1, true);
	repeat("Ll.BbLl.BbLl.BbOoZz", 10);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 10);
	assert_int_equal(count_stages("backward", 5), 3);
	assert_int_equal(count_stages("dataloader", 5), 3);
	assert_int_equal(count_stages("forward", 5), 3);
	/* zero_grad after the optimizer is the next step's. */
	assert_int_equal(count_stages("zero_grad", 1), 0);
	assert_int_equal(count_stages("zero_grad", 2), 1);
	check_invariants(1);
}

TEST(a_step_may_skip_its_optimizer)
{
	start(1, true);
	play("LlZz.BbOo"
	     "LlZz.Bb" /* AMP found an infinity */
	     "LlZz.BbOo");
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 2);
	assert_int_equal(count_stages("backward", 2), 2);
	check_invariants(1);
}

TEST(optimizers_in_a_row_are_one_step)
{
	start(1, true);
	repeat("LlZz.BbOoZzPp", 10);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps(NULL), 10);
	assert_int_equal(count_stages("optimizer", 4), 2);
	assert_int_equal(count_stages("zero_grad", 4), 2);
	check_invariants(1);
	start(1, true);
	repeat("Zz.BbOoPp", 10);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps(NULL), 10);
	assert_int_equal(count_stages("optimizer", 4), 2);
	check_invariants(1);
}

TEST(rounds_between_two_batches_are_one_step)
{
	start(1, true);
	repeat("LlZz.BbOoZz.BbPp", 10);
	play("Ll");
	assert_int_equal(count_steps(NULL), 10);
	assert_int_equal(count_stages("backward", 10), 2);
	assert_int_equal(count_stages("forward", 10), 2);
	check_invariants(1);
}

TEST(rounds_without_a_loader_are_steps)
{
	start(1, true);
	repeat("Zz.BbOo", 30);
	assert_int_equal(count_steps(NULL), 29);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps(NULL), 30);
	assert_int_equal(count_stages("zero_grad", 30), 1);
	assert_int_equal(count_stages("forward", 30), 1);
	check_invariants(1);
}

TEST(one_batch_used_over_and_over_makes_steps)
{
	start(1, true);
	play("Ll");
	repeat("Zz.BbOo", 40);
	assert_int_equal(count_steps(NULL), 39);
	check_invariants(1);
	assert_int_equal(count_stages("backward", 17), 1);
	start(1, true);
	play("Ll");
	repeat("Zz.BbOo", 5);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps(NULL), 5);
}

TEST(evaluation_is_no_step)
{
	start(1, true);
	for (int epoch = 0; epoch < 3; epoch++) {
		repeat("LlZz.BbOo", 10);
		play("Ll");
		repeat("LlUu.S.s.", 7);
		play("Ll....");
	}
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 30);
	assert_int_equal(count_steps(NULL), 30);
	assert_int_equal(count_stages("mine", STEPS_NONE), 21);
	/* The step after an evaluation starts with its own data loading. */
	assert_int_equal(find(NULL, 11)->start_ns, find("dataloader", 11)->start_ns);
	assert_int_equal(find(NULL, 11)->duration_ns, find(NULL, 10)->duration_ns - US);
	assert_int_equal(count_stages("dataloader", 11), 1);
	check_invariants(1);
}

TEST(an_epochs_end_belongs_to_the_next_step)
{
	start(1, true);
	repeat("LlZz.BbOo", 5);
	play("Ll....");
	repeat("LlZz.BbOo", 5);
	play("Ll");
	steps_end(steps, now_ns);
	assert_int_equal(count_steps(NULL), 10);
	assert_int_equal(count_stages("dataloader", 6), 2);
	assert_int_equal(find(NULL, 6)->duration_ns, 15 * US);
	check_invariants(1);
}

TEST(two_loaders_side_by_side_are_one_step)
{
	start(1, true);
	repeat("LlLlZz.BbOo", 12);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 12);
	assert_int_equal(count_steps(NULL), 12);
	assert_int_equal(count_stages("dataloader", 1), 2);
	assert_int_equal(count_stages("dataloader", 5), 2);
	check_invariants(1);
}

TEST(inference_steps_by_the_data_loader)
{
	start(1, true);
	repeat("Ll...", 9);
	play("Ll");
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("inference"), 9);
	assert_int_equal(count_stages("forward", 4), 1);
	assert_string_equal(find("forward", 4)->name, "(derived)");
	assert_int_equal(find("forward", 4)->duration_ns, 4 * US);
	assert_int_equal(find(NULL, 4)->duration_ns, 5 * US);
	check_invariants(1);
}

TEST(marked_inference_knows_the_loaders_last_call)
{
	start(1, true);
	for (int epoch = 0; epoch < 3; epoch++) {
		repeat("LlUu.", 6);
		play("Ll..");
	}
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("inference"), 18);
	check_invariants(1);
	start(1, true);
	repeat("LlF..f", 6);
	play("Ll");
	assert_int_equal(count_steps("inference"), 6);
	assert_int_equal(count_stages("forward", 3), 1);
	assert_string_equal(find("forward", 3)->name, "DistributedDataParallel.forward");
}

TEST(a_short_trial_before_training_is_no_step)
{
	start(1, true);
	repeat("Ll..", 2);
	play("Ll");
	repeat("LlZz.BbOo", 4);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 4);
	assert_int_equal(count_steps(NULL), 4);
	assert_int_equal(count_stages("dataloader", STEPS_NONE), 3);
	check_invariants(1);
	start(1, true); /* but inference if that is all */
	repeat("Ll..", 3);
	assert_int_equal(count_steps(NULL), 0);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("inference"), 2);
	check_invariants(1);
}

TEST(training_after_inference_goes_on_counting)
{
	start(1, true);
	repeat("Ll..", 3);
	play("Ll");
	repeat("LlZz.BbOo", 4);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps("train"), 4);
	check_invariants(1);
}

TEST(a_marked_forward_is_not_derived)
{
	start(1, true);
	repeat("LlZzFUu.f.BbOo", 3);
	repeat("LlF.fZzBbOo", 3);
	steps_end(steps, now_ns);
	assert_int_equal(count_steps(NULL), 6);
	for (int64_t i = 1; i <= 6; i++) {
		assert_int_equal(count_stages("forward", i), 1);
		assert_string_equal(find("forward", i)->name, "DistributedDataParallel.forward");
	}
	assert_int_equal(find("mine", 1)->depth, 1);
	check_invariants(1);
}

TEST(forward_is_the_longer_side_of_zero_grad)
{
	start(1, true);
	play("Ll......ZzBbOoLl");
	assert_int_equal(find("forward", 1)->duration_ns, 7 * US);
	assert_true(find("forward", 1)->start_ns < find("zero_grad", 1)->start_ns);
	check_invariants(1);
}

TEST_MAIN(NULL, done)
