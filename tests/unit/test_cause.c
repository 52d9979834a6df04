/* SPDX-License-Identifier: Apache-2.0 */
/* Why a rank is slow: frames of eight ranks, one of which has an excess somewhere. */
#include "tests/unit/cause_script.h"

static void loads_and_is_preempted_a_little(struct frame_rank *rank)
{
	loads(rank);
	rank->host.run_delay_ns += 20 * MS;
	rank->host.preemptor_ns = 20 * MS;
	rank->host.preemptor_pid = 4711;
}

static void collects(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_GC] += 50 * MS;
	rank->stage_ns[STAGE_FORWARD] += 60 * MS;
	rank->host.cpu_ns += 60 * MS;
}

static void is_preempted(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_FORWARD] += 60 * MS;
	rank->host.run_delay_ns += 18 * MS; /* of its step thread; the other three lost as much */
	rank->host.preemptor_ns = 15 * MS;
	rank->host.preemptor_pid = 4711;
	memcpy(rank->host.preemptor_name, "stress-ng\n-cpu-x", 16);
}

/* A device's rank: its CPU time says nothing. */
static void is_preempted_on_a_device(struct frame_rank *rank)
{
	is_preempted(rank);
	who[SLOW].card[0] = '0';
}

/* Little of it is seen on the step thread, but it is seen who it was, and that the rank did not compute more. */
static void is_preempted_elsewhere(struct frame_rank *rank)
{
	rank->host.run_delay_ns += 8 * MS;
	rank->host.preemptor_ns = 8 * MS;
	rank->host.preemptor_pid = 4711;
}

/* Delays differ from rank to rank, and its own is one of the longer ones. */
static void computes_with_the_usual_delay(struct frame_rank *rank)
{
	for (size_t i = 0; i < RANKS; i++)
		ranks[i].host.run_delay_ns = i * 6 * MS;
	rank->host.run_delay_ns = 42 * MS;
	who[SLOW].card[0] = '0';
}

static void faults(struct frame_rank *rank)
{
	rank->host.major_faults = 50;
}

/* Everybody shares few CPUs, so more work is more delay. */
static void computes_where_all_are_delayed(struct frame_rank *rank)
{
	for (size_t i = 0; i < RANKS; i++)
		ranks[i].host.run_delay_ns = about(50 * MS);
	rank->host.cpu_ns += 60 * MS;
	rank->host.run_delay_ns = about(80 * MS);
}

static void sleeps(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_FORWARD] += 60 * MS;
}

/* Who had its CPUs for a moment, a kernel thread, say, is known; it is nothing beside what the rank lost. */
static void sleeps_and_others_run(struct frame_rank *rank)
{
	sleeps(rank);
	rank->host.run_delay_ns += 9 * MS;
	rank->host.preemptor_ns = MS;
	rank->host.preemptor_pid = 15;
}

static void is_preempted_by_many(struct frame_rank *rank)
{
	is_preempted(rank);
	rank->host.preemptor_ns = 2 * MS;
}

static void launches_late(struct frame_rank *rank)
{
	for (size_t i = 0; i < RANKS; i++)
		ranks[i].host.launch_gap_ns = about(2 * MS);
	rank->host.launch_gap_ns = 50 * MS;
}

/* One gap of many, which together are what is missing. */
static void launches_a_little_late_often(struct frame_rank *rank)
{
	launches_late(rank);
	rank->host.launch_gap_ns = 8 * MS;
}

/* Launches wait for the device, and the one for the other. */
static void computes_and_launches_later(struct frame_rank *rank)
{
	launches_late(rank);
	rank->host.launch_gap_ns = 4 * MS;
}

static void waits_for_its_device(struct frame_rank *rank)
{
	launches_late(rank);
	rank->stage_ns[STAGE_SYNC] = 60 * MS;
}

static void is_held_up_by_many(struct frame_rank *rank)
{
	rank->host.run_delay_ns += 10 * MS;
	rank->host.throttled_ns = 10 * MS;
	rank->host.major_faults = 10;
}

