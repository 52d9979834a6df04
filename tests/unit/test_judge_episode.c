/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence, the episodes that it opens, and what their findings say. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/judge_script.h"

#define LEARN_S 60

static void begin(size_t ranks)
{
	script_begin(ranks);
	script_run(LEARN_S);
}

static void fault(enum activity activity, double s, double lasts_s)
{
	script.fault[1][activity] = s;
	script_run(lasts_s);
	script.fault[1][activity] = 0;
}

/* s from the fault's begin to the finding. */
static double opens_after(double s)
{
	begin(4);
	fault(ACTIVITY_DATALOADER, s, 60);
	script_only(1, ACTIVITY_DATALOADER);
	s = script.said[0].first_s - LEARN_S;
	script_end();
	return s;
}

TEST(evidence_above_the_allowance_opens)
{
	/* 0.09 and 0.03 s a tick of 10 steps, of which the first few are learned. */
	assert_true(fabs(opens_after(10 * MS) - 6.7) < 0.2);
	assert_true(fabs(opens_after(4 * MS) - 18.8) < 0.2);
	assert_true(opens_after(50 * MS) < 3.1);
}

/* In the middle of a tick. */
TEST(it_begins_with_the_first_slow_step)
{
	uint64_t from_ns;

	for (int i = 0; i < 10; i++) {
		begin(4);
		script_run(0.1 * i);
		from_ns = script.now_ns;
		fault(ACTIVITY_DATALOADER, 50 * MS, 20);
		script_run(20);
		script_only(1, ACTIVITY_DATALOADER);
		assert_int_equal(script.said[0].finding.since_ns, from_ns);
		assert_true(fabs(script.said[0].finding.slowdown - 1.5) < 0.03);
		script_end();
	}
}

/* Half a minute in which a rank loses 2 % opens nothing, but leaves evidence. What follows begins with itself. */
TEST(it_does_not_begin_with_the_noise_before_it)
{
	uint64_t from_ns;

	begin(4);
	script_run(200);
	fault(ACTIVITY_DATALOADER, 2 * MS, 30);
	from_ns = script.now_ns;
	fault(ACTIVITY_DATALOADER, 30 * MS, 20);
	script_run(20);
	script_only(1, ACTIVITY_DATALOADER);
	assert_true(from_ns - script.said[0].finding.since_ns < 1000000000ULL); /* the tick's begin */
	assert_true(fabs(script.said[0].finding.slowdown - 1.3) < 0.02);
	script_end();
}

/* Of such a rise 0.2 s are not enough, 0.4 s are. */
TEST(a_rise_has_half_of_what_opens)
{
	for (int steps = 2; steps <= 4; steps += 2) {
		begin(4);
		script_run(200);
		fault(ACTIVITY_DATALOADER, 2.1 * MS, 45);
		for (int i = 0; i < steps; i++) {
			script.once[1][ACTIVITY_DATALOADER] = 100 * MS;
			script_step();
		}
		script_run(20);
		script_expect(steps > 2);
		script_end();
	}
}

/* Two steps of 0.9 s are a tick, and one that takes more than twice as long is; the step before it takes a little
 * more. */
TEST(long_steps_begin_where_they_do)
{
	uint64_t from_ns;

	for (int odd = 0; odd < 2; odd++) {
		script_begin(2);
		script_scale(9);
		for (int i = 0; i < 99 + odd; i++)
			script_step();
		script.once[1][ACTIVITY_DATALOADER] = 1 * MS;
		script_step();
		from_ns = script.now_ns;
		script.fault[1][ACTIVITY_OUTSIDE] = 1.35;
		for (int i = 0; i < 9; i++)
			script_step();
		script.fault[1][ACTIVITY_OUTSIDE] = 0;
		script_run(40);
		assert_true(script_only(1, ACTIVITY_OUTSIDE)->finding.since_ns + 1 >= from_ns &&
			    script.said[0].finding.since_ns <= from_ns);
		script_end();
	}
}

/* A slow-down that grows by less than twice is one, from its begin. */
TEST(it_begins_with_the_first_half_of_itself)
{
	uint64_t from_ns;

	begin(4);
	script_run(200);
	from_ns = script.now_ns;
	fault(ACTIVITY_DATALOADER, 5 * MS, 10);
	fault(ACTIVITY_DATALOADER, 9 * MS, 30);
	script_run(20);
	script_only(1, ACTIVITY_DATALOADER);
	assert_true(script.said[0].finding.since_ns - from_ns < 1100000000ULL);
	script_end();
}

/* It would close and open again under the old one's rate. */
TEST(a_much_smaller_one_is_another)
{
	begin(4);
	fault(ACTIVITY_DATALOADER, 50 * MS, 20);
	script_run(10);
	fault(ACTIVITY_DATALOADER, 10 * MS, 60);
	script_run(20);
	script_expect(2);
	assert_true(fabs(script.said[1].finding.slowdown - 1.1) < 0.02);
	assert_true(script.said[1].times <= 5 + 60 / 5);
	script_end();
}

