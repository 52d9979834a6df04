/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that stand still: who is named, from when on, and what looks like a hang and is none. */
#include "analyzers/detect/detector.h"
#include "analyzers/ops_judge.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ULL
#define RANKS 8
#define START (1000 * SECOND)

extern const struct detector hang_detector;

static struct standing standing[RANKS];
static struct frame_who who[RANKS];
static struct stuck stuck[4];
static struct look look;
static struct opinion said[8];
static size_t n_said, n_wants;
static unsigned wants;
static void *hang;

static void on_say(void *arg, const struct opinion *opinion)
{
	(void)arg;
	assert_true(n_said < 8);
	said[n_said++] = *opinion;
}

static void on_want(void *arg, unsigned want, const char *why)
{
	(void)arg;
	assert_true(strlen(why) > 0);
	wants |= want;
	n_wants++;
}

static const struct detector_out out = {on_say, on_want, NULL};

/* All ranks are in the backward of a step of a second. */
static int begin(void **state)
{
	const struct detect_options options = {.hang_ns = 30 * SECOND, .hang_busy_ns = 600 * SECOND};

	(void)state;
	hang = hang_detector.new(&options);
	assert_non_null(hang);
	memset(stuck, 0, sizeof(stuck));
	look = (struct look){.now_ns = START,
		.step_ns = SECOND,
		.world_size = RANKS,
		.cards = RANKS,
		.ranks = RANKS,
		.who = who,
		.standing = standing,
		.stuck = stuck};
	for (uint32_t i = 0; i < RANKS; i++) {
		who[i] = (struct frame_who){.rank = (int32_t)i + 100};
		standing[i] = (struct standing){.rank = i,
			.state = 'S',
			.progress_ns = START,
			.step_end_ns = START - SECOND / 2,
			.steps = 50,
			.stage = STAGE_BACKWARD,
			.stage_since_ns = START};
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	hang = hang_detector.free(hang);
	return 0;
}

/* Time passes, a look a second; cpu[] is what a rank uses meanwhile. Returns seconds until the first confirmed opinion,
 * or 0 if there was none. */
static double cpu[RANKS];

static unsigned seconds(unsigned n)
{
	unsigned first = 0;

	for (unsigned s = 0; s < n; s++) {
		look.now_ns += SECOND;
		for (size_t i = 0; i < RANKS; i++)
			standing[i].cpu_ns += (uint64_t)(cpu[i] * SECOND);
		for (size_t i = 0; i < look.stucks; i++)
			stuck[i].waited_ns += SECOND;
		n_said = 0;
		hang_detector.look(hang, &look, &out);
		for (size_t i = 0; i < n_said && first == 0; i++)
			first = said[i].confirmed ? s + 1 : 0;
	}
	return first;
}

static int begin_idle(void **state)
{
	memset(cpu, 0, sizeof(cpu));
	n_said = n_wants = 0;
	wants = 0;
	return begin(state);
}

static void the_one_in_its_data_loader_is_named(void **state)
{
	unsigned first;

	(void)state;
	standing[3].stage = STAGE_DATALOADER;
	first = seconds(30);
	assert_in_range(first, 15, 30);
	assert_int_equal(n_said, 1);
	assert_int_equal(said[0].finding.kind, FINDING_HANG);
	assert_int_equal(said[0].finding.rank, 3);
	assert_int_equal(said[0].finding.cause, CAUSE_DATALOADER);
	assert_int_equal(said[0].finding.since_ns, START);
	assert_int_equal(wants, DETECT_WANT_OPERATIONS | DETECT_WANT_SYSTEM);
	for (size_t i = 0; i < said[0].finding.evidences; i++) {
		if (strcmp(said[0].finding.evidence[i].name, "waiting") == 0) {
			assert_string_equal(said[0].finding.evidence[i].detail, "backward");
			assert_true(said[0].finding.evidence[i].value == 7);
			return;
		}
	}
	fail_msg("it is not said where the others stand");
}

static void a_stopped_process_is_named_wherever_it_stands(void **state)
{
	(void)state;
	standing[5].state = 'T';
	assert_in_range(seconds(30), 10, 16);
	assert_int_equal(said[0].finding.rank, 5);
	assert_int_equal(said[0].finding.cause, CAUSE_STOPPED);
}

static void an_ended_process_is_named_while_others_wait(void **state)
{
	(void)state;
	standing[2].ended = true;
	standing[2].ended_ns = START;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, 2);
	assert_int_equal(said[0].finding.cause, CAUSE_ENDED);
}

