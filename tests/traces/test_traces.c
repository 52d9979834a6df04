/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real jobs with a known fault (data/README.md). AR: the worker of stage 0 and data-parallel rank 0 is slow. ST: the
 * last pipeline stage is overloaded. Our replay reproduces the authors' what-if results; the judge names the slow
 * worker of AR alone, and no rank of ST.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "analyzers/detect/detector.h"
#include "analyzers/judge/measure.h"
#include "tests/traces/frames.h"
#include "tests/traces/trace.h"
#include "tests/traces/whatif.h"

#define OF_AUTHORS 0.02	    /* tolerance to the authors' figures: relative of quotients, absolute of shares */
#define IMBALANCE_WINDOW 11 /* steps before it is reported: 12 of 16 must show it */
#define STEPS_MAX 64
#define RANKS_MAX 64

extern const struct detector imbalance_detector, slow_communication_detector;

static void say_figure(const char *trace, const char *name, double ours, double theirs)
{
	printf("%s %-12s %8.4f   theirs %7.3f\n", trace, name, ours, theirs);
}

static void is_near(const char *trace, const char *name, double ours, double theirs)
{
	say_figure(trace, name, ours, theirs);
	assert_true(fabs(ours - theirs) <= OF_AUTHORS * fmax(1, fabs(theirs)));
}

static struct trace *of_file(const char *name)
{
	char path[4096];
	struct trace *trace;

	snprintf(path, sizeof(path), TRACES_DATA "/trace-%s.csv.gz", name);
	trace = trace_read(path);
	assert_non_null(trace);
	return trace;
}

static void the_authors_figures_of_a_slow_worker(void **state)
{
	struct trace *trace = of_file("AR");
	struct whatif_case figures = {0};

	(void)state;
	assert_int_equal(trace->steps, 44);
	assert_int_equal(whatif(trace, &figures), 0);
	is_near("AR", "S", figures.s, 1.973);
	is_near("AR", "S_dp0", figures.s_dp[0], 1.973);
	is_near("AR", "S_stage0", figures.s_stage[0], 1.979);
	is_near("AR", "M_W", figures.m_w, 1.002);
	is_near("AR", "M_S", figures.m_s, 0);
	assert_int_equal(figures.slowest_dp, 0);
	assert_int_equal(figures.slowest_stage, 0);
	for (uint32_t dp = 1; dp < trace->dps; dp++)
		assert_true(figures.s_dp[dp] < 1.02);
	trace_free(trace);
}

static void the_authors_figures_of_a_stage_with_too_much(void **state)
{
	struct trace *trace = of_file("ST");
	struct whatif_case figures = {0};

	(void)state;
	assert_int_equal(trace->steps, 32);
	assert_int_equal(whatif(trace, &figures), 0);
	is_near("ST", "S", figures.s, 1.179);
	is_near("ST", "S_stage3", figures.s_stage[3], 1.232);
	is_near("ST", "M_W", figures.m_w, 0.031);
	is_near("ST", "M_S", figures.m_s, 1.219);
	trace_free(trace);
}

struct said {
	uint32_t times[RANKS_MAX]; /* confirmed, of each rank */
	bool now[RANKS_MAX];	   /* in this step */
	uint32_t of_nobody;
	double slowdown; /* of the last verdict */
};

static void hear(void *arg, const struct verdict *verdict)
{
	struct said *said = arg;

	if (!verdict->confirmed)
		return;
	if (verdict->finding.rank < 0) {
		said->of_nobody++;
		return;
	}
	assert_in_range(verdict->finding.rank, 0, RANKS_MAX - 1);
	said->times[verdict->finding.rank]++;
	said->now[verdict->finding.rank] = true;
	said->slowdown = verdict->finding.slowdown;
}

/* Verdicts of the detector on the trace; of slow: in every step. */
static void judge(const struct detector *detector, struct trace *trace, struct said *said, bool *slow, uint32_t of)
{
	struct detect_options options = {.slow_ratio = 1.05,
		.slow_z = 5,
		.slow_frames = 5,
		.slow_of = 8,
		.gain_min = 0.03,
		.hang_ns = 30000000000,
		.hang_busy_ns = 600000000000,
		.relief_frames = 10};
	struct detector_out out = {.emit = hear, .arg = said};
	struct frames *frames = frames_new(trace);
	struct measure *measure = measure_new();
	void *state = detector->new (&options);

	*said = (struct said){0};
	assert_non_null(frames);
	assert_non_null(measure);
	assert_non_null(state);
	for (size_t step = 0; step < trace->steps; step++) {
		const struct frame *frame = frames_step(frames, step);
		const struct measures *measures;

		for (size_t r = 0; r < RANKS_MAX; r++)
			said->now[r] = false;
		assert_int_equal(measure_frame(measure, frame, &measures), 0);
		detector->frame(state, frame, measures, measure, &out);
		slow[step] = said->now[of];
	}
	detector->free(state);
	measure_free(measure);
	frames_free(frames);
}

static struct finding found[16];
static size_t n_found;

static void on_finding(void *arg, const struct finding *finding)
{
	size_t i = 0;

	(void)arg;
	while (i < n_found && found[i].id != finding->id)
		i++;
	assert_true(i < sizeof(found) / sizeof(found[0]));
	found[i] = *finding;
	n_found += i == n_found;
}

