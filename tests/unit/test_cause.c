/* SPDX-License-Identifier: Apache-2.0 */
/* Why a rank is slow: frames of eight ranks, one of which has an excess somewhere. */
#include "analyzers/detect/cause.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 8
#define SLOW 3
#define MS 1000000ULL

static struct frame_who who[RANKS];
static struct frame_rank ranks[RANKS];
static struct measure_rank measured[RANKS];
static uint32_t class_ranks[RANKS];
static struct frame frame;
static struct measures measures;
static struct measure_group group;
static struct frame_group frame_group;
static struct cause *cause;
static struct finding finding;
static uint32_t noise;

static int begin(void **state)
{
	(void)state;
	cause = cause_new();
	assert_non_null(cause);
	noise = 1;
	memset(&finding, 0, sizeof(finding));
	memset(who, 0, sizeof(who));
	frame = (struct frame){.class = FRAME_TRAIN,
		.tier = FRAME_TIER_HOST,
		.world_size = RANKS,
		.ranks = RANKS,
		.who = who,
		.rank = ranks,
		.groups = 0,
		.group = &frame_group};
	class_ranks[0] = RANKS;
	measures = (struct measures){
		.ranks = RANKS, .classes = 1, .rank = measured, .class_ranks = class_ranks, .group = &group};
	for (uint32_t i = 0; i < RANKS; i++) {
		measured[i] = (struct measure_rank){.class = 0};
		who[i].rank = (int32_t)i;
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	cause = cause_free(cause);
	return 0;
}

/* Up to 2 % of it. */
static uint64_t about(uint64_t ns)
{
	noise = noise * 1664525U + 1013904223U;
	return ns + ns / 100 * (noise >> 24) / 128;
}

/* A step of 200 ms, half of it waiting for others; ranks that compute on the CPU. */
static void quiet(void)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		struct frame_rank *rank = &ranks[i];

		*rank = (struct frame_rank){.here = true, .step_ns = 200 * MS};
		rank->stage_ns[STAGE_DATALOADER] = about(5 * MS);
		rank->stage_ns[STAGE_FORWARD] = about(40 * MS);
		rank->stage_ns[STAGE_BACKWARD] = about(140 * MS);
		rank->stage_ns[STAGE_OPTIMIZER] = about(10 * MS);
		rank->stage_ns[STAGE_GC] = about(MS);
		rank->host = (struct frame_host){.cpu_ns = about(100 * MS),
			.run_delay_ns = about(2 * MS),
			.throttled_ns = 0,
			.major_faults = 0,
			.launch_gap_ns = FRAME_UNKNOWN};
		measured[i].self_ns = about(100 * MS);
		measured[i].wait_ns = 100 * MS;
	}
	measures.step_ns = 200 * MS;
}

static void feed(void)
{
	frame.step++;
	cause_frame(cause, &frame, &measures);
}

static enum finding_cause ask(uint64_t excess_ns)
{
	memset(&finding, 0, sizeof(finding));
	cause_of(cause, SLOW, (double)excess_ns, &finding);
	return finding.cause;
}

/* What a test does to the slow rank's record of a step. */
typedef void inject_fn(struct frame_rank *rank);

static enum finding_cause run(inject_fn *inject, uint64_t excess_ns)
{
	for (int i = 0; i < 20; i++) {
		quiet();
		inject(&ranks[SLOW]);
		measured[SLOW].self_ns += excess_ns;
		feed();
	}
	return ask(excess_ns);
}

static const struct finding_evidence *evidence(const char *name)
{
	for (size_t i = 0; i < finding.evidences; i++) {
		if (strcmp(finding.evidence[i].name, name) == 0)
			return &finding.evidence[i];
	}
	fail_msg("no evidence %s", name);
	return NULL;
}

static void loads(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_DATALOADER] += 60 * MS;
}

static void loads_throttled(struct frame_rank *rank)
{
	loads(rank);
	rank->host.throttled_ns = 55 * MS;
	rank->host.run_delay_ns = 58 * MS;
}