/* The same activity after a pause, for more than twice as much. */
TEST(a_much_larger_one_is_another)
{
	for (int larger = 0; larger < 2; larger++) {
		begin(4);
		script_run(100);
		fault(ACTIVITY_DATALOADER, 10 * MS, 20);
		script_run(12);
		fault(ACTIVITY_DATALOADER, larger ? 30 * MS : 14 * MS, 20);
		script_run(20);
		script_expect(1 + (size_t)larger);
		script_end();
	}
}

/* In the middle of a small one: it does not become a longer and smaller one. Of a rank, and of the job. */
TEST(a_much_larger_one_within_another_is_its_own)
{
	static const struct {
		double small, large;
		size_t findings;
	} cases[] = {{10 * MS, 60 * MS, 2}, {10 * MS, 16 * MS, 1}};

	for (size_t i = 0; i < 4; i++) {
		const struct finding *last;
		uint64_t from_ns;

		begin(4);
		script_run(400);
		for (int r = 0; r < 4; r++)
			script.fault[r][ACTIVITY_DATALOADER] = i < 2 || r == 1 ? cases[i % 2].small : 0;
		script_run(40);
		from_ns = script.now_ns;
		for (int r = 0; r < 4; r++)
			script.fault[r][ACTIVITY_DATALOADER] = i < 2 || r == 1 ? cases[i % 2].large : 0;
		script_run(20);
		for (int r = 0; r < 4; r++)
			script.fault[r][ACTIVITY_DATALOADER] = 0;
		script_run(20);
		script_expect(cases[i % 2].findings);
		last = &script.said[script.n_said - 1].finding;
		if (script.n_said > 1) {
			assert_true(last->since_ns <= from_ns && from_ns - last->since_ns < 1000000000ULL);
			assert_true(fabs(last->slowdown - 1.6) < 0.04);
			assert_true(script.said[0].finding.until_ns <= last->since_ns);
			assert_true(fabs(script.said[0].finding.slowdown - 1.1) < 0.01);
		}
		script_end();
	}
}

/* A fault that varies: what is larger would not be announced by itself, so it is not taken out. */
TEST(what_is_not_announced_is_not_its_own)
{
	for (int after = 8; after <= 14; after += 6) {
		begin(4);
		script_run(100);
		fault(ACTIVITY_DATALOADER, 10 * MS, 15);
		fault(ACTIVITY_DATALOADER, 25 * MS, after);
		script_run(20);
		script_expect(after < 10 ? 1 : 2);
		script_end();
	}
}

/* It takes four seconds until it has its size. */
TEST(one_that_grows_in_its_first_seconds_is_one)
{
	for (int after = 4; after <= 8; after += 4) {
		begin(4);
		fault(ACTIVITY_DATALOADER, 30 * MS, after);
		fault(ACTIVITY_DATALOADER, 150 * MS, 20);
		script_run(20);
		script_expect(after < 5 ? 1 : 2);
		script_end();
	}
}

/* An episode that takes ten seconds to open, and ends soon after: its cause is that of all its steps. */
TEST(the_cause_counts_from_the_begin)
{
	begin(2);
	for (int r = 0; r < 2; r++)
		script.host[r].run_delay_ns = 1000000;
	script_run(100);
	script.host[1].run_delay_ns = 9000000;
	fault(ACTIVITY_BACKWARD, 8 * MS, 12);
	script.host[1].run_delay_ns = 1000000;
	script_run(20);
	assert_int_equal(script_only(1, ACTIVITY_BACKWARD)->finding.cause, CAUSE_PREEMPTION);
	script_end();
}

/* What a limit took counts whole, and so does what the job lost by it: the rank is as sure when the episode closes,
 * after steps that are a little faster. */
TEST(what_a_limit_took_stays_sure)
{
	begin(4);
	for (size_t r = 0; r < 4; r++)
		script.host[r].memory_stall_ns = 0;
	script_run(20);
	script.once[1][ACTIVITY_OUTSIDE] = 2;
	script.host[1].memory_stall_ns = 2000000000;
	script_step();
	script.host[1].memory_stall_ns = 0;
	script_faster(8 * MS);
	script_run(60);
	assert_int_equal(script_only(1, ACTIVITY_OUTSIDE)->finding.state, FINDING_CLOSED);
	assert_int_equal(script.said[0].finding.cause, CAUSE_MEMORY);
	assert_true(script.said[0].finding.confidence > 0.9);
	script_end();
}

