/* SPDX-License-Identifier: Apache-2.0 */
/* Frames to ticks, and the usual that they are compared with. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/judge_script.h"

/* What the newest finding takes for the usual step, s. */
static double usual(void)
{
	return script_evidence(&script.said[script.n_said - 1].finding, "step_time")->peers * 1e-9;
}

/* The usual of now: from a finding. */
static double usual_now(void)
{
	size_t before = script.n_said;

	script.fault[1][ACTIVITY_GC] = 100 * MS;
	script_run(6);
	script.fault[1][ACTIVITY_GC] = 0;
	script_expect(before + 1);
	return usual();
}

TEST(ten_seconds_are_learned)
{
	/* A fault that begins after 10.5 s is seen at once, and one in seconds 6 to 9 is learned. */
	script_begin(4);
	script_cards();
	script_run(10.5);
	script.fault[1][ACTIVITY_OUTSIDE] = 200 * MS;
	script_run(4);
	script_only(1, ACTIVITY_OUTSIDE);
	script_end();
	script_begin(4);
	script_cards();
	script_run(5.9);
	script.fault[1][ACTIVITY_OUTSIDE] = 200 * MS;
	script_run(3.1);
	script_expect(0);
	script_end();
}

/* A tick is a second: a finding of a large fault comes at its end. */
TEST(a_decision_is_made_each_second)
{
	script_begin(4);
	script_run(20);
	script.fault[1][ACTIVITY_DATALOADER] = 900 * MS;
	script_run(10);
	assert_true(script_only(1, ACTIVITY_DATALOADER)->first_s < 24.5);
	assert_true(script_only(1, ACTIVITY_DATALOADER)->first_s > 22.5);
	script_end();
}

TEST(noise_of_4_percent_is_silent_for_an_hour)
{
	for (int l1 = 0; l1 < 2; l1++) {
		script_begin(8);
		script.noise = 0.04;
		script.l1 = l1;
		script_run(3600);
		script_expect(0);
		script.slack = INFINITY;
		script_end();
	}
}

/* 1.5 % faster: less than noise, and learned at the pace of 200 s. */
TEST(small_changes_are_learned_in_minutes)
{
	script_begin(4);
	script_run(400);
	script_faster(1.5 * MS);
	script_run(200);
	assert_true(fabs(usual_now() - 99.15 * MS) < 0.1 * MS);
	script_end();
}

/* A faster job relearns after it has won back what three episodes lose. */
TEST(a_faster_job_relearns)
{
	script_begin(4);
	script_run(60);
	script_faster(20 * MS);
	script_run(25);
	assert_true(fabs(usual_now() - 80.1 * MS) < 0.2 * MS);
	script_end();
}

/* By 3 % is learned at that pace; by 5 % it is another job after 70 s. */
TEST(a_little_faster_is_no_other_job)
{
	script_begin(4);
	script_run(2000);
	script_faster(5 * MS);
	script_run(100);
	assert_true(fabs(usual_now() - 95.1 * MS) < 0.05 * MS);
	script_end();
	script_begin(4);
	script_run(2000);
	script_faster(3 * MS);
	script_run(190);
	assert_true(usual_now() > 97.9 * MS);
	script_end();
}

TEST(ten_slow_minutes_are_the_new_usual)
{
	const struct said *said;

	script_begin(4);
	script_run(60);
	script_all(ACTIVITY_FORWARD, 30 * MS);
	script_run(590);
	said = script_only(-1, ACTIVITY_FORWARD);
	assert_int_equal(said->finding.state, FINDING_OPEN);
	script_run(30);
	assert_int_equal(said->finding.state, FINDING_CLOSED);
	script_run(600);
	script_expect(1);
	assert_true(fabs(usual_now() - 130.1 * MS) < 0.2 * MS);
	script_end();
}

/* One slow step may count two fifths of what opens: two are not enough, three are. */
TEST(three_slow_steps_open_and_two_do_not)
{
	for (int steps = 2; steps <= 3; steps++) {
		script_begin(4);
		script_run(20);
		for (int i = 0; i < steps; i++) {
			script.once[2][ACTIVITY_DATALOADER] = 0.9;
			script_step();
		}
		script_run(20);
		script_expect(steps > 2);
		script_end();
	}
}

