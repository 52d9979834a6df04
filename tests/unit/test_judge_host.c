/* SPDX-License-Identifier: Apache-2.0 */
/* What the operating system took from ranks: who is held by it, and of which cause that is. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/judge_script.h"

#define LEARN_S 20

/* By whom: a process, another rank of the job, or its own process; another node has other processes of these
 * numbers. */
TEST(run_delay_tells_who_is_held_in_backward)
{
	static const struct {
		uint32_t pid[2];
		const char *host, *detail;
	} rows[] = {{{0, 0}, "node-a", "stress-ng (pid 4711)"}, {{4711, 12}, "node-a", "rank 0 (pid 4711)"},
		{{12, 4711}, "node-a", "stress-ng (pid 4711)"}, {{4711, 12}, "node-b", "stress-ng (pid 4711)"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct said *said;
		const struct finding_evidence *evidence;

		script_begin(2);
		for (int r = 0; r < 2; r++) {
			script.host[r].run_delay_ns = 1000000;
			script.who[r].pid = rows[i].pid[r];
		}
		snprintf(script.who[0].host, sizeof(script.who[0].host), "%s", rows[i].host);
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_BACKWARD] = 25 * MS;
		script.host[0].run_delay_ns = 3000000;
		script.host[1].run_delay_ns = 26000000;
		script.host[1].preemptor_pid = 4711;
		script.host[1].preemptor_ns = 20000000;
		strcpy(script.host[1].preemptor_name, "stress-ng");
		script_run(30);
		said = script_only(1, ACTIVITY_BACKWARD);
		assert_int_equal(said->finding.cause, CAUSE_PREEMPTION);
		evidence = script_evidence(&said->finding, "run_delay");
		assert_string_equal(evidence->detail, rows[i].detail);
		assert_true(fabs(evidence->value - 26e6) < 1e6 && fabs(evidence->peers - 3e6) < 1e5);
		script_end();
	}
}

/* Ranks that share their CPUs: what the others wait for CPUs, too, is no cause. */
TEST(who_is_preempted_no_more_than_its_peers_is_slow_by_itself)
{
	for (int alike = 0; alike <= 1; alike++) {
		script_begin(2);
		for (int r = 0; r < 2; r++)
			script.host[r].run_delay_ns = 1000000;
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_OUTSIDE] = 25 * MS;
		script.host[0].run_delay_ns = alike ? 26000000 : 3000000;
		script.host[1].run_delay_ns = 26000000;
		script_run(30);
		assert_int_equal(
			script_only(1, ACTIVITY_OUTSIDE)->finding.cause, alike ? CAUSE_PYTHON : CAUSE_PREEMPTION);
		script_end();
	}
}

/* What takes the CPUs of all ranks, or the limit of a control group that they share, is the cause of the job's
 * slow-down. */
TEST(what_the_system_takes_from_all_ranks_is_the_jobs)
{
	enum { PREEMPTED, LIMITED, ONE_ALONE, CASES };
	static const enum finding_cause cause[CASES] = {CAUSE_PREEMPTION, CAUSE_THROTTLING, CAUSE_COMPUTE};

	for (int i = 0; i < CASES; i++) {
		const struct said *said;

		script_begin(4);
		script.cards = true;
		script.who[3].pid = 100;
		for (int r = 0; r < 4; r++)
			script.host[r].run_delay_ns = script.host[r].throttled_ns = 1000000;
		script_run(LEARN_S);
		script_all(ACTIVITY_BACKWARD, 25 * MS);
		for (int r = 0; r < 4; r++) {
			script.host[r].run_delay_ns += i == PREEMPTED || (i == ONE_ALONE && r < 3) ? 24000000 : 0;
			script.host[r].throttled_ns += i == LIMITED ? 24000000 : 0;
		}
		script.host[2].preemptor_pid = 4711;
		script.host[2].preemptor_ns = 20000000;
		strcpy(script.host[2].preemptor_name, "stress-ng");
		script.host[1].preemptor_pid = 100; /* another rank of the job, and more of it */
		script.host[1].preemptor_ns = 22000000;
		script_run(30);
		said = script_only(-1, ACTIVITY_BACKWARD);
		assert_int_equal(said->finding.cause, cause[i]);
		if (i == PREEMPTED)
			assert_non_null(
				strstr(said->finding.sentence, " per step by stress-ng (pid 4711); 1 ms before"));
		script_end();
	}
}

