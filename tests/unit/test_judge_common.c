/* SPDX-License-Identifier: Apache-2.0 */
/* Work that grows on all ranks of a job with cards is no rank's, whoever's card or host is ahead of the others. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/judge_script.h"

#define LEARN_S 20

static void begin(void)
{
	script_begin(2);
	script_cards();
	script_scale(0.5);
}

/* Rank 0 is 20 ms ahead of rank 1, and its card waits as long in each step, which costs nothing. */
TEST(the_card_of_a_host_that_is_ahead_waits_and_costs_nothing)
{
	begin();
	script.l1 = true;
	script_run(LEARN_S);
	script_all(ACTIVITY_OUTSIDE, 40 * MS);
	script.card_waits[0] = 20 * MS;
	script_run(30);
	script_only(-1, ACTIVITY_OUTSIDE);
	script_end();
}

/* The same shows where they synchronize: rank 1's card has nothing left to do, rank 0 waits for its card. */
TEST(a_host_is_not_late_where_all_have_more_work)
{
	begin();
	script.waiting = ACTIVITY_SYNC;
	script_run(LEARN_S);
	script_all(ACTIVITY_OUTSIDE, 40 * MS);
	script.fault[1][ACTIVITY_FORWARD] = 5 * MS;
	script.fault[1][ACTIVITY_SYNC] = -1.2 * MS;
	script_run(30);
	script_only(-1, ACTIVITY_OUTSIDE);
	script_end();
}

/* Hosts that wait for their cards outside of all stages, as for a copy of pageable memory, wait for the slow rank
 * there. */
TEST(what_all_ranks_wait_for_is_the_slow_ranks)
{
	for (size_t ranks = 2; ranks <= 8; ranks *= 2) {
		script_begin(ranks);
		script_cards();
		script.l1 = true;
		script.waiting = ACTIVITY_OUTSIDE;
		script.usual[ACTIVITY_OUTSIDE] = 40 * MS;
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_OUTSIDE] = 40 * MS;
		script_run(30);
		script_only(1, ACTIVITY_OUTSIDE);
		script_end();
	}
}

/* More Python on all ranks, that the queues of their cards hide; then rank 1's card, or with L0 its host, becomes
 * slower. */
static void begin_hidden(size_t ranks, bool l1, enum activity waiting)
{
	script_begin(ranks);
	script_cards();
	script.l1 = l1;
	script.waiting = waiting;
	script.usual[ACTIVITY_SYNC] = 30 * MS;
	script_run(120);
	script_all(ACTIVITY_OUTSIDE, 20 * MS);
	script_all(waiting, -20 * MS);
	script_run(5);
}

TEST(what_a_queue_hides_explains_no_slow_card)
{
	begin_hidden(4, true, ACTIVITY_BACKWARD);
	script.fault[1][ACTIVITY_BACKWARD] = 5 * MS;
	script_run(30);
	assert_true(script.n_said > 0);
	for (size_t i = 0; i < script.n_said; i++)
		assert_int_equal(script.said[i].finding.rank, 1);
	script_end();
}

TEST(what_a_queue_hides_explains_no_late_host)
{
	begin_hidden(2, false, ACTIVITY_SYNC);
	script.fault[1][ACTIVITY_FORWARD] = 30 * MS;
	script.fault[1][ACTIVITY_SYNC] = -25 * MS;
	script_run(30);
	assert_int_equal(script_only(1, ACTIVITY_FORWARD)->finding.cause, CAUSE_HOST);
	script_end();
}

/* Without cards, where each second step has an operation: its host waits there. */
TEST(an_operation_in_each_second_step_is_waited_for)
{
	script_begin(2);
	script.waiting = ACTIVITY_OUTSIDE;
	for (int step = 0; step < 1200; step++) {
		script.l1 = step % 2 == 0;
		script.fault[1][ACTIVITY_OUTSIDE] = step >= 600 ? 25 * MS : 0;
		script_step();
	}
	script_only(1, ACTIVITY_OUTSIDE);
	script_end();
}

/* A few more cost less than what the code around them takes. */
TEST(a_few_synchronizations_are_no_cause)
{
	script_begin(4);
	script_cards();
	script_run(LEARN_S);
	script.syncs[1] = 9;
	script.fault[1][ACTIVITY_OUTSIDE] = 60 * MS;
	script_run(30);
	assert_int_equal(script_only(1, ACTIVITY_OUTSIDE)->finding.cause, CAUSE_PYTHON);
	script_end();
}

/* A job of one card has nobody to compare with: it waits longer for its card, which has more to do. */
TEST(one_rank_alone_computes_longer)
{
	script_begin(1);
	script_cards();
	script_run(LEARN_S);
	script.fault[0][ACTIVITY_SYNC] = 25 * MS;
	script_run(60);
	script_only(-1, ACTIVITY_COMPUTE);
	script_end();
}

TEST_MAIN(NULL, NULL)
