/* SPDX-License-Identifier: Apache-2.0 */
/* Frames to steps of the rank, and which of them are chosen and usual. */
#include "analyzers/why/why_internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "analyzers/base/array.h"

static const struct {
	const char *word, *title;
} kinds[WHY_KIND_MAX] = {
	[WHY_WORK] = {"work", "its own work"},
	[WHY_WAITING] = {"waiting", "waiting for other ranks"},
	[WHY_READY] = {"ready", "ready, without a CPU"},
	[WHY_THROTTLED] = {"throttled", "throttled by the CPU limit of its control group"},
	[WHY_BLOCKED] = {"blocked", "asleep, or waiting for the kernel or a device"},
};

const char *why_kind_word(enum why_kind kind)
{
	return kinds[kind].word;
}

const char *why_kind_title(enum why_kind kind)
{
	return kinds[kind].title;
}

struct why *why_new(const struct why_options *options)
{
	struct why *why = calloc(1, sizeof(*why));

	if (!why)
		return NULL;
	why->options = *options;
	why->measure = measure_new();
	return why->measure ? why : why_free(why);
}

struct why *why_free(struct why *why)
{
	if (!why)
		return NULL;
	for (size_t i = 0; i < why->jobs_count; i++) {
		free(why->job[i].step);
		free(why->job[i].peer);
	}
	free(why->covered.at);
	free(why->stages.at);
	free(why->off.at);
	free(why->shorts.at);
	free(why->off_others.at);
	measure_free(why->measure);
	free(why);
	return NULL;
}

static struct why_jobs *why_job_of(struct why *why, uint64_t job)
{
	for (size_t i = 0; i < why->jobs_count; i++)
		if (why->job[i].job == job)
			return &why->job[i];
	if (why->jobs_count == WHY_JOBS_MAX)
		return NULL;
	why->job[why->jobs_count] = (struct why_jobs){.job = job};
	return &why->job[why->jobs_count++];
}

/* What the activity takes at least on any rank of the step. */
static double why_least(const struct frame *frame, enum activity activity)
{
	double least = INFINITY;

	for (size_t i = 0; i < frame->ranks; i++)
		if (frame->rank[i].here)
			least = fmin(least, (double)frame->rank[i].activity_ns[activity]);
	return least;
}

/* Divides `wait_ns` among activities by weight, no more than the activity in each. Returns what is left. */
static double why_divide(double wait_ns, const double weight[ACTIVITY_MAX], const double activity_ns[ACTIVITY_MAX],
	double ret[ACTIVITY_MAX])
{
	double sum = 0, given = 0;

	for (enum activity a = 0; a < ACTIVITY_MAX; a++)
		sum += weight[a];
	for (enum activity a = 0; a < ACTIVITY_MAX && sum > 0; a++) {
		double part = fmin(weight[a] * fmin(1, wait_ns / sum), activity_ns[a] - ret[a]);

		ret[a] += part;
		given += part;
	}
	return wait_ns - given;
}

/*
 * Of steps of stages alone, what activities in which ranks may wait have beyond the least of all ranks. Where waits are
 * known, they lie there first; what is left of them, where the rank is longer than that, and then anywhere.
 */
static void why_waiting(
	const struct frame *frame, const struct measure_rank *measured, size_t rank, double ret[ACTIVITY_MAX])
{
	bool cards = frame->who[rank].card[0], stages_only = frame->tier == FRAME_TIER_STAGES;
	double activity_ns[ACTIVITY_MAX], longer[ACTIVITY_MAX], may_wait[ACTIVITY_MAX], wait_ns;

	for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
		activity_ns[a] = (double)frame->rank[rank].activity_ns[a];
		longer[a] = fmax(0, activity_ns[a] - why_least(frame, a));
		may_wait[a] = activity_may_wait(a, cards) ? longer[a] : 0;
		ret[a] = stages_only ? may_wait[a] : 0;
	}
	if (stages_only || measured->wait_ns == FRAME_UNKNOWN)
		return;
	wait_ns = why_divide((double)measured->wait_ns, may_wait, activity_ns, ret);
	if (wait_ns > 0)
		wait_ns = why_divide(wait_ns, longer, activity_ns, ret);
	if (wait_ns > 0)
		(void)why_divide(wait_ns, activity_ns, activity_ns, ret);
}