/* Forward takes longer, and uses as much more CPU time, half of it, or a third. */
TEST(who_uses_no_more_cpu_time_sleeps)
{
	static const struct {
		unsigned ms;
		enum finding_cause cause;
	} rows[] = {{25, CAUSE_COMPUTE}, {14, CAUSE_COMPUTE}, {8, CAUSE_ASLEEP}, {0, CAUSE_ASLEEP}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		script_begin(2);
		for (int r = 0; r < 2; r++)
			script.host[r].cpu_ns = 90000000;
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_FORWARD] = 25 * MS;
		script.host[1].cpu_ns += rows[i].ms * 1000000;
		script_run(30);
		assert_int_equal(script_only(1, ACTIVITY_FORWARD)->finding.cause, rows[i].cause);
		script_end();
	}
}

/* The same of all ranks, which is the job's; where they have cards, they may wait for those. */
TEST(a_job_that_uses_no_more_cpu_time_sleeps)
{
	static const struct {
		unsigned ms;
		bool cards;
		enum finding_cause cause;
	} rows[] = {{25, false, CAUSE_COMPUTE}, {14, false, CAUSE_COMPUTE}, {8, false, CAUSE_ASLEEP},
		{0, false, CAUSE_ASLEEP}, {0, true, CAUSE_COMPUTE}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		script_begin(2);
		if (rows[i].cards)
			script_cards();
		for (int r = 0; r < 2; r++)
			script.host[r].cpu_ns = 90000000;
		script_run(LEARN_S);
		script_all(ACTIVITY_FORWARD, 25 * MS);
		for (int r = 0; r < 2; r++)
			script.host[r].cpu_ns += rows[i].ms * 1000000;
		script_run(30);
		assert_int_equal(script_only(-1, ACTIVITY_FORWARD)->finding.cause, rows[i].cause);
		script_end();
	}
}

/* A lost packet holds up one member of an operation, and in the next one the others wait for it: all wait longer, and
 * none works longer. */
