/* SPDX-License-Identifier: Apache-2.0 */
/* Causes: what the operating system took from a rank, if that explains half of what it lost. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/judge_script.h"

#define LEARN_S 60

static void fault(enum activity activity, double s, double lasts_s)
{
	script.fault[1][activity] = s;
	script_run(lasts_s);
	script.fault[1][activity] = 0;
}

/* Run delay explains 60 or 40 % of the lost time. */
TEST(what_explains_half_is_the_cause)
{
	for (int most = 0; most < 2; most++) {
		script_begin(4);
		for (int r = 0; r < 4; r++)
			script.host[r].run_delay_ns = 500000;
		script_run(LEARN_S);
		script.host[1].run_delay_ns += most ? 18000000 : 12000000;
		fault(ACTIVITY_OUTSIDE, 30 * MS, 20);
		assert_int_equal(
			script_only(1, ACTIVITY_OUTSIDE)->finding.cause, most ? CAUSE_PREEMPTION : CAUSE_PYTHON);
		script_end();
	}
}

/* A major fault takes about a millisecond. */
TEST(major_faults_are_the_cause)
{
	for (int most = 0; most < 2; most++) {
		script_begin(4);
		for (int r = 0; r < 4; r++)
			script.host[r].major_faults = 1;
		for (int r = 0; r < 4; r++)
			script.host[r].run_delay_ns = 1000000;
		script_run(LEARN_S);
		script.host[1].major_faults += most ? 21 : 11;
		script.host[1].run_delay_ns =
			1000000 + (most ? 25000000ULL : 0); /* after each of them it waits for a CPU */
		fault(ACTIVITY_OUTSIDE, 30 * MS, 20);
		assert_int_equal(script_only(1, ACTIVITY_OUTSIDE)->finding.cause, most ? CAUSE_FAULTS : CAUSE_PYTHON);
		script_end();
	}
}

/* Its control group waits for memory, for 60 or 40 % of the lost time. */
TEST(memory_is_the_cause)
{
	for (int most = 0; most < 2; most++) {
		script_begin(4);
		for (int r = 0; r < 4; r++)
			script.host[r].memory_stall_ns = 0, script.host[r].throttled_ns = 500;
		script_run(LEARN_S);
		script.host[1].memory_stall_ns = most ? 18000000 : 12000000;
		fault(ACTIVITY_OUTSIDE, 30 * MS, 20);
		assert_int_equal(script_only(1, ACTIVITY_OUTSIDE)->finding.cause, most ? CAUSE_MEMORY : CAUSE_PYTHON);
		assert_null(script_evidence(&script.said[0].finding, "throttled")); /* under 1 us, as ever */
		assert_true(fabs(script_evidence(&script.said[0].finding, "memory_stall")->value -
				    (most ? 18e6 : 12e6)) < 2e6);
		script_end();
	}
}

/* The rank stalls in one step, and the others wait for it in a later one: half of the loss is in steps without a
 * stall. */
TEST(a_stall_is_the_cause_of_what_others_wait_later)
{
	script_begin(2);
	for (int r = 0; r < 2; r++)
		script.host[r].memory_stall_ns = 0;
	script_run(LEARN_S);
	for (int stall = 0; stall < 4; stall++) {
		script.host[1].memory_stall_ns = 1700 * 1000000ULL;
		script.once[1][ACTIVITY_OUTSIDE] = 800 * MS;
		script_step();
		script.host[1].memory_stall_ns = 0;
		script_run(1);
		script.once[1][ACTIVITY_OUTSIDE] = 900 * MS;
		script_step();
		script_run(2);
	}
	script_run(20);
	assert_int_equal(script_only(1, ACTIVITY_OUTSIDE)->finding.cause, CAUSE_MEMORY);
	script_end();
}

/* Stalls that delay nobody, after the episode or in one of ten of its seconds, are not its cause. */
TEST(a_stall_that_costs_nothing_is_no_cause)
{
	for (int after = 0; after < 2; after++) {
		script_begin(2);
		for (int r = 0; r < 2; r++)
			script.host[r].memory_stall_ns = 0;
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_DATALOADER] = (after ? 60 : 12) * MS;
		for (int s = 0; s < (after ? 6 : 30); s++) {
			script.host[1].memory_stall_ns = !after && s % 10 == 0 ? 80 * 1000000 : 0;
			script_run(1);
		}
		script.fault[1][ACTIVITY_DATALOADER] = 0;
		script.host[1].memory_stall_ns = after ? 40 * 1000000 : 0;
		script_run(4);
		script.host[1].memory_stall_ns = 0;
		script_run(20);
		assert_int_equal(script_only(1, ACTIVITY_DATALOADER)->finding.cause, CAUSE_DATALOADER);
		script_end();
	}
}

/* One step of 2 s more opens nothing, unless the rank's group waited for memory meanwhile: that is no noise, and is
 * announced if it lost what the smallest notice loses, by default 0.5 s. */
TEST(one_wait_for_memory_is_announced)
{
	struct judge_options options;

	for (int held = 0; held < 3; held++) {
		judge_options_default(&options);
		options.grade[JUDGE_NOTICE].lasts_ns *= held == 2 ? 5 : 1;
		script_begin_options(2, &options);
		for (int r = 0; r < 2; r++)
			script.host[r].memory_stall_ns = 0;
		script_run(LEARN_S);
		script.host[1].memory_stall_ns = held ? 2000000000 : 0;
		script.once[1][ACTIVITY_BACKWARD] = 2;
		script_step();
		script.host[1].memory_stall_ns = 0;
		script_run(40);
		script_expect(held ? 1 : 0);
		if (held) {
			assert_int_equal(script_only(1, ACTIVITY_BACKWARD)->finding.cause, CAUSE_MEMORY);
			assert_int_equal(script.said[0].finding.severity, held == 2 ? SEVERITY_INFO : SEVERITY_NOTICE);
		}
		fault(ACTIVITY_DATALOADER, 10 * MS, 12);
		assert_non_null(script_said(1, ACTIVITY_DATALOADER));
		script_end();
	}
}

/* A stop is no noise: one of 2 s in one step is announced, with its length; the same step without it is not. */
TEST(a_stop_is_announced_however_short)
{
	for (int stopped = 0; stopped <= 1; stopped++) {
		const struct finding_evidence *evidence;

		script_begin(4);
		for (int r = 0; r < 4; r++)
			script.host[r].stopped_ns = 0;
		script_run(LEARN_S + 0.5);
		script.once[1][ACTIVITY_OUTSIDE] = 2;
		script.host[1].stopped_ns = stopped ? 2000000000 : 0;
		script_step();
		script.host[1].stopped_ns = 0;
		script_run(20);
		script_expect(stopped ? 1 : 0);
		if (stopped) {
			assert_int_equal(script.said[0].finding.cause, CAUSE_STOPPED);
			assert_int_equal(script.said[0].finding.severity, SEVERITY_NOTICE);
			evidence = script_evidence(&script.said[0].finding, "stopped");
			assert_true(evidence && fabs(evidence->value - 2e9) < 0.02e9);
		}
		script_end();
	}
}

TEST_MAIN(NULL, NULL)