static void loads_and_is_preempted_a_little(struct frame_rank *rank)
{
	loads(rank);
	rank->host.run_delay_ns += 20 * MS;
	rank->host.hog_pid = 4711;
}

static void saves(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_CHECKPOINT] = 60 * MS;
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
	rank->host.hog_pid = 4711;
	memcpy(rank->host.hog_name, "stress-ng\n-cpu-x", 16);
}

static void is_throttled(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_FORWARD] += 60 * MS;
	rank->host.run_delay_ns += 50 * MS;
	rank->host.throttled_ns = 45 * MS;
	rank->host.hog_pid = 4711;
}

static void faults(struct frame_rank *rank)
{
	rank->host.major_faults = 50;
}

static void computes(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_FORWARD] += 60 * MS;
	rank->host.cpu_ns += 60 * MS;
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

static void launches_late(struct frame_rank *rank)
{
	for (size_t i = 0; i < RANKS; i++)
		ranks[i].host.launch_gap_ns = about(2 * MS);
	rank->host.launch_gap_ns = 50 * MS;
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

static void causes_are_told_apart(void **state)
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
		{"throttling", is_throttled, CAUSE_THROTTLING, "throttled"},
		{"faults", faults, CAUSE_FAULTS, "major_faults"},
		{"computing", computes, CAUSE_COMPUTE, "compute"},
		{"computing, all delayed", computes_where_all_are_delayed, CAUSE_COMPUTE, "compute"},
		{"sleep in forward", sleeps, CAUSE_UNKNOWN, "forward"},
		{"launches", launches_late, CAUSE_LAUNCH, "launch_gap"},
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

static void a_hog_is_named(void **state)
{
	(void)state;
	assert_int_equal(run(is_preempted, 60 * MS), CAUSE_PREEMPTION);
	assert_string_equal(evidence("run_delay")->detail, "pid 4711 stress-ng?-cpu-x");
	assert_true(evidence("run_delay")->value > 19e6 && evidence("run_delay")->value < 21e6);
	assert_true(evidence("run_delay")->peers < 3e6);
	assert_string_equal(finding.evidence[0].name, "run_delay");
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

static void a_sleep_on_a_device_rank_is_its_device(void **state)
{
	(void)state;
	strcpy(who[SLOW].card, "0");
	assert_int_equal(run(sleeps, 60 * MS), CAUSE_COMPUTE);
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
		if (i == 17)
			ranks[SLOW].stage_ns[STAGE_GC] = 190 * MS;
		feed();
	}
	assert_int_equal(ask(60 * MS), CAUSE_COMPUTE);
}

/* Of the job: all ranks slower than before. */
static enum finding_cause job(inject_fn *inject, uint64_t transfer_ns, enum frame_tier tier)
{
	frame.tier = tier;
	frame.groups = measures.groups = tier == FRAME_TIER_STAGES ? 0 : 1;
	frame_group.members = RANKS;
	for (int i = 0; i < 120; i++) {
		quiet();
		group.transfer_ns = about(20 * MS);
		for (size_t r = 0; i >= 100 && r < RANKS; r++)
			inject(&ranks[r]);
		if (i >= 100)
			group.transfer_ns += transfer_ns;
		feed();
	}
	cause_of_job(cause, 101, 60e6, &finding);
	return finding.cause;
}

static void nothing(struct frame_rank *rank)
{
	(void)rank;
}

static void slower_both_ways(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_FORWARD] += 20 * MS;
	rank->stage_ns[STAGE_BACKWARD] = 181 * MS;
}

static void slower_backward(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_BACKWARD] = 199 * MS;
}

