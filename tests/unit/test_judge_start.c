/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are slower than their peers from the start. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/judge_script.h"

/* All ranks of one role. */
static void start_with(size_t ranks)
{
	script_begin(ranks);
	for (size_t r = 0; r < ranks; r++)
		script.class[r] = 0;
}

static const struct said *slow(int32_t rank, enum activity activity, double s)
{
	script.fault[rank][activity] = s;
	script_run(60);
	return script_said(rank, activity);
}

TEST(a_loader_slow_from_the_start_is_named)
{
	const struct said *said;

	for (int ranks = 2; ranks <= 40; ranks += 19) {
		start_with((size_t)ranks);
		said = slow(1, ACTIVITY_DATALOADER, 25 * MS);
		assert_non_null(said);
		assert_true(fabs(said->finding.slowdown - 1.25) < 0.03);
		assert_in_range(said->finding.since_ns, SCRIPT_BEGIN_NS - 1000000, SCRIPT_BEGIN_NS + 1000000);
		script_close();
		script_expect(1);
		assert_true(script_cost() > 0.9 * script.lost);
		script_over();
	}
}

TEST(waits_show_who_computes_longer_from_the_start)
{
	const struct finding_evidence *evidence;

	for (int cards = 0; cards < 2; cards++) {
		start_with(4);
		script.l1 = true;
		if (cards)
			script_cards();
		script.fault[2][ACTIVITY_BACKWARD] = 25 * MS;
		script_run(60);
		evidence = script_evidence(&script_only(2, cards ? ACTIVITY_COMPUTE : ACTIVITY_BACKWARD)->finding,
			cards ? "compute" : "backward");
		assert_true(fabs(evidence->value - evidence->peers - 25e6) < 1e6);
		script_end();
	}
}

/* Four of eight may be another stage of a pipeline: nothing says that the others are not the fast ones. */
TEST(half_of_the_ranks_are_no_slow_ranks)
{
	for (int32_t slow = 3; slow <= 4; slow++) {
		start_with(8);
		for (int32_t r = 0; r < slow; r++)
			script.fault[r][ACTIVITY_OUTSIDE] = 25 * MS;
		script_run(60);
		script_expect(slow == 3 ? 3 : 0);
		script_end();
	}
}

TEST(forward_without_cards_is_named)
{
	start_with(4);
	slow(2, ACTIVITY_FORWARD, 25 * MS);
	script_only(2, ACTIVITY_FORWARD);
	script_end();
}

TEST(cards_without_operations_are_no_evidence)
{
	start_with(4);
	script_cards();
	assert_null(slow(2, ACTIVITY_DATALOADER, 25 * MS));
	script_expect(0);
	script_end();
}

/* Its first half is in the usual, the other is growth. */
TEST(what_begins_while_the_usual_is_learned_is_one)
{
	for (int begin = 2; begin < 10; begin += 2) {
		start_with(4);
		script_run(begin);
		script.fault[1][ACTIVITY_DATALOADER] = 50 * MS;
		script_run(40);
		script_only(1, ACTIVITY_DATALOADER);
		script.fault[1][ACTIVITY_DATALOADER] = 0;
		script_run(20);
		script_expect(1);
		assert_int_equal(script.said[0].finding.state, FINDING_CLOSED);
		assert_true(script_cost() > 0.75 * script.lost);
		script_end();
	}
}

/* It begins after two ticks that do not count against it: size and length of what is said then have the cost as their
 * product. */
TEST(its_size_is_that_of_its_whole_length)
{
	const struct finding *finding;
	double lasts, claimed;

	start_with(4);
	script.fault[1][ACTIVITY_DATALOADER] = 30 * MS;
	script_run(2);
	script.fault[1][ACTIVITY_DATALOADER] = 0;
	script_run(2);
	script.fault[1][ACTIVITY_DATALOADER] = 30 * MS;
	script_run(16);
	script.fault[1][ACTIVITY_DATALOADER] = 0;
	script_run(20);
	finding = &script_only(1, ACTIVITY_DATALOADER)->finding;
	lasts = (double)(finding->until_ns - finding->since_ns) * 1e-9;
	claimed = lasts * (1 - 1 / finding->slowdown);
	assert_true(lasts > 15 && lasts < 19 && fabs(claimed - script_cost()) < 0.1);
	script_end();
}

