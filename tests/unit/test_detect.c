/* SPDX-License-Identifier: Apache-2.0 */
/* Events through the interface of all detectors: the real ones, and scripted ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/detect_internal.h"
#include "tests/test.h"
#include "tests/unit/ddp_script.h"

#define SENT_MAX 512
#define WARM_STEPS 50	/* of 105 ms: detect_options.warm_ns */
#define CLEAN_STEPS 200 /* in which the judge learns the usual (10 s), and more */
#define SLOW_STEPS 240	/* of 145 ms: longer than the 30 s of a warning */
#define CLEAN_AFTER 70	/* of 105 ms: longer than the 5 s after which an episode is over */

static struct finding sent[SENT_MAX];
static size_t n_sent, wanted;
static uint32_t want_uid;
static struct detect *detect;
static struct ddp ddp;

static void on_finding(void *arg, const struct finding *finding)
{
	assert_true(n_sent < SENT_MAX);
	sent[n_sent++] = *finding;
}

static void on_want(void *arg, unsigned wants, uint32_t uid, const char *job, const char *why)
{
	want_uid = uid;
	assert_true(wants && job[0] && why[0]);
	wanted |= wants;
}

static char resumed[64];

static void on_resumed(void *arg, const char *job)
{
	snprintf(resumed, sizeof(resumed), "%s", job);
}

static const struct detect_sink sink = {.finding = on_finding, .want = on_want, .resumed = on_resumed};

static int start(void **state)
{
	struct detect_options options;

	detect_options_default(&options);
	n_sent = wanted = 0;
	detect = detect_new(&options, &sink);
	assert_non_null(detect);
	return 0;
}

static int stop(void **state)
{
	detect = detect_free(detect);
	return 0;
}

static size_t count(enum finding_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < n_sent; i++)
		n += sent[i].state == state;
	return n;
}

/* Every open or closed finding published is this one. */
static const struct finding *only(enum finding_kind kind, int32_t rank, enum finding_cause cause)
{
	const struct finding *ret = NULL;

	for (size_t i = 0; i < n_sent; i++) {
		if (sent[i].state != FINDING_OPEN && sent[i].state != FINDING_CLOSED)
			continue;
		if (sent[i].kind != kind || sent[i].rank != rank || sent[i].cause != cause ||
			(ret && ret->id != sent[i].id))
			fail_msg("finding %llu, %s: %s", (unsigned long long)sent[i].id,
				finding_state_word(sent[i].state), sent[i].sentence);
		ret = &sent[i];
	}
	assert_non_null(ret);
	return ret;
}

static void healthy(void)
{
	for (size_t i = 0; i < n_sent; i++)
		fail_msg("of a healthy job, %s: %s", finding_state_word(sent[i].state), sent[i].sentence);
}

TEST_WITH(clean, start, stop)
{
	const enum frame_tier tiers[] = {FRAME_TIER_STAGES, FRAME_TIER_HOST, FRAME_TIER_DEVICE};

	for (size_t i = 0; i < 3; i++) {
		ddp_start(&ddp, detect, "clean", (uint32_t)i, tiers[i]);
		ddp_steps(&ddp, 300);
		ddp_stop(&ddp);
	}
	detect_end(detect);
	healthy();
}

static void one_slow_rank(enum frame_tier tier, enum stage_kind stage, enum activity activity, enum finding_cause cause)
{
	const uint64_t from = WARM_STEPS + CLEAN_STEPS + 1;
	const struct finding *finding;

	ddp_start(&ddp, detect, "slow", 7, tier);
	ddp_steps(&ddp, WARM_STEPS + CLEAN_STEPS);
	healthy();
	ddp.extra_ns[3][stage] = 40000000;
	ddp_steps(&ddp, SLOW_STEPS);
	finding = only(FINDING_SLOW_RANK, 3, cause);
	assert_int_equal(finding->state, FINDING_OPEN);
	assert_int_equal(finding->severity, SEVERITY_WARNING);
	assert_int_equal(finding->activity, activity);
	assert_int_equal(finding->tier, tier);
	assert_string_equal(finding->host, "node-a");
	assert_string_equal(finding->card, "3");
	assert_string_equal(finding->job, "slow");
	assert_true(finding->uid_known && finding->uid == DDP_UID);
	assert_in_range(finding->since_step, from - 9, from + 3); /* the tick of a second that it began in */
	/* 40 ms of 105. */
	assert_true(finding->slowdown > 1.25 && finding->slowdown < 1.5);
	ddp.extra_ns[3][stage] = 0;
	ddp_steps(&ddp, CLEAN_AFTER);
	detect_end(detect);
	finding = only(FINDING_SLOW_RANK, 3, cause);
	assert_int_equal(finding->state, FINDING_CLOSED);
	assert_in_range(finding->until_step, from + SLOW_STEPS - 4, from + SLOW_STEPS + 10);
	/* 40 ms a step on 8 cards. */
	assert_true(finding->cost_card_hours > 0.9 * SLOW_STEPS * 0.04 * 8 / 3600);
	assert_true(finding->cost_card_hours < 1.1 * SLOW_STEPS * 0.04 * 8 / 3600);
}