static void causes_are_distinguished(void **state)
{
	static const struct {
		const char *what;
		inject_fn *inject;
		enum finding_cause cause;
		const char *evidence;
	} rows[] = {
		{"data loading", loads, CAUSE_DATALOADER, "dataloader"},
		{"data loading, throttled", loads_throttled, CAUSE_THROTTLING, "throttled"},
		{"data loading, and others a little", loads_and_is_preempted_a_little, CAUSE_DATALOADER, "dataloader"},
		{"checkpoint", saves, CAUSE_CHECKPOINT, "checkpoint"},
		{"garbage collection", collects, CAUSE_GARBAGE_COLLECTION, "gc"},
		{"preemption", is_preempted, CAUSE_PREEMPTION, "run_delay"},
		{"preemption of a device's rank", is_preempted_on_a_device, CAUSE_PREEMPTION, "run_delay"},
		{"preemption elsewhere", is_preempted_elsewhere, CAUSE_PREEMPTION, "run_delay"},
		{"the usual delay", computes_with_the_usual_delay, CAUSE_COMPUTE, "compute"},
		{"throttling", is_throttled, CAUSE_THROTTLING, "throttled"},
		{"faults", faults, CAUSE_FAULTS, "major_faults"},
		{"computing", computes, CAUSE_COMPUTE, "compute"},
		{"computing, all delayed", computes_where_all_are_delayed, CAUSE_COMPUTE, "compute"},
		{"sleep in forward", sleeps, CAUSE_UNKNOWN, "forward"},
		{"sleep in forward, others run", sleeps_and_others_run, CAUSE_UNKNOWN, "forward"},
		{"launches", launches_late, CAUSE_LAUNCH, "launch_gap"},
		{"launches, many gaps", launches_a_little_late_often, CAUSE_LAUNCH, "launch_gap"},
		{"launches of a slow rank", computes_and_launches_later, CAUSE_COMPUTE, "compute"},
		{"a slow device", waits_for_its_device, CAUSE_COMPUTE, "compute"},
		{"many small ones", is_held_up_by_many, CAUSE_HOST, "cpu_time"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum finding_cause got;

		end(state);
		begin(state);
		got = run(rows[i].inject, 60 * MS);
		if (got != rows[i].cause)
			fail_msg("%s: %s", rows[i].what, finding_cause_word(got));
		assert_non_null(evidence(rows[i].evidence));
	}
}

static void a_preemptor_is_named(void **state)
{
	(void)state;
	assert_int_equal(run(is_preempted, 60 * MS), CAUSE_PREEMPTION);
	assert_string_equal(evidence("run_delay")->detail, "stress-ng?-cpu-x (pid 4711)");
	assert_true(evidence("run_delay")->value > 19e6 && evidence("run_delay")->value < 21e6);
	assert_true(evidence("run_delay")->peers < 3e6);
	assert_string_equal(finding.evidence[0].name, "run_delay");
}

/* The last frame has another, for a moment. */
static void the_preemptor_of_most_frames_is_named(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		quiet();
		is_preempted(&ranks[SLOW]);
		if (i == 19) {
			ranks[SLOW].host.preemptor_pid = 15;
			ranks[SLOW].host.preemptor_ns = MS / 10;
			strcpy(ranks[SLOW].host.preemptor_name, "kworker");
		}
		feed();
	}
	assert_int_equal(ask(60 * MS), CAUSE_PREEMPTION);
	assert_string_equal(evidence("run_delay")->detail, "stress-ng?-cpu-x (pid 4711)");
}

static void one_of_many_preemptors_is_not_named(void **state)
{
	(void)state;
	assert_int_equal(run(is_preempted_by_many, 60 * MS), CAUSE_PREEMPTION);
	assert_string_equal(evidence("run_delay")->detail, "");
}

static void run_delay_that_all_have_is_no_excess(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		quiet();
		for (size_t r = 0; r < RANKS; r++)
			ranks[r].host.run_delay_ns = about(60 * MS);
		computes(&ranks[SLOW]);
		feed();
	}
	assert_int_equal(ask(60 * MS), CAUSE_COMPUTE);
}