TEST(operations_that_no_work_explains_are_the_cause)
{
	static const struct {
		double late, transfer, work; /* more, of all ranks, ms a step */
		double turn;		     /* ms, of one rank after the other, in each so many steps: */
		int every;
		unsigned ahead; /* the others wait so many steps later */
		double cpu;	/* ms more CPU time */
		enum { KNOWN, L1_LATER, L1_YOUNG, L1_ENDS, ELSEWHERE, MISSING, STAGES, CARDS } what;
		double shown, before; /* ms; NAN: not known */
		enum finding_cause cause;
	} rows[] = {
		{.late = 25, .shown = 30, .before = 5, .cause = CAUSE_OPERATIONS},
		{.transfer = 25, .shown = 30, .before = 5, .cause = CAUSE_OPERATIONS},
		{.late = 25, .what = L1_ENDS, .shown = 30, .before = 5, .cause = CAUSE_OPERATIONS},
		{.late = 25, .cpu = 25, .cause = CAUSE_COMPUTE}, /* it is learned meanwhile */
		{.work = 25, .shown = 5, .before = 5, .cause = CAUSE_ASLEEP},
		{.turn = 25, .every = 1, .shown = 5, .before = 5, .cause = CAUSE_ASLEEP},
		{.turn = 125, .every = 5, .ahead = 2, .shown = 5, .before = 5, .cause = CAUSE_ASLEEP},
		{.late = 25, .what = L1_LATER, .shown = 30, .before = NAN, .cause = CAUSE_ASLEEP},
		{.late = 25, .what = L1_YOUNG, .shown = 30, .before = 5, .cause = CAUSE_ASLEEP},
		/* A rank that is not seen may be slow, or a stage of a pipeline. */
		{.late = 25, .what = ELSEWHERE, .shown = NAN, .cause = CAUSE_ASLEEP},
		{.late = 25, .what = MISSING, .shown = NAN, .cause = CAUSE_ASLEEP},
		{.late = 25, .what = STAGES, .shown = NAN, .cause = CAUSE_ASLEEP},
		/* Transfers may hide behind computing. */
		{.transfer = 25, .what = CARDS, .shown = NAN, .cause = CAUSE_COMPUTE},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct finding_evidence *evidence;
		const struct finding *said;

		script_begin(3);
		for (int r = 0; r < 3; r++)
			script.host[r].cpu_ns = 90000000;
		if (rows[i].what == CARDS)
			script_cards();
		script.world_size = rows[i].what == ELSEWHERE ? 6 : 3;
		script.missing[2] = rows[i].what == MISSING;
		script.class[2] = rows[i].what == STAGES ? 1 : 0;
		script.class[0] = script.class[1] = 0;
		script.l1 = rows[i].what != L1_LATER && rows[i].what != L1_YOUNG;
		script.transfer = 5 * MS;
		script_run(LEARN_S - 3);
		script.l1 = rows[i].what != L1_LATER;
		script_run(3);
		script.l1 = true;
		script.transfer += rows[i].transfer * MS;
		script.ahead = rows[i].ahead;
		script_all(ACTIVITY_BACKWARD, rows[i].work * MS);
		for (int r = 0; r < 3; r++)
			script.host[r].cpu_ns += (uint64_t)(rows[i].cpu * 1e6);
		for (int step = 0; step < 300; step++) {
			script.l1 = rows[i].what != L1_ENDS || step < 60;
			if (rows[i].every && step % rows[i].every == 0)
				script.once[step % 3][ACTIVITY_BACKWARD] = rows[i].turn * MS;
			for (int r = 0; r < 3; r++)
				script.late[r] = rows[i].late * MS;
			script_step();
		}
		said = &script_only(-1, ACTIVITY_BACKWARD)->finding;
		assert_int_equal(said->cause, rows[i].cause);
		evidence = script_evidence(said, "operations");
		assert_int_equal(evidence == NULL, isnan(rows[i].shown));
		if (evidence && !rows[i].ahead && !(rows[i].cpu > 0))
			assert_true(fabs(evidence->value - rows[i].shown * 1e6) < 1e6);
		if (evidence && !(rows[i].cpu > 0))
			assert_true(isnan(rows[i].before) ? isnan(evidence->peers)
							  : fabs(evidence->peers - rows[i].before * 1e6) < 1e6);
		if (rows[i].cause == CAUSE_OPERATIONS)
			assert_non_null(strstr(said->sentence, " per step; 5 ms before"));
		script_end();
	}
}

/* What they took while L1 was on says nothing of a slow-down after that. */
TEST(operations_are_not_known_without_them)
{
	script_begin(3);
	for (int r = 0; r < 3; r++)
		script.host[r].cpu_ns = 90000000;
	script.l1 = true;
	script_run(LEARN_S);
	for (int step = 0; step < 100; step++) {
		for (int r = 0; r < 3; r++)
			script.late[r] = 25 * MS;
		script_step();
	}
	script.l1 = false;
	script_run(60);
	script_all(ACTIVITY_BACKWARD, 25 * MS);
	script_run(30);
	script_expect(2);
	assert_int_equal(script.said[0].finding.cause, CAUSE_OPERATIONS);
	assert_int_equal(script.said[1].finding.cause, CAUSE_ASLEEP);
	assert_null(script_evidence(&script.said[1].finding, "operations"));
	script_end();
}

/* A slow-down that has become the usual: what operations took before it is no measure any more. */
TEST(operations_of_before_are_forgotten)
{
	script_begin(3);
	for (int r = 0; r < 3; r++)
		script.host[r].cpu_ns = 90000000;
	script.l1 = true;
	script_run(LEARN_S);
	script.l1 = false;
	script.transfer = 25 * MS;
	script_run(700);
	script.l1 = true;
	script_all(ACTIVITY_BACKWARD, 25 * MS);
	script_run(10);
	script_expect(2);
	assert_int_equal(script.said[1].finding.cause, CAUSE_ASLEEP);
	script_end();
}

