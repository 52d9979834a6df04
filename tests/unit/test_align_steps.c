/* SPDX-License-Identifier: Apache-2.0 */
/* Whose step is whose: ranks attached in mid-run, slow ones, lost steps, restarts. */
#include "tests/unit/align_script.h"

/* A step of rank, numbered as that rank counts it, in the time of the job's. */
static void play(int rank, int64_t number, uint64_t nth, uint64_t late)
{
	step_at(rank, number, nth * 100 + late, 100);
}

TEST(attached_ranks_meet_by_time)
{
	begin_job(4, false);
	for (uint64_t nth = 0; nth < 30; nth++) {
		for (int i = 0; i < 4; i++)
			play(i, (int64_t)nth + 1 + i * 7, nth, (uint64_t)i * 5);
		at(nth * 100 + 120);
	}
	assert_true(n_seen >= 25);
	for (size_t i = 5; i < n_seen; i++) {
		assert_int_equal(seen[i].here, 4);
		for (int k = 1; k < 4; k++)
			assert_int_equal(seen[i].rank[k].end_ns - seen[i].rank[0].end_ns, (uint64_t)k * 5 * MS);
	}
	assert_int_equal(counts().ranks_left_out, 0);
}

TEST(operations_align_better_than_time)
{
	begin();
	for (int i = 0; i < 4; i++) /* of two nodes, whose clocks differ by minutes */
		process[i] = rank_of("job", i, 4, i < 2 ? "a" : "b", false);
	for (uint64_t nth = 0; nth < 30; nth++) {
		for (int i = 0; i < 4; i++) {
			uint64_t skew = i < 2 ? 0 : 123456;

			op_at(i, nth + 1, (int64_t)nth + 1 + i * 3, nth * 100 + skew, 10);
			play(i, (int64_t)nth + 1 + i * 3, nth, skew);
		}
	}
	align_end(align);
	assert_true(n_seen >= 25);
	for (size_t i = n_seen - 20; i < n_seen; i++) {
		assert_int_equal(seen[i].here, 4);
		assert_int_equal(seen[i].rank[2].end_ns - seen[i].rank[0].end_ns, 123456 * MS);
		assert_int_equal(seen[i].frame.groups, 1);
		assert_int_equal(seen[i].frame.ops, 4);
	}
}

TEST(a_rank_without_events_is_left_out)
{
	begin();
	process[0] = rank_of("job", 0, 2, "a", true);
	process[1] = rank_of("job", 1, 2, "b", false);
	for (uint64_t nth = 0; nth < 200; nth++) {
		play(0, (int64_t)nth + 1, nth, 0);
		play(1, (int64_t)nth + 1, nth, 7777);
		at(nth * 100 + 100);
	}
	assert_true(n_seen > 190);
	assert_int_equal(seen[n_seen - 1].here, 1);
	assert_int_equal(seen[n_seen - 1].frame.ranks, 2);
	assert_int_equal(counts().ranks_left_out, 1);
}

/* Seen from its start, but not with the others: its numbers say nothing. */
TEST(a_rank_that_comes_much_later)
{
	begin();
	process[0] = rank_of("job", 0, 2, "a", true);
	for (uint64_t nth = 0; nth < 200; nth++)
		play(0, (int64_t)nth + 1, nth, 0);
	process[1] = rank_of("job", 1, 2, "b", true);
	for (uint64_t nth = 200; nth < 500; nth++) {
		play(0, (int64_t)nth + 1, nth, 0);
		play(1, (int64_t)nth - 199, nth, 0);
		at(nth * 100 + 100);
	}
	assert_int_equal(n_seen, 500);
	assert_int_equal(counts().late, 0);
	assert_int_equal(counts().ranks_left_out, 1);
}

/* More than a step, but not a whole number of them. */
TEST(a_lagging_rank_keeps_its_step_offset)
{
	begin_job(2, true);
	for (uint64_t nth = 0; nth < 200; nth++) {
		play(0, (int64_t)nth + 1, nth, 0);
		if (nth > 0)
			play(1, (int64_t)nth, nth - 1, 115);
		at(nth * 100 + 120);
	}
	assert_int_equal(n_seen, 199);
	assert_int_equal(seen[198].here, 2);
	assert_int_equal(seen[198].rank[1].end_ns - seen[198].rank[0].end_ns, 115 * MS);
}

/* What a rank had ended goes out when another process replaces it. */
TEST(a_rank_that_is_replaced)
{
	begin_job(2, true);
	steps_alike(2, 1, 5);
	step_at(0, 6, 500, 100);
	align_rank_end(align, process[0], start_ns + 600 * MS);
	assert_int_equal(n_seen, 5);
	process[0] = rank_of("job", 0, 2, "node", true);
	assert_int_equal(n_seen, 6);
	assert_true(seen[5].rank[0].here);
	assert_false(seen[5].rank[1].here);
}