TEST(small_growth_is_no_finding)
{
	begin(4);
	script_run(120);
	fault(ACTIVITY_DATALOADER, 2.4 * MS, 300);
	script_expect(0);
	script_end();
}

TEST(the_job_is_judged_more_carefully)
{
	begin(4);
	script_run(300);
	script_all(ACTIVITY_FORWARD, 5.8 * MS);
	script_run(120);
	script_expect(0);
	script_end();
	begin(4);
	script_all(ACTIVITY_FORWARD, 10 * MS);
	script_run(60);
	assert_true(fabs(script_only(-1, ACTIVITY_FORWARD)->first_s - LEARN_S - 9.9) < 1.2);
	script_end();
}

/* Four slow steps of all ranks are none, and six are. */
TEST(a_slow_job_lasts_five_steps)
{
	for (int steps = 4; steps <= 6; steps += 2) {
		begin(4);
		for (int i = 0; i < steps; i++) {
			script_once(ACTIVITY_BACKWARD, 5);
			script_step();
		}
		script_run(20);
		script_expect(steps > 5);
		script_end();
	}
}

/* Of the growth, transfers take the larger part: a rank is named for 45 % of it, and not for 35 %. */
TEST(a_rank_is_named_for_two_fifths)
{
	for (int more = 0; more < 2; more++) {
		double own = more ? 18 * MS : 14 * MS;

		script_begin(4);
		script_cards();
		script.l1 = true;
		script.transfer = 5 * MS;
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_BACKWARD] = own;
		script.transfer += 40 * MS - own;
		script_run(60);
		assert_true((script_said(1, ACTIVITY_COMPUTE) != NULL) == more);
		assert_non_null(script_said(-1, ACTIVITY_BACKWARD));
		script_end();
	}
}

/* After 50 %: 30 % goes on, and 10 % is over. */
TEST(less_than_half_of_the_loss_is_its_end)
{
	for (int half = 0; half < 2; half++) {
		begin(4);
		fault(ACTIVITY_DATALOADER, 50 * MS, 60);
		script.fault[1][ACTIVITY_DATALOADER] = half ? 30 * MS : 10 * MS;
		for (int i = 0; i < (half ? 400 : 140); i++) {
			script_step();
			if (half)
				assert_int_equal(script.said[0].finding.state, FINDING_OPEN);
		}
		assert_int_equal(script.said[0].finding.state, half ? FINDING_OPEN : FINDING_CLOSED);
		script_end();
	}
}

/* s from the fault's end to the finding's. */
static double closes_after(double times)
{
	double over_s;

	script_begin(4);
	script_scale(times);
	script_run(LEARN_S * times);
	fault(ACTIVITY_DATALOADER, 50 * MS * times, 60 * times);
	over_s = script_s();
	for (int i = 0; i < 400 && script.said[0].finding.state == FINDING_OPEN; i++)
		script_step();
	over_s = script_s() - over_s;
	assert_true(script.said[0].finding.until_ns - script.said[0].finding.since_ns < (uint64_t)(61e9 * times));
	script_expect(1);
	script_end();
	return over_s;
}

TEST(quiet_ends_an_episode)
{
	assert_true(closes_after(1) >= 4.5 && closes_after(1) <= 7);
	/* Steps of 3 s: five of them. */
	assert_true(closes_after(30) >= 14 && closes_after(30) <= 19);
}

TEST(a_recurrence_continues_an_episode)
{
	for (int later = 0; later < 2; later++) {
		uint64_t since_ns;

		(void)state;
		begin(4);
		fault(ACTIVITY_DATALOADER, 50 * MS, 20);
		since_ns = script.said[0].finding.since_ns;
		script_run(later ? 45 : 24);
		assert_int_equal(script.said[0].finding.state, FINDING_CLOSED);
		fault(ACTIVITY_DATALOADER, 50 * MS, 20);
		script_expect(later ? 2 : 1);
		assert_int_equal(script.said[0].finding.since_ns, since_ns);
		script_close();
		assert_true(script_cost() > 0.95 * script.lost);
		assert_true(script.said[0].finding.until_ns - since_ns > (later ? 19000000000ULL : 62000000000ULL));
		script_over();
	}
}

/* Twice 60 % for 3 s, within 26 s: they took 2.3 s of these, which is no slow-down by 60 % for 26 s. */
TEST(a_pause_counts_in_the_size)
{
	begin(4);
	fault(ACTIVITY_DATALOADER, 60 * MS, 3);
	script_run(20);
	fault(ACTIVITY_DATALOADER, 60 * MS, 3);
	script_run(20);
	script_only(1, ACTIVITY_DATALOADER);
	assert_true(fabs(script.said[0].finding.slowdown - (1 + 2.3 / 23.7)) < 0.01);
	assert_int_equal(script.said[0].finding.severity, SEVERITY_NOTICE);
	script_end();
}

