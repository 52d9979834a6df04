/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: regular ones are no finding, slow ones are. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/judge_script.h"

#define WRITERS 4

/* A checkpoint, of 0 s where a rank writes none, and 40 steps without one. */
static void save(const double s[WRITERS])
{
	for (size_t r = 0; r < WRITERS; r++)
		script.once[r][ACTIVITY_CHECKPOINT] = s[r];
	script_step();
	for (int i = 0; i < 40; i++)
		script_step();
}

static void saves(unsigned times, double a, double b, double c, double d)
{
	for (unsigned i = 0; i < times; i++)
		save((const double[]){a, b, c, d});
}

static void begin(double times)
{
	script_begin(WRITERS);
	script_scale(times);
	script_run(20 * times);
}

TEST(regular_checkpoints_are_no_finding)
{
	for (int l1 = 0; l1 < 2; l1++) {
		begin(1);
		script.l1 = l1;
		script.noise = 0.02;
		for (int i = 0; i < 60; i++)
			saves(1, 3 + 0.02 * script_draw(), 3 + 0.02 * script_draw(), 3 + 0.02 * script_draw(), 3);
		script_expect(0);
		script_end();
		begin(1);
		saves(60, 0, 7, 0, 0);
		script_expect(0);
		script_end();
	}
}

/* The limits of its control group take `took` s of each of rank 1's checkpoints of 5 s. */
static enum finding_cause slow_saves(double took)
{
	enum finding_cause cause;

	script_begin(WRITERS);
	for (size_t r = 0; r < WRITERS; r++)
		script.host[r].memory_stall_ns = 0;
	script_run(20);
	saves(5, 1, 1, 1, 1);
	for (int i = 0; i < 5; i++) {
		script.host[1].memory_stall_ns = (uint64_t)(took * 1e9);
		for (size_t r = 0; r < WRITERS; r++)
			script.once[r][ACTIVITY_CHECKPOINT] = r == 1 ? 5 : 1;
		script_step();
		script.host[1].memory_stall_ns = 0;
		script_run(4);
	}
	cause = script_only(1, ACTIVITY_CHECKPOINT)->finding.cause;
	script_end();
	return cause;
}

TEST(a_checkpoint_is_slow_for_what_limits_take)
{
	assert_int_equal(slow_saves(0), CAUSE_CHECKPOINT);
	assert_int_equal(slow_saves(1), CAUSE_CHECKPOINT);
	assert_int_equal(slow_saves(3), CAUSE_MEMORY);
}

