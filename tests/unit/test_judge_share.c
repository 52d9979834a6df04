/* SPDX-License-Identifier: Apache-2.0 */
/* Whose growth it is: rank and activity, from each of the witnesses. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/judge_script.h"

#define LEARN_S 20

/* A quarter of the ranks' step for half a minute. */
static const struct said *slow(int32_t rank, enum activity activity, enum activity said)
{
	script_run(LEARN_S);
	script.fault[rank][activity] = 25 * MS;
	script_run(30);
	script.fault[rank][activity] = 0;
	script_run(20);
	return script_only(rank, said);
}

TEST(activities_that_hold_no_wait_are_named)
{
	static const struct {
		enum activity activity;
		enum finding_cause cause;
	} rows[] = {{ACTIVITY_OUTSIDE, CAUSE_PYTHON}, {ACTIVITY_DATALOADER, CAUSE_DATALOADER},
		{ACTIVITY_GC, CAUSE_GARBAGE_COLLECTION}, {ACTIVITY_OPTIMIZER, CAUSE_COMPUTE},
		{ACTIVITY_ZERO_GRAD, CAUSE_COMPUTE}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int kind = 0; kind < 3; kind++) {
			const struct said *said;

			script_begin(kind ? 4 : 2);
			if (kind == 2)
				script_cards();
			said = slow(1, rows[i].activity, rows[i].activity);
			assert_int_equal(said->finding.cause,
				kind == 2 && rows[i].cause == CAUSE_COMPUTE ? CAUSE_HOST : rows[i].cause);
			assert_int_equal(said->finding.side, FINDING_SIDE_HOST);
			assert_int_equal(said->finding.severity, SEVERITY_WARNING);
			assert_true(fabs(said->finding.slowdown - 1.25) < 0.02);
			assert_true(script_cost() > 0.95 * script.lost);
			assert_true(strstr(said->finding.sentence, "rank 1 (node-a") != NULL);
			script_end();
		}
	}
}

TEST(forward_without_cards_is_own_work)
{
	const struct said *said;

	script_begin(2);
	said = slow(1, ACTIVITY_FORWARD, ACTIVITY_FORWARD);
	assert_int_equal(said->finding.cause, CAUSE_COMPUTE);
	script_end();
}

TEST(forward_on_two_cards_is_the_jobs)
{
	script_begin(2);
	script_cards();
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_FORWARD] = 25 * MS;
	script_run(60);
	for (size_t i = 0; i < script.n_said; i++)
		assert_int_equal(script.said[i].finding.rank, -1);
	script_end();
}

/* FSDP marks what gathers its parameters. */
TEST(a_rank_may_wait_in_a_mark)
{
	script_begin(2);
	script.waiting = ACTIVITY_MARK;
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_BACKWARD] = 25 * MS;
	script_run(30);
	assert_null(script_said(0, ACTIVITY_MARK));
	script_end();
}

TEST(backward_without_a_second_witness_is_the_jobs)
{
	script_begin(2);
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_BACKWARD] = 25 * MS;
	script_run(60);
	script_only(-1, ACTIVITY_BACKWARD);
	script_end();
}

TEST(cpu_time_tells_who_computes_in_backward)
{
	const struct said *said;

	script_begin(3);
	script.cpu = true;
	said = slow(2, ACTIVITY_BACKWARD, ACTIVITY_BACKWARD);
	assert_int_equal(said->finding.cause, CAUSE_COMPUTE);
	script_close();
	assert_true(script_cost() > 0.9 * script.lost);
	script_over();
}

TEST(what_only_cpu_time_tells_is_of_no_activity_that_is_known)
{
	script_begin(2);
	script.cpu = true;
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_DATALOADER] = 30 * MS;
	script.fault[1][ACTIVITY_BACKWARD] = 40 * MS;
	script_run(30);
	script_expect(1);
	assert_non_null(script_said(1, ACTIVITY_BACKWARD));
	script_end();
}

/* Less than half of the growth is no witness: what else the rank does may take CPU time, too. Of 40 ms it explains 24,
 * or 16; what explains half is behind all of it. */
TEST(cpu_time_must_explain_half_of_the_growth)
{
	for (int more = 0; more < 2; more++) {
		script_begin(3);
		for (int r = 0; r < 3; r++)
			script.host[r].cpu_ns = 50000000;
		script_run(LEARN_S);
		script.fault[2][ACTIVITY_BACKWARD] = 40 * MS;
		script.host[2].cpu_ns += more ? 24000000 : 16000000;
		script_run(60);
		assert_true(fabs(script_only(more ? 2 : -1, ACTIVITY_BACKWARD)->finding.slowdown - 1.4) < 0.01);
		script_end();
	}
}