TEST_WITH(a_slow_loader_by_operations, start, stop)
{
	one_slow_rank(FRAME_TIER_HOST, STAGE_DATALOADER, ACTIVITY_DATALOADER, CAUSE_DATALOADER);
}

TEST_WITH(a_slow_loader_by_stages, start, stop)
{
	one_slow_rank(FRAME_TIER_STAGES, STAGE_DATALOADER, ACTIVITY_DATALOADER, CAUSE_DATALOADER);
	assert_true(wanted);
	assert_int_equal(want_uid, DDP_UID);
}

TEST_WITH(slow_computing_by_device_times, start, stop)
{
	one_slow_rank(FRAME_TIER_DEVICE, STAGE_FORWARD, ACTIVITY_FORWARD, CAUSE_COMPUTE);
}

TEST_WITH(all_slow_alike, start, stop)
{
	ddp_start(&ddp, detect, "alike", 9, FRAME_TIER_HOST);
	ddp_steps(&ddp, WARM_STEPS + CLEAN_STEPS);
	for (size_t i = 0; i < DDP_RANKS; i++)
		ddp.extra_ns[i][STAGE_FORWARD] = 30000000;
	ddp_steps(&ddp, SLOW_STEPS);
	assert_int_equal(only(FINDING_SLOW_JOB, -1, CAUSE_COMPUTE)->state, FINDING_OPEN);
}

/* Slow all the time that a second process watches it, which knows what was usual from the first one. */
static void slow_after_a_restart(const char *job, json_t *learned, bool expected)
{
	(void)stop(NULL);
	(void)start(NULL);
	json_object_set_new(json_array_get(learned, 0), "time_ns",
		json_integer(999000000000)); /* the script begins again at 1000 s */
	detect_resume(detect, learned);
	ddp_start(&ddp, detect, job, 9, FRAME_TIER_STAGES);
	for (size_t i = 0; i < DDP_RANKS; i++)
		ddp.extra_ns[i][STAGE_FORWARD] = 30000000;
	resumed[0] = 0;
	ddp_steps(&ddp, WARM_STEPS);
	assert_true((resumed[0] != 0) == expected);
	/* At once: its first steps are none of a job that has just begun. */
	assert_true((n_sent > 0) == expected);
	ddp_steps(&ddp, SLOW_STEPS);
	if (expected)
		assert_int_equal(only(FINDING_SLOW_JOB, -1, CAUSE_COMPUTE)->state, FINDING_OPEN);
	else
		healthy();
}

TEST_WITH(what_is_usual_is_known_after_a_restart, start, stop)
{
	json_t *learned, *again;

	ddp_start(&ddp, detect, "alike", 9, FRAME_TIER_STAGES);
	ddp_steps(&ddp, WARM_STEPS);
	learned = detect_learned(detect);
	assert_int_equal(json_array_size(learned), 0);
	json_decref(learned);
	ddp_steps(&ddp, CLEAN_STEPS);
	learned = detect_learned(detect);
	assert_int_equal(json_array_size(learned), 1);
	slow_after_a_restart("alike", learned, true);
	again = detect_learned(detect);
	assert_int_equal(json_array_size(again), 1);
	json_decref(again);
	slow_after_a_restart("other", learned, false);
	/* The job that was not seen yet, and this one. */
	again = detect_learned(detect);
	assert_int_equal(json_array_size(again), 2);
	json_decref(again);
	/* An hour later the first one is forgotten. */
	detect_advance(detect, ddp.now_ns + 3601 * 1000000000ULL);
	again = detect_learned(detect);
	assert_int_equal(json_array_size(again), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(again, 0), "job")), "other");
	json_decref(again);
	json_object_set_new(json_array_get(learned, 0), "uid", json_integer(DDP_UID + 1));
	slow_after_a_restart("alike", learned, false);
	json_decref(learned);
}

/* Names are those of the environment: bytes that are no text, and a text that is cut within a letter. */
TEST_WITH(what_is_usual_is_kept_under_any_name, start, stop)
{
	static const char *const names[] = {
		"caf\xe9", "012345678901234567890123456789012345678901234567890123456789012\u00e9", "a\nb"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		json_t *learned;
		char *text;

		(void)stop(NULL);
		(void)start(NULL);
		ddp_start(&ddp, detect, names[i], 9, FRAME_TIER_STAGES);
		ddp_steps(&ddp, WARM_STEPS + CLEAN_STEPS);
		learned = detect_learned(detect);
		assert_int_equal(json_array_size(learned), 1);
		text = json_dumps(learned, 0);
		assert_non_null(text);
		free(text);
		slow_after_a_restart(names[i], learned, true);
		json_decref(learned);
	}
}

