/* SPDX-License-Identifier: Apache-2.0 */
/* Energy of cards, without L1: a card that waits for others takes less power than one that works. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/judge_script.h"

#define LEARN_S 20

/* Hosts wait alike where they synchronize; cards take so much, W. */
static void begin_power(size_t ranks, double working_w, double waiting_w)
{
	script_begin(ranks);
	script_cards();
	script.waiting = ACTIVITY_SYNC;
	for (size_t r = 0; r < ranks; r++)
		script.working_w[r] = working_w;
	script.waiting_w = waiting_w;
	script_run(LEARN_S);
}

/* Rank 1's card works 25 ms longer and then takes `slow_w`, the other one waits for it, which their hosts do alike. */
static void power_on_cards(size_t ranks, double working_w, double slow_w, double waiting_w)
{
	begin_power(ranks, working_w, waiting_w);
	script.fault[1][ACTIVITY_SYNC] = 25 * MS;
	script.working_w[1] = slow_w;
	script_run(30);
}

TEST(a_card_that_takes_power_is_not_waiting)
{
	for (size_t ranks = 2; ranks <= 8; ranks += 6) {
		power_on_cards(ranks, 500, 500, 200);
		script_only(1, ACTIVITY_COMPUTE);
		script_end();
		/* More than before. */
		power_on_cards(ranks, 150, 400, 140);
		script_only(1, ACTIVITY_COMPUTE);
		script_end();
	}
	/* Small kernels take as little as waiting does. */
	power_on_cards(2, 150, 150, 140);
	script_only(-1, ACTIVITY_COMPUTE);
	script_end();
	/* A card that is slow because it gets less power: the others wait, and take a part of their usual power for
	 * that. */
	power_on_cards(2, 500, 300, 200);
	script_only(-1, ACTIVITY_COMPUTE);
	script_end();
	/* It is not known of one. */
	begin_power(2, 0, 200);
	script.working_w[1] = 500;
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_SYNC] = 25 * MS;
	script_run(30);
	script_only(-1, ACTIVITY_COMPUTE);
	script_end();
}

/* Rank 1's host is late, and its card idles meanwhile at less than what the other takes while it waits. */
TEST(a_card_that_waits_at_nearly_its_usual_power_is_not_working)
{
	begin_power(2, 250, 230);
	script.fault[1][ACTIVITY_FORWARD] = 25 * MS;
	script.fault[1][ACTIVITY_SYNC] = -2 * MS;
	script.working_w[1] = (250 * 0.1 + 90 * 0.023) / 0.123;
	script_run(30);
	assert_int_equal(script_only(1, ACTIVITY_FORWARD)->finding.side, FINDING_SIDE_HOST);
	script_end();
	/* Its card has as much left where it synchronizes: nobody is known to be late. */
	begin_power(2, 250, 230);
	script.fault[1][ACTIVITY_FORWARD] = 25 * MS;
	script.working_w[1] = (250 * 0.1 + 90 * 0.025) / 0.125;
	script_run(30);
	assert_null(script_said(0, ACTIVITY_COMPUTE));
	script_end();
}

/* Transfers take 6 ms longer for all, and readings of rank 1's power are 6 % higher; with L1, which knows who waits, 20
 * %. */
TEST(a_drift_of_power_is_no_work)
{
	for (int l1 = 0; l1 < 2; l1++) {
		begin_power(8, 500, 500);
		script.l1 = l1;
		script_run(LEARN_S);
		script.transfer = 6 * MS;
		script.working_w[1] = l1 ? 600 : 530;
		script_run(60);
		for (size_t i = 0; i < script.n_said; i++)
			assert_int_equal(script.said[i].finding.rank, -1);
		script_end();
	}
}

/* Its host gives the work in forward, and waits for most of it where it synchronizes. */
TEST(work_of_a_card_is_of_the_activity_that_gave_it)
{
	begin_power(2, 500, 200);
	script.fault[1][ACTIVITY_SYNC] = 40 * MS;
	script.fault[1][ACTIVITY_FORWARD] = 10 * MS;
	script_run(30);
	assert_int_equal(script_only(1, ACTIVITY_FORWARD)->finding.cause, CAUSE_COMPUTE);
	script_end();
}

TEST_MAIN(NULL, NULL)