/* A fifth of the growth in another rank's data loading does not explain it. */
TEST(cpu_time_counts_beside_a_small_own_growth)
{
	script_begin(3);
	script.cpu = true;
	script_run(LEARN_S);
	script.fault[0][ACTIVITY_DATALOADER] = 8 * MS;
	script.fault[2][ACTIVITY_BACKWARD] = 40 * MS;
	script_run(60);
	assert_non_null(script_said(2, ACTIVITY_BACKWARD));
	assert_null(script_said(0, ACTIVITY_DATALOADER));
	script_end();
}

/* Rank 1 has more forward, and has `sync` s of its card's work left where it synchronizes; rank 0 waits for it in
 * `waiting`. */
static void forward_on_cards(double usual, double sync, enum activity waiting)
{
	script_begin(2);
	script_cards();
	script.waiting = waiting;
	script.usual[ACTIVITY_SYNC] = usual;
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_FORWARD] = 25 * MS;
	script.fault[1][ACTIVITY_SYNC] = sync - usual;
	script_run(30);
}

TEST(waits_show_who_computes_in_backward)
{
	script_begin(2);
	script.l1 = true;
	script.transfer = 5 * MS;
	slow(1, ACTIVITY_BACKWARD, ACTIVITY_BACKWARD);
	assert_true(script_cost() > 0.95 * script.lost);
	script_end();
}

TEST(on_cards_waits_show_who_computes)
{
	static const struct {
		double lead;
		enum finding_side side;
		enum finding_cause cause;
	} rows[] = {{10 * MS, FINDING_SIDE_CARD, CAUSE_CARD}, {7.5 * MS, FINDING_SIDE_CARD, CAUSE_CARD},
		{6 * MS, FINDING_SIDE_HOST, CAUSE_HOST}, {1 * MS, FINDING_SIDE_HOST, CAUSE_HOST}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct said *said;

		script_begin(4);
		script_cards();
		script.l1 = true;
		for (int r = 0; r < 4; r++)
			script.lead[r] = 10 * MS;
		script.waiting = ACTIVITY_SYNC;
		script_run(LEARN_S);
		script.fault[3][ACTIVITY_BACKWARD] = 25 * MS;
		script.lead[3] = rows[i].lead;
		script_run(60);
		said = script_only(3, ACTIVITY_BACKWARD);
		assert_int_equal(said->finding.side, rows[i].side);
		assert_int_equal(said->finding.cause, rows[i].cause);
		script_end();
	}
}

/* Hosts copy from memory that is not pinned, and wait there for their cards. */
TEST(where_hosts_wait_outside_for_cards_the_queue_shows_whose_card_works)
{
	for (int on_card = 0; on_card < 2; on_card++) {
		const struct said *said;

		script_begin(2);
		script_cards();
		script.l1 = true;
		script.waiting = ACTIVITY_OUTSIDE;
		script.lead[0] = script.lead[1] = 20 * MS;
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_OUTSIDE] = 40 * MS;
		script.lead[0] += 40 * MS;
		script.lead[1] += on_card ? 40 * MS : 0;
		script_run(30);
		said = script_only(1, on_card ? ACTIVITY_COMPUTE : ACTIVITY_OUTSIDE);
		assert_int_equal(said->finding.side, on_card ? FINDING_SIDE_CARD : FINDING_SIDE_HOST);
		assert_int_equal(said->finding.cause, on_card ? CAUSE_CARD : CAUSE_PYTHON);
		script_end();
	}
}

/* Where the others wait moves: the rank is alone in backward, or not. */
TEST(work_on_a_card_is_one_episode_wherever_others_wait)
{
	script_begin(2);
	script_cards();
	script.l1 = true;
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_BACKWARD] = 40 * MS;
	for (int i = 0; i < 4; i++) {
		script.waiting = i % 2 ? ACTIVITY_SYNC : ACTIVITY_BACKWARD;
		script_run(6);
	}
	script_only(1, ACTIVITY_COMPUTE);
	script_end();
	/* Alone in forward, then in backward. */
	script_begin(2);
	script_cards();
	script.l1 = true;
	script.waiting = ACTIVITY_SYNC;
	script_run(LEARN_S);
	for (int i = 0; i < 4; i++) {
		script.fault[1][ACTIVITY_FORWARD] = i % 2 ? 0 : 40 * MS;
		script.fault[1][ACTIVITY_BACKWARD] = i % 2 ? 40 * MS : 0;
		script_run(6);
	}
	script_only(1, ACTIVITY_FORWARD);
	script_end();
}

TEST(a_storm_of_synchronizations_is_own_work)
{
	for (unsigned syncs = 5; syncs <= 9; syncs += 4) {
		script_begin(2);
		script_cards();
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_SYNC] = 25 * MS;
		script.syncs[1] = syncs;
		script_run(60);
		if (syncs > 7)
			assert_int_equal(script_only(1, ACTIVITY_SYNC)->finding.cause, CAUSE_SYNCHRONIZATION);
		else
			assert_null(script_said(1, ACTIVITY_SYNC));
		script_end();
	}
}

