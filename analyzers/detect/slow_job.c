/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that takes longer for its steps than it did, without a word on who is behind it: the median step of its ranks
 * through failslow.h, and its checkpoints through failslow.h. Where only some ranks are slow and no rank waits for
 * them, the median is not, and naming them is slow_rank's; where they keep all others waiting, slow_rank names them
 * too, and findings.c lets that explain this.
 */
#include "analyzers/detect/detector.h"

#include "analyzers/detect/cause.h"
#include "analyzers/detect/failslow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define RANKS_MAX 16384
#define CRITICAL 1.5

struct slow_job {
	struct failslow *steps;
	struct cause *cause;
	struct checkpoints checkpoints;
	struct failslow_verdict verdict;
	struct verdict of_steps; /* the last one, repeated where a frame adds nothing */
	bool wanted;		 /* with this suspicion */
	uint64_t *value;	 /* space for RANKS_MAX */
};

extern const struct detector slow_job_detector;

static void *free_state(void *state)
{
	struct slow_job *job = state;

	if (!job)
		return NULL;
	failslow_free(job->steps);
	if (job->cause)
		cause_free(job->cause);
	free(job->value);
	free(job);
	return NULL;
}

static void *new_state(const struct detect_options *options)
{
	struct failslow_options steps = {.degree = options->job_ratio - 1, .suspect_steps = options->suspect_frames};
	struct slow_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->steps = failslow_new(&steps);
	job->cause = cause_new_of_job();
	job->value = calloc(RANKS_MAX, sizeof(*job->value));
	return job->steps && job->cause && job->value ? job : free_state(job);
}

/* The value that is at `at` once they are in order. Linear on the average; the pivot is the middle, so that ranks in
 * order are no bad case. */
static uint64_t nth(uint64_t *value, size_t n, size_t at)
{
	size_t low = 0, high = n - 1;

	while (low < high) {
		uint64_t pivot = value[low + (high - low) / 2];
		size_t i = low, j = high;

		for (;;) {
			while (value[i] < pivot)
				i++;
			while (value[j] > pivot)
				j--;
			if (i >= j)
				break;
			uint64_t swapped = value[i];

			value[i++] = value[j];
			value[j--] = swapped;
		}
		/* What is up to j is at most the pivot, and j is below high. */
		if (at <= j)
			high = j;
		else
			low = j + 1;
	}
	return value[low];
}

/* The median step of the ranks that are here: of an even number the lower one, so that more than half must be slow.
 * 0: no rank is here. ret_time: when it began, by the first rank's clock. */
static uint64_t median_step(struct slow_job *job, const struct frame *frame, uint64_t *ret_time)
{
	size_t n = 0;

	for (size_t i = 0; i < frame->ranks && n < RANKS_MAX; i++) {
		const struct frame_rank *rank = &frame->rank[i];

		if (!rank->here || rank->step_ns == 0 || rank->step_ns == FRAME_UNKNOWN)
			continue;
		if (n == 0)
			*ret_time = rank->end_ns > rank->step_ns ? rank->end_ns - rank->step_ns : 0;
		job->value[n++] = rank->step_ns;
	}
	return n > 0 ? nth(job->value, n, (n - 1) / 2) : 0;
}

static enum finding_severity severity_of(double slowdown)
{
	return slowdown >= CRITICAL ? SEVERITY_CRITICAL : SEVERITY_WARNING;
}

static void slow_job_fill_steps(struct slow_job *job, uint64_t step_ns)
{
	const struct failslow_verdict *failslow = &job->verdict;
	double reference = (double)failslow->reference_ns, confidence = failslow->ramp ? 0.8 : 0.9;
	bool confirmed = failslow->state == FAILSLOW_ALARM;
	struct verdict *verdict = &job->of_steps;

	*verdict = (struct verdict){
		.finding = {.kind = FINDING_SLOW_JOB,
			.cause = CAUSE_UNKNOWN,
			.severity = severity_of(failslow->ratio),
			.confidence = confirmed ? confidence : 0.5,
			.rank = -1,
			.since_step = failslow->onset_step,
			.since_ns = failslow->onset_ns,
			.slowdown = failslow->ratio},
		.confirmed = confirmed,
		.lost_ns = fmax((double)step_ns - reference, 0),
	};
	finding_add(&verdict->finding, "step_time", "ns", reference * failslow->ratio, reference,
		failslow->ramp ? "rising" : "");
	if (confirmed)
		cause_of_job(job->cause, failslow->onset_step, reference * (failslow->ratio - 1), &verdict->finding);
}

