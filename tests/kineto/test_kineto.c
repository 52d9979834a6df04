/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same training with a data loader in the training process and with one of four worker processes (data/README.md): the
 * data loader must be named. The two runs are combined as two ranks of one job, and in sequence as one job that became
 * slow.
 */
#include "analyzers/detect/cause.h"
#include "analyzers/detect/detector.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define STEPS 12
#define US 1000ULL

extern const struct detector slow_rank_detector;

enum run { WORKERS_4, WORKERS_0, RUNS };
static const char *const run_names[RUNS] = {"workers_4", "workers_0"};

static struct frame_rank step_of[RUNS][STEPS];
static size_t steps[RUNS];

/* Without the waits that are added later. Where the short syncs lie is not known: in forward, as they are few. */
static void split(struct frame_rank *rank)
{
	uint64_t *ns = rank->activity_ns;

	for (int kind = STAGE_DATALOADER; kind < STAGE_KIND_MAX; kind++)
		ns[activity_of_stage((enum stage_kind)kind)] = rank->stage_ns[kind];
	assert_true(ns[ACTIVITY_SYNC] <= ns[ACTIVITY_FORWARD]);
	ns[ACTIVITY_FORWARD] -= ns[ACTIVITY_SYNC];
	ns[ACTIVITY_OUTSIDE] = rank->step_ns;
	for (int i = ACTIVITY_OUTSIDE + 1; i < ACTIVITY_MAX; i++) {
		assert_true(ns[i] <= ns[ACTIVITY_OUTSIDE]);
		ns[ACTIVITY_OUTSIDE] -= ns[i];
	}
}

static void read_line(const char *line)
{
	char run[32], trace[32];
	unsigned long long step, length, loader, forward, zero, backward, optimizer, sync;
	int fields = sscanf(line, "%31[^,],%31[^,],%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu", run, trace, &step, &length,
		&loader, &forward, &zero, &backward, &optimizer, &sync);

	if (fields != 10)
		return;
	for (size_t i = 0; i < RUNS; i++) {
		struct frame_rank *rank = &step_of[i][steps[i]];

		if (strcmp(run, run_names[i]) != 0)
			continue;
		assert_true(steps[i]++ < STEPS);
		*rank = (struct frame_rank){.here = true, .step_ns = length * US};
		rank->stage_ns[STAGE_DATALOADER] = loader * US;
		rank->stage_ns[STAGE_FORWARD] = forward * US;
		rank->stage_ns[STAGE_ZERO_GRAD] = zero * US;
		rank->stage_ns[STAGE_BACKWARD] = backward * US;
		rank->stage_ns[STAGE_OPTIMIZER] = optimizer * US;
		rank->stage_ns[STAGE_SYNC] = sync * US;
		split(rank);
		rank->host = (struct frame_host){.cpu_ns = FRAME_UNKNOWN,
			.run_delay_ns = FRAME_UNKNOWN,
			.throttled_ns = FRAME_UNKNOWN,
			.major_faults = FRAME_UNKNOWN,
			.launch_gap_ns = FRAME_UNKNOWN};
	}
}

static int read_steps(void **state)
{
	FILE *file = fopen(KINETO_DATA "/steps.csv", "r");
	char line[256];

	(void)state;
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		read_line(line);
	fclose(file);
	assert_int_equal(steps[WORKERS_0], STEPS);
	assert_int_equal(steps[WORKERS_4], STEPS);
	return 0;
}

static struct frame_who who[2] = {{.rank = 0, .node = 0, .stage = FRAME_NONE, .card = "0"},
	{.rank = 1, .node = 0, .stage = FRAME_NONE, .card = "1"}};
static struct frame_rank ranks[2];
static struct frame frame;

/* Step i of both, as under DistributedDataParallel: both leave backward together, the first one waits in it. Nothing else
 * is changed. */
static void both(size_t i, enum run first, enum run second, size_t shift)
{
	uint64_t longest;

	ranks[0] = step_of[first][i % STEPS];
	ranks[1] = step_of[second][(i + shift) % STEPS];
	longest = ranks[0].step_ns > ranks[1].step_ns ? ranks[0].step_ns : ranks[1].step_ns;
	for (size_t r = 0; r < 2; r++) {
		ranks[r].stage_ns[STAGE_BACKWARD] += longest - ranks[r].step_ns;
		ranks[r].activity_ns[ACTIVITY_BACKWARD] += longest - ranks[r].step_ns;
		ranks[r].step_ns = longest;
	}
	frame = (struct frame){.step = i + 1,
		.class = FRAME_TRAIN,
		.tier = FRAME_TIER_STAGES,
		.world_size = 2,
		.cards = 2,
		.ranks = 2,
		.who = who,
		.rank = ranks};
}

static struct verdict said[64];
static size_t n_said;

static void on_verdict(void *arg, const struct verdict *verdict)
{
	(void)arg;
	assert_true(n_said < 64);
	said[n_said++] = *verdict;
}