/* What follows a storm of synchronizations is not their doing. */
TEST(a_storm_that_is_over_owns_no_work)
{
	uint64_t from_ns;

	script_begin(2);
	script_cards();
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_SYNC] = 25 * MS;
	script.syncs[1] = 800;
	script_run(10);
	script.fault[1][ACTIVITY_SYNC] = 0;
	script.syncs[1] = 1;
	script.fault[1][ACTIVITY_OUTSIDE] = 25 * MS;
	from_ns = script.now_ns;
	script_run(20);
	script_expect(2);
	assert_true(script_said(1, ACTIVITY_OUTSIDE)->finding.since_ns < from_ns + 2000000000ULL);
	script_end();
}

/* Slow in two activities at one time, it has one finding, of the larger, and the other is evidence. */
TEST(the_second_activity_is_evidence)
{
	for (int more = 0; more <= 1; more++) {
		const struct finding_evidence *evidence;

		script_begin(3);
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_OUTSIDE] = 30 * MS;
		script.fault[1][ACTIVITY_DATALOADER] = more ? 20 * MS : 5 * MS;
		script_run(30);
		evidence = script_evidence(&script_only(1, ACTIVITY_OUTSIDE)->finding, "dataloader");
		assert_true((evidence != NULL) == (more == 1));
		assert_true(!evidence || evidence->value > evidence->peers + 10e6);
		script_end();
	}
}

/* Rank 1 calls `.item()` often, and waits there for rank 0, whose Python takes as long, or takes time of its own beside
 * it. */
TEST(synchronizations_that_wait_for_another_are_no_work)
{
	for (double python = 10 * MS; python <= 25 * MS; python += 15 * MS) {
		script_begin(2);
		script_cards();
		script_run(LEARN_S);
		script.fault[0][ACTIVITY_OUTSIDE] = python;
		script.fault[1][ACTIVITY_SYNC] = 25 * MS;
		script.syncs[1] = 800;
		script_run(60);
		if (python < 25 * MS)
			script_only(1, ACTIVITY_SYNC);
		else
			script_only(0, ACTIVITY_OUTSIDE);
		script_end();
	}
}

/* Nobody is named, and no activity grew on both ranks but a little garbage collection: most of the growth is
 * elsewhere. */
TEST(a_slow_job_is_where_most_of_its_growth_is)
{
	script_begin(2);
	script_cards();
	script.usual[ACTIVITY_SYNC] = 0.5 * MS;
	script_run(LEARN_S);
	script.fault[0][ACTIVITY_SYNC] = script.fault[1][ACTIVITY_BACKWARD] = 25 * MS;
	script_all(ACTIVITY_GC, 0.01 * MS);
	script_run(30);
	assert_true(script.n_said > 0);
	for (size_t i = 0; i < script.n_said; i++)
		assert_int_not_equal(script.said[i].finding.activity, ACTIVITY_GC);
	script_end();
}

/* All ranks: their cards have more to do, or all call `.item()`. */
TEST(all_that_wait_for_their_cards_compute)
{
	for (unsigned syncs = 1; syncs <= 800; syncs += 799) {
		const struct said *said;
		const struct finding_evidence *evidence;

		script_begin(2);
		script_cards();
		script_run(LEARN_S);
		script_all(ACTIVITY_SYNC, 25 * MS);
		script.syncs[0] = script.syncs[1] = syncs;
		script_run(30);
		said = script_only(-1, syncs > 1 ? ACTIVITY_SYNC : ACTIVITY_COMPUTE);
		assert_int_equal(said->finding.cause, syncs > 1 ? CAUSE_SYNCHRONIZATION : CAUSE_COMPUTE);
		evidence = script_evidence(&said->finding, activity_word(said->finding.activity));
		assert_true(evidence->value > evidence->peers + 20e6);
		script_end();
	}
}

/* Synchronizations, and the Python around them, by turns. */
TEST(code_that_synchronizes_is_one_episode)
{
	script_begin(4);
	script_cards();
	script_run(LEARN_S);
	script.syncs[1] = 800;
	for (int i = 0; i < 10; i++) {
		script.fault[1][ACTIVITY_SYNC] = i % 2 ? 60 * MS : 5 * MS;
		script.fault[1][ACTIVITY_OUTSIDE] = i % 2 ? 5 * MS : 60 * MS;
		script_run(6);
	}
	script_expect(1);
	assert_int_equal(script.said[0].finding.rank, 1);
	script_end();
}