/* Steps of 200 ms, of 260 ms from step 41 on; the slow rank's peers use the CPU all the time, or what they need. */
static enum finding_cause slow_later(bool peers_spin, bool computes_more)
{
	for (int i = 0; i < 60; i++) {
		quiet();
		for (size_t r = 0; i >= 40 && r < RANKS; r++) {
			ranks[r].step_ns += 60 * MS;
			if (r == SLOW ? computes_more : peers_spin)
				ranks[r].host.cpu_ns += 60 * MS;
		}
		if (i >= 40)
			ranks[SLOW].stage_ns[STAGE_FORWARD] += 60 * MS;
		feed();
	}
	memset(&finding, 0, sizeof(finding));
	finding.since_step = 41;
	cause_of(cause, SLOW, 60e6, &finding);
	return finding.cause;
}

static void peers_that_spin_use_as_much_as_one_that_computes(void **state)
{
	static const struct {
		bool peers_spin, computes_more;
		enum finding_cause cause;
	} rows[] = {
		{false, false, CAUSE_UNKNOWN},
		{false, true, CAUSE_COMPUTE},
		{true, false, CAUSE_UNKNOWN},
		{true, true, CAUSE_COMPUTE},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		end(state);
		begin(state);
		if (slow_later(rows[i].peers_spin, rows[i].computes_more) != rows[i].cause)
			fail_msg("row %zu: %s", i, finding_cause_word(finding.cause));
	}
}

/* Of 240 ms that all took before the sleep, stages show no wait in 100; CPU use is unchanged. */
static void peers_that_use_what_they_used_do_not_spin(void **state)
{
	(void)state;
	for (int i = 0; i < 60; i++) {
		quiet();
		for (size_t r = 0; r < RANKS; r++)
			ranks[r].host.cpu_ns = 160 * MS;
		for (size_t r = 0; i >= 40 && r < RANKS; r++)
			ranks[r].step_ns += 60 * MS;
		if (i >= 40) {
			ranks[SLOW].stage_ns[STAGE_FORWARD] += 60 * MS;
			measured[SLOW].self_ns += 60 * MS;
		}
		feed();
	}
	memset(&finding, 0, sizeof(finding));
	finding.since_step = 41;
	cause_of(cause, SLOW, 60e6, &finding);
	assert_int_equal(finding.cause, CAUSE_UNKNOWN);
}

/* There is no past of a rank that was slow from its start. */
static void peers_that_use_more_than_they_work_spin(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		quiet();
		for (size_t r = 0; r < RANKS; r++)
			ranks[r].host.cpu_ns = 160 * MS; /* of 200, of which they waited 100 */
		sleeps(&ranks[SLOW]);
		measured[SLOW].self_ns += 60 * MS;
		feed();
	}
	assert_int_equal(ask(60 * MS), CAUSE_COMPUTE);
	for (int i = 0; i < 20; i++) {
		for (size_t r = 0; r < RANKS; r++)
			ranks[r].host.cpu_ns = 400 * MS; /* of several threads */
		feed();
	}
	assert_int_equal(ask(60 * MS), CAUSE_UNKNOWN);
}

static void a_sleep_on_a_device_rank_is_its_device(void **state)
{
	(void)state;
	strcpy(who[SLOW].card, "0");
	assert_int_equal(run(sleeps, 60 * MS), CAUSE_COMPUTE);
}

/* Its host does nothing in forward, while others spin until it comes. */
static void a_device_whose_host_sleeps(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		quiet();
		for (size_t r = 0; r < RANKS; r++) {
			strcpy(who[r].card, "0");
			ranks[r].host.cpu_ns = about(200 * MS);
		}
		sleeps(&ranks[SLOW]);
		ranks[SLOW].host.cpu_ns = about(145 * MS);
		measured[SLOW].self_ns += 60 * MS;
		feed();
	}
	assert_int_equal(ask(60 * MS), CAUSE_HOST);
}