/* Bursts that come close are noise: what follows opens at up to four times the evidence, of the job at ten times. */
/* What was announced of the job was no noise: what comes after it is announced as soon. */
TEST(what_was_announced_of_the_job_is_no_noise)
{
	double first_s, begin_s;

	script_begin(4);
	script_run(20);
	script_all(ACTIVITY_FORWARD, 40 * MS);
	script_run(12);
	first_s = script_only(-1, ACTIVITY_FORWARD)->first_s - 20;
	assert_int_equal(script.said[0].finding.severity, SEVERITY_NOTICE);
	script_all(ACTIVITY_FORWARD, 0);
	script_run(20);
	begin_s = script_s();
	script_all(ACTIVITY_GC, 40 * MS);
	script_run(12);
	assert_non_null(script_said(-1, ACTIVITY_GC));
	assert_true(script_said(-1, ACTIVITY_GC)->first_s - begin_s < first_s + 0.5);
	script_end();
}

static double opens_after_bursts(double s, bool whole)
{
	static const double bursts_s[] = {0.8, 1.2, 1.6, 2.4}; /* of a rank, that do not open */
	double begun_s;

	begin(4);
	for (int i = 0; i < (whole ? 5 : 4); i++) {
		script_all(ACTIVITY_FORWARD, whole ? 300 * MS : 0);
		script.fault[1][ACTIVITY_DATALOADER] = whole ? 0 : 300 * MS;
		script_run(whole ? 2 + 1.6 * i : bursts_s[i]);
		script_all(ACTIVITY_FORWARD, 0);
		script.fault[1][ACTIVITY_DATALOADER] = 0;
		script_run(160);
	}
	for (size_t i = 0; i < script.n_said; i++)
		assert_int_equal(script.said[i].finding.severity, SEVERITY_INFO);
	begun_s = script_s();
	script_all(ACTIVITY_OPTIMIZER, whole ? s : 0);
	script.fault[1][ACTIVITY_OUTSIDE] = whole ? 0 : s;
	script_run(200);
	assert_non_null(script_said(whole ? -1 : 1, whole ? ACTIVITY_OPTIMIZER : ACTIVITY_OUTSIDE));
	s = script.said[script.n_said - 1].first_s - begun_s;
	script_end();
	return s;
}

TEST(noise_raises_the_limit)
{
	double rank, job;

	rank = opens_after_bursts(10 * MS, false);
	job = opens_after_bursts(15 * MS, true);
	assert_true(rank > 20 && rank < 26);
	assert_true(job > 45 && job < 65);
}

/* All ranks collect garbage, this one a little more of it. 30 s later it alone is slow: an episode of its own. */
TEST(evidence_that_is_over_is_of_no_later_episode)
{
	begin(4);
	script_all(ACTIVITY_GC, 200 * MS);
	script_run(10);
	script.fault[1][ACTIVITY_GC] = 230 * MS;
	script_run(20);
	script_all(ACTIVITY_GC, 0);
	script_run(30);
	assert_null(script_said(1, ACTIVITY_GC));
	fault(ACTIVITY_DATALOADER, 50 * MS, 10);
	script_run(30);
	assert_non_null(script_said(1, ACTIVITY_DATALOADER));
	script_end();
}

/* What went on in one tick goes on, though it was quiet before: two steps with 3 s of waiting for memory, 4 s apart. */
TEST(a_tick_that_loses_as_much_is_of_the_episode)
{
	const struct finding *finding;

	script_begin(4);
	for (size_t r = 0; r < script.ranks; r++)
		script.host[r].memory_stall_ns = 0;
	script_run(LEARN_S);
	for (int i = 0; i < 2; i++) {
		script.once[1][ACTIVITY_OUTSIDE] = 3;
		script.host[1].memory_stall_ns = 2900000000;
		script_run(0.1);
		script.host[1].memory_stall_ns = 0;
		script_run(4);
	}
	script_run(20);
	finding = &script_only(1, ACTIVITY_OUTSIDE)->finding;
	assert_true(finding->until_ns - finding->since_ns > 9000000000);
	script_end();
}

/* Beside a slow rank another one is slow for three seconds: too little for an episode, and no noise. 10 % of a third
 * rank opens as soon as else. */
TEST(what_is_beside_a_slow_rank_is_no_noise)
{
	double from_s;

	begin(4);
	script.fault[1][ACTIVITY_DATALOADER] = 50 * MS;
	script_run(10);
	script.fault[2][ACTIVITY_OUTSIDE] = 70 * MS;
	script_run(3.6);
	script.fault[2][ACTIVITY_OUTSIDE] = 0;
	script_run(10);
	script.fault[1][ACTIVITY_DATALOADER] = 0;
	script_run(40);
	assert_null(script_said(2, ACTIVITY_OUTSIDE));
	from_s = script_s();
	script.fault[3][ACTIVITY_GC] = 10 * MS;
	script_run(20);
	assert_non_null(script_said(3, ACTIVITY_GC));
	assert_true(script_said(3, ACTIVITY_GC)->first_s - from_s < 8);
	script_end();
}