/* Evidence is of the tick that lost most, and the activity is the one that lost it. */
TEST(an_episode_is_named_by_its_worst_moment)
{
	const struct finding *said;

	script_begin(4);
	script_cards();
	script_run(LEARN_S);
	script.syncs[1] = 800;
	script.fault[1][ACTIVITY_SYNC] = 30 * MS;
	script_run(10);
	assert_non_null(script_only(1, ACTIVITY_SYNC));
	script.fault[1][ACTIVITY_SYNC] = 0;
	script.fault[1][ACTIVITY_OPTIMIZER] = 55 * MS;
	script_run(10);
	said = &script_only(1, ACTIVITY_OPTIMIZER)->finding;
	assert_string_equal(said->evidence[0].name, "optimizer");
	assert_true(said->evidence[0].value > 40e6 && said->evidence[0].peers < 12e6);
	script_end();
}

/* Beside what is slow. */
TEST(synchronizations_are_not_said_of_a_slow_loader)
{
	script_begin(4);
	script_cards();
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_DATALOADER] = 60 * MS;
	script.syncs[1] = 9;
	script_run(60);
	assert_null(strstr(script_only(1, ACTIVITY_DATALOADER)->finding.sentence, "synchronizations"));
	script_end();
}

/* Each of 800 `.item()` takes microseconds, and the Python around it more: outside all stages, in a closure of the
 * optimizer, in a hook. It is named by where it runs, and the sentence says how often it synchronizes. */
TEST(code_that_synchronizes_is_no_wait)
{
	static const enum activity in[] = {ACTIVITY_OUTSIDE, ACTIVITY_OPTIMIZER, ACTIVITY_FORWARD, ACTIVITY_BACKWARD};

	for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++) {
		for (unsigned syncs = 1; syncs <= 800; syncs += 799) {
			script_begin(2);
			script_cards();
			script.waiting = in[i] == ACTIVITY_BACKWARD ? ACTIVITY_SYNC : ACTIVITY_BACKWARD;
			script_run(LEARN_S);
			script.fault[1][ACTIVITY_SYNC] = 5 * MS;
			script.fault[1][in[i]] = 20 * MS;
			script.syncs[1] = syncs;
			script_run(60);
			if (syncs > 1) {
				assert_non_null(strstr(script_only(1, in[i])->finding.sentence,
					"; 800 device synchronizations per step (1 before)"));
				assert_int_equal(script.said[0].finding.cause, CAUSE_SYNCHRONIZATION);
			} else if (!activity_may_wait(in[i], true))
				assert_null(strstr(script_only(1, in[i])->finding.sentence, "synchronizations"));
			else
				assert_null(script_said(1, in[i]));
			script_end();
		}
	}
}

TEST(a_rank_whose_card_has_nothing_to_do_is_late)
{
	forward_on_cards(3 * MS, 2.3 * MS, ACTIVITY_SYNC);
	assert_int_equal(script_only(1, ACTIVITY_FORWARD)->finding.side, FINDING_SIDE_HOST);
	assert_int_equal(script.said[0].finding.cause, CAUSE_HOST);
	script_end();
	/* Its card has work. */
	forward_on_cards(3 * MS, 2.5 * MS, ACTIVITY_SYNC);
	assert_true(script.n_said > 0 && !script_said(1, ACTIVITY_FORWARD));
	script_end();
	/* Too little to decide by is left usually. */
	forward_on_cards(0.9 * MS, 0, ACTIVITY_SYNC);
	assert_true(script.n_said > 0 && !script_said(1, ACTIVITY_FORWARD));
	script_end();
	/* Nobody waits for it where it synchronizes. */
	forward_on_cards(3 * MS, 0, ACTIVITY_BACKWARD);
	assert_true(script.n_said > 0 && !script_said(1, ACTIVITY_FORWARD));
	script_end();
}

/* Rank 0 waits for its queue in each `period`-th step, the last rank's card becomes slower by 25 %; `each` s of a step
 * all wait. */
static void logs_now_and_then(size_t ranks, int period, double each)
{
	script_begin(ranks);
	script_cards();
	script.usual[ACTIVITY_SYNC] = each;
	for (size_t r = 0; r < ranks; r++)
		script.syncs[r] = each > 0;
	for (int step = 0; step < 900; step++) {
		double times = step >= 600 ? 1.25 : 1;

		script.fault[ranks - 1][ACTIVITY_BACKWARD] = (times - 1) * 100 * MS;
		for (size_t r = 0; r < ranks; r++)
			script.fault[r][ACTIVITY_SYNC] = (times - 1) * each;
		if (step % period == 0) {
			script.once[0][ACTIVITY_SYNC] = 300 * MS * times;
			for (size_t r = 1; r < ranks; r++)
				script.once[r][ACTIVITY_BACKWARD] = 300 * MS * times;
		}
		script_step();
	}
	assert_true(script.n_said > 0);
	for (size_t i = 0; i < script.n_said; i++)
		assert_int_equal(script.said[i].finding.rank, -1);
	script_end();
}