/* Steps of a second of which two in a row take six; not with an ordinary one between them, nor two of 1.9 s. Nor two of
 * 6.5 s where a step takes five. */
TEST(two_long_steps_in_a_row_open)
{
	static const struct {
		double scale, s;
		int between;
		size_t findings;
	} cases[] = {{10, 5, 0, 1}, {10, 5, 1, 0}, {10, 0.9, 0, 0}, {50, 1.5, 0, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		script_begin(4);
		script_scale(cases[i].scale);
		script_run(6 * cases[i].scale);
		for (int k = 0; k < 2; k++) {
			script.once[2][ACTIVITY_DATALOADER] = cases[i].s;
			script_step();
			for (int b = 0; b < cases[i].between; b++)
				script_step();
		}
		script_run(6 * cases[i].scale);
		script_expect(cases[i].findings);
		script_end();
	}
}

/* Noise has raised the limit of ranks: the same two steps open all the same. */
TEST(two_long_steps_open_beyond_noise)
{
	script_begin(4);
	script_scale(10);
	script_run(100);
	script.fault[2][ACTIVITY_DATALOADER] = 40 * MS;
	script_run(30);
	script.fault[2][ACTIVITY_DATALOADER] = 0;
	script_run(60);
	assert_int_equal(script_only(2, ACTIVITY_DATALOADER)->finding.severity, SEVERITY_INFO);
	for (int k = 0; k < 2; k++) {
		script.once[2][ACTIVITY_OUTSIDE] = 4.8;
		script_step();
	}
	script_run(60);
	assert_non_null(script_said(2, ACTIVITY_OUTSIDE));
	script_end();
}

/* They are no more than two steps where all ranks have them. */
TEST(two_long_steps_of_all_ranks_are_two)
{
	script_begin(4);
	script_run(100);
	for (int k = 0; k < 3; k++) {
		script_once(ACTIVITY_BACKWARD, k < 2 ? 1 : 0.1);
		script_step();
	}
	script_run(60);
	script_expect(0);
	script_end();
}

/* One step that loses 5 s, and five steps, is all that a fault needs; one as long as the last one is the job's
 * habit. */
TEST(a_step_that_loses_a_warning_opens_alone)
{
	static const struct {
		double scale, s, again_s;
		size_t findings;
	} cases[] = {{1, 4.9, 0, 0}, {1, 5.2, 0, 1}, {1, 9, 0, 1}, {10, 5.2, 0, 1}, {20, 9, 0, 0}, {20, 11, 0, 1},
		{1, 5.2, 7.6, 1}, {1, 5.2, 8.2, 2}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		script_begin(4);
		script_scale(cases[i].scale);
		script_run(100 * cases[i].scale);
		script.once[2][ACTIVITY_DATALOADER] = cases[i].s;
		script_step();
		script_run(60 * cases[i].scale);
		script.once[1][ACTIVITY_OUTSIDE] = cases[i].again_s;
		script_step();
		script_run(60 * cases[i].scale);
		script_expect(cases[i].findings);
		if (cases[i].findings) {
			assert_int_equal(script.said[0].finding.rank, 2);
			assert_int_equal(script.said[0].finding.activity, ACTIVITY_DATALOADER);
			assert_int_equal(script.said[0].finding.severity, SEVERITY_WARNING);
		}
		script_end();
	}
}

/* Of all ranks it is no slow-down of the job. */
TEST(a_long_step_of_all_ranks_is_none)
{
	script_begin(4);
	script_run(100);
	script_once(ACTIVITY_BACKWARD, 8);
	script_step();
	script_run(60);
	script_expect(0);
	script_end();
}

/* What the job loses before a hang and after it are two. */
TEST(a_hang_ends_all_episodes)
{
	script_begin(4);
	script_run(300);
	script_all(ACTIVITY_FORWARD, 30 * MS);
	script_run(20);
	script_once(ACTIVITY_BACKWARD, 25);
	script.hung = true;
	script_step();
	script.hung = false;
	script_run(20);
	script_expect(2);
	assert_true(script.said[0].finding.until_ns < script.said[1].finding.since_ns - 24000000000ULL);
	script_end();
}

/* The job is 20 % slower for three minutes; for 20 s of them a rank loses far more, and the others wait for it. */
TEST(a_rank_that_explains_it_ends_the_slow_down_of_the_job)
{
	const struct finding *rank;
	size_t of_job = 0;

	script_begin(4);
	script_run(300);
	script_all(ACTIVITY_FORWARD, 20 * MS);
	script_run(60);
	script.fault[1][ACTIVITY_DATALOADER] = 200 * MS;
	script_run(20);
	script.fault[1][ACTIVITY_DATALOADER] = 0;
	script_run(60);
	rank = &script_said(1, ACTIVITY_DATALOADER)->finding;
	for (size_t i = 0; i < script.n_said; i++) {
		const struct finding *job = &script.said[i].finding;

		if (job->rank >= 0)
			continue;
		of_job++;
		assert_true(job->since_ns >= rank->until_ns - 2000000000ULL ||
			    (job->until_ns && job->until_ns <= rank->since_ns + 4000000000ULL));
	}
	assert_int_equal(of_job, 2);
	script_end();
}

/* Sequences grow longer: with the CPU time of all ranks, steps take on work. It is learned, and a slow rank is found
 * beside it. */
TEST(work_that_grows_is_no_fault)
{
	for (int cpu = 0; cpu < 2; cpu++) {
		enum finding_severity most = SEVERITY_INFO;

		script_begin(4);
		script.cpu = cpu;
		script_run(60);
		for (int s = 0; s < 100; s++) {
			script_all(ACTIVITY_FORWARD, 1.5 * s * MS);
			script_run(1);
		}
		for (size_t i = 0; i < script.n_said; i++) {
			assert_int_equal(script.said[i].finding.rank, -1);
			most = script.said[i].finding.severity > most ? script.said[i].finding.severity : most;
		}
		assert_true((most > SEVERITY_NOTICE) == !cpu);
		script.fault[1][ACTIVITY_OPTIMIZER] = 80 * MS;
		script_run(15);
		assert_true((script_said(1, ACTIVITY_OPTIMIZER) != NULL) == cpu);
		script.slack = INFINITY;
		script_end();
	}
}

/* All ranks evaluate between steps, for as long as a hundred of them. */
TEST(an_evaluation_is_no_finding)
{
	for (int every = 30; every >= 3; every /= 3) {
		script_begin(4);
		script_run(20);
		for (int i = 0; i < 20; i++) {
			script_once(ACTIVITY_OUTSIDE, 7);
			script_once(ACTIVITY_BACKWARD, 3);
			script_step();
			for (int k = 1; k < every; k++)
				script_step();
		}
		script_expect(0);
		script_end();
	}
}

/* Those that wait for it in forward do nothing alike. Outside of all stages they do, as where one rank evaluates, with
 * operations as without; but not where a limit held the rank. */
TEST(a_long_step_for_which_others_wait_is_no_evaluation)
{
	for (int i = 0; i < 8; i++) {
		bool alone = i & 1, l1 = i & 2, limit = i & 4;

		script_begin(4);
		script.waiting = alone ? ACTIVITY_FORWARD : ACTIVITY_OUTSIDE;
		script.l1 = script.apart = l1;
		script.host[1].memory_stall_ns = 0;
		script_run(20);
		script.once[1][ACTIVITY_OUTSIDE] = 6;
		script.host[1].memory_stall_ns = limit ? 5900000000 : 0;
		script_step();
		script.host[1].memory_stall_ns = 0;
		script_run(20);
		script_expect(limit || alone);
		assert_true(!(limit || alone) || script_said(1, ACTIVITY_OUTSIDE));
		script_end();
	}
}

/* A step that takes twelve seconds more, once: what no hang was reported for is a slow-down. Steps of usual length
 * within it count. */
TEST(what_a_hang_has_claimed_is_no_slow_down)
{
	for (int hung = 0; hung < 2; hung++) {
		script_begin(2);
		script_run(20);
		script.hung = hung;
		script.once[1][ACTIVITY_DATALOADER] = 12;
		script_step();
		script_run(3);
		script.hung = false;
		for (int r = 0; r < 2; r++)
			script.fault[r][ACTIVITY_FORWARD] = 60 * MS;
		script_run(3);
		assert_true((script_said(1, ACTIVITY_DATALOADER) != NULL) == !hung);
		script_end();
	}
}

/* A rank is stopped at the end of a step: for it that step is long, for the others, who have begun the next one,
 * that. */
TEST(a_hang_between_two_steps_is_in_both)
{
	const uint64_t lasts_ns = 40000000000ULL;

	script_begin(3);
	script.l1 = true;
	script_run(20);
	script.hung = true;
	script.now_ns += lasts_ns;
	script.late[2] = 40;
	script_step();
	script.now_ns -= lasts_ns;
	script.late[0] = script.late[1] = 40;
	script_step();
	script.hung = false;
	script_run(20);
	script_expect(0);
	script_end();
}

/* A third of the growth in one activity is no evaluation. */
TEST(a_job_slow_in_every_second_step_is_reported)
{
	script_begin(4);
	script_run(20);
	for (int i = 0; i < 60; i++) {
		script_once(ACTIVITY_OUTSIDE, 100 * MS);
		script_once(ACTIVITY_BACKWARD, 200 * MS);
		script_step();
		script_step();
	}
	script_only(-1, ACTIVITY_BACKWARD);
	script_end();
}

/* Nor is every second one, as that of one of two networks. */
TEST(every_second_long_step_counts)
{
	script_begin(4);
	script_run(20);
	for (int i = 0; i < 60; i++) {
		script_once(ACTIVITY_OUTSIDE, 300 * MS);
		script_step();
		script_step();
	}
	script_only(-1, ACTIVITY_OUTSIDE);
	script_end();
}

/* Two steps in a row are no evaluation. */
TEST(a_second_long_step_counts)
{
	script_begin(4);
	script_run(20);
	for (int i = 0; i < 60; i++) {
		script_once(ACTIVITY_OUTSIDE, 300 * MS);
		script_step();
	}
	script_only(-1, ACTIVITY_OUTSIDE);
	script_end();
}

/* Hosts run ahead and wait for each other in later steps: a rank is late in every fifth step, and the others wait in
 * the next one but two. */
TEST(growth_and_its_waits_may_lie_steps_apart)
{
	script_begin(4);
	script_cards();
	script_scale(10);
	script_run(60);
	for (int i = 0; i < 40; i++) {
		double lost = script.lost;

		if (i % 4 == 0) {
			script.once[1][ACTIVITY_OUTSIDE] = 1.2;
			script.once[1][ACTIVITY_BACKWARD] = -0.5;
			for (int r = 0; r < 4; r++)
				script.once[r][ACTIVITY_BACKWARD] -= r == 1 ? 0.7 : 0;
		}
		if (i % 4 == 3)
			for (int r = 0; r < 4; r++)
				script.late[r] = 1.2;
		script_step();
		script.lost = fmax(lost, script.lost);
	}
	assert_non_null(script_said(1, ACTIVITY_OUTSIDE));
	script_end();
}

/* While a larger one hides it, it is not over, so long as the rank works as much longer, and is one finding. */
TEST(an_episode_that_a_larger_one_hides_goes_on)
{
	static const struct {
		double larger_s, hidden_s; /* of its second half rank 1's fault may be over */
		bool ends, l1;
	} cases[] = {{80 * MS, 20, false, false}, {80 * MS, 20, true, false}, {300 * MS, 20, false, false},
		{80 * MS, 140, false, false}, {150 * MS, 20, false, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t ranks = cases[i].l1 ? 3 : 8;
		const struct finding *smaller;
		uint64_t hidden_ns;

		script_begin(ranks);
		script_run(20);
		script.fault[1][ACTIVITY_DATALOADER] = 30 * MS;
		script_run(20);
		hidden_ns = script.now_ns;
		script.l1 = cases[i].l1;
		smaller = &script_said(1, ACTIVITY_DATALOADER)->finding;
		script.fault[ranks - 1][ACTIVITY_OPTIMIZER] = cases[i].larger_s;
		script_run(cases[i].hidden_s / 2);
		assert_int_equal(smaller->state, FINDING_OPEN);
		assert_true(smaller->updated_ns > hidden_ns);
		script.fault[1][ACTIVITY_DATALOADER] = cases[i].ends ? 0 : 30 * MS;
		script_run(cases[i].hidden_s / 2);
		assert_int_equal(smaller->state, cases[i].ends ? FINDING_CLOSED : FINDING_OPEN);
		script.fault[ranks - 1][ACTIVITY_OPTIMIZER] = 0;
		script_run(20);
		script.fault[1][ACTIVITY_DATALOADER] = 0;
		script_run(10);
		script_expect(2);
		assert_true(fabs((double)(smaller->until_ns - hidden_ns) * 1e-9 -
				    (cases[i].ends ? 10 : cases[i].hidden_s + 20)) < 2);
		/* Its length and size give its cost. */
		assert_true(fabs((double)(smaller->until_ns - smaller->since_ns) * 1e-9 * (1 - 1 / smaller->slowdown) *
					    (double)ranks / 3600 / smaller->cost_card_hours -
				    1) < 0.08);
		assert_true(
			smaller->cost_card_hours < 0.3 / 1.3 * (cases[i].ends ? 20 : 40) * (double)ranks / 3600 * 1.05);
		script_end();
	}
}

/* Both faults end in steps of which nothing but the length is known. */
TEST(nothing_hides_an_episode_in_steps_that_did_not_grow)
{
	script_begin(8);
	script_run(20);
	script.fault[1][ACTIVITY_DATALOADER] = 30 * MS;
	script_run(20);
	script.fault[6][ACTIVITY_OPTIMIZER] = 80 * MS;
	script_run(20);
	script.unsplit = true;
	script.fault[1][ACTIVITY_DATALOADER] = script.fault[6][ACTIVITY_OPTIMIZER] = 0;
	script_run(20);
	assert_int_equal(script_said(1, ACTIVITY_DATALOADER)->finding.state, FINDING_CLOSED);
	script_end();
}

/* Steps of 800 ms: what rank 1 lost is over; five such steps later nothing of it hides what rank 2 loses. */
TEST(what_is_over_hides_nothing)
{
	uint64_t begin_ns;

	script_begin(4);
	script_scale(8);
	script_run(120);
	script.fault[1][ACTIVITY_OUTSIDE] = 8;
	script_run(60);
	script.fault[1][ACTIVITY_OUTSIDE] = 0;
	for (int i = 0; i < 6; i++)
		script_step();
	begin_ns = script.now_ns;
	script.fault[2][ACTIVITY_DATALOADER] = 160 * MS;
	script_run(9);
	assert_non_null(script_said(2, ACTIVITY_DATALOADER));
	assert_true(script_said(2, ACTIVITY_DATALOADER)->finding.since_ns < begin_ns + 1000000000);
	script_end();
}

/* Rank 1 loses 12 s in a step, and the others wait for it up to nine steps later: it is one loss, and ends with it.
 * With L0 alone. */
TEST(what_others_lose_later_is_the_same_loss)
{
	for (unsigned ahead = 0; ahead <= SCRIPT_AHEAD; ahead++) {
		const struct said *said;

		script_begin(2);
		script_cards();
		script.ahead = ahead;
		script_run(60);
		script.once[1][ACTIVITY_OUTSIDE] = 12;
		script_step();
		script_run(30);
		said = script_only(1, ACTIVITY_OUTSIDE);
		assert_true(script_cost() > 0.95 * script.lost);
		assert_float_equal(
			(double)(said->finding.until_ns - said->finding.since_ns) * 1e-9, 12.1 + 0.1 * ahead, 0.11);
		script_end();
	}
}

/* Where hosts synchronize in each tenth step alone, a rank that is slow in each step is no stall: a decision is made
 * each second. */
TEST(ranks_that_are_apart_in_short_steps_are_judged_each_second)
{
	script_begin(2);
	script_cards();
	script.ahead = 9;
	script.in_sync = true;
	script_run(60);
	script.fault[1][ACTIVITY_OUTSIDE] = 0.35;
	script_run(20);
	script.fault[1][ACTIVITY_OUTSIDE] = 0;
	script_run(20);
	assert_true(script_only(1, ACTIVITY_OUTSIDE)->first_s < 62.5);
	script_end();
}

/* Attribution is over five steps: of two ranks in turn the second one is named as most of these are its own. */
TEST(the_next_culprit_is_named_after_some_steps)
{
	double begun_s;

	script_begin(4);
	script_scale(10);
	script_run(60);
	script.fault[1][ACTIVITY_DATALOADER] = 0.5;
	script_run(40);
	begun_s = script_s();
	script.fault[1][ACTIVITY_DATALOADER] = 0;
	script.fault[2][ACTIVITY_DATALOADER] = 0.5;
	script_run(40);
	assert_non_null(script_said(2, ACTIVITY_DATALOADER));
	begun_s = script_said(2, ACTIVITY_DATALOADER)->first_s - begun_s;
	assert_true(begun_s > 7.5 && begun_s < 10.5);
	script_end();
}

/* L1 is turned on before the slow-down, long enough to be learned or not, or by it. */
TEST(waits_that_begin_later_name_the_rank)
{
	static const unsigned before_s[] = {7, 3, 0};

	for (size_t i = 0; i < sizeof(before_s) / sizeof(before_s[0]); i++) {
		script_begin(2);
		script_run(60);
		script.l1 = before_s[i] > 0;
		script.transfer = 0;
		script_run(before_s[i]);
		script.fault[1][ACTIVITY_BACKWARD] = 40 * MS;
		script_run(4);
		script.l1 = true;
		script_run(40);
		assert_non_null(script_said(1, ACTIVITY_BACKWARD));
		assert_null(script_said(0, ACTIVITY_BACKWARD));
		script_end();
	}
}

/* In the first three ticks with operations rank 1 alone waits 25 ms, or no rank does. Later all do: nobody is named. */
TEST(odd_waits_of_a_few_ticks_are_not_the_usual)
{
	for (int odd = 0; odd < 2; odd++) {
		script_begin(4);
		script_run(60);
		script.l1 = true;
		for (int i = 0; i < 31; i++) {
			script.late[1] = odd ? 25 * MS : 0;
			script_step();
		}
		for (int i = 0; i < 250; i++) {
			for (int r = 0; r < 4; r++)
				script.late[r] = 25 * MS;
			script_step();
		}
		script_only(-1, ACTIVITY_BACKWARD);
		script.slack = INFINITY;
		script_end();
	}
}

/* Rank 0 has more to do and waits less than others: after seven ticks that is known, and slow transfers are the job's.
 */
TEST(usual_waits_are_known_after_some_ticks)
{
	script_begin(4);
	script.fault[0][ACTIVITY_FORWARD] = 30 * MS;
	script_run(60);
	script.l1 = true;
	script_run(8);
	script.transfer = 25 * MS;
	script_run(20);
	script_expect(2);
	assert_non_null(script_said(-1, ACTIVITY_BACKWARD));
	assert_non_null(script_said(0, ACTIVITY_FORWARD));
	script.slack = INFINITY;
	script_end();
}

/* Steps of 5 s open at 1 s lost, and, while operations lack records, at 2 s. */
static double opens_after(uint64_t lost_records, int before)
{
	double begun_s;

	script_begin(4);
	script_cards();
	script.l1 = true;
	script_scale(50);
	script_run(60);
	script.lost_records = lost_records;
	for (int i = 0; i < before; i++)
		script_step();
	begun_s = script_s();
	script.fault[1][ACTIVITY_DATALOADER] = 0.4;
	script_run(100);
	script_only(1, ACTIVITY_DATALOADER);
	begun_s = (script.said[0].first_s - begun_s) / 5.4;
	script_end();
	return begun_s;
}

TEST(lost_records_raise_the_limit)
{
	assert_in_range((unsigned)(opens_after(0, 0) + 0.5), 3, 3);
	assert_in_range((unsigned)(opens_after(1, 40) + 0.5), 6, 6);
	assert_in_range((unsigned)(opens_after(1, 0) + 0.5), 5, 5);
}

TEST(ranks_that_are_not_here_are_no_evidence)
{
	script_begin(8);
	script_run(60);
	for (int i = 0; i < 1200; i++) {
		script.missing[3] = i % 3 != 0;
		script.missing[6] = i > 100 && i < 400;
		script_step();
	}
	script_expect(0);
	script.missing[3] = script.missing[6] = false;
	script.fault[6][ACTIVITY_DATALOADER] = 30 * MS;
	for (int i = 0; i < 300; i++) {
		script.missing[3] = i % 3 != 0;
		script_step();
	}
	script_only(6, ACTIVITY_DATALOADER);
	script_end();
}

TEST(steps_that_most_ranks_lack_are_not_judged)
{
	script_begin(4);
	script_run(60);
	script.missing[0] = script.missing[1] = true;
	script.fault[3][ACTIVITY_DATALOADER] = 30 * MS;
	script_run(60);
	script_expect(0);
	script_end();
}

/* Actors and servers of parameters are ranks without steps. */
TEST(a_job_of_whose_ranks_one_has_steps_is_judged)
{
	const struct said *said;

	script_begin(4);
	script.missing[0] = script.missing[1] = script.missing[2] = true;
	script_run(60);
	script.fault[3][ACTIVITY_DATALOADER] = 30 * MS;
	script_run(60);
	said = script_only(-1, ACTIVITY_DATALOADER);
	assert_true(fabs(said->finding.slowdown - 1.3) < 0.02);
	assert_true(fabs(said->finding.evidence[0].value - 34e6) < 2e6);
	script_end();
}

TEST(ranks_that_come_later_are_learned_first)
{
	for (int l1 = 0; l1 < 2; l1++) {
		script_begin(6);
		script.l1 = l1;
		script.ranks = 4;
		script_run(60);
		script.ranks = 6;
		script_run(120);
		script_expect(0);
		script.fault[5][ACTIVITY_DATALOADER] = 30 * MS;
		script_run(30);
		script_only(5, ACTIVITY_DATALOADER);
		script_end();
	}
}

TEST(ranks_may_go)
{
	script_begin(6);
	script_run(60);
	script.ranks = 4;
	script_run(60);
	script_expect(0);
	script.fault[1][ACTIVITY_DATALOADER] = 30 * MS;
	script_run(30);
	script_only(1, ACTIVITY_DATALOADER);
	script_end();
}

TEST(too_many_ranks_are_refused)
{
	const struct frame frame = {.ranks = 1000000, .class = FRAME_TRAIN};
	const struct judge_sink sink = {.finding = script_finding};
	struct judge_options options;
	uint64_t id = 1;
	struct judge *judge;
	static struct frame_rank ranks[1000000];
	struct frame of = frame;

	of.rank = ranks;
	judge_options_default(&options);
	judge = judge_new(&options, "job", &sink, &id);
	assert_true(judge_frame(judge, &of, NULL) < 0);
	judge_free(judge);
}

/* Each fault costs its own part, and all together no more than the job lost. */
TEST(costs_of_faults_that_overlap_add_up)
{
	script_begin(8);
	script.fault[7][ACTIVITY_OPTIMIZER] = 10 * MS;
	script_run(60);
	for (int i = 0; i < 10; i++) {
		script.fault[1][ACTIVITY_DATALOADER] = 30 * MS;
		script_run(20);
		script.fault[2][ACTIVITY_OUTSIDE] = 35 * MS;
		script_run(20);
		script.fault[1][ACTIVITY_DATALOADER] = 0;
		script_all(ACTIVITY_FORWARD, 12 * MS);
		script_run(20);
		script.fault[2][ACTIVITY_OUTSIDE] = 0;
		script_run(20);
		script_all(ACTIVITY_FORWARD, 0);
		script_run(30);
	}
	script_close();
	assert_true(script_cost() > 0.8 * script.lost);
	script_over();
}

/* Parameters are averaged in every tenth step: only there the others wait, outside of all stages. */
TEST(who_is_waited_for_every_few_steps_costs_all_of_it)
{
	for (size_t ranks = 2; ranks <= 4; ranks++) {
		const struct said *said;

		script_begin(ranks);
		script.waiting = ACTIVITY_OUTSIDE;
		script.ahead = SCRIPT_AHEAD;
		script.in_sync = true;
		script_run(20);
		script.fault[1][ACTIVITY_FORWARD] = 50 * MS;
		script_run(60);
		said = script_only(1, ACTIVITY_FORWARD);
		assert_true(fabs(said->finding.slowdown - 1.5) < 0.05);
		script_close();
		assert_true(script_cost() > 0.9 * script.lost);
		script_over();
	}
}

TEST_MAIN(NULL, NULL)