/* 3 % and 8 % of a few seconds are too little for an episode. 400 % thereafter is one, from there on. */
TEST(it_begins_with_its_steepest_part)
{
	uint64_t from_ns;

	begin(4);
	script.fault[1][ACTIVITY_OPTIMIZER] = 3 * MS;
	script_run(1.03);
	script.fault[1][ACTIVITY_OPTIMIZER] = 8 * MS;
	script_run(4);
	assert_null(script_said(1, ACTIVITY_OPTIMIZER));
	from_ns = script.now_ns;
	fault(ACTIVITY_OPTIMIZER, 400 * MS, 10);
	assert_in_range(
		script_only(1, ACTIVITY_OPTIMIZER)->finding.since_ns, from_ns - 1100000000, from_ns + 1100000000);
	script_end();
}

/* Steps of a second: 36 % for six of them is an episode that is too short to be announced, and no noise. Four of 88 %
 * open the next one. */
TEST(an_episode_is_no_noise)
{
	script_begin(2);
	script_scale(10);
	script_run(60);
	script.fault[0][ACTIVITY_OUTSIDE] = 0.36;
	script_run(6 * 1.36);
	script.fault[0][ACTIVITY_OUTSIDE] = 0;
	script_run(40);
	script.fault[1][ACTIVITY_GC] = 0.88;
	script_run(4 * 1.88);
	script.fault[1][ACTIVITY_GC] = 0;
	script_run(30);
	script_expect(2);
	assert_int_equal(script_said(1, ACTIVITY_GC)->finding.severity, SEVERITY_WARNING);
	script_end();
}

/* Of steps of a second: not of ten minutes, but of 3,000 steps. */
TEST(noise_is_forgotten_slowly)
{
	static const int bursts[] = {2, 3, 5};
	double begun_s;

	script_begin(4);
	script_scale(10);
	script_run(60);
	for (size_t i = 0; i < sizeof(bursts) / sizeof(bursts[0]); i++) {
		for (int k = 0; k < bursts[i]; k++) {
			script.once[1][ACTIVITY_DATALOADER] = 1;
			script_step();
		}
		script_run(110);
	}
	script_run(1000);
	script_expect(0);
	begun_s = script_s();
	script.fault[1][ACTIVITY_DATALOADER] = 0.1;
	script_run(60);
	begun_s = script_only(1, ACTIVITY_DATALOADER)->first_s - begun_s;
	assert_true(begun_s > 15.5 && begun_s < 19);
	script_end();
}

/* Of a tick's loss: in the activity that was named, in another one, and in a third. */
TEST(another_activity_is_another_finding)
{
	static const struct {
		double named, other, third;
		bool parts;
	} rows[] = {{0, 50, 0, true}, {7, 35, 8, true}, {7, 25, 18, false}, {15, 35, 0, false}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(4);
		fault(ACTIVITY_DATALOADER, 50 * MS, 20);
		script.fault[1][ACTIVITY_DATALOADER] = rows[i].named * MS;
		script.fault[1][ACTIVITY_OPTIMIZER] = rows[i].other * MS;
		script.fault[1][ACTIVITY_OUTSIDE] = rows[i].third * MS;
		script_run(40);
		script_expect(rows[i].parts ? 2 : 1);
		assert_non_null(script_said(1, ACTIVITY_DATALOADER));
		assert_true((script_said(1, ACTIVITY_OPTIMIZER) != NULL) == rows[i].parts);
		script_close();
		assert_true(script_cost() > 0.95 * script.lost);
		script_over();
	}
}

/* Nobody knows at first for whom the job waits; its finding becomes the rank's, unless it is older or of another
 * size. */
TEST(a_rank_takes_over_what_began_as_the_jobs)
{
	static const struct {
		double unknown_s, named;
		bool one;
	} rows[] = {{3.5, 25, true}, {12, 25, false}, {3.5, 150, false}, {3.5, 8, false}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t from_ns;

		script_begin(2);
		script_cards();
		script_run(LEARN_S);
		from_ns = script.now_ns;
		fault(ACTIVITY_BACKWARD, 25 * MS, rows[i].unknown_s);
		assert_int_equal(script.n_said, 1);
		assert_int_equal(script.said[0].finding.rank, -1);
		fault(ACTIVITY_OUTSIDE, rows[i].named * MS, 20);
		script_run(20);
		script_expect(rows[i].one ? 1 : 2);
		if (rows[i].one) {
			script_only(1, ACTIVITY_OUTSIDE);
			assert_true(llabs((long long)(script.said[0].finding.since_ns - from_ns)) <= 1); /* rounding */
		}
		assert_true(script_cost() > 0.9 * script.lost);
		script_end();
	}
}