static void the_end_of_a_job_is_no_hang(void **state)
{
	(void)state;
	for (size_t i = 0; i < RANKS; i++) {
		standing[i].stage = STAGE_USER;
		standing[i].ended = i < 4;
		standing[i].ended_ns = START;
	}
	/* Four ranks still write their logs. */
	assert_int_equal(seconds(120), 0);
	assert_int_equal(n_said, 0);
	for (size_t i = 0; i < RANKS; i++)
		standing[i].ended = true;
	assert_int_equal(seconds(1000), 0);
	assert_int_equal(n_said, 0);
}

static void who_left_a_job_that_went_on_is_not_named(void **state)
{
	(void)state;
	standing[2].ended = true;
	standing[2].ended_ns = START - 60 * SECOND;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, -1);
}

static void a_sign_of_life_is_enough(void **state)
{
	(void)state;
	standing[3].stage = STAGE_DATALOADER;
	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(seconds(5), 0);
		assert_int_equal(n_said, 0);
		standing[0].progress_ns = look.now_ns; /* it evaluates */
	}
	assert_int_equal(n_wants, 0);
}

static void a_checkpoint_has_its_time(void **state)
{
	(void)state;
	standing[0].stage = STAGE_CHECKPOINT;
	assert_in_range(seconds(700), 590, 610);
	assert_int_equal(said[0].finding.rank, 0);
	assert_int_equal(said[0].finding.cause, CAUSE_CHECKPOINT);
	end(NULL);
	begin_idle(NULL);
	standing[0].stage = STAGE_CHECKPOINT;
	look.checkpoint_ns = 20 * SECOND;
	assert_in_range(seconds(100), 58, 62);
}

static void who_compiles_has_its_time(void **state)
{
	(void)state;
	standing[6].stage = STAGE_FORWARD;
	standing[6].progress_ns -= SECOND;
	cpu[6] = 1;
	assert_int_equal(seconds(300), 0);
	assert_in_range(seconds(400), 295, 305);
	assert_int_equal(said[0].finding.rank, 6);
}

static void who_waits_for_its_device_is_not_compiling(void **state)
{
	(void)state;
	for (size_t i = 0; i < RANKS; i++) {
		cpu[i] = 1;
		standing[i].stage = STAGE_SYNC;
	}
	assert_in_range(seconds(40), 10, 30);
	assert_int_equal(said[0].finding.rank, -1);
	assert_int_equal(said[0].finding.cause, CAUSE_UNKNOWN);
	assert_true(wants & DETECT_WANT_OPERATIONS);
}

static void before_the_first_steps_jobs_take_their_time(void **state)
{
	(void)state;
	look.step_ns = 0;
	assert_int_equal(seconds(500), 0);
	end(NULL);
	begin_idle(NULL);
	standing[4].steps = 0;
	assert_int_equal(seconds(500), 0);
}

static void long_steps_are_no_hang(void **state)
{
	(void)state;
	look.step_ns = 46 * SECOND;
	standing[3].stage = STAGE_FORWARD;
	assert_int_equal(seconds(100), 0);
	assert_in_range(seconds(100), 30, 50);
}

static void an_epoch_begins(void **state)
{
	(void)state;
	for (size_t i = 0; i < RANKS; i++)
		standing[i].stage = STAGE_DATALOADER;
	assert_int_equal(seconds(100), 0);
	assert_in_range(seconds(60), 15, 25);
	assert_int_equal(said[0].finding.rank, -1);
	assert_int_equal(said[0].finding.cause, CAUSE_DATALOADER);
	assert_string_equal(said[0].finding.others, "100-107");
}

static void a_job_that_is_stopped_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < RANKS; i++)
		standing[i].state = 'T';
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, -1);
	assert_int_equal(said[0].finding.cause, CAUSE_STOPPED);
	assert_string_equal(said[0].finding.others, "100-107");
}

static void one_in_its_forward_stopped_first_or_is_not_named(void **state)
{
	(void)state;
	standing[1].stage = STAGE_FORWARD;
	standing[1].progress_ns -= SECOND / 2;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, 1);
	assert_int_equal(said[0].finding.cause, CAUSE_MISSING);
	end(NULL);
	begin_idle(NULL);
	/* A pipeline: it waits for the one that is stuck in its backward since a second before. */
	standing[1].stage = STAGE_FORWARD;
	standing[4].progress_ns -= SECOND;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, -1);
}