static double why_known(uint64_t ns)
{
	return ns == FRAME_UNKNOWN ? 0 : (double)ns;
}

static void why_step_of(const struct frame *frame, const struct measures *measures, size_t rank, struct why_step *ret)
{
	const struct frame_rank *from = &frame->rank[rank];
	double work_ns = 0, off_ns;

	*ret = (struct why_step){
		.end_ns = from->end_ns,
		.step_ns = from->step_ns,
		.faults = from->host.major_faults == FRAME_UNKNOWN ? NAN : (double)from->host.major_faults,
		.preemptor_pid = from->host.preemptor_pid,
		.preemptor_ns = (double)from->host.preemptor_ns,
		.tier = (uint8_t)frame->tier,
		.ordinary = frame->class == FRAME_TRAIN,
	};
	memcpy(ret->preemptor_name, from->host.preemptor_name, sizeof(ret->preemptor_name));
	why_waiting(frame, &measures->rank[rank], rank, ret->waiting_ns);
	for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
		ret->activity_ns[a] = (double)from->activity_ns[a];
		work_ns += ret->activity_ns[a] - ret->waiting_ns[a];
	}
	/* The control group's time is a sum over CPUs, and may be more than the step; run delay contains it. */
	ret->throttled_ns = fmin(why_known(from->host.throttled_ns), work_ns);
	off_ns = fmin(fmax(why_known(from->host.run_delay_ns), ret->throttled_ns), work_ns);
	ret->ready_ns = off_ns - ret->throttled_ns;
}

static int why_add_step(struct why_jobs *job, const struct why_step *step)
{
	if (!array_reserve((void **)&job->step, &job->capacity, job->steps + 1, sizeof(*job->step), WHY_STEPS_MAX))
		return job->steps < WHY_STEPS_MAX ? -ENOMEM : 0;
	job->step[job->steps++] = *step;
	job->chosen += step->chosen;
	return 0;
}

/* A peer's ready and throttled times are taken from its activities in proportion to their work. */
static void why_add_peer(struct why_peer *peer, const struct why_step *step)
{
	double work_ns = 0;

	for (enum activity a = 0; a < ACTIVITY_MAX; a++)
		work_ns += step->activity_ns[a] - step->waiting_ns[a];
	for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
		double work = step->activity_ns[a] - step->waiting_ns[a], part = work_ns > 0 ? work / work_ns : 0;

		peer->split.part[a][WHY_WAITING] += step->waiting_ns[a];
		peer->split.part[a][WHY_READY] += part * step->ready_ns;
		peer->split.part[a][WHY_THROTTLED] += part * step->throttled_ns;
		peer->split.part[a][WHY_WORK] += work - part * (step->ready_ns + step->throttled_ns);
	}
	peer->step_ns += (double)step->step_ns;
	peer->steps++;
}

static int why_add_peers(struct why_jobs *job, const struct frame *frame, const struct measures *measures, size_t own)
{
	struct why_peer *peer = job->peer;
	struct why_step step;

	if (frame->ranks > job->peers) {
		peer = reallocarray(job->peer, frame->ranks, sizeof(*peer));
		if (!peer)
			return -ENOMEM;
		memset(&peer[job->peers], 0, (frame->ranks - job->peers) * sizeof(*peer));
		job->peer = peer;
		job->peers = frame->ranks;
	}
	for (size_t i = 0; i < frame->ranks; i++) {
		if (i == own || !frame->rank[i].here)
			continue;
		why_step_of(frame, measures, i, &step);
		why_add_peer(&peer[i], &step);
	}
	return 0;
}