/* A slow-down of a rank that was slower from the start is another finding, with its own begin and size. */
TEST(what_comes_on_top_is_another)
{
	uint64_t from_ns;

	start_with(4);
	slow(1, ACTIVITY_OUTSIDE, 6 * MS);
	from_ns = script.now_ns;
	script.fault[1][ACTIVITY_DATALOADER] = 30 * MS;
	script_run(20);
	script.fault[1][ACTIVITY_DATALOADER] = 0;
	script_run(20);
	script_close();
	script_expect(2);
	assert_true(fabs(script_said(1, ACTIVITY_OUTSIDE)->finding.slowdown - 1.06) < 0.01);
	assert_true(fabs(script_said(1, ACTIVITY_DATALOADER)->finding.slowdown - 1.28) < 0.03);
	assert_true(script_said(1, ACTIVITY_DATALOADER)->finding.since_ns >= from_ns - 1000000);
	assert_true(script_cost() < 1.1 * script.lost);
	script_over();
}

/* When it ends, the usual has its time in it, in which a smaller one of another rank would be hidden. */
TEST(when_it_ends_the_usual_is_without_it)
{
	uint64_t from_ns;

	start_with(4);
	slow(1, ACTIVITY_DATALOADER, 25 * MS);
	script.fault[1][ACTIVITY_DATALOADER] = 0;
	script_run(4);
	from_ns = script.now_ns;
	script.fault[2][ACTIVITY_OUTSIDE] = 10 * MS;
	script_run(15);
	assert_non_null(script_said(2, ACTIVITY_OUTSIDE));
	assert_int_equal(script_said(2, ACTIVITY_OUTSIDE)->finding.since_ns, from_ns);
	script_expect(2);
	script_end();
}

/* Gains of 2.5 % and 4.5 % of the step. */
TEST(a_small_gain_is_not_reported)
{
	start_with(4);
	assert_null(slow(1, ACTIVITY_DATALOADER, 2.5 * MS));
	script_run(200);
	script_expect(0);
	script_end();
	start_with(4);
	assert_non_null(slow(1, ACTIVITY_DATALOADER, 4.5 * MS));
	script_end();
}

/* 5 ms of 105 gain 0.034 s a s above the allowance: 0.5 s after 15 s. */
TEST(gains_above_the_allowance_add_up)
{
	const struct said *said;

	start_with(4);
	said = slow(1, ACTIVITY_DATALOADER, 5 * MS);
	assert_non_null(said);
	assert_true(said->first_s > 13 && said->first_s < 18);
	script_end();
}

/* However large: a quarter of what opens in each tick. */
TEST(one_tick_names_no_rank)
{
	const struct said *said;

	start_with(4);
	said = slow(1, ACTIVITY_DATALOADER, 200 * MS);
	assert_non_null(said);
	assert_true(said->first_s > 3.5 && said->first_s < 5.5);
	script_end();
}

/* Its peers are 4 ms apart, 5.9 ms by the normal distribution. */
TEST(peers_that_differ_hide_it)
{
	for (int more = 0; more < 2; more++) {
		start_with(4);
		script.fault[0][ACTIVITY_OPTIMIZER] = 0;
		script.fault[1][ACTIVITY_OPTIMIZER] = 4 * MS;
		script.fault[2][ACTIVITY_OPTIMIZER] = 8 * MS;
		assert_true((slow(3, ACTIVITY_OPTIMIZER, more ? 45 * MS : 24 * MS) != NULL) == more);
		script_end();
	}
}

/* Of 16 ranks and fewer, a rank is no peer of its own: here half of the others are apart. Of more it is. */
TEST(of_many_ranks_one_spread_serves_all)
{
	for (int ranks = 15; ranks <= 17; ranks += 2) {
		start_with((size_t)ranks);
		for (int r = 1; r <= ranks / 2; r++)
			script.fault[r][ACTIVITY_OPTIMIZER] = r % 2 ? 12 * MS : -8 * MS;
		assert_true((slow(0, ACTIVITY_OPTIMIZER, 40 * MS) != NULL) == (ranks <= 16));
		script_end();
	}
}