static void nothing_in_a_stage_may_be_no_job(void **state)
{
	(void)state;
	for (size_t i = 0; i < RANKS; i++)
		standing[i].stage = STAGE_USER;
	assert_int_equal(seconds(1700), 0);
	assert_in_range(seconds(200), 90, 110);
	assert_int_equal(said[0].finding.severity, SEVERITY_WARNING);
}

static void part_of_a_job_waits_for_the_rest(void **state)
{
	(void)state;
	look.world_size = 64; /* and one of the others may save a checkpoint */
	assert_int_equal(seconds(590), 0);
	assert_in_range(seconds(30), 5, 15);
	assert_int_equal(said[0].finding.rank, -1);
	end(NULL);
	begin_idle(NULL);
	look.world_size = 64;
	standing[7].stage = STAGE_DATALOADER;
	assert_in_range(seconds(40), 15, 30);
	assert_int_equal(said[0].finding.rank, 7);
}

static void a_job_of_one(void **state)
{
	(void)state;
	look.world_size = 1;
	look.ranks = 1;
	standing[0].stage = STAGE_USER; /* a notebook */
	assert_int_equal(seconds(4000), 0);
	assert_int_equal(n_said, 0);
	standing[0].stage = STAGE_FORWARD;
	standing[0].progress_ns = look.now_ns;
	standing[0].state = 't'; /* a breakpoint */
	assert_int_equal(seconds(4000), 0);
	assert_true(n_said == 1 && !said[0].confirmed);
	standing[0].state = 'T';
	standing[0].progress_ns = look.now_ns;
	assert_in_range(seconds(40), 10, 30);
	standing[0].state = 'S';
	standing[0].progress_ns = look.now_ns;
	assert_in_range(seconds(700), 590, 610);
}

static uint32_t one_culprit[2], some_waiters[RANKS];

static struct stuck missing(uint32_t culprit, size_t waiters, const char *communicator)
{
	struct stuck ret = {
		.state = OPS_STATE_MISSING, .seq = 118, .culprits = 1, .waiters = waiters, .waiter = some_waiters};

	one_culprit[look.stucks] = culprit;
	ret.culprit = &one_culprit[look.stucks];
	snprintf(ret.communicator, sizeof(ret.communicator), "%s", communicator);
	snprintf(ret.sentence, sizeof(ret.sentence),
		"rank %u has not called AllReduce 118 of communicator %s; all others wait", culprit, communicator);
	return ret;
}

static void operations_say_who_is_missing(void **state)
{
	(void)state;
	look.operations = true;
	stuck[0] = missing(4, 0, "aaaa"); /* in its backward, as all are */
	look.stucks = 1;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, 4);
	assert_int_equal(said[0].finding.cause, CAUSE_MISSING);
	assert_string_equal(
		said[0].finding.communicator, ""); /* or it would be another finding than the one before L1 was on */
	standing[4].ended = true;
	seconds(1);
	assert_int_equal(said[0].finding.cause, CAUSE_ENDED);
	/* It evaluates: it is late, and lives. */
	standing[4].ended = false;
	for (unsigned i = 0; i < 20; i++) {
		standing[4].progress_ns = look.now_ns;
		assert_int_equal(seconds(5), 0);
	}
}

static void a_chain_of_waits_ends_at_its_cause(void **state)
{
	(void)state;
	/* 2 waits for 3 in one communicator, so 0 waits for 2 in another. */
	stuck[0] = missing(2, 1, "aaaa");
	look.stucks = 1;
	stuck[1] = missing(3, 1, "bbbb");
	look.stucks = 2;
	some_waiters[0] = 0;
	some_waiters[1] = 2;
	stuck[1].waiter = &some_waiters[1];
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(n_said, 1);
	assert_int_equal(said[0].finding.rank, 3);
	/* A circle: both are to be named. */
	stuck[0].waiter = &some_waiters[0];
	some_waiters[0] = 3;
	seconds(1);
	assert_int_equal(said[0].finding.rank, -1);
	assert_string_equal(said[0].finding.others, "102,103");
}

static void all_have_entered_and_it_does_not_end(void **state)
{
	(void)state;
	stuck[0] = (struct stuck){.state = OPS_STATE_RUNNING, .communicator = "aaaa", .seq = 9, .all_entered = true};
	look.stucks = 1;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, -1);
	assert_int_equal(said[0].finding.cause, CAUSE_COMMUNICATION);
	standing[6].state = 'T'; /* it was, after it had entered */
	seconds(1);
	assert_int_equal(said[0].finding.rank, 6);
	assert_int_equal(said[0].finding.cause, CAUSE_STOPPED);
}