static void where_no_host_is_measured_the_rest_is_computing(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		quiet();
		for (size_t r = 0; r < RANKS; r++) {
			ranks[r].host = (struct frame_host){.cpu_ns = FRAME_UNKNOWN,
				.run_delay_ns = FRAME_UNKNOWN,
				.throttled_ns = FRAME_UNKNOWN,
				.major_faults = FRAME_UNKNOWN,
				.launch_gap_ns = FRAME_UNKNOWN};
		}
		ranks[SLOW].stage_ns[STAGE_FORWARD] += 60 * MS;
		feed();
	}
	assert_int_equal(ask(60 * MS), CAUSE_COMPUTE);
	end(state);
	begin(state);
	for (int i = 0; i < 20; i++) {
		quiet();
		for (size_t r = 0; r < RANKS; r++) {
			memset(ranks[r].stage_ns, 0, sizeof(ranks[r].stage_ns));
			ranks[r].host = (struct frame_host){.cpu_ns = FRAME_UNKNOWN,
				.run_delay_ns = FRAME_UNKNOWN,
				.throttled_ns = FRAME_UNKNOWN,
				.major_faults = FRAME_UNKNOWN,
				.launch_gap_ns = FRAME_UNKNOWN};
		}
		feed();
	}
	assert_int_equal(ask(60 * MS), CAUSE_UNKNOWN); /* steps and nothing else */
}

static void who_has_no_peers_is_compared_with_its_past(void **state)
{
	(void)state;
	measured[SLOW].class = 1;
	class_ranks[0] = RANKS - 1;
	class_ranks[1] = 1;
	measures.classes = 2;
	for (int i = 0; i < 60; i++) {
		quiet();
		ranks[SLOW].stage_ns[STAGE_DATALOADER] = about(90 * MS); /* it always does, and is no fault */
		ranks[SLOW].stage_ns[STAGE_OPTIMIZER] += i >= 40 ? 60 * MS : 0;
		ranks[SLOW].host.cpu_ns += i >= 40 ? 60 * MS : 0;
		feed();
	}
	memset(&finding, 0, sizeof(finding));
	finding.since_step = 41;
	cause_of(cause, SLOW, 60e6, &finding);
	assert_int_equal(finding.cause, CAUSE_COMPUTE);
	finding.since_step = 1; /* no past */
	cause_of(cause, SLOW, 60e6, &finding);
	assert_int_equal(finding.cause, CAUSE_UNKNOWN);
}

static void checkpoints_are_compared_with_checkpoints(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		quiet();
		frame.class = i % 10 == 9 ? FRAME_CHECKPOINT : FRAME_TRAIN;
		for (size_t r = 0; r < RANKS; r++)
			ranks[r].stage_ns[STAGE_CHECKPOINT] = frame.class == FRAME_CHECKPOINT ? about(40 * MS) : 0;
		if (frame.class == FRAME_CHECKPOINT)
			ranks[SLOW].stage_ns[STAGE_CHECKPOINT] += 60 * MS;
		else
			computes(&ranks[SLOW]);
		feed();
		if (frame.class == FRAME_CHECKPOINT)
			assert_int_equal(ask(60 * MS), CAUSE_CHECKPOINT);
	}
	frame.class = FRAME_TRAIN;
	feed();
	assert_int_equal(ask(60 * MS), CAUSE_COMPUTE);
}

static void one_pause_is_no_cause(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		quiet();
		computes(&ranks[SLOW]);
		if (i == 17) {
			ranks[SLOW].step_ns = 600 * MS;
			ranks[SLOW].stage_ns[STAGE_GC] = 400 * MS;
		}
		feed();
	}
	assert_int_equal(ask(60 * MS), CAUSE_COMPUTE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(causes_are_distinguished),
		T(a_preemptor_is_named),
		T(the_preemptor_of_most_frames_is_named),
		T(one_of_many_preemptors_is_not_named),
		T(run_delay_that_all_have_is_no_excess),
		T(peers_that_spin_use_as_much_as_one_that_computes),
		T(peers_that_use_what_they_used_do_not_spin),
		T(peers_that_use_more_than_they_work_spin),
		T(a_sleep_on_a_device_rank_is_its_device),
		T(a_device_whose_host_sleeps),
		T(where_no_host_is_measured_the_rest_is_computing),
		T(who_has_no_peers_is_compared_with_its_past),
		T(checkpoints_are_compared_with_checkpoints),
		T(one_pause_is_no_cause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