TEST(two_slow_ranks_are_named)
{
	for (int near = 0; near < 2; near++) {
		start_with(8);
		script.fault[5][ACTIVITY_OPTIMIZER] = near ? 24 * MS : 16 * MS;
		slow(1, ACTIVITY_DATALOADER, 40 * MS);
		assert_non_null(script_said(1, ACTIVITY_DATALOADER));
		assert_true((script_said(5, ACTIVITY_OPTIMIZER) != NULL) == near);
		script_close();
		script_over();
	}
}

/* The first pipeline stage loads data and the last one computes the loss: only replicas compare. */
TEST(ranks_are_compared_with_their_role)
{
	for (int slow_one = 0; slow_one < 2; slow_one++) {
		for (int ranks = 9; ranks <= 60; ranks += 51) {
			start_with((size_t)ranks);
			script.l1 = true;
			for (int r = 0; r < ranks; r++) {
				script.class[r] = (uint32_t)(r % 3);
				script.fault[r][ACTIVITY_DATALOADER] = r % 3 == 1 ? 20 * MS : 0;
			}
			if (slow_one)
				script.fault[4][ACTIVITY_DATALOADER] = 40 * MS;
			script_run(60);
			script_expect((size_t)slow_one);
			if (slow_one)
				assert_non_null(script_said(4, ACTIVITY_DATALOADER));
			script_end();
		}
	}
}

TEST(a_rank_alone_in_its_role_is_not_compared)
{
	start_with(4);
	script.l1 = true;
	script.class[0] = 7;
	for (int r = 1; r < 4; r++)
		script.class[r] = 3;
	slow(0, ACTIVITY_DATALOADER, 30 * MS);
	script_expect(0);
	script_end();
}

/* Stages of a pipeline with a rank each: of no class. */
TEST(ranks_of_no_class_are_not_compared)
{
	start_with(3);
	script.l1 = true;
	for (int r = 0; r < 3; r++)
		script.class[r] = FRAME_NONE;
	slow(1, ACTIVITY_FORWARD, 40 * MS);
	script_expect(0);
	script_end();
}

/* Without operations the first stage of a pipeline is known by its loader, which the others do not have. */
TEST(ranks_with_other_stages_are_not_compared)
{
	for (int loads = 0; loads < 2; loads++) {
		start_with(4);
		for (int r = 0; r < 4; r++)
			script.fault[r][ACTIVITY_DATALOADER] = loads ? 0 : -4 * MS;
		assert_true((slow(0, ACTIVITY_DATALOADER, 20 * MS) != NULL) == loads);
		script_end();
	}
}

TEST(it_ends_as_the_rank_is_as_fast_as_others)
{
	const struct said *said;

	start_with(4);
	slow(1, ACTIVITY_DATALOADER, 25 * MS);
	script.fault[1][ACTIVITY_DATALOADER] = 0;
	script_run(30);
	said = script_only(1, ACTIVITY_DATALOADER);
	assert_int_equal(said->finding.state, FINDING_CLOSED);
	assert_true((double)(said->finding.until_ns - SCRIPT_BEGIN_NS) * 1e-9 < 62);
	script_end();
}

TEST(all_ranks_alike_are_none)
{
	start_with(8);
	script.noise = 0.03;
	script_all(ACTIVITY_DATALOADER, 60 * MS);
	script_run(600);
	script_expect(0);
	script_end();
}

/* Waits are known for a tick in which rank 1 was late by chance; then it is slow. That is no slowness from the
 * start. */
TEST(waits_are_learned_before_they_count)
{
	uint64_t from_ns;

	start_with(4);
	script_cards();
	script_run(60);
	script.l1 = true;
	script.fault[1][ACTIVITY_FORWARD] = 11 * MS;
	script_run(2);
	script.fault[1][ACTIVITY_FORWARD] = 0;
	script_run(1);
	from_ns = script.now_ns;
	script.fault[1][ACTIVITY_FORWARD] = 60 * MS;
	script_run(60);
	assert_true(script.n_said > 0);
	for (size_t i = 0; i < script.n_said; i++)
		assert_true(script.said[i].finding.since_ns >= from_ns - 4000000000ULL);
	script_end();
}

/* On cards, and in stages that hold waits, L1 shows it. It goes on without, until the job's step is shorter; what the
 * rank does on top is its own episode. */