static void throttled(enum activity activity, double s, double lasts_s)
{
	script.host[1].throttled_ns = (uint64_t)(s * 1e9);
	fault(activity, s, lasts_s);
	script.host[1].throttled_ns = 0;
}

/* A rank is throttled in whatever it does, also after a pause. What it does by itself is another finding, and so is the
 * reverse. */
TEST(another_cause_is_another_finding)
{
	for (int other = 0; other < 3; other++) {
		script_begin(4);
		for (int r = 0; r < 4; r++)
			script.host[r].throttled_ns = 0;
		script_run(LEARN_S);
		if (other == 1)
			fault(ACTIVITY_OUTSIDE, 50 * MS, 20);
		else
			throttled(ACTIVITY_OUTSIDE, 50 * MS, 20);
		if (!other)
			throttled(ACTIVITY_OPTIMIZER, 50 * MS, 20);
		script_run(15);
		if (other == 2)
			fault(ACTIVITY_OUTSIDE, 50 * MS, 20);
		else
			throttled(other ? ACTIVITY_OUTSIDE : ACTIVITY_DATALOADER, 50 * MS, 20);
		script_expect(other ? 2 : 1);
		for (size_t i = 0; i < script.n_said; i++)
			assert_int_equal(
				script.said[i].finding.cause, other == (int)i + 1 ? CAUSE_PYTHON : CAUSE_THROTTLING);
		script_end();
	}
}

TEST(severity_is_by_growth_and_length)
{
	static const struct {
		double growth_ms, s;
		enum finding_severity severity;
	} rows[] = {{60, 70, SEVERITY_CRITICAL}, {40, 70, SEVERITY_WARNING}, {60, 45, SEVERITY_WARNING},
		{60, 8, SEVERITY_WARNING}, {40, 8, SEVERITY_NOTICE}, {20, 8, SEVERITY_INFO}, {40, 4, SEVERITY_INFO},
		{60, 4, SEVERITY_INFO}, {15, 40, SEVERITY_WARNING}, {7, 40, SEVERITY_NOTICE}, {15, 20, SEVERITY_NOTICE},
		{8, 15, SEVERITY_NOTICE}, {4, 40, SEVERITY_INFO}, {15, 7, SEVERITY_INFO}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct finding *finding;

		begin(4);
		fault(ACTIVITY_DATALOADER, rows[i].growth_ms * MS, rows[i].s);
		script_run(30);
		finding = &script_only(1, ACTIVITY_DATALOADER)->finding;
		if (finding->severity != rows[i].severity)
			fprintf(stderr, "row %zu\n", i);
		assert_int_equal(finding->severity, rows[i].severity);
		assert_true((finding->noticed_ns != 0) == (finding->severity > SEVERITY_INFO));
		script_end();
	}
}

/* 20 % for 40 s: a warning of a job that was known for ten times as long. */
TEST(a_job_is_compared_with_its_history)
{
	for (int known = 0; known < 2; known++) {
		script_begin(4);
		script_run(known ? 600 : 300);
		script_all(ACTIVITY_FORWARD, 20 * MS);
		script_run(40);
		script_all(ACTIVITY_FORWARD, 0);
		script_run(20);
		assert_int_equal(script_only(-1, ACTIVITY_FORWARD)->finding.severity,
			known ? SEVERITY_WARNING : SEVERITY_NOTICE);
		script_end();
	}
}

/* Less than 10 % is counted. */
TEST(a_little_slower_job_is_not_announced)
{
	for (int more = 0; more < 2; more++) {
		script_begin(4);
		script_run(900);
		script_all(ACTIVITY_FORWARD, more ? 12 * MS : 9 * MS);
		script_run(60);
		script_all(ACTIVITY_FORWARD, 0);
		script_run(20);
		assert_int_equal(
			script_only(-1, ACTIVITY_FORWARD)->finding.severity, more ? SEVERITY_WARNING : SEVERITY_INFO);
		script_end();
	}
}

TEST(an_open_episode_is_reported_every_5_s)
{
	begin(4);
	fault(ACTIVITY_DATALOADER, 20 * MS, 300);
	/* At its begin, as its severity grows twice, and fifty times or more: a tick is a second, or a little more. */
	assert_in_range(script_only(1, ACTIVITY_DATALOADER)->times, 50, 63);
	script_end();
}