TEST(between_two_waits_nobody_is_late)
{
	logs_now_and_then(2, 50, 0);
	logs_now_and_then(4, 100, 2 * MS);
}

/* Each tenth step waits for its card, the others synchronize for a moment; between two such waits the last one
 * counts. */
TEST(a_rank_that_synchronizes_now_and_then_is_late)
{
	script_begin(2);
	script_cards();
	script.usual[ACTIVITY_SYNC] = 0.1 * MS;
	for (int step = 0; step < 600; step++) {
		bool slow = step >= 300;

		script.fault[1][ACTIVITY_FORWARD] = slow ? 100 * MS : 0;
		if (step % 10 == 0) {
			script.once[0][ACTIVITY_SYNC] = (slow ? 60 : 30) * MS;
			script.once[1][ACTIVITY_SYNC] = (slow ? 10 : 30) * MS;
		}
		script_step();
	}
	assert_non_null(script_said(1, ACTIVITY_FORWARD));
	assert_true(script_said(1, ACTIVITY_FORWARD)->finding.cost_card_hours > 0.8 * script_cost() / 3600 * 2);
	script_end();
}

/* Its host is late, and it finds its queue full in one of ten steps. */
TEST(a_rank_that_waits_in_one_of_ten_steps_is_late)
{
	script_begin(2);
	script_cards();
	script.usual[ACTIVITY_SYNC] = 30 * MS;
	for (int step = 0; step < 600; step++) {
		script.fault[1][ACTIVITY_FORWARD] = script.fault[0][ACTIVITY_SYNC] = step >= 300 ? 100 * MS : 0;
		script.fault[1][ACTIVITY_SYNC] = step >= 300 ? -29 * MS : 0;
		script.once[1][ACTIVITY_SYNC] = step >= 300 && step % 10 == 0 ? 59 * MS : 0;
		script_step();
	}
	assert_non_null(script_said(1, ACTIVITY_FORWARD));
	script.slack = INFINITY;
	script_end();
}

/* The card of a rank becomes slower. Both wait for their cards in each tenth step, and longer there, rank 0 a little
 * less: between two waits it is not late. */
TEST(a_rank_that_waits_longer_now_and_then_is_not_late)
{
	script_begin(2);
	script_cards();
	script.usual[ACTIVITY_SYNC] = 0.1 * MS;
	for (int step = 0; step < 600; step++) {
		bool slow = step >= 300;

		for (size_t r = 0; r < 2; r++) {
			script.fault[r][ACTIVITY_BACKWARD] = slow ? 100 * MS : 0;
			if (step % 10 == 0)
				script.once[r][ACTIVITY_SYNC] = (slow ? 52 + 8 * (double)r : 30) * MS;
		}
		script_step();
	}
	assert_true(script.n_said > 0);
	for (size_t i = 0; i < script.n_said; i++)
		assert_int_equal(script.said[i].finding.rank, -1);
	script_end();
}

/* Of a job that synchronizes often: twice as often and a few more. */
TEST(synchronizations_are_compared_with_the_usual_ones)
{
	for (unsigned syncs = 190; syncs <= 230; syncs += 40) {
		script_begin(2);
		script_cards();
		script.syncs[0] = script.syncs[1] = 100;
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_SYNC] = 25 * MS;
		script.syncs[1] = syncs;
		script_run(60);
		assert_true((script_said(1, ACTIVITY_SYNC) != NULL) == (syncs > 205));
		script_end();
	}
}

/* Three wait in synchronization, and one has more forward: on cards neither shows whose growth it is. */
TEST(the_odd_one_out_of_four_is_named)
{
	script_begin(4);
	script_cards();
	script.waiting = ACTIVITY_SYNC;
	slow(2, ACTIVITY_FORWARD, ACTIVITY_FORWARD);
	script_end();
}

/* Others differ from their peers by less than a third of the growth, or by more. */
TEST(the_others_are_alike)
{
	for (int half = 0; half < 2; half++) {
		double differ = half ? 11 * MS : 9 * MS;

		script_begin(5);
		script_cards();
		script.waiting = ACTIVITY_SYNC;
		script_run(LEARN_S);
		script.fault[2][ACTIVITY_FORWARD] = 30 * MS;
		script.fault[0][ACTIVITY_BACKWARD] = script.fault[1][ACTIVITY_BACKWARD] = differ;
		script.fault[3][ACTIVITY_SYNC] = script.fault[4][ACTIVITY_SYNC] = differ;
		script_run(60);
		assert_true((script_said(2, ACTIVITY_FORWARD) == NULL) == half);
		script_end();
	}
}