static void causes_of_a_job(void **state)
{
	static const struct {
		inject_fn *inject;
		uint64_t transfer_ns;
		enum frame_tier tier;
		enum finding_cause cause;
	} rows[] = {
		{loads, 0, FRAME_TIER_STAGES, CAUSE_DATALOADER}, {loads, 0, FRAME_TIER_HOST, CAUSE_DATALOADER},
		{loads_throttled, 0, FRAME_TIER_HOST, CAUSE_THROTTLING},
		{is_throttled, 0, FRAME_TIER_HOST, CAUSE_THROTTLING}, {saves, 0, FRAME_TIER_HOST, CAUSE_CHECKPOINT},
		{nothing, 60 * MS, FRAME_TIER_HOST, CAUSE_COMMUNICATION}, {computes, 0, FRAME_TIER_HOST, CAUSE_COMPUTE},
		{slower_both_ways, 0, FRAME_TIER_STAGES, CAUSE_COMPUTE},
		{slower_backward, 0, FRAME_TIER_STAGES, CAUSE_UNKNOWN}, /* L1 would tell */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum finding_cause got;

		end(state);
		begin(state);
		got = job(rows[i].inject, rows[i].transfer_ns, rows[i].tier);
		if (got != rows[i].cause)
			fail_msg("row %zu: %s", i, finding_cause_word(got));
	}
}

static void one_rank_that_loads_slowly_makes_all_wait(void **state)
{
	(void)state;
	for (int i = 0; i < 120; i++) {
		quiet();
		if (i >= 100)
			loads(&ranks[i % RANKS]); /* another one each step */
		feed();
	}
	cause_of_job(cause, 101, 60e6, &finding);
	assert_int_equal(finding.cause, CAUSE_DATALOADER);
}

static void what_cannot_be_is_no_harm(void **state)
{
	(void)state;
	cause_of(cause, 0, 1e6, &finding);
	cause_of_job(cause, 0, 1e6, &finding);
	assert_int_equal(finding.cause, CAUSE_UNKNOWN);
	for (int i = 0; i < 300; i++) {
		quiet();
		frame.ranks = i % 3 == 0 ? 0 : i % (RANKS + 1);
		frame.class = (enum frame_class)(i % 7 == 6 ? 99 : i % FRAME_CLASS_MAX);
		measures.ranks = i % 5;
		measures.groups = frame.groups = 1;
		group.transfer_ns = UINT64_MAX - 1;
		for (size_t r = 0; r < RANKS; r++) {
			memset(ranks[r].stage_ns, i % 2 ? 0xff : 0x7f, sizeof(ranks[r].stage_ns));
			ranks[r].host.cpu_ns = i % 4 ? UINT64_MAX - 1 : 0;
			ranks[r].host.major_faults = UINT64_MAX - 1;
			ranks[r].step_ns = i % 11 ? UINT64_MAX : 0;
			ranks[r].here = i % 13 != 0;
			measured[r].class = i % 2 ? 4000000000U : 0;
			memset(ranks[r].host.hog_name, 'x', 16);
			ranks[r].host.hog_pid = 1;
		}
		frame.step -= 3;
		feed();
		memset(&finding, 0, sizeof(finding));
		cause_of(cause, (uint32_t)i, i % 2 ? 1e18 : 5e6, &finding);
		cause_of_job(cause, (uint64_t)i, i % 3 ? 1e300 : NAN, &finding);
		cause_frame(cause, &frame, NULL);
	}
	cause_of(cause, UINT32_MAX, 1, &finding);
	cause_of(cause, 0, NAN, &finding);
	cause_of(cause, 0, -1, &finding);
	assert_int_equal(finding.cause, CAUSE_UNKNOWN);
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(causes_are_told_apart),
		T(a_hog_is_named),
		T(run_delay_that_all_have_is_no_excess),
		T(a_sleep_on_a_device_rank_is_its_device),
		T(where_no_host_is_measured_the_rest_is_computing),
		T(who_has_no_peers_is_compared_with_its_past),
		T(checkpoints_are_compared_with_checkpoints),
		T(one_pause_is_no_cause),
		T(causes_of_a_job),
		T(one_rank_that_loads_slowly_makes_all_wait),
		T(what_cannot_be_is_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