TEST(without_operations_it_goes_on)
{
	double cost;

	for (int cards = 0; cards < 2; cards++) {
		start_with(4);
		if (cards)
			script_cards();
		script.l1 = true;
		slow(1, ACTIVITY_BACKWARD, 25 * MS);
		cost = script_cost();
		assert_true(cost > 0.9 * script.lost);
		script.l1 = false;
		script_run(600);
		assert_int_equal(script.said[0].finding.state, FINDING_OPEN);
		assert_true(fabs(script.said[0].finding.slowdown - 1.25) < 0.02);
		assert_true(script_cost() > 0.9 * script.lost && script_cost() <= script.lost);
		script.fault[1][ACTIVITY_OPTIMIZER] = 40 * MS;
		script_run(30);
		script.fault[1][ACTIVITY_OPTIMIZER] = 0;
		script_run(20);
		assert_int_equal(script.said[0].finding.state, FINDING_OPEN);
		assert_int_equal(script_said(1, ACTIVITY_OPTIMIZER)->finding.state, FINDING_CLOSED);
		script.fault[1][ACTIVITY_BACKWARD] = 0;
		script_run(60);
		script_expect(2);
		assert_int_equal(script.said[0].finding.state, FINDING_CLOSED);
		assert_true((double)(script.now_ns - script.said[0].finding.until_ns) * 1e-9 > 40);
		script_end();
	}
}

/* Neither a hang counts as its cost, nor the time in which operations showed that the rank was as fast as its peers. */
TEST(it_has_cost_since_it_was_seen_to_be_fast)
{
	for (int hang = 0; hang < 2; hang++) {
		double lost;

		start_with(4);
		script_cards();
		script.l1 = true;
		script.fault[1][ACTIVITY_BACKWARD] = hang ? 25 * MS : 0;
		script_run(30);
		script_expect(hang);
		if (hang) {
			script.hung = true;
			script_once(ACTIVITY_OUTSIDE, 600);
			script_step();
			script.hung = false;
			assert_int_equal(script.said[0].finding.state, FINDING_CLOSED);
		} else {
			script.l1 = false;
			script_run(300);
			script.fault[1][ACTIVITY_BACKWARD] = 4 * MS;
			script_run(300);
			script.l1 = true;
		}
		lost = script_cost();
		script_run(hang ? 100 : 400);
		script_expect(hang + 1);
		assert_int_equal(script.said[hang].finding.state, FINDING_OPEN);
		assert_true(script_cost() - lost < (hang ? 100 * 0.25 : 700 * 0.04));
		script.slack = INFINITY;
		script_end();
	}
}

/* Without cards peers show a slow loader: with operations, without, and after a hang. */
TEST(peers_show_it_without_operations_after_a_hang)
{
	start_with(4);
	script.l1 = true;
	slow(1, ACTIVITY_DATALOADER, 25 * MS);
	script.l1 = false;
	script.hung = true;
	script_once(ACTIVITY_OUTSIDE, 600);
	script_step();
	script.hung = false;
	script_run(60);
	script_expect(2);
	assert_int_equal(script.said[1].finding.state, FINDING_OPEN);
	script.slack = INFINITY;
	script_end();
}

/* Steps take 3 % longer with operations than without: a gain of 4 % goes on. */
TEST(operations_take_time_themselves)
{
	start_with(4);
	script_cards();
	script.fault[1][ACTIVITY_BACKWARD] = 4 * MS;
	script_run(60);
	script.l1 = true;
	script.usual[ACTIVITY_FORWARD] += 3 * MS;
	script_run(600);
	script_only(1, ACTIVITY_COMPUTE);
	script.l1 = false;
	script.usual[ACTIVITY_FORWARD] -= 3 * MS;
	script_run(600);
	script_only(1, ACTIVITY_COMPUTE);
	assert_int_equal(script.said[0].finding.state, FINDING_OPEN);
	script.slack = INFINITY;
	script_end();
}

/* It has no more steps, and its job has. */
TEST(a_rank_that_is_gone_is_not_slow)
{
	start_with(4);
	script_cards();
	script.l1 = true;
	slow(1, ACTIVITY_BACKWARD, 25 * MS);
	script.l1 = false;
	script_run(10);
	assert_int_equal(script.said[0].finding.state, FINDING_OPEN);
	script.missing[1] = true;
	script_run(20);
	assert_int_equal(script.said[0].finding.state, FINDING_CLOSED);
	script.slack = INFINITY;
	script_end();
}