static void a_mismatch_is_told_at_once(void **state)
{
	static const uint32_t two[] = {1, 2};

	(void)state;
	stuck[0] = missing(6, 0, "aaaa");
	stuck[0].state = OPS_STATE_SIZE_MISMATCH;
	look.stucks = 1;
	assert_int_equal(seconds(1), 1);
	assert_int_equal(said[0].finding.kind, FINDING_MISMATCH);
	assert_int_equal(said[0].finding.cause, CAUSE_SIZE_MISMATCH);
	assert_int_equal(said[0].finding.rank, 6);
	assert_string_equal(said[0].finding.communicator, "aaaa");
	stuck[0].state = OPS_STATE_TYPE_MISMATCH;
	stuck[0].culprit = two;
	stuck[0].culprits = 2;
	seconds(60);
	assert_int_equal(n_said, 1);
	assert_int_equal(said[0].finding.cause, CAUSE_TYPE_MISMATCH);
	assert_int_equal(said[0].finding.rank, -1);
	assert_string_equal(said[0].finding.others, "101,102");
}

static void every_second_is_lost_once(void **state)
{
	double lost = 0;

	(void)state;
	standing[3].state = 'T';
	for (unsigned i = 0; i < 100; i++) {
		seconds(1);
		for (size_t k = 0; k < n_said; k++)
			lost += said[k].lost_ns;
	}
	assert_true(lost == 100e9);
	/* It goes on, and stops again: what lay between is not lost. */
	standing[3].progress_ns = look.now_ns += 50 * SECOND;
	seconds(20);
	n_said = 0;
	lost = 0;
	standing[3].progress_ns = look.now_ns;
	for (unsigned i = 0; i < 20; i++) {
		seconds(1);
		for (size_t k = 0; k < n_said; k++)
			lost += said[k].lost_ns;
	}
	assert_true(lost == 20e9);
}

static void what_cannot_be_is_no_harm(void **state)
{
	static const uint32_t far[] = {4000000000U, 9};

	(void)state;
	for (size_t i = 0; i < RANKS; i++) {
		standing[i].rank = i % 2 ? 4000000000U : 3;
		standing[i].stage = (enum stage_kind)77;
		standing[i].stage_since_ns = UINT64_MAX;
	}
	stuck[0] = (struct stuck){.state = 1000, .culprits = 2, .culprit = far, .waited_ns = UINT64_MAX / 2};
	stuck[1] = (struct stuck){.state = OPS_STATE_MISSING,
		.culprits = 2,
		.culprit = far,
		.waiters = 2,
		.waiter = far,
		.waited_ns = UINT64_MAX / 2};
	stuck[2] = stuck[1];
	stuck[2].state = OPS_STATE_TYPE_MISMATCH;
	look.stucks = 3;
	look.step_ns = look.checkpoint_ns = UINT64_MAX - 1;
	seconds(50);
	look.step_ns = 1;
	seconds(50);
	look.now_ns = 5; /* a clock that went back */
	seconds(50);
	look.ranks = 0;
	seconds(5);
	look.ranks = RANKS;
	for (size_t i = 0; i < RANKS; i++)
		standing[i].progress_ns = 0;
	look.stucks = 0;
	seconds(2000);
	assert_int_equal(n_said, 0); /* nothing was ever seen of them */
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin_idle, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(the_one_in_its_data_loader_is_named),
		T(a_stopped_process_is_named_wherever_it_stands),
		T(an_ended_process_is_named_while_others_wait),
		T(the_end_of_a_job_is_no_hang),
		T(who_left_a_job_that_went_on_is_not_named),
		T(a_sign_of_life_is_enough),
		T(a_checkpoint_has_its_time),
		T(who_compiles_has_its_time),
		T(who_waits_for_its_device_is_not_compiling),
		T(before_the_first_steps_jobs_take_their_time),
		T(long_steps_are_no_hang),
		T(an_epoch_begins),
		T(a_job_that_is_stopped_whole),
		T(one_in_its_forward_stopped_first_or_is_not_named),
		T(nothing_in_a_stage_may_be_no_job),
		T(part_of_a_job_waits_for_the_rest),
		T(a_job_of_one),
		T(operations_say_who_is_missing),
		T(a_chain_of_waits_ends_at_its_cause),
		T(all_have_entered_and_it_does_not_end),
		T(a_mismatch_is_told_at_once),
		T(every_second_is_lost_once),
		T(what_cannot_be_is_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