static void judged(struct trace *trace)
{
	const struct judge_sink sink = {.finding = on_finding};
	struct frames *frames = frames_new(trace);
	struct measure *measure = measure_new();
	struct judge_options options;
	uint64_t next_id = 1;
	struct judge *judge;

	judge_options_default(&options);
	judge = judge_new(&options, "job", &sink, &next_id);
	assert_true(frames && measure && judge);
	n_found = 0;
	for (size_t step = 0; step < trace->steps; step++) {
		const struct frame *frame = frames_step(frames, step);
		const struct measures *measures;

		assert_int_equal(measure_frame(measure, frame, &measures), 0);
		assert_int_equal(judge_frame(judge, frame, measures), 0);
	}
	judge_end(judge);
	judge_free(judge);
	measure_free(measure);
	frames_free(frames);
}

static void the_slow_worker_alone_is_named(void **state)
{
	struct trace *trace = of_file("AR");

	(void)state;
	judged(trace);
	assert_int_equal(n_found, 1);
	print_message("AR: %s\n", found[0].sentence);
	assert_int_equal(found[0].kind, FINDING_SLOW_RANK);
	assert_int_equal(found[0].rank, 0);
	assert_int_equal(found[0].severity, SEVERITY_CRITICAL);
	assert_true(fabs(found[0].slowdown - 1.973) < 0.35);
	trace_free(trace);
}

static void a_stage_with_too_much_accuses_nobody(void **state)
{
	struct trace *trace = of_file("ST");

	(void)state;
	judged(trace);
	assert_int_equal(n_found, 0);
	trace_free(trace);
}

/* In every step: where its self time deviates, and the step time without it. */
static void one_rank_stands_out_and_costs(void **state)
{
	struct trace *trace = of_file("AR");
	struct frames *frames = frames_new(trace);
	struct measure *measure = measure_new();
	double least = INFINITY, most_of_others = 0, gain_least = 1, gain_of_others = 0, error_most = 0;

	(void)state;
	for (size_t step = 0; step < trace->steps; step++) {
		const struct frame *frame = frames_step(frames, step);
		const struct measures *measures;

		assert_int_equal(measure_frame(measure, frame, &measures), 0);
		for (uint32_t r = 0; r < frame->ranks; r++) {
			const struct measure_rank *rank = &measures->rank[r];
			uint64_t excess_ns =
				rank->ratio > 1 ? (uint64_t)((double)rank->self_ns * (1 - 1 / rank->ratio)) : 0;
			uint64_t as_is_ns, whatif_ns = measure_whatif(measure, frame, &r, &excess_ns, 1, &as_is_ns);
			double gain = 1 - (double)whatif_ns / (double)as_is_ns;

			assert_true(whatif_ns > 0 && as_is_ns > 0);
			error_most = fmax(error_most, fabs((double)as_is_ns / (double)measures->step_ns - 1));
			if (r == 0) {
				least = fmin(least, rank->ratio);
				gain_least = fmin(gain_least, gain);
			} else {
				most_of_others = fmax(most_of_others, rank->ratio);
				gain_of_others = fmax(gain_of_others, gain);
			}
		}
	}
	printf("AR self time over its peers': rank 0 at least %.3f, others at most %.3f\n", least, most_of_others);
	printf("AR gain without its excess: rank 0 at least %.3f, others at most %.3f; replay within %.2f %%\n",
		gain_least, gain_of_others, 100 * error_most);
	assert_true(least > 2 && most_of_others < 1.2);
	assert_true(gain_least > 0.4 && gain_of_others < 0.01);
	assert_true(error_most < 0.02);
	measure_free(measure);
	frames_free(frames);
	trace_free(trace);
}

/* Much longer transfers in AR cost nothing: the others wait for another rank. */
static void no_communicator_is_blamed(void **state)
{
	static const char *const names[] = {"AR", "ST"};
	bool slow[STEPS_MAX];

	(void)state;
	for (size_t n = 0; n < 2; n++) {
		struct trace *trace = of_file(names[n]);
		struct said said;

		judge(&slow_communication_detector, trace, &said, slow, 0);
		assert_int_equal(said.of_nobody, 0);
		trace_free(trace);
	}
}

static void imbalance_names_the_stage_alone(void **state)
{
	static const char *const names[] = {"AR", "ST"};
	bool slow[STEPS_MAX];

	(void)state;
	for (size_t n = 0; n < 2; n++) {
		struct trace *trace = of_file(names[n]);
		struct said said;

		judge(&imbalance_detector, trace, &said, slow, 0);
		printf("%s imbalance reported in %u of %zu steps\n", names[n], said.of_nobody, trace->steps);
		for (size_t r = 0; r < RANKS_MAX; r++)
			assert_int_equal(said.times[r], 0);
		if (n == 0)
			assert_int_equal(said.of_nobody, 0);
		else
			assert_true(said.of_nobody >= trace->steps - IMBALANCE_WINDOW);
		trace_free(trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_authors_figures_of_a_slow_worker),
		cmocka_unit_test(the_authors_figures_of_a_stage_with_too_much),
		cmocka_unit_test(one_rank_stands_out_and_costs),
		cmocka_unit_test(the_slow_worker_alone_is_named),
		cmocka_unit_test(a_stage_with_too_much_accuses_nobody),
		cmocka_unit_test(no_communicator_is_blamed),
		cmocka_unit_test(imbalance_names_the_stage_alone),
	};

	return cmocka_run_group_tests_name("straggler", tests, NULL, NULL);
}
