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

TEST_MAIN(NULL, NULL)