/* Part of the growth is known to be a communicator's; the rest is not. */
TEST(operations_of_a_slow_communicator_are_its_own)
{
	struct finding claimed = {.kind = FINDING_SLOW_COMMUNICATION, .cause = CAUSE_LINK, .rank = -1};

	script_begin(3);
	for (int r = 0; r < 3; r++)
		script.host[r].cpu_ns = 90000000;
	script.l1 = true;
	script_run(LEARN_S);
	script.slack = 0.5; /* of the first ticks, before the communicator is known */
	script.transfer = 30 * MS;
	script_all(ACTIVITY_BACKWARD, 40 * MS);
	for (int step = 0; step < 300; step++) {
		script_step();
		judge_claim(script.judge, &claimed, 30e6);
	}
	assert_int_equal(script_said(-1, ACTIVITY_BACKWARD)->finding.cause, CAUSE_ASLEEP);
	script_end();
}

/* They take as long for all, and say nothing of one. */
TEST(a_slow_rank_shows_no_operations)
{
	script_begin(3);
	script.l1 = true;
	script.transfer = 5 * MS;
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_FORWARD] = 25 * MS;
	script_run(30);
	assert_null(script_evidence(&script_only(1, ACTIVITY_FORWARD)->finding, "operations"));
	script_end();
}

/* Both ranks wait for CPUs, one far longer: its own delay explains the growth, and the other's hides behind it. Where
 * they wait alike nobody is named. */
TEST(of_two_that_wait_for_cpus_one_is_named_for_all_or_none)
{
	for (int alike = 0; alike < 2; alike++) {
		script_begin(2);
		for (int r = 0; r < 2; r++)
			script.host[r].run_delay_ns = 1000000;
		script_run(100);
		script.fault[1][ACTIVITY_BACKWARD] = 25 * MS;
		script.host[1].run_delay_ns += 24000000;
		script.host[0].run_delay_ns += alike ? 22000000 : 14000000;
		script_run(30);
		assert_int_equal(script_only(alike ? -1 : 1, ACTIVITY_BACKWARD)->finding.activity, ACTIVITY_BACKWARD);
		if (!alike) {
			assert_int_equal(script.said[0].finding.cause, CAUSE_PREEMPTION);
			assert_true(script.said[0].finding.slowdown > 1.2);
		}
		script_end();
	}
}

/* A third of the growth may be noise. */
TEST(run_delay_must_explain_a_third_of_the_growth)
{
	for (int more = 0; more < 2; more++) {
		script_begin(3);
		for (int r = 0; r < 3; r++)
			script.host[r].run_delay_ns = 1000000;
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_BACKWARD] = 40 * MS;
		script.host[1].run_delay_ns += more ? 18000000 : 10000000;
		script_run(60);
		assert_true((script_said(1, ACTIVITY_BACKWARD) != NULL) == more);
		if (more) { /* 45 % of the growth: it is behind all of it */
			const struct finding *said = &script_only(1, ACTIVITY_BACKWARD)->finding;

			assert_true(fabs(said->slowdown - 1.4) < 0.01 && fabs(said->confidence - 0.45) < 0.01);
			assert_int_equal(said->cause, CAUSE_PREEMPTION);
		}
		script_end();
	}
}

TEST(throttling_is_the_cause)
{
	script_begin(2);
	for (int r = 0; r < 2; r++)
		script.host[r].throttled_ns = 0;
	script_run(LEARN_S);
	script.fault[1][ACTIVITY_BACKWARD] = 25 * MS;
	script.host[1].throttled_ns = 25000000;
	script_run(30);
	assert_int_equal(script_only(1, ACTIVITY_BACKWARD)->finding.cause, CAUSE_THROTTLING);
	script_end();
}

TEST_MAIN(NULL, NULL)