TEST_WITH(a_stopped_rank, start, stop)
{
	const struct finding *finding;

	ddp_start(&ddp, detect, "hang", 11, FRAME_TIER_HOST);
	ddp_steps(&ddp, 120);
	ddp_snapshots(&ddp, -1, 20);
	healthy();
	ddp_snapshots(&ddp, 5, 41);
	finding = only(FINDING_HANG, 5, CAUSE_STOPPED);
	assert_int_equal(finding->state, FINDING_OPEN);
	assert_in_range(finding->noticed_ns - finding->since_ns, 0, 61000000000ULL);
	assert_true(finding->cost_card_hours > 0);
	ddp_steps(&ddp, 5);
	ddp_snapshots(&ddp, -1, 4);
	only(FINDING_HANG, 5, CAUSE_STOPPED);
	assert_int_equal(count(FINDING_CLOSED), 1);
}

TEST_WITH(a_job_that_ends, start, stop)
{
	ddp_start(&ddp, detect, "ends", 13, FRAME_TIER_HOST);
	ddp_steps(&ddp, WARM_STEPS + CLEAN_STEPS);
	ddp.extra_ns[3][STAGE_DATALOADER] = 40000000;
	ddp_steps(&ddp, SLOW_STEPS);
	assert_int_equal(only(FINDING_SLOW_RANK, 3, CAUSE_DATALOADER)->state, FINDING_OPEN);
	ddp_stop(&ddp);
	assert_int_equal(only(FINDING_SLOW_RANK, 3, CAUSE_DATALOADER)->state, FINDING_CLOSED);
}

/* Known from its peers alone; it ends with its job. */
TEST_WITH(a_rank_slow_from_the_start, start, stop)
{
	const struct finding *finding;

	ddp_start(&ddp, detect, "start", 15, FRAME_TIER_HOST);
	ddp.extra_ns[3][STAGE_DATALOADER] = 40000000;
	ddp_steps(&ddp, WARM_STEPS + SLOW_STEPS);
	finding = only(FINDING_SLOW_RANK, 3, CAUSE_DATALOADER);
	assert_int_equal(finding->activity, ACTIVITY_DATALOADER);
	assert_int_equal(finding->state, FINDING_OPEN);
	assert_int_equal(finding->until_ns, 0);
	ddp_stop(&ddp);
	assert_int_equal(only(FINDING_SLOW_RANK, 3, CAUSE_DATALOADER)->state, FINDING_CLOSED);
}

/* Detectors of the test's own. */
static size_t states, frames, checks, trained;

static void *fake_new(const struct detect_options *options)
{
	assert_true(options->slow_z > 0);
	states++;
	return malloc(1);
}

static void *no_memory(const struct detect_options *options)
{
	return NULL;
}

static void *fake_free(void *state)
{
	states--;
	free(state);
	return NULL;
}

static void fake_frame(
	void *state, const struct frame *frame, const struct measures *measures, const struct detector_out *out)
{
	struct verdict verdict = {.lost_ns = 50000000};

	assert_non_null(state);
	assert_int_equal(measures->ranks, frame->ranks);
	frames++;
	trained += frame->class == FRAME_TRAIN;
	verdict.finding.kind = FINDING_SLOW_COMMUNICATION;
	verdict.finding.cause = CAUSE_LINK;
	verdict.finding.rank = -1;
	verdict.finding.since_ns = 1; /* since the job began: no step is longer than before */
	if (frame->step < 40)
		out->emit(out->arg, &verdict);
	out->want(out->arg, JUDGE_WANT_LAUNCHES, "to see");
}

static void fake_snapshot(void *state, const struct snapshot *snapshot, const struct detector_out *out)
{
	checks++;
	assert_int_equal(snapshot->ranks, DDP_RANKS);
	for (size_t i = 0; i < snapshot->ranks; i++)
		assert_int_equal(snapshot->standing[i].rank, i);
	assert_int_equal(snapshot->standing[5].state, 'T');
	/* Nothing was published of the last one. */
	assert_int_equal(snapshot->standing[DDP_RANKS - 1].progress_ns, 0);
	assert_int_equal(snapshot->stucks, 1);
	assert_int_equal(snapshot->stuck[0].culprits, 1);
	assert_int_equal(snapshot->stuck[0].culprit[0], 5);
	assert_int_equal(snapshot->stuck[0].waiters, 2);
	assert_int_equal(snapshot->stuck[0].waiter[1], 2);
}

