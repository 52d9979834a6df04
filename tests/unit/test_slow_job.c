/* SPDX-License-Identifier: Apache-2.0 */
/* What slow_job says of frames; the cause is another's, and a stub here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/detect/cause.h"
#include "analyzers/detect/detector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MS 1000000ULL
#define RANKS 9
#define STEP (1000 * MS)

extern const struct detector slow_job_detector;

struct cause {
	uint64_t frames;
};

static double asked_excess;
static uint64_t asked_since;

struct cause *cause_new_of_job(void)
{
	return calloc(1, sizeof(struct cause));
}

struct cause *cause_free(struct cause *cause)
{
	free(cause);
	return NULL;
}

void cause_frame(struct cause *cause, const struct frame *frame, const struct measures *measures)
{
	(void)frame;
	(void)measures;
	cause->frames++;
}

void cause_of(const struct cause *cause, uint32_t rank, double excess_ns, struct finding *finding)
{
	(void)cause;
	(void)rank;
	(void)excess_ns;
	(void)finding;
}

void cause_of_job(const struct cause *cause, uint64_t since_step, double excess_ns, struct finding *finding)
{
	(void)cause;
	asked_since = since_step;
	asked_excess = excess_ns;
	finding->cause = CAUSE_DATALOADER;
}

void finding_add(
	struct finding *finding, const char *name, const char *unit, double value, double peers, const char *detail)
{
	struct finding_evidence *evidence = &finding->evidence[finding->evidences++];

	assert_true(finding->evidences <= FINDING_EVIDENCE_MAX);
	snprintf(evidence->name, sizeof(evidence->name), "%s", name);
	snprintf(evidence->unit, sizeof(evidence->unit), "%s", unit);
	snprintf(evidence->detail, sizeof(evidence->detail), "%s", detail ? detail : "");
	evidence->value = value;
	evidence->peers = peers;
}

static void *state;
static struct frame_rank rank[RANKS];
static struct frame_who who[RANKS];
static uint64_t step, now, random_state;
static struct verdict said;
static unsigned says, confirmed, wants, wanted;
static char why[256];

static void say(void *arg, const struct verdict *verdict)
{
	(void)arg;
	said = *verdict;
	says++;
	confirmed += verdict->confirmed;
}

static void want(void *arg, unsigned what, const char *text)
{
	(void)arg;
	wants++;
	wanted = what;
	snprintf(why, sizeof(why), "%s", text);
}

static int start(void **unused)
{
	static const struct detect_options options = {.job_ratio = 1.10, .suspect_frames = 3};

	(void)unused;
	slow_job_detector.free(state);
	state = slow_job_detector.new(&options);
	assert_non_null(state);
	step = 1000;
	now = 1000 * STEP;
	random_state = 1;
	says = confirmed = wants = 0;
	memset(&said, 0, sizeof(said));
	asked_excess = 0;
	return 0;
}

static int stop(void **unused)
{
	(void)unused;
	state = slow_job_detector.free(state);
	return 0;
}

static uint64_t near(uint64_t ns)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return ns - ns / 64 + (random_state >> 33) % (ns / 32 + 1);
}

static void give(enum frame_class class, size_t ranks)
{
	struct detector_out out = {.emit = say, .want = want};
	struct frame frame = {.step = step++,
		.class = class,
		.world_size = RANKS,
		.cards = RANKS,
		.ranks = ranks,
		.who = who,
		.rank = rank};
	struct measures measures = {.ranks = ranks};

	slow_job_detector.frame(state, &frame, &measures, NULL, &out);
}

/* The first `slow` ranks take slow_ns. */
static void frames(size_t n, enum frame_class class, size_t slow, uint64_t slow_ns, uint64_t ns)
{
	for (size_t i = 0; i < n; i++) {
		now += slow_ns;
		says = 0;
		for (size_t r = 0; r < RANKS; r++)
			rank[r] = (struct frame_rank){
				.here = true, .step_ns = near(r < slow ? slow_ns : ns), .end_ns = now};
		give(class, RANKS);
	}
}

static void a_slow_job_is_suspected_and_reported(void **unused)
{
	uint64_t since;

	(void)unused;
	frames(300, FRAME_TRAIN, RANKS, STEP, STEP);
	assert_int_equal(says + wants, 0);
	since = step;
	frames(3, FRAME_TRAIN, RANKS, 1300 * MS, STEP);
	assert_int_equal(says, 1);
	assert_false(said.confirmed);
	assert_int_equal(wants, 1);
	assert_int_equal(wanted, DETECT_WANT_OPERATIONS | DETECT_WANT_SYSTEM);
	assert_non_null(strstr(why, "steps take 1."));
	frames(3, FRAME_TRAIN, RANKS, 1300 * MS, STEP);
	assert_true(said.confirmed);
	assert_int_equal(said.finding.kind, FINDING_SLOW_JOB);
	assert_int_equal(said.finding.cause, CAUSE_DATALOADER);
	assert_int_equal(said.finding.rank, -1);
	assert_in_range(said.finding.since_step, since - 1, since + 1);
	assert_in_range(said.finding.since_ns, now - 6 * 1330 * MS, now - 4 * 1270 * MS);
	assert_int_equal(asked_since, said.finding.since_step);
	assert_true(fabs(asked_excess - 300e6) < 20e6);
	assert_true(fabs(said.finding.slowdown - 1.3) < 0.02);
	assert_true(fabs(said.lost_ns - 300e6) < 30e6);
	assert_int_equal(said.finding.severity, SEVERITY_WARNING);
	assert_string_equal(said.finding.evidence[0].name, "step_time");
	assert_true(fabs(said.finding.evidence[0].peers - 1e9) < 15e6);
	/* Goes on through steps that say nothing, at no cost, and ends with relief. */
	frames(5, FRAME_EVALUATION, RANKS, 9 * STEP, STEP);
	assert_int_equal(says, 1);
	assert_true(said.lost_ns == 0 && said.confirmed);
	frames(40, FRAME_TRAIN, RANKS, 1300 * MS, STEP);
	assert_int_equal(says, 1);
	assert_int_equal(wants, 1);
	frames(10, FRAME_TRAIN, RANKS, STEP, STEP);
	assert_int_equal(says, 0);
}