int why_frame(struct why *why, uint64_t job_id, const struct frame *frame)
{
	const struct measures *measures;
	struct why_step step;
	struct why_jobs *job;
	size_t own = 0;
	int r;

	if (!frame_is_split(frame))
		return 0;
	while (own < frame->ranks && (frame->who[own].rank != why->options.rank || !frame->rank[own].here))
		own++;
	if (own == frame->ranks || !(job = why_job_of(why, job_id)))
		return 0;
	r = measure_frame(why->measure, frame, &measures);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	job->who = frame->who[own];
	why_step_of(frame, measures, own, &step);
	step.chosen = step.end_ns > why->options.since_ns && step.end_ns - step.step_ns < why->options.until_ns;
	r = why_add_step(job, &step);
	return r < 0 || !step.chosen ? r : why_add_peers(job, frame, measures, own);
}

static uint64_t why_job_last(const struct why_jobs *job)
{
	uint64_t last_ns = 0;

	for (size_t i = 0; i < job->steps; i++)
		if (job->step[i].chosen && job->step[i].end_ns > last_ns)
			last_ns = job->step[i].end_ns;
	return last_ns;
}

bool why_job(const struct why *why, size_t index, uint64_t *ret_job)
{
	/* Few jobs: the index-th newest is the one with so many newer ones. */
	for (size_t i = 0; i < why->jobs_count; i++) {
		size_t newer = 0;

		for (size_t k = 0; k < why->jobs_count; k++)
			newer += why->job[k].chosen &&
				 (why_job_last(&why->job[k]) > why_job_last(&why->job[i]) ||
					 (why_job_last(&why->job[k]) == why_job_last(&why->job[i]) && k < i));
		if (!why->job[i].chosen || newer != index)
			continue;
		*ret_job = why->job[i].job;
		return true;
	}
	return false;
}

static int why_compare_length(const void *a, const void *b)
{
	const struct why_step *x = *(const struct why_step *const *)a, *y = *(const struct why_step *const *)b;

	return ORDER(x->step_ns, y->step_ns);
}

/* Of many, some at equal distances. */
static size_t why_thin(const struct why_step **from, size_t count, const struct why_step **ret)
{
	size_t used = count < WHY_STEPS_USED ? count : WHY_STEPS_USED;

	for (size_t i = 0; i < used; i++)
		ret[i] = from[i * count / used];
	return used;
}

#define WHY_WITHIN_LEAST 8 /* steps: their second quarter has two */

int why_choose(struct why *why, uint64_t job_id)
{
	const struct why_jobs *job = why_job_of(why, job_id);
	const struct why_step **steps;
	size_t count = 0, from;

	why->picked = job;
	steps = job ? calloc(job->steps + 1, sizeof(*steps)) : NULL;
	if (!steps)
		return -ENOMEM;
	for (size_t i = 0; i < job->steps; i++)
		if (job->step[i].chosen)
			steps[count++] = &job->step[i];
	why->chosen_all = count;
	why->chosen_count = why_thin(steps, count, why->chosen);
	count = 0;
	for (size_t i = 0; i < job->steps; i++)
		if (!job->step[i].chosen && job->step[i].ordinary)
			steps[count++] = &job->step[i];
	why->usual_within = count == 0;
	for (size_t i = 0; i < job->steps && why->usual_within; i++)
		if (job->step[i].ordinary)
			steps[count++] = &job->step[i];
	if (why->usual_within && count < WHY_WITHIN_LEAST)
		count = 0;
	qsort(steps, count, sizeof(*steps), why_compare_length);
	from = count / 4;
	why->usual_count = count ? why_thin(steps + from, (count + 1) / 2 - from, why->usual) : 0;
	free(steps);
	return 0;
}

void why_span(const struct why *why, uint64_t *ret_since_ns, uint64_t *ret_until_ns)
{
	uint64_t since_ns = UINT64_MAX, until_ns = 0;

	for (size_t i = 0; i < why->chosen_count + why->usual_count; i++) {
		const struct why_step *step =
			i < why->chosen_count ? why->chosen[i] : why->usual[i - why->chosen_count];
		uint64_t start_ns = step->end_ns - step->step_ns;

		since_ns = start_ns < since_ns ? start_ns : since_ns;
		until_ns = step->end_ns > until_ns ? step->end_ns : until_ns;
	}
	*ret_since_ns = since_ns < until_ns ? since_ns : until_ns;
	*ret_until_ns = until_ns;
}