/* What limits take is no noise: one checkpoint that waits for memory as long as opens an episode is enough. */
TEST(one_checkpoint_that_limits_hold_is_enough)
{
	static const struct {
		double s;
		size_t findings;
	} cases[] = {{0, 0}, {0.3, 0}, {2, 1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		script_begin(WRITERS);
		for (size_t r = 0; r < WRITERS; r++)
			script.host[r].memory_stall_ns = 0;
		script_run(20);
		saves(5, 1, 1, 1, 1);
		script.host[1].memory_stall_ns = (uint64_t)(cases[i].s * 1e9);
		for (size_t r = 0; r < WRITERS; r++)
			script.once[r][ACTIVITY_CHECKPOINT] = r == 1 ? 3 : 1;
		script_step();
		script.host[1].memory_stall_ns = 0;
		script_run(4);
		saves(1, 1, 1, 1, 1);
		script_expect(cases[i].findings);
		if (cases[i].findings)
			assert_int_equal(script_only(1, ACTIVITY_CHECKPOINT)->finding.cause, CAUSE_MEMORY);
		script_end();
	}
}

/* Of three steps of a fault one saves within 2 ms: all three count. */
TEST(a_step_with_a_small_checkpoint_is_a_measure)
{
	begin(10);
	script.fault[1][ACTIVITY_OUTSIDE] = 2;
	for (size_t r = 0; r < WRITERS; r++)
		script.once[r][ACTIVITY_CHECKPOINT] = 0.002;
	for (int i = 0; i < 3; i++)
		script_step();
	script.fault[1][ACTIVITY_OUTSIDE] = 0;
	script_run(20);
	script_only(1, ACTIVITY_OUTSIDE);
	assert_true(script_cost() > 0.9 * script.lost);
	script_end();
}

/* Two that are more than half longer than before open, and one does not. */
TEST(a_rank_that_writes_alone_is_compared_with_before)
{
	const struct finding_evidence *evidence;
	const struct said *said;

	begin(1);
	saves(10, 0, 2, 0, 0);
	saves(1, 0, 4, 0, 0);
	saves(10, 0, 2, 0, 0);
	script_expect(0);
	saves(1, 0, 4, 0, 0);
	script_expect(0);
	saves(1, 0, 4, 0, 0);
	said = script_only(1, ACTIVITY_CHECKPOINT);
	assert_int_equal(said->finding.kind, FINDING_SLOW_RANK);
	assert_int_equal(said->finding.cause, CAUSE_CHECKPOINT);
	evidence = script_evidence(&said->finding, "checkpoint");
	assert_true(fabs(evidence->value - 4e9) < 1e8 && fabs(evidence->peers - 2e9) < 3e8);
	assert_string_equal(evidence->detail, "before");
	script_end();
}

TEST(by_less_than_half_is_no_slow_checkpoint)
{
	begin(1);
	saves(10, 0, 2, 0, 0);
	saves(10, 0, 2.8, 0, 0);
	script_expect(0);
	script_end();
	begin(1);
	saves(10, 0, 2, 0, 0);
	saves(2, 0, 3.4, 0, 0);
	script_expect(1);
	script_end();
}

/* What is usual follows by a fifth of each: twice as long is usual after four. */
TEST(long_checkpoints_become_usual)
{
	begin(1);
	saves(10, 0, 2, 0, 0);
	saves(4, 0, 4, 0, 0);
	assert_int_equal(script_only(1, ACTIVITY_CHECKPOINT)->finding.state, FINDING_OPEN);
	saves(1, 0, 4, 0, 0);
	assert_int_equal(script_only(1, ACTIVITY_CHECKPOINT)->finding.state, FINDING_CLOSED);
	saves(20, 0, 4, 0, 0);
	script_expect(1);
	script_end();
}

TEST(a_rank_among_writers_is_compared_with_them)
{
	begin(1);
	saves(10, 2, 2, 4, 2);
	script_only(2, ACTIVITY_CHECKPOINT);
	script_close();
	assert_true(script_cost() > 0.4 * script.lost);
	script_over();
	begin(1);
	saves(10, 2, 2.1, 2.2, 2.6);
	script_expect(0);
	script_end();
	begin(1);
	saves(10, 2, 2.1, 2.2, 3.3);
	script_only(3, ACTIVITY_CHECKPOINT);
	script_end();
}

/* Two of a rank's peers write: enough to compare with. One is not. */
TEST(two_writers_are_enough)
{
	begin(1);
	saves(10, 2, 2, 4, 0);
	script_only(2, ACTIVITY_CHECKPOINT);
	script_end();
	begin(1);
	saves(10, 2, 0, 4, 0);
	script_expect(0);
	script_end();
}

/* The step waits for the longest: what two lose at once is lost once (script_end()), and each has half. */
TEST(two_slow_writers_share_what_is_lost)
{
	double lost;

	begin(1);
	saves(5, 2, 2, 0, 0);
	lost = script.lost;
	saves(3, 4, 4, 0, 0);
	lost = script.lost - lost - 3 * 2;
	script_close();
	script_expect(2);
	assert_true(script_cost() > 0.7 * lost && script_cost() <= lost);
	assert_true(fabs(script.said[0].finding.cost_card_hours / script.said[1].finding.cost_card_hours - 1) < 0.01);
	script_over();
}

/* 24 writers, of more than 16: one is slow; all are as far apart as its excess. */
TEST(one_of_many_writers_is_slow)
{
	for (int apart = 0; apart < 2; apart++) {
		script_begin(24);
		script_run(20);
		for (int i = 0; i < 10; i++) {
			for (size_t r = 0; r < 24; r++)
				script.once[r][ACTIVITY_CHECKPOINT] = r == 7 ? 4 : apart ? 2 + (double)(r % 5) / 2 : 2;
			script_step();
			for (int n = 0; n < 40; n++)
				script_step();
		}
		if (apart)
			script_expect(0);
		else
			script_only(7, ACTIVITY_CHECKPOINT);
		script_end();
	}
}

/* Of steps of 5 s: 0.2 s are no notice, and 0.4 s are. */
TEST(small_excesses_are_none)
{
	begin(50);
	saves(12, 2, 2, 2.2, 2);
	script_expect(0);
	script_end();
	begin(50);
	saves(12, 2, 2, 2.4, 2);
	script_only(2, ACTIVITY_CHECKPOINT);
	script_end();
}

/* 5 s are, and five steps of 2 s. */
TEST(one_long_checkpoint_is_enough)
{
	for (int longer = 0; longer < 2; longer++) {
		begin(1);
		saves(5, 2, 2, 2, 2);
		saves(1, 2, 2, longer ? 7.5 : 6.5, 2);
		script_expect(longer);
		script_end();
		begin(20);
		saves(5, 2, 2, 2, 2);
		saves(1, 2, 2, longer ? 13 : 11, 2);
		script_expect(longer);
		script_end();
	}
}

TEST(the_next_one_that_is_not_slow_ends_it)
{
	begin(1);
	saves(5, 2, 2, 4, 2);
	assert_int_equal(script_only(2, ACTIVITY_CHECKPOINT)->finding.state, FINDING_OPEN);
	saves(1, 2, 2, 2, 2);
	assert_int_equal(script_only(2, ACTIVITY_CHECKPOINT)->finding.state, FINDING_CLOSED);
	script_end();
}

/* In 3 of 10 steps: after a thousand of them they are a part of the step. */
TEST(frequent_checkpoints_are_a_part_of_the_step)
{
	for (int later = 0; later < 2; later++) {
		unsigned steps = later ? 1400 : 900;

		begin(1);
		for (unsigned i = 0; i < 10000; i++) {
			if (i % 10 < 3)
				script_once(ACTIVITY_CHECKPOINT, 40 * MS);
			script_step();
			if (i < steps)
				continue;
			/* Slow where checkpoints are, alone. */
			script.fault[1][ACTIVITY_DATALOADER] = (i + 1) % 10 < 3 ? 300 * MS : 0;
			if (i > steps + 200)
				break;
		}
		assert_true((script_said(1, ACTIVITY_DATALOADER) != NULL) == later);
		assert_null(script_said(-1, ACTIVITY_CHECKPOINT));
		script_end();
	}
}

TEST(checkpoints_in_an_eighth_of_steps_are_not)
{
	begin(1);
	for (unsigned i = 0; i < 6000; i++) {
		if (i % 8 == 0) {
			script_once(ACTIVITY_CHECKPOINT, 300 * MS);
			script.once[1][ACTIVITY_DATALOADER] = 100 * MS;
		}
		script_step();
	}
	script_expect(0);
	script_end();
}

/* An eighth of the steps are no fewer than before, and a sixteenth are. */
TEST(frequent_checkpoints_may_become_rare)
{
	for (int every = 8; every <= 16; every += 8) {
		begin(1);
		for (unsigned i = 0; i < 3000; i++) {
			if (i % 10 < 3)
				script_once(ACTIVITY_CHECKPOINT, 40 * MS);
			script_step();
		}
		for (int i = 0; i < 3200; i++) {
			if (i % every == 0)
				script_once(ACTIVITY_CHECKPOINT, 40 * MS);
			script.once[1][ACTIVITY_DATALOADER] = i > 3000 && i % every < 2 ? 300 * MS : 0;
			script_step();
		}
		assert_true((script_said(1, ACTIVITY_DATALOADER) != NULL) == (every == 8));
		script.slack = INFINITY;
		script_end();
	}
}

/* On a card, rank 0's checkpoint waits for rank 1, which is slow: it is not slow itself, and the step counts as rank
 * 1's. */
TEST(a_checkpoint_may_wait_on_its_card)
{
	for (int cards = 0; cards < 2; cards++) {
		double lost;

		begin(1);
		if (cards)
			script_cards();
		saves(5, 1, 0, 0, 0);
		lost = script.lost;
		script.fault[1][ACTIVITY_OUTSIDE] = 6;
		script_run(30);
		script.once[0][ACTIVITY_CHECKPOINT] = 6;
		script_step();
		script_run(10);
		script.fault[1][ACTIVITY_OUTSIDE] = 0;
		script_run(20);
		assert_true((script_said(0, ACTIVITY_CHECKPOINT) != NULL) == !cards);
		assert_non_null(script_said(1, ACTIVITY_OUTSIDE));
		script_close();
		if (cards)
			assert_true(script_cost() > 0.95 * (script.lost - lost));
		script_over();
	}
}

/* A control group's stall is of all ranks in it, the writer's own with them; and a stall of microseconds is no wait. */
TEST(what_all_are_held_by_hides_no_slow_checkpoint)
{
	for (int all = 0; all < 2; all++) {
		begin(1);
		script_cards();
		for (size_t r = 0; r < WRITERS; r++)
			script.host[r].memory_stall_ns = all || r == 2 ? 2000 : 0;
		saves(5, 2, 0, 0, 0);
		for (int i = 0; i < 4; i++) {
			for (size_t r = 0; r < WRITERS; r++)
				script.host[r].memory_stall_ns = all ? 8000000000 : r == 2 ? 2000 : 0;
			script.once[0][ACTIVITY_CHECKPOINT] = 10;
			script_step();
			for (size_t r = 0; r < WRITERS; r++)
				script.host[r].memory_stall_ns = all || r == 2 ? 2000 : 0;
			script_run(4);
		}
		assert_non_null(script_said(0, ACTIVITY_CHECKPOINT));
		script_end();
	}
}

/* The same of a rank that is stopped, from the first step on. */
TEST(a_checkpoint_may_wait_for_a_rank_that_is_held)
{
	begin(1);
	script_cards();
	for (size_t r = 0; r < WRITERS; r++)
		script.host[r].stopped_ns = 0;
	saves(5, 1, 0, 0, 0);
	script.once[0][ACTIVITY_CHECKPOINT] = 8;
	script.once[1][ACTIVITY_BACKWARD] = 8;
	script.host[1].stopped_ns = 8000000000;
	script_step();
	script.host[1].stopped_ns = 0;
	script_run(20);
	assert_null(script_said(0, ACTIVITY_CHECKPOINT));
	script_over();
}

/* What a hang has claimed is no checkpoint's. */
TEST(a_checkpoint_in_a_hang_is_not_slow)
{
	for (int hung = 0; hung < 2; hung++) {
		begin(1);
		script_cards();
		saves(5, 1, 0, 0, 0);
		script.hung = hung;
		saves(1, 30, 0, 0, 0);
		script.hung = false;
		script_run(10);
		assert_true((script_said(0, ACTIVITY_CHECKPOINT) != NULL) == !hung);
		script_over();
	}
}

/* Rank 1 is slow in two steps, of which the second has the usual checkpoints. On cards, whose hosts run ahead, the
 * others wait a step later: of the first one in their checkpoints. */
TEST(a_fault_of_two_steps_may_have_a_checkpoint)
{
	for (int cards = 0; cards < 2; cards++) {
		begin(7);
		if (cards)
			script_cards();
		script.ahead = (unsigned)cards;
		saves(5, 0.15, 0.15, 0.15, 0.15);
		script_expect(0);
		script.once[1][ACTIVITY_FORWARD] = 4.5;
		script_step();
		for (size_t r = 0; r < WRITERS; r++)
			script.once[r][ACTIVITY_CHECKPOINT] = 0.15;
		script.once[1][ACTIVITY_FORWARD] = 4.5;
		script.waiting = cards ? ACTIVITY_CHECKPOINT : ACTIVITY_BACKWARD;
		script_step();
		script.waiting = ACTIVITY_BACKWARD;
		script_run(40);
		script_only(1, ACTIVITY_FORWARD);
		assert_true(script_cost() > (cards ? 4.5 : 8.5));
		script_end();
	}
}

/* What others wait for it, in this step or the next, grows no step beyond it. */
TEST(a_slow_checkpoint_is_no_fault_of_its_step)
{
	for (int next = 0; next < 2; next++) {
		begin(7);
		script_cards();
		script.ahead = (unsigned)next;
		saves(5, 0.15, 0.15, 0.15, 0.15);
		for (size_t r = 0; r < WRITERS; r++)
			script.once[r][ACTIVITY_CHECKPOINT] = r == 2 ? 4 : 0.15;
		script_step();
		script_run(40);
		script_expect(0);
		script_over();
	}
}

/* One of 64 writes for 6 s while all take a little longer: that is no step as long as a stall of 7 s, which is named
 * alone. */
TEST(the_wait_for_a_checkpoint_is_no_growth)
{
	script_begin(64);
	script_run(20);
	script_once(ACTIVITY_FORWARD, 130 * MS);
	script.once[0][ACTIVITY_CHECKPOINT] = 6;
	script_step();
	script_run(30);
	script_expect(0);
	script.once[2][ACTIVITY_OPTIMIZER] = 7;
	script_step();
	script_run(30);
	script_only(2, ACTIVITY_OPTIMIZER);
	script_end();
}

/* The last steps of a fault have a checkpoint: they are no measure, and it lasted through them. */
TEST(a_fault_may_end_with_a_checkpoint)
{
	uint64_t until_ns;

	begin(10); /* a step is a tick */
	saves(10, 1, 1, 1, 1);
	script.fault[1][ACTIVITY_DATALOADER] = 500 * MS;
	script_run(10);
	for (size_t r = 0; r < WRITERS; r++)
		script.once[r][ACTIVITY_CHECKPOINT] = 1;
	script_step();
	script_step();
	until_ns = script.now_ns;
	script.fault[1][ACTIVITY_DATALOADER] = 0;
	script_run(30);
	assert_in_range(script_only(1, ACTIVITY_DATALOADER)->finding.until_ns, until_ns - 1000000, until_ns + 1000000);
	script_end();
}

TEST_MAIN(NULL, NULL)