/* It took the whole time, of which operations show the end alone. */
TEST(it_has_cost_as_much_before_operations_show_it)
{
	start_with(4);
	script_cards();
	slow(1, ACTIVITY_BACKWARD, 25 * MS);
	script_expect(0);
	script.l1 = true;
	script_run(30);
	script_only(1, ACTIVITY_COMPUTE);
	assert_true(fabs(script.said[0].finding.slowdown - 1.25) < 0.02);
	assert_true(script_cost() > 0.9 * script.lost);
	script_end();
}

/* Runs so long; returns how often operations were wanted. */
static unsigned wanted(double s)
{
	unsigned n = 0;

	for (double end_s = script_s() + s; script_s() < end_s; script.wants = 0) {
		script_run(1);
		n += script.wants == JUDGE_WANT_ROUTINE;
	}
	return n;
}

TEST(operations_are_wanted_after_a_minute_and_each_hour)
{
	start_with(4);
	assert_int_equal(wanted(55), 0);
	assert_int_equal(wanted(10), 1);
	/* None are seen: after 2, 4, 8, 16 and 32 minutes, and then each hour. */
	assert_int_equal(wanted(63 * 60), 5);
	assert_int_equal(wanted(7300), 2);
	script.l1 = true;
	assert_int_equal(wanted(60), 0);
	script.l1 = false;
	assert_int_equal(wanted(3500), 0);
	assert_int_equal(wanted(200), 1);
	script_end();
	/* Nobody to compare with. */
	start_with(1);
	assert_int_equal(wanted(600), 0);
	script_end();
	/* A rank is slow now. */
	start_with(4);
	script_run(30);
	script.fault[1][ACTIVITY_DATALOADER] = 40 * MS;
	script_run(20);
	script.wants = 0;
	assert_int_equal(wanted(60), 0);
	script_end();
}

/* A gain of 4 % takes longer than a minute to be certain. */
TEST(operations_are_wanted_for_longer_while_they_show_something)
{
	unsigned n;

	start_with(4);
	script_cards();
	script.fault[1][ACTIVITY_BACKWARD] = 4 * MS;
	script_run(70);
	script.l1 = true;
	script.wants = 0;
	n = wanted(200);
	assert_true(n > 10 && n < 60);
	script_only(1, ACTIVITY_COMPUTE);
	script_end();
}

/* 40 ms of 100 all the time, of which operations show a minute, not 20 s, and a minute again. */
TEST(it_is_as_large_when_it_is_seen_again)
{
	start_with(2);
	script_cards();
	script.l1 = true;
	script.fault[1][ACTIVITY_FORWARD] = 40 * MS;
	script_run(60);
	script.l1 = false;
	script_run(20);
	script.l1 = true;
	script_run(60);
	script_close();
	for (size_t i = 0; i < script.n_said; i++)
		assert_true(script.said[i].finding.slowdown > 1.2 && script.said[i].finding.slowdown < 1.45);
	assert_int_equal(script.said[0].finding.rank, 1);
	script_over();
}

/* Open ones are published at the end, as those of other ranks. */
TEST(it_is_open_until_the_job_ends)
{
	unsigned times;

	start_with(4);
	slow(1, ACTIVITY_DATALOADER, 25 * MS);
	times = script.said[0].times;
	judge_end(script.judge);
	assert_int_equal(script.said[0].times, times + 1);
	assert_int_equal(script.said[0].finding.state, FINDING_OPEN);
	judge_close(script.judge);
	assert_int_equal(script.said[0].finding.state, FINDING_CLOSED);
	script_end();
}

/* Every second of ten thousand is slower: classes of 16 with a slow one each cost no more than one class. */
TEST(ten_thousand_ranks_are_judged)
{
	start_with(SCRIPT_RANKS);
	script.l1 = true;
	script_scale(10);
	for (uint32_t r = 0; r < SCRIPT_RANKS; r++)
		script.class[r] = r / 16;
	script.fault[77][ACTIVITY_OPTIMIZER] = 0.5;
	script_run(30);
	script_only(77, ACTIVITY_OPTIMIZER);
	script_end();
}

TEST_MAIN(NULL, NULL)