static void most_ranks_must_be_slow(void **unused)
{
	(void)unused;
	frames(300, FRAME_TRAIN, RANKS, STEP, STEP);
	frames(100, FRAME_TRAIN, RANKS / 2, 2 * STEP, STEP);
	assert_int_equal(confirmed + wants, 0);
	frames(20, FRAME_TRAIN, RANKS / 2 + 1, 2 * STEP, STEP);
	assert_true(said.confirmed);
	assert_int_equal(said.finding.severity, SEVERITY_CRITICAL);
}

static void the_median_is_the_median(void **unused)
{
	static const uint64_t shuffled[RANKS] = {7, 3, 9, 1, 5, 5, 8, 2, 5};

	(void)unused;
	for (size_t n = 1; n <= RANKS; n++) {
		uint64_t sorted[RANKS] = {0};

		start(NULL);
		for (size_t i = 0; i < n; i++) {
			size_t k = i;

			for (; k > 0 && sorted[k - 1] > shuffled[i]; k--)
				sorted[k] = sorted[k - 1];
			sorted[k] = shuffled[i];
		}
		for (int slow = 0; slow < 2; slow++) {
			for (size_t i = 0; i < (slow ? 10 : 40); i++) {
				for (size_t r = 0; r < RANKS; r++)
					rank[r] = (struct frame_rank){
						.here = r < n, .step_ns = shuffled[r] * (slow ? 2 : 1) * STEP};
				give(FRAME_TRAIN, RANKS);
			}
		}
		assert_true(said.confirmed);
		assert_true(fabs(said.finding.evidence[0].peers - (double)(sorted[(n - 1) / 2] * STEP)) < 10);
	}
}

static void train_and_save(size_t saves, uint64_t save_ns)
{
	for (size_t i = 0; i < saves; i++) {
		frames(50, FRAME_TRAIN, RANKS, STEP, STEP);
		frames(1, FRAME_CHECKPOINT, RANKS, STEP + save_ns, STEP);
	}
}

static void slower_checkpoints_are_reported(void **unused)
{
	uint64_t since;

	(void)unused;
	train_and_save(8, 4 * STEP);
	assert_int_equal(confirmed + wants, 0);
	since = step;
	train_and_save(1, 9 * STEP);
	assert_int_equal(says, 1);
	assert_false(said.confirmed);
	assert_int_equal(said.finding.cause, CAUSE_CHECKPOINT);
	train_and_save(1, 9 * STEP);
	assert_true(said.confirmed);
	assert_int_equal(said.finding.since_step, since + 50);
	assert_true(fabs(said.lost_ns - 5e9) < 0.3e9);
	/* Five seconds more every 51 steps. */
	assert_true(fabs(said.finding.slowdown - (1 + 5.0 / 55)) < 0.01);
	frames(30, FRAME_TRAIN, RANKS, STEP, STEP);
	assert_int_equal(says, 1);
	assert_true(said.lost_ns == 0);
	/* Over with a quick one. */
	frames(1, FRAME_CHECKPOINT, RANKS, 5 * STEP, STEP);
	assert_int_equal(says, 0);
	/* Or with none for twice as long as usual. */
	train_and_save(2, 9 * STEP);
	frames(101, FRAME_TRAIN, RANKS, STEP, STEP);
	assert_int_equal(says, 1);
	frames(10, FRAME_TRAIN, RANKS, STEP, STEP);
	assert_int_equal(says, 0);
}

static void few_or_restless_checkpoints_are_not(void **unused)
{
	static const uint64_t restless[] = {4, 6, 3, 7, 5, 4, 8, 3, 6, 9, 4, 7};

	(void)unused;
	train_and_save(2, 4 * STEP);
	train_and_save(3, 9 * STEP);
	assert_int_equal(confirmed, 0);
	start(NULL);
	for (size_t i = 0; i < sizeof(restless) / sizeof(restless[0]); i++)
		train_and_save(1, restless[i] * STEP);
	assert_int_equal(confirmed, 0);
	/* Written in the background: nothing is to be seen of it. */
	start(NULL);
	train_and_save(30, 0);
	assert_int_equal(confirmed, 0);
}

static void hostile_frames(void **unused)
{
	(void)unused;
	for (int i = 0; i < 5000; i++) {
		for (size_t r = 0; r < RANKS; r++) {
			(void)near(64);
			rank[r] = (struct frame_rank){.here = random_state >> 63,
				.step_ns = random_state >> 62 & 1 ? UINT64_MAX - (random_state & 1) : random_state & 1,
				.end_ns = random_state};
		}
		step = i % 3 ? step : random_state;
		give((enum frame_class)(i % FRAME_CLASS_MAX), i % 5 ? RANKS : 0);
		if (says > 0)
			assert_true(isfinite(said.lost_ns) && isfinite(said.finding.slowdown));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_slow_job_is_suspected_and_reported, start),
		cmocka_unit_test_setup(most_ranks_must_be_slow, start),
		cmocka_unit_test_setup(the_median_is_the_median, start),
		cmocka_unit_test_setup(slower_checkpoints_are_reported, start),
		cmocka_unit_test_setup(few_or_restless_checkpoints_are_not, start),
		cmocka_unit_test_setup(hostile_frames, start),
	};

	return cmocka_run_group_tests(tests, NULL, stop);
}