TEST(a_slow_rank_keeps_its_step_offset)
{
	begin_job(4, true);
	for (uint64_t nth = 0; nth < 300; nth++) {
		for (int i = 0; i < 4; i++) /* ends later than its peers by most of a step */
			play(i, (int64_t)nth + 1, nth, i == 3 && nth > 50 ? 85 : 0);
		at(nth * 100 + 190);
	}
	assert_int_equal(n_seen, 300);
	for (size_t i = 0; i < n_seen; i++) {
		assert_int_equal(seen[i].here, 4);
		assert_int_equal(seen[i].rank[3].end_ns - seen[i].rank[0].end_ns, i > 50 ? 85 * MS : 0);
	}
}

TEST(a_rank_whose_step_was_lost_comes_back)
{
	begin_job(4, true);
	for (uint64_t nth = 0; nth < 100; nth++) {
		for (int i = 0; i < 4; i++) {
			if (i == 2 && nth == 30)
				continue; /* its optimizer's end was lost: two steps in one */
			step_at(i, (int64_t)nth + 1 - (i == 2 && nth > 30), nth * 100 - (i == 2 && nth == 31 ? 100 : 0),
				i == 2 && nth == 31 ? 200 : 100);
		}
		at(nth * 100 + 100);
	}
	assert_true(n_seen >= 98);
	for (size_t i = n_seen - 40; i < n_seen; i++) {
		assert_int_equal(seen[i].here, 4);
		assert_int_equal(seen[i].rank[2].end_ns, seen[i].rank[0].end_ns);
	}
}

TEST(numbers_go_on_without_the_reference)
{
	begin_job(3, true);
	steps_alike(3, 1, 20);
	align_rank_end(align, process[0], start_ns + 2000 * MS);
	for (int64_t step = 21; step <= 40; step++) {
		step_at(1, step, (uint64_t)(step - 1) * 100, 100);
		step_at(2, step, (uint64_t)(step - 1) * 100, 100);
	}
	assert_int_equal(n_seen, 40);
	assert_int_equal(seen[39].frame.step, 40);
	assert_int_equal(seen[39].here, 2);
	assert_false(seen[39].rank[0].here);
}

/* All ranks end and come again one after the other, and count from 1. */
TEST(a_job_that_restarts_goes_on)
{
	begin_job(3, true);
	steps_alike(3, 1, 20);
	for (int i = 0; i < 3; i++) {
		align_rank_end(align, process[i], start_ns + 2100 * MS);
		start_ns += 2100 * MS - 1;
		process[i] = rank_of("job", i, 3, "node", true);
		start_ns -= 2100 * MS - 1;
	}
	for (int64_t step = 1; step <= 20; step++) {
		for (int i = 0; i < 3; i++)
			step_at(i, step, 5000 + (uint64_t)step * 100, 100);
	}
	assert_int_equal(n_seen, 40);
	assert_int_equal(seen[20].frame.step, 21);
	assert_int_equal(seen[20].frame.class, FRAME_FIRST);
	assert_int_equal(seen[39].frame.step, 40);
	assert_int_equal(seen[39].here, 3);
	assert_int_equal(seen[39].frame.ranks, 3);
	assert_int_equal(seen[39].job, seen[0].job);
	assert_int_equal(counts().late, 0);
}

TEST(one_rank_that_restarts_finds_its_step_offset)
{
	begin_job(3, true);
	steps_alike(3, 1, 20);
	align_rank_end(align, process[2], start_ns + 2010 * MS);
	start_ns += 2020 * MS;
	process[2] = rank_of("job", 2, 3, "node", true);
	start_ns -= 2020 * MS;
	for (int64_t step = 21; step <= 60; step++) {
		uint64_t from = (uint64_t)(step - 1) * 100;

		for (int i = 0; i < 3; i++) {
			if (i < 2 || step > 25)
				step_at(i, i < 2 ? step : step - 25, from, 100);
		}
		at(from + 100);
	}
	align_end(align);
	assert_int_equal(seen[n_seen - 1].frame.step, 60);
	for (size_t i = n_seen - 20; i < n_seen; i++) {
		assert_int_equal(seen[i].here, 3);
		assert_int_equal(seen[i].rank[2].end_ns, seen[i].rank[0].end_ns);
	}
}

TEST(numbers_that_jump_lose_their_step_offset)
{
	begin_job(3, true);
	steps_alike(3, 1, 20);
	step_at(1, INT64_C(1) << 50, 2000, 100);
	for (int64_t step = 21; step <= 60; step++) {
		step_at(0, step, (uint64_t)(step - 1) * 100, 100);
		step_at(2, step, (uint64_t)(step - 1) * 100, 100);
		at((uint64_t)step * 100);
	}
	align_end(align);
	assert_int_equal(n_seen, 60);
	assert_int_equal(seen[59].frame.step, 60);
	assert_int_equal(seen[59].here, 2);
}

TEST_MAIN(NULL, done)