static const struct detector fake = {"fake", fake_new, fake_free, fake_frame, NULL};
static const struct detector looker = {"looker", fake_new, fake_free, NULL, fake_snapshot};
static const struct detector broken = {"broken", no_memory, fake_free, fake_frame, NULL};

static void restart_with(const struct detector *const *detectors, size_t n)
{
	struct detect_options options;

	detect_options_default(&options);
	detect_free(detect);
	states = frames = checks = trained = 0;
	detect = detect_new_with(&options, &sink, detectors, n);
	assert_non_null(detect);
}

static void frame_of(const char *job, uint64_t step)
{
	struct frame_who who[2] = {{.rank = 0, .host = "a"}, {.rank = 1, .host = "a"}};
	struct frame_rank one = {.here = true,
				  .step_ns = 200000000,
				  .end_ns = step * 200000000,
				  .activity_ns = {[ACTIVITY_FORWARD] = 200000000}},
			  rank[2] = {one, one};
	struct frame frame = {
		.step = step, .class = FRAME_TRAIN, .world_size = 2, .cards = 2, .ranks = 2, .who = who, .rank = rank};

	detect_frame(detect, job, &frame);
}

TEST_WITH(frames_made_elsewhere, start, stop)
{
	static const struct detector *const two[] = {&fake, &looker};
	static const struct detector *const bad[] = {&fake, &broken};
	char job[16];

	restart_with(two, 2);
	for (uint64_t step = 1; step < 45; step++)
		frame_of("a", step);
	assert_int_equal(frames, 44);
	assert_int_equal(trained, 19); /* its first five seconds are no measure */
	assert_int_equal(states, 2);
	assert_true(n_sent > 0 && count(FINDING_OPEN) == n_sent); /* opened, and its cost */
	assert_int_equal(wanted, JUDGE_WANT_LAUNCHES);
	assert_int_equal(want_uid, ALIGN_UID_UNKNOWN);
	assert_false(sent[0].uid_known);
	/* Five seconds without. */
	for (uint64_t step = 45; step < 100; step++)
		frame_of("a", step);
	assert_int_equal(count(FINDING_OPEN) + 1, n_sent);
	assert_int_equal(sent[n_sent - 1].state, FINDING_CLOSED);
	assert_in_range(sent[n_sent - 1].until_ns, 39 * 200000000ULL, 46 * 200000000ULL);
	assert_int_equal(sent[n_sent - 1].cause, CAUSE_LINK);
	/* More jobs than the table holds: the least used one goes. */
	for (uint64_t i = 0; i < 2 * ALIGN_JOBS_MAX; i++) {
		snprintf(job, sizeof(job), "%d", (int)i);
		frame_of(job, 1);
	}
	assert_int_equal(states, 2 * ALIGN_JOBS_MAX);
	restart_with(bad, 2);
	frame_of("a", 1);
	assert_int_equal(states, 0);
	assert_int_equal(frames, 0);
	assert_null(detect_new_with(&(struct detect_options){.slow_z = 1}, &sink, two, DETECT_DETECTORS_MAX + 1));
}

TEST_WITH(stall_check_are_sorted_by_job, start, stop)
{
	static const struct detector *const one[] = {&looker};
	struct standing standing[DDP_RANKS];
	uint32_t culprit[3] = {0}, waiter[2], elsewhere;
	/* The last one blames nobody, and those who wait are of another job of that word. */
	struct stuck stuck[3] = {{.culprits = 3, .culprit = culprit, .waiters = 2, .waiter = waiter}, {.culprits = 0},
		{.waiters = 1, .waiter = &elsewhere}};
	const char *const jobs[] = {"watched", "another", "watched"};

	restart_with(one, 1);
	ddp_start(&ddp, detect, "unseen", 1, FRAME_TIER_HOST);
	culprit[0] = (uint32_t)ddp.process[5];
	elsewhere = (uint32_t)ddp.process[1];
	ddp_start(&ddp, detect, "watched", 2, FRAME_TIER_HOST);
	for (uint32_t i = 0; i < DDP_RANKS; i++)
		standing[i] = (struct standing){
			.rank = (uint32_t)ddp.process[i], .state = i == 5 ? 'T' : 'S', .progress_ns = 1};
	standing[DDP_RANKS - 1].rank = UINT32_MAX;
	culprit[1] = (uint32_t)ddp.process[5];
	culprit[2] = 999999;
	waiter[0] = (uint32_t)ddp.process[1];
	waiter[1] = (uint32_t)ddp.process[2];
	detect_snapshot(detect, ddp.now_ns, standing, DDP_RANKS, stuck, jobs, 3, true);
	assert_int_equal(checks, 1);
	ddp_stop(&ddp);
	assert_int_equal(states, 0);
}

TEST_MAIN(NULL, NULL)