/* Each waits for the other; the third one for both. */
TEST(two_culprits_of_three_are_both_named)
{
	script_begin(3);
	script.l1 = true;
	script_run(LEARN_S);
	script.fault[0][ACTIVITY_BACKWARD] = 40 * MS;
	script.fault[1][ACTIVITY_BACKWARD] = 36 * MS;
	script_run(60);
	assert_non_null(script_said(0, ACTIVITY_BACKWARD));
	assert_non_null(script_said(1, ACTIVITY_BACKWARD));
	assert_null(script_said(2, ACTIVITY_BACKWARD));
	script_end();
}

TEST(two_culprits_are_both_named)
{
	static const int32_t ranks[] = {8, 2};

	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		int32_t last = ranks[i] - 1;

		script_begin((size_t)ranks[i]);
		script_run(LEARN_S);
		script.fault[0][ACTIVITY_DATALOADER] = 30 * MS;
		script.fault[last][ACTIVITY_OPTIMIZER] = 30 * MS;
		script_run(60);
		script_expect(2);
		assert_non_null(script_said(0, ACTIVITY_DATALOADER));
		assert_non_null(script_said(last, ACTIVITY_OPTIMIZER));
		script_close();
		assert_true(script_cost() > 0.9 * script.lost);
		script_over();
	}
}

/* Where the larger ends, the smaller one remains: it cost nothing before. */
TEST(a_smaller_culprit_hides_behind_a_larger_one)
{
	for (int near = 0; near < 2; near++) {
		script_begin(8);
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_DATALOADER] = 30 * MS;
		script.fault[6][ACTIVITY_OPTIMIZER] = near ? 25 * MS : 20 * MS;
		script_run(60);
		script_expect(near ? 2 : 1);
		assert_non_null(script_said(1, ACTIVITY_DATALOADER));
		script_end();
	}
}

/* With operations its own work is what its role does not have in common; its activity shows that it goes on. */
TEST(a_hidden_one_goes_on_by_its_activity)
{
	script_begin(4);
	script.l1 = true;
	for (size_t r = 0; r < 4; r++)
		script.class[r] = r / 3; /* three are of one role */
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_DATALOADER] = 30 * MS;
	script_run(20);
	script.fault[2][ACTIVITY_OPTIMIZER] = 150 * MS;
	script_run(30);
	script.fault[2][ACTIVITY_OPTIMIZER] = 0;
	script_run(20);
	script_expect(2);
	assert_true(script_said(1, ACTIVITY_DATALOADER)->finding.since_ns < SCRIPT_BEGIN_NS + 22 * 1000000000ULL);
	assert_int_equal(script_said(1, ACTIVITY_DATALOADER)->finding.state, FINDING_OPEN);
	script_end();
}

/* Of ranks without cards forward holds waits where another rank's work explains the growth, but no longer ones than
 * that work. */
TEST(forward_that_takes_longer_than_others_work_is_no_wait)
{
	script_begin(4);
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_FORWARD] = 60 * MS;
	script.fault[3][ACTIVITY_DATALOADER] = 35 * MS;
	script_run(60);
	script_expect(1);
	assert_non_null(script_said(1, ACTIVITY_FORWARD));
	script_end();

	script_begin(4);
	script.waiting = ACTIVITY_FORWARD;
	script_run(LEARN_S);
	script.fault[3][ACTIVITY_DATALOADER] = 35 * MS;
	script_run(60);
	script_expect(1);
	assert_non_null(script_said(3, ACTIVITY_DATALOADER));
	script_end();
}

TEST(all_ranks_alike_are_the_job)
{
	static const enum activity activities[] = {
		ACTIVITY_FORWARD, ACTIVITY_OPTIMIZER, ACTIVITY_OUTSIDE, ACTIVITY_DATALOADER};

	for (size_t i = 0; i < sizeof(activities) / sizeof(activities[0]); i++) {
		for (int l1 = 0; l1 < 2; l1++) {
			const struct said *said;

			script_begin(4);
			script.l1 = l1;
			script_run(LEARN_S);
			script_all(activities[i], 25 * MS);
			script_run(30);
			said = script_only(-1, activities[i]);
			assert_int_equal(said->finding.kind, FINDING_SLOW_JOB);
			assert_true(script_evidence(&said->finding, "step_time")->peers > 0.99e8);
			script_end();
		}
	}
}

