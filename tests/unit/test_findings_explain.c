/* SPDX-License-Identifier: Apache-2.0 */
/* Findings that have to do with each other: a slow job and what explains it, ranks of a node, most of a job. */
#include "tests/unit/findings_script.h"

static struct verdict slow_job(bool confirmed, double lost_ns)
{
	struct verdict verdict = of(FINDING_SLOW_JOB, slow(-1, confirmed));

	verdict.lost_ns = lost_ns;
	verdict.finding.since_step = 1000;
	return verdict;
}

static void a_slow_job_of_its_own_waits_and_opens(void **state)
{
	(void)state;
	said(slow_job(true, 1e8), 5);
	assert_int_equal(n_sent, 1);
	last(FINDING_SUSPECTED);
	said(slow_job(true, 1e8), 1);
	assert_int_equal(last(FINDING_OPEN)->kind, FINDING_SLOW_JOB);
	assert_int_equal(last(FINDING_OPEN)->rank, -1);
	assert_string_equal(last(FINDING_OPEN)->host, "");
}

static void a_slow_rank_explains_a_slow_job(void **state)
{
	(void)state;
	/* Published as suspected before the rank, dropped once that is open. */
	said(slow_job(false, 1e8), 1);
	for (int i = 0; i < 30; i++) {
		say(slow_job(i > 1, 1e8));
		say(slow(3, i > 4));
		round_over();
	}
	for (size_t i = 0; i < n_sent; i++)
		assert_true(sent[i].kind != FINDING_SLOW_JOB || sent[i].state != FINDING_OPEN);
	assert_int_equal(next_id, 7);
	assert_int_equal(sent[1].kind, FINDING_SLOW_RANK);
	assert_int_equal(sent[2].state, FINDING_OPEN);
	assert_int_equal(sent[3].kind, FINDING_SLOW_JOB);
	assert_int_equal(sent[3].state, FINDING_DROPPED);
	assert_non_null(strstr(sent[3].sentence, "; explained by finding slow_rank, rank 13"));
	assert_int_equal(n_sent, 4);
	/* The rank recovers, the job does not. */
	said(slow_job(true, 1e8), 16);
	assert_int_equal(last(FINDING_OPEN)->kind, FINDING_SLOW_JOB);
}

static void an_open_slow_job_is_closed_by_what_explains_it(void **state)
{
	(void)state;
	said(slow_job(true, 1e8), 8);
	assert_int_equal(last(FINDING_OPEN)->kind, FINDING_SLOW_JOB);
	say(slow_job(true, 1e8));
	say(slow(3, true));
	round_over();
	assert_int_equal(n_sent, 4);
	assert_int_equal(sent[2].kind, FINDING_SLOW_RANK);
	assert_int_equal(last(FINDING_CLOSED)->kind, FINDING_SLOW_JOB);
	assert_true(last(FINDING_CLOSED)->cost_card_hours == 0);
}

static void a_little_slow_rank_explains_no_much_slower_job(void **state)
{
	struct verdict verdict = slow(3, true);

	(void)state;
	verdict.finding.since_step = 500;
	verdict.lost_ns = 3e7;
	for (int i = 0; i < 10; i++) {
		say(verdict);
		say(slow_job(true, 3e8));
		round_over();
	}
	assert_int_equal(last(FINDING_OPEN)->kind, FINDING_SLOW_JOB);
}

static void most_of_a_node(void **state)
{
	(void)state;
	for (int i = 0; i < 31; i++) {
		for (int32_t rank = 0; rank < 3; rank++)
			say(slow(rank, true));
		say(slow(5, true));
		round_over();
	}
	assert_int_equal(n_sent, 4);
	for (size_t i = 0; i < n_sent; i++)
		assert_int_equal(sent[i].state, FINDING_OPEN);
	assert_string_equal(sent[0].others, "11,12");
	assert_string_equal(sent[2].others, "10,11");
	assert_string_equal(sent[3].others, "");
}

/* Of the other two it is not sure. */
static void neighbours_that_are_suspected(void **state)
{
	(void)state;
	say(slow(1, false));
	say(slow(2, false));
	round_over();
	say(slow(0, true));
	say(slow(1, false));
	say(slow(2, false));
	round_over();
	assert_int_equal(last(FINDING_OPEN)->rank, 10);
	assert_string_equal(last(FINDING_OPEN)->others, "");
}

/* In sequence: when the first one closes, the others are slow, but were not slow with it. */
static void neighbours_of_another_time(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		say(slow(0, true));
		round_over();
	}
	for (int i = 0; i < 20; i++) {
		for (int32_t rank = 1; i >= 3 && rank < 3; rank++)
			say(slow(rank, true));
		round_over();
	}
	assert_int_equal(last(FINDING_CLOSED)->rank, 10);
	assert_string_equal(last(FINDING_CLOSED)->others, "");
}

static void half_of_a_node(void **state)
{
	(void)state;
	say(slow(0, true));
	say(slow(1, true));
	round_over();
	assert_int_equal(n_sent, 2);
	assert_string_equal(sent[0].others, "");
	assert_string_equal(sent[1].others, "");
}

static void most_of_the_job_is_the_model(void **state)
{
	(void)state;
	for (int i = 0; i < 40; i++) {
		for (int32_t rank = 0; rank < 5; rank++)
			say(slow(rank, true));
		round_over();
	}
	assert_int_equal(n_sent, 0);
	/* Those that are suspected are not opened either. */
	quiet(20);
	for (int i = 0; i < 60; i++) {
		for (int32_t rank = 0; rank < 5; rank++)
			say(slow(rank, i > 4 && i < 50));
		round_over();
		if (i < 4)
			said(slow(i, false), 1);
	}
	for (size_t i = 0; i < n_sent; i++)
		assert_int_not_equal(sent[i].state, FINDING_OPEN);
	/* One that was open remains open, and a confirmed one opens among many suspected. */
	quiet(20);
	n_sent = 0;
	said(slow(0, true), 1);
	for (int i = 0; i < 12; i++) {
		for (int32_t rank = 0; rank < 5; rank++)
			say(slow(rank, true));
		round_over();
	}
	assert_int_equal(n_sent, 1);
	for (int32_t rank = 0; rank < 6; rank++)
		say(slow(rank, rank == 3));
	round_over();
	assert_int_equal(n_sent, 2);
	assert_int_equal(last(FINDING_OPEN)->rank, 13);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		LIFE(a_slow_job_of_its_own_waits_and_opens),
		LIFE(a_slow_rank_explains_a_slow_job),
		LIFE(an_open_slow_job_is_closed_by_what_explains_it),
		LIFE(a_little_slow_rank_explains_no_much_slower_job),
		LIFE(most_of_a_node),
		LIFE(neighbours_that_are_suspected),
		LIFE(neighbours_of_another_time),
		LIFE(half_of_a_node),
		LIFE(most_of_the_job_is_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