TEST(evidence_is_of_the_worst_moment)
{
	const struct finding_evidence *loader, *step;

	begin(4);
	fault(ACTIVITY_DATALOADER, 25 * MS, 20);
	fault(ACTIVITY_DATALOADER, 40 * MS, 20);
	fault(ACTIVITY_DATALOADER, 25 * MS, 20);
	loader = script_evidence(&script_only(1, ACTIVITY_DATALOADER)->finding, "dataloader");
	step = script_evidence(&script.said[0].finding, "step_time");
	assert_true(fabs(loader->value - 44e6) < 1e6 && fabs(loader->peers - 4e6) < 1e5);
	assert_true(fabs(step->value - 140e6) < 1e6 && fabs(step->peers - 100e6) < 1e6);
	script_end();
}

/* A step that is a little longer comes before: the tick's loss is of the one that stalls. */
TEST(a_stall_is_described_by_its_step)
{
	const struct finding_evidence *evidence;

	begin(4);
	script.once[1][ACTIVITY_DATALOADER] = 10 * MS;
	script_step();
	script.once[1][ACTIVITY_DATALOADER] = 8;
	script_step();
	script_run(10);
	evidence = script_evidence(&script_only(1, ACTIVITY_DATALOADER)->finding, "dataloader");
	assert_int_equal(script.said[0].finding.until_step - script.said[0].finding.since_step, 1);
	assert_true(fabs(evidence->value - 8e9) < 1e8);
	script_end();
}

/* Peers are shown where at least half of the growth is beyond them, else what was before. */
TEST(peers_that_grew_too_are_no_comparison)
{
	for (int more = 0; more < 2; more++) {
		const struct finding_evidence *evidence;

		begin(4);
		script_all(ACTIVITY_OPTIMIZER, more ? 22 * MS : 15 * MS);
		fault(ACTIVITY_OPTIMIZER, 40 * MS, 20);
		assert_non_null(script_said(1, ACTIVITY_OPTIMIZER));
		evidence = script_evidence(&script_said(1, ACTIVITY_OPTIMIZER)->finding, "optimizer");
		assert_true(fabs(evidence->value - 50e6) < 1e6);
		assert_true((strcmp(evidence->detail, "before") == 0) == more);
		assert_true(fabs(evidence->peers - (more ? 10e6 : 25e6)) < 1e6);
		assert_true((strstr(script_said(1, ACTIVITY_OPTIMIZER)->finding.sentence, "; 10 ms before") != NULL) ==
			    more);
		script_end();
	}
}

/* Rank 1 usually waits 2.5 ms in backward, which L1 shows: they are no part of what it took before, as of what it
 * takes. */
TEST(before_is_without_waits)
{
	const struct finding_evidence *evidence;

	script_begin(2);
	script.l1 = true;
	script.fault[0][ACTIVITY_OPTIMIZER] = 2.5 * MS;
	script_run(LEARN_S);
	script.fault[0][ACTIVITY_BACKWARD] = 22 * MS;
	fault(ACTIVITY_BACKWARD, 40 * MS, 20);
	evidence = script_evidence(&script_said(1, ACTIVITY_BACKWARD)->finding, "backward");
	assert_string_equal(evidence->detail, FINDING_BEFORE);
	assert_true(fabs(evidence->peers - 50e6) < 1e6);
	script_end();
}

TEST(more_levels_are_wanted_once)
{
	begin(2);
	assert_int_equal(script.wants & ~(unsigned)JUDGE_WANT_ROUTINE, 0);
	script.wants = script.n_wants = 0;
	script.fault[1][ACTIVITY_BACKWARD] = 40 * MS;
	script_run(60);
	assert_int_equal(script.wants, JUDGE_WANT_OPERATIONS | JUDGE_WANT_SYSTEM);
	assert_int_equal(script.n_wants, 1);
	assert_non_null(strstr(script.why, "no rank is named"));
	script_end();
	begin(4);
	fault(ACTIVITY_DATALOADER, 20 * MS, 60);
	assert_int_equal(script.wants, JUDGE_WANT_SYSTEM);
	assert_int_equal(script.n_wants, 1);
	assert_non_null(strstr(script.why, "rank 1 has delayed its job"));
	script_end();
}

/* Rank 0's garbage collection explains half of what the job loses, or all of it. */
TEST(operations_are_wanted_for_what_no_work_explains)
{
	for (int both = 0; both < 2; both++) {
		begin(2);
		script.fault[0][ACTIVITY_GC] = 40 * MS;
		script.fault[1][ACTIVITY_BACKWARD] = both ? 80 * MS : 0;
		script.wants = script.n_wants = 0;
		script_run(10);
		assert_non_null(script_said(0, ACTIVITY_GC));
		assert_int_equal(script.wants & JUDGE_WANT_OPERATIONS, both ? JUDGE_WANT_OPERATIONS : 0);
		assert_int_equal(script.n_wants, both ? 2 : 1);
		if (both)
			assert_non_null(strstr(script.why, "no rank's own work explains"));
		script.l1 = true;
		script_run(20);
		if (both)
			assert_true(
				script_said(1, ACTIVITY_BACKWARD)->finding.cost_card_hours * 1800 > 0.5 * script.lost);
		script.slack = INFINITY;
		script_end();
	}
}

