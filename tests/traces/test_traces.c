/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real jobs with a known fault (data/README.md). AR: the worker of stage 0 and data-parallel rank 0 is slow. ST: the
 * last pipeline stage is overloaded. The verdicts name the slow worker of AR alone, and the stage of ST alone; what
 * they cost is near to what the authors simulated.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/detect.h"
#include "tests/test.h"
#include "tests/traces/found.h"
#include "tests/traces/frames.h"
#include "tests/traces/trace.h"

#define AR_S 1.973	  /* the authors' step time with the slow worker over that without */
#define ST_S_STAGE3 1.232 /* the same with the overloaded stage alone */
#define OF_AUTHORS 0.35	  /* ours is measured on the trace, not simulated */

static struct trace *of_file(const char *name)
{
	char path[4096];
	struct trace *trace;

	snprintf(path, sizeof(path), TRACES_DATA "/trace-%s.csv.gz", name);
	trace = trace_read(path);
	assert_non_null(trace);
	return trace;
}

/* All detectors on all steps of the trace. */
static void judged(struct trace *trace)
{
	const struct detect_sink sink = {.finding = on_finding};
	struct frames *frames = frames_new(trace);
	struct detect_options options;
	struct detect *detect;

	detect_options_default(&options);
	options.warm_ns = 0; /* the traces begin in the middle of a job */
	detect = detect_new(&options, &sink);
	assert_true(frames && detect);
	n_found = 0;
	for (size_t step = 0; step < trace->steps; step++)
		detect_frame(detect, "job", frames_step(frames, step));
	detect_end(detect);
	detect_free(detect);
	frames_free(frames);
	for (size_t i = 0; i < n_found; i++)
		print_message("%s\n", found[i].sentence);
}

TEST(the_slow_worker_alone_is_named)
{
	struct trace *trace = of_file("AR");

	assert_int_equal(trace->steps, 44);
	judged(trace);
	assert_int_equal(n_found, 1);
	assert_int_equal(found[0].kind, FINDING_SLOW_RANK);
	assert_int_equal(found[0].rank, 0);
	assert_int_equal(found[0].severity, SEVERITY_CRITICAL);
	assert_true(fabs(found[0].slowdown - AR_S) < OF_AUTHORS);
	trace_free(trace);
}

TEST(a_stage_with_too_much_accuses_nobody)
{
	struct trace *trace = of_file("ST");

	assert_int_equal(trace->steps, 32);
	judged(trace);
	assert_int_equal(n_found, 1);
	assert_int_equal(found[0].kind, FINDING_IMBALANCE);
	assert_int_equal(found[0].cause, CAUSE_STAGE);
	assert_int_equal(found[0].rank, -1);
	assert_string_equal(found[0].others, "6,7");
	assert_true(fabs(found[0].slowdown - ST_S_STAGE3) < OF_AUTHORS / 2);
	trace_free(trace);
}

/* In every step, its self time deviates from its class's. */
TEST(one_rank_stands_out)
{
	struct trace *trace = of_file("AR");
	struct frames *frames = frames_new(trace);
	struct measure *measure = measure_new();
	double least = INFINITY, most_of_others = 0;

	for (size_t step = 0; step < trace->steps; step++) {
		const struct frame *frame = frames_step(frames, step);
		const struct measures *measures;

		assert_int_equal(measure_frame(measure, frame, &measures), 0);
		for (uint32_t r = 0; r < frame->ranks; r++) {
			double *extreme = r == 0 ? &least : &most_of_others, ratio = measures->rank[r].ratio;

			*extreme = r == 0 ? fmin(least, ratio) : fmax(most_of_others, ratio);
		}
	}
	print_message(
		"AR self time over its peers': rank 0 at least %.3f, others at most %.3f\n", least, most_of_others);
	assert_true(least > 2 && most_of_others < 1.2);
	measure_free(measure);
	frames_free(frames);
	trace_free(trace);
}

TEST_MAIN(NULL, NULL)