static void want_more(struct slow_job *job, const struct detector_out *out)
{
	char why[128];

	if (job->wanted || !out->want)
		return;
	job->wanted = true;
	snprintf(why, sizeof(why), "steps take %.2f times what they did, for %llu steps now", job->verdict.ratio,
		(unsigned long long)job->verdict.steps_since);
	out->want(out->arg, DETECT_WANT_OPERATIONS | DETECT_WANT_SYSTEM, why);
}

static void judge_steps(
	struct slow_job *job, const struct frame *frame, uint64_t step_ns, const struct detector_out *out)
{
	if (job->verdict.state < FAILSLOW_SUSPECT) {
		job->wanted = false;
		return;
	}
	if (frame->class == FRAME_TRAIN && step_ns > 0)
		slow_job_fill_steps(job, step_ns);
	else
		job->of_steps.lost_ns = 0;
	want_more(job, out);
	out->emit(out->arg, &job->of_steps);
}

/* With checkpoints as slow as the last one and as often as ever, over with those before. */
static double slowdown_of(const struct checkpoints *checkpoints, double step_ns)
{
	double between = (double)checkpoints->distance * step_ns + checkpoints->median_ns;

	return between > 0 ? 1 + (checkpoints->last_ns - checkpoints->median_ns) / between : 1;
}

static void slow_job_emit_checkpoints(const struct slow_job *job, bool now, const struct detector_out *out)
{
	const struct checkpoints *checkpoints = &job->checkpoints;
	double lost = checkpoints->last_ns - checkpoints->median_ns;
	double slowdown = slowdown_of(checkpoints, (double)job->verdict.reference_ns);
	struct verdict verdict = {
		.finding = {.kind = FINDING_SLOW_JOB,
			.cause = CAUSE_CHECKPOINT,
			.severity = severity_of(slowdown),
			.confidence = checkpoints->slow > 1 ? 0.8 : 0.4,
			.rank = -1,
			.since_step = checkpoints->onset_step,
			.since_ns = checkpoints->onset_ns,
			.slowdown = slowdown},
		.confirmed = checkpoints->slow > 1,
		.lost_ns = now ? lost : 0,
	};

	finding_add(&verdict.finding, "checkpoint", "ns", checkpoints->last_ns, checkpoints->median_ns, "");
	out->emit(out->arg, &verdict);
}

static void judge_checkpoints(struct slow_job *job, const struct frame *frame, uint64_t step_ns, uint64_t time_ns,
	const struct detector_out *out)
{
	bool is = frame->class == FRAME_CHECKPOINT && step_ns > 0 && job->verdict.reference_ns > 0;
	double whatif = (double)job->verdict.reference_ns * job->verdict.ratio;

	if (is)
		checkpoints_feed(&job->checkpoints, frame->step, time_ns, fmax((double)step_ns - whatif, 0), whatif);
	else
		checkpoints_pass(&job->checkpoints, frame->step);
	/* One finding at a time: they would be one, of two causes. */
	if (job->checkpoints.slow > 0 && job->verdict.state < FAILSLOW_SUSPECT)
		slow_job_emit_checkpoints(job, is, out);
}

static void slow_job_judge(void *state, const struct frame *frame, const struct measures *measures, struct measure *measure,
	const struct detector_out *out)
{
	struct slow_job *job = state;
	uint64_t time_ns = 0, step_ns = median_step(job, frame, &time_ns);

	(void)measure;
	cause_frame(job->cause, frame, measures);
	failslow_feed(job->steps, frame->step, time_ns, step_ns, frame->class, &job->verdict);
	judge_steps(job, frame, step_ns, out);
	judge_checkpoints(job, frame, step_ns, time_ns, out);
}

const struct detector slow_job_detector = {
	.name = "slow_job",
	.new = new_state,
	.free = free_state,
	.frame = slow_job_judge,
};