/* Most of the growth is on all ranks: rank 1 is named for what it has beyond them. */
TEST(what_grows_on_all_ranks_is_not_the_slowest_ones)
{
	script_begin(4);
	script_run(LEARN_S);
	script_all(ACTIVITY_OUTSIDE, 22 * MS);
	script.fault[1][ACTIVITY_OUTSIDE] = 40 * MS;
	script_run(30);
	assert_non_null(script_said(-1, ACTIVITY_OUTSIDE));
	assert_non_null(script_said(1, ACTIVITY_OUTSIDE));
	assert_true(fabs(script_said(1, ACTIVITY_OUTSIDE)->finding.slowdown - 1.18) < 0.02);
	script_end();
}

/* Rank 1 waits for rank 0 as ever; all sleep, for which L1 is turned on, so that the usual waits are not known. */
TEST(what_grows_on_all_ranks_is_nobodys_whoever_waits)
{
	script_begin(2);
	script_cards();
	script.fault[0][ACTIVITY_BACKWARD] = 20 * MS;
	script_run(LEARN_S);
	script.l1 = true;
	script_all(ACTIVITY_OUTSIDE, 40 * MS);
	script_run(12);
	assert_null(script_said(0, ACTIVITY_OUTSIDE));
	assert_non_null(script_said(-1, ACTIVITY_OUTSIDE));
	script.slack = INFINITY;
	script_end();
}

/* Lightning over gloo: ranks wait outside of all stages. L1, turned on for it, shows that it is a wait. */
TEST(a_wait_outside_of_all_stages_is_no_python)
{
	for (int apart = 0; apart < 2; apart++) {
		script_begin(2);
		script.waiting = ACTIVITY_OUTSIDE;
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_OUTSIDE] = 40 * MS;
		script_run(2);
		script.l1 = true;
		script.apart = apart;
		script_run(20);
		assert_true((script_said(1, ACTIVITY_OUTSIDE) != NULL) == apart);
		assert_null(script_said(0, ACTIVITY_OUTSIDE));
		script.slack = INFINITY;
		script_end();
	}
}

/* Work, waits and transfers add up: of ranks whose usual waits are known, a wait outside of all stages is no work that
 * all have. */
TEST(waits_among_stages_are_no_work_of_all)
{
	script_begin(2);
	script.waiting = ACTIVITY_OUTSIDE;
	script.l1 = true;
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_OUTSIDE] = 40 * MS;
	script_run(20);
	script_only(1, ACTIVITY_OUTSIDE);
	script.slack = INFINITY;
	script_end();
}

/* Once L1 has shown that ranks wait outside of all stages, and not in backward: who is slow there is named without
 * L1. */
TEST(where_ranks_wait_is_remembered)
{
	for (int seen = 0; seen < 2; seen++) {
		script_begin(2);
		script.waiting = ACTIVITY_OUTSIDE;
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_FORWARD] = 10 * MS; /* somebody waits */
		script.l1 = script.apart = seen;
		script_run(5);
		script.fault[1][ACTIVITY_FORWARD] = 0;
		script.l1 = script.apart = false;
		script_run(60);
		script.n_said = 0;
		script.fault[1][ACTIVITY_BACKWARD] = 40 * MS;
		script_run(20);
		assert_true((script_said(1, ACTIVITY_BACKWARD) != NULL) == seen);
		assert_true((script_said(0, ACTIVITY_OUTSIDE) != NULL) == !seen);
		script.slack = INFINITY;
		script_end();
	}
}

/* The host is late, and its card works on what was queued. */
TEST(what_a_device_queue_hides_is_no_finding)
{
	for (int l1 = 0; l1 < 2; l1++) {
		script_begin(4);
		script_cards();
		script.l1 = l1;
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_OUTSIDE] = 30 * MS;
		script.fault[1][ACTIVITY_BACKWARD] = -30 * MS;
		script_run(120);
		script_expect(0);
		script_end();
	}
}

/* Half of the growth: what the operations take is the job's, and the rank is named for the rest. */
TEST(transfers_are_the_jobs)
{
	script_begin(4);
	script_cards();
	script.l1 = true;
	script.transfer = 5 * MS;
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_BACKWARD] = 18 * MS;
	script.transfer += 18 * MS;
	script_run(60);
	assert_non_null(script_said(1, ACTIVITY_COMPUTE));
	assert_non_null(script_said(-1, ACTIVITY_BACKWARD));
	script_close();
	assert_true(script_cost() > 0.85 * script.lost);
	script_over();
}

/* Where scripts or frameworks call operations outside of all stages, the others wait there: for a rank's garbage
 * collection, or its loader. */
TEST(others_may_wait_outside_for_a_loader_or_gc)
{
	static const enum activity work[] = {ACTIVITY_GC, ACTIVITY_DATALOADER};

	for (size_t i = 0; i < 2; i++) {
		for (size_t ranks = 2; ranks < 5; ranks++) {
			script_begin(ranks);
			script.waiting = ACTIVITY_OUTSIDE;
			script_run(LEARN_S);
			script.fault[1][work[i]] = 60 * MS;
			script_run(40);
			script_only(1, work[i]);
			script_end();
		}
	}
	/* Longer than it could wait: its own. */
	script_begin(2);
	script_run(LEARN_S);
	script.fault[0][ACTIVITY_OUTSIDE] = 90 * MS;
	script.fault[1][ACTIVITY_GC] = 60 * MS;
	script_run(40);
	script_only(0, ACTIVITY_OUTSIDE);
	script_end();
}