static void on_want(void *arg, unsigned wants, const char *why)
{
	(void)arg;
	(void)wants;
	(void)why;
}

/* Feeds n steps to the detector; verdicts go to said[]. */
static void watch(size_t n, enum run first, enum run second, size_t shift)
{
	const struct detect_options options = {.slow_ratio = 1.05,
		.slow_z = 5,
		.slow_frames = 5,
		.slow_of = 8,
		.gain_min = 0.03,
		.job_ratio = 1.1,
		.suspect_frames = 3,
		.relief_frames = 10};
	const struct detector_out out = {on_verdict, on_want, NULL};
	struct measure *measure = measure_new();
	void *state = slow_rank_detector.new(&options);
	const struct measures *measures;

	assert_true(measure && state);
	n_said = 0;
	for (size_t i = 0; i < n; i++) {
		both(i, first, second, shift);
		assert_int_equal(measure_frame(measure, &frame, &measures), 0);
		slow_rank_detector.frame(state, &frame, measures, measure, &out);
	}
	slow_rank_detector.free(state);
	measure_free(measure);
}

static void the_rank_and_its_data_loader_are_named(void **state)
{
	size_t confirmed = 0;

	(void)state;
	watch(STEPS, WORKERS_4, WORKERS_0, 0);
	for (size_t i = 0; i < n_said; i++) {
		assert_int_equal(said[i].finding.rank, 1);
		assert_string_equal(finding_cause_word(said[i].finding.cause), "dataloader");
		confirmed += said[i].confirmed;
	}
	assert_true(confirmed > 0);
	print_message(
		"%zu opinions, %zu confirmed, slowdown %.3f\n", n_said, confirmed, said[n_said - 1].finding.slowdown);
	watch(STEPS, WORKERS_0, WORKERS_4, 0);
	assert_true(n_said > 0);
	for (size_t i = 0; i < n_said; i++)
		assert_int_equal(said[i].finding.rank, 0);
}

static void two_alike_are_no_case(void **state)
{
	(void)state;
	watch(STEPS, WORKERS_0, WORKERS_0, 1);
	assert_int_equal(n_said, 0);
	watch(STEPS, WORKERS_4, WORKERS_4, 1);
	assert_int_equal(n_said, 0);
}

static double middle_step(enum run run)
{
	double sum = 0;

	for (size_t i = 0; i < STEPS; i++)
		sum += (double)step_of[run][i].step_ns / STEPS;
	return sum;
}

static void the_cause_beside_a_peer(void **state)
{
	struct finding finding = {.since_step = 1};
	struct cause *cause = cause_new();
	struct measure *measure = measure_new();
	const struct measures *measures;

	(void)state;
	for (size_t i = 0; i < STEPS; i++) {
		both(i, WORKERS_4, WORKERS_0, 0);
		assert_int_equal(measure_frame(measure, &frame, &measures), 0);
		cause_frame(cause, &frame, measures);
	}
	cause_of(cause, 1, middle_step(WORKERS_0) - middle_step(WORKERS_4), &finding);
	assert_string_equal(finding_cause_word(finding.cause), "dataloader");
	assert_string_equal(finding.evidence[0].name, "dataloader");
	print_message("data loading %.1f ms, its peer's %.1f ms\n", finding.evidence[0].value / 1e6,
		finding.evidence[0].peers / 1e6);
	assert_true(finding.evidence[0].value > 40e6 && finding.evidence[0].peers < 3e6);
	cause_free(cause);
	measure_free(measure);
}

/* One rank without peers: twice the steps of four workers, then of none. */
static void the_cause_beside_its_past(void **state)
{
	struct finding finding = {.since_step = 2 * STEPS + 1}, of_job = {0};
	double excess = middle_step(WORKERS_0) - middle_step(WORKERS_4);
	struct cause *cause = cause_new();
	struct measure *measure = measure_new();
	const struct measures *measures;

	(void)state;
	for (size_t i = 0; i < 3 * STEPS; i++) {
		both(i, i < 2 * STEPS ? WORKERS_4 : WORKERS_0, WORKERS_0, 0);
		ranks[0] = step_of[i < 2 * STEPS ? WORKERS_4 : WORKERS_0][i % STEPS];
		frame.ranks = frame.world_size = frame.cards = 1;
		assert_int_equal(measure_frame(measure, &frame, &measures), 0);
		cause_frame(cause, &frame, measures);
	}
	cause_of(cause, 0, excess, &finding);
	assert_string_equal(finding_cause_word(finding.cause), "dataloader");
	cause_of_job(cause, finding.since_step, excess, &of_job);
	assert_string_equal(finding_cause_word(of_job.cause), "dataloader");
	cause_free(cause);
	measure_free(measure);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rank_and_its_data_loader_are_named),
		cmocka_unit_test(two_alike_are_no_case),
		cmocka_unit_test(the_cause_beside_a_peer),
		cmocka_unit_test(the_cause_beside_its_past),
	};

	return cmocka_run_group_tests(tests, read_steps, NULL);
}