/* The script may call operations there. Not where L1 has shown where ranks wait, nor with cards, whose hosts do not
 * wait in them. */
TEST(operations_show_whether_python_outside_all_stages_is_a_wait)
{
	for (int i = 0; i < 3; i++) {
		script_begin(4);
		if (i == 1)
			script_cards();
		script_run(LEARN_S);
		script.l1 = i == 2;
		script.once[0][ACTIVITY_FORWARD] = 10 * MS; /* for which others wait */
		script_run(2);
		script.l1 = false;
		fault(ACTIVITY_OUTSIDE, 20 * MS, 60);
		assert_int_equal(script.wants & ~(unsigned)JUDGE_WANT_ROUTINE,
			i ? JUDGE_WANT_SYSTEM : JUDGE_WANT_OPERATIONS | JUDGE_WANT_SYSTEM);
		script.slack = INFINITY;
		script_end();
	}
}

/* Ranks whose loaders stall by chance, in a part of their steps, for so long. */
static void stall(size_t from, size_t ranks, double part, double s)
{
	for (size_t r = from; r < from + ranks; r++)
		if (script_chance(part))
			script.once[r][ACTIVITY_DATALOADER] = s;
}

static void begin_bursts(size_t ranks, unsigned seed)
{
	script_begin(ranks);
	script.random = seed * 77777ULL;
	script.noise = 0.02;
	script.slack = INFINITY; /* episodes of bursts begin and end within them */
}

/* Some seconds lose much and others nothing, as where packets are lost: that is one episode. */
TEST(a_noisy_slow_down_is_one_episode)
{
	for (unsigned seed = 1; seed <= 6; seed++) {
		begin_bursts(2, seed);
		script.noise = 0;
		script.l1 = true;
		script_run(60);
		while (script_s() < 360) {
			script.late[0] = script.late[1] = script_chance(0.25) ? 210 * MS : 0;
			script_step();
		}
		script_only(-1, ACTIVITY_BACKWARD);
		script_end();
	}
}

/* One step of twenty takes half a second more: seconds without any are chance. */
TEST(a_rank_that_stalls_now_and_then_is_one_episode)
{
	size_t findings = 0;
	double cost = 0, lost = 0;

	for (unsigned seed = 1; seed <= 6; seed++) {
		begin_bursts(4, seed);
		script_run(60);
		while (script_s() < 660) {
			stall(1, 1, 0.05, 500 * MS);
			script_step();
		}
		script_close();
		for (size_t i = 0; i < script.n_said; i++)
			assert_int_equal(script.said[i].finding.rank, 1);
		findings += script.n_said;
		cost += script_cost();
		lost += script.lost;
		script_over();
	}
	assert_true(findings <= 12);
	assert_true(cost > 0.85 * lost);
}

/* Each of them loses too little of it to be named: it is the job's, and lies in what they do, not in how they wait. */
TEST(what_ranks_lose_by_turns_is_the_jobs)
{
	double cost = 0, lost = 0;

	for (unsigned seed = 1; seed <= 6; seed++) {
		begin_bursts(4, seed);
		script_run(60);
		while (script_s() < 660) {
			stall(0, 4, 0.1, 400 * MS);
			script_step();
		}
		script_close();
		for (size_t i = 0; i < script.n_said; i++) {
			if (script.said[i].finding.rank < 0 && script.said[i].finding.activity == ACTIVITY_DATALOADER)
				cost += script.said[i].finding.cost_card_hours * 900;
		}
		lost += script.lost;
		script_over();
	}
	assert_true(cost > 0.6 * lost);
}

/* A job whose steps become a tenth as long: how much the long ones differed is no noise of the short ones. */
TEST(a_faster_job_is_judged_at_once)
{
	begin_bursts(4, 1);
	script_scale(10);
	script_run(60);
	script_scale(0.1);
	script_run(30);
	script.fault[1][ACTIVITY_OUTSIDE] = 20 * MS;
	script_run(20);
	script_only(1, ACTIVITY_OUTSIDE);
	script_end();
}

/* Where it was so from the start, more of them in a minute are chance. */
TEST(bursts_that_are_usual_are_no_slow_down)
{
	size_t findings = 0;

	for (unsigned seed = 1; seed <= 6; seed++) {
		begin_bursts(8, seed);
		while (script_s() < 1800) {
			stall(0, 8, 0.05, 200 * MS);
			script_step();
		}
		script_close();
		findings += script.n_said;
		script_over();
	}
	assert_true(findings <= 3); /* in three hours */
}

TEST_MAIN(NULL, NULL)