/* One that spins while it waits computes nothing. */
TEST(cpu_time_is_no_witness_against_own_growth)
{
	script_begin(3);
	for (int r = 0; r < 3; r++)
		script.host[r].cpu_ns = 50000000;
	script_run(LEARN_S);
	script.fault[0][ACTIVITY_DATALOADER] = 40 * MS;
	script.host[2].cpu_ns += 40000000;
	script_run(60);
	script_only(0, ACTIVITY_DATALOADER);
	script_end();
}

/* Threads of rank 2 hold up its transfers, which take longer for all: its CPU time shows it. */
TEST(cpu_time_tells_whose_transfers_are_slow)
{
	for (int more = 0; more < 2; more++) {
		script_begin(4);
		script.l1 = true;
		script.transfer = 5 * MS;
		for (int r = 0; r < 4; r++)
			script.host[r].cpu_ns = 50000000;
		script_run(LEARN_S);
		script.transfer += 40 * MS;
		script.host[2].cpu_ns += more ? 100000000 : 0;
		script_run(60);
		assert_non_null(script_said(more ? 2 : -1, ACTIVITY_BACKWARD));
		script_expect(1);
		script_end();
	}
}

TEST(slow_transfers_alone_name_no_rank)
{
	script_begin(4);
	script_cards();
	script.l1 = true;
	script.transfer = 5 * MS;
	script_run(LEARN_S);
	script.transfer += 25 * MS;
	script_run(60);
	script_only(-1, ACTIVITY_BACKWARD);
	script_end();
}

/* The other rank waits longer than its forward takes, in backward: its forward is shown nevertheless. */
TEST(waits_are_a_part_of_all_that_may_hold_them)
{
	const struct finding *said;

	script_begin(2);
	script_cards();
	script.l1 = true;
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_FORWARD] = 40 * MS;
	script_run(30);
	said = &script_only(1, ACTIVITY_FORWARD)->finding;
	assert_true(fabs(said->evidence[0].value - 70e6) < 2e6);
	assert_true(said->evidence[0].peers > 15e6 && said->evidence[0].peers < 25e6);
	script_end();
}

/* What waits say of a fifth of the growth may be noise: the stages' word stands. */
TEST(small_waits_leave_the_word_to_stages)
{
	for (int more = 0; more < 2; more++) {
		double waits = more ? 16 * MS : 8 * MS;

		script_begin(4);
		script.l1 = true;
		script_run(LEARN_S);
		script.fault[2][ACTIVITY_DATALOADER] = 40 * MS;
		script.fault[1][ACTIVITY_BACKWARD] = waits;
		script.fault[1][ACTIVITY_SYNC] = 40 * MS - waits;
		script_run(60);
		assert_non_null(script_said(2, ACTIVITY_DATALOADER));
		script_end();
	}
}

TEST(two_ranks_of_ten_thousand_are_found)
{
	script_begin(SCRIPT_RANKS);
	script_scale(10);
	script_run(13);
	script.fault[4711][ACTIVITY_DATALOADER] = 1;
	script.fault[9999][ACTIVITY_GC] = 1;
	script_run(12);
	script_expect(2);
	assert_non_null(script_said(4711, ACTIVITY_DATALOADER));
	assert_non_null(script_said(9999, ACTIVITY_GC));
	script_end();
}

/* The last ranks are a pipeline stage whose work grows, or one of them alone is slow. With cards waits show it, without
 * CPU time. */
TEST(what_a_role_has_in_common_is_no_ranks)
{
	for (int i = 0; i < 8; i++) {
		bool cards = i & 1, alone = i & 2;
		int32_t role = i & 4 ? 2 : 4;

		script_begin(2 * (size_t)role);
		script.l1 = true;
		script.cpu = !cards;
		if (cards)
			script_cards();
		for (int32_t r = 0; r < 2 * role; r++)
			script.class[r] = (uint32_t)(r / role);
		script_run(LEARN_S);
		for (int32_t r = role; r < (alone ? role + 1 : 2 * role); r++)
			script.fault[r][cards ? ACTIVITY_FORWARD : ACTIVITY_BACKWARD] = 25 * MS;
		script_run(30);
		script_expect(1);
		assert_int_equal(script.said[0].finding.rank, alone ? role : -1);
		script_end();
	}
}

TEST_MAIN(NULL, NULL)
