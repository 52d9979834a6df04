/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks stand, from processes of the aligner to ranks of jobs, and to the detectors that use them. */
#include "analyzers/detect/detect_internal.h"

#include <stdlib.h>
#include <string.h>

/* Input of all jobs. */
struct reports {
	uint64_t now_ns;
	const struct standing *standing;
	size_t standings;
	const struct stuck *stuck;
	const char *const *stuck_job;
	size_t stucks;
	bool operations;
};

/* What of it is one job's. */
struct input {
	struct standing *standing; /* one a rank of the job */
	struct stuck *stuck;
	uint32_t *index; /* of culprits and waiters of all stuck ones */
	size_t stucks, indices;
};

static void detect_snapshot_free(struct input *input)
{
	free(input->standing);
	free(input->stuck);
	free(input->index);
}

static bool detect_snapshot_is_of(const struct detect *detect, uint32_t process, uint32_t job, uint32_t *ret_index)
{
	uint32_t where;

	return process <= INT32_MAX && align_locate(detect->align, (int)process, &where, ret_index) && where == job;
}

static size_t detect_snapshot_bounded(const uint32_t *process, size_t processes)
{
	return !process ? 0 : processes < ALIGN_RANKS_MAX ? processes : ALIGN_RANKS_MAX;
}

static bool detect_snapshot_reserve(struct input *input, const struct reports *reports, size_t ranks)
{
	size_t indices = 0;

	for (size_t i = 0; i < reports->stucks; i++)
		indices += detect_snapshot_bounded(reports->stuck[i].culprit, reports->stuck[i].culprits) +
			   detect_snapshot_bounded(reports->stuck[i].waiter, reports->stuck[i].waiters);
	*input = (struct input){.standing = calloc(ranks + 1, sizeof(*input->standing)),
		.stuck = calloc(reports->stucks + 1, sizeof(*input->stuck)),
		.index = calloc(indices + 1, sizeof(*input->index))};
	for (size_t i = 0; input->standing && i < ranks; i++)
		input->standing[i] = (struct standing){.rank = (uint32_t)i};
	return input->standing && input->stuck && input->index;
}

/* True if there is input of the job. */
static bool sort_standings(
	const struct detect *detect, const struct reports *reports, uint32_t number, size_t ranks, struct input *input)
{
	bool any = false;
	uint32_t index;

	for (size_t i = 0; i < reports->standings; i++) {
		if (!detect_snapshot_is_of(detect, reports->standing[i].rank, number, &index) || index >= ranks)
			continue;
		input->standing[index] = reports->standing[i];
		input->standing[index].rank = index;
		any = true;
	}
	return any;
}

/* Those of the processes that are ranks of the job, by their index. */
static const uint32_t *indices_of(const struct detect *detect, uint32_t number, size_t ranks, const uint32_t *process,
	size_t *processes, struct input *input)
{
	uint32_t *first = &input->index[input->indices], index;
	size_t count = detect_snapshot_bounded(process, *processes), n = 0;

	for (size_t i = 0; i < count; i++) {
		if (detect_snapshot_is_of(detect, process[i], number, &index) && index < ranks)
			first[n++] = index;
	}
	input->indices += n;
	*processes = n;
	return first;
}

static void sort_stuck(const struct detect *detect, const struct reports *reports, uint32_t number,
	const struct align_job_info *job, struct input *input)
{
	for (size_t i = 0; i < reports->stucks; i++) {
		const struct stuck *from = &reports->stuck[i];
		struct stuck *stuck = &input->stuck[input->stucks];

		if (strcmp(reports->stuck_job[i], job->job) != 0)
			continue;
		*stuck = *from;
		stuck->communicator[sizeof(stuck->communicator) - 1] = 0;
		stuck->sentence[sizeof(stuck->sentence) - 1] = 0;
		stuck->culprit = indices_of(detect, number, job->ranks, from->culprit, &stuck->culprits, input);
		stuck->waiter = indices_of(detect, number, job->ranks, from->waiter, &stuck->waiters, input);
		/* Of another job of that word. Of one that no rank is to blame for, its members wait. */
		if ((from->culprits && !stuck->culprits) || (from->waiters && !stuck->culprits && !stuck->waiters))
			continue;
		input->stucks++;
	}
}

static void on_snapshot_verdict(void *arg, const struct verdict *verdict)
{
	struct detect_session *session = arg;

	hang_findings_add(session->job->hangs, verdict, &session->context);
}

static void detect_snapshot_judge(struct detect *detect, const struct reports *reports, struct detect_job *job,
	const struct align_job_info *known, const struct input *input)
{
	struct snapshot snapshot = {.now_ns = reports->now_ns,
		.step_ns = known->step_ns,
		.checkpoint_ns = known->checkpoint_ns,
		.warm_ns = known->warm_ns,
		.phase_ns = known->phase_ns,
		.world_size = known->world_size,
		.cards = job->cards,
		.ranks = known->ranks,
		.who = known->who,
		.standing = input->standing,
		.stucks = input->stucks,
		.stuck = input->stuck,
		.operations = reports->operations};
	struct detect_session session = {job, {.who = known->who,
						      .ranks = known->ranks,
						      .cards = job->cards,
						      .tier = job->tier,
						      .step = job->step,
						      .now_ns = reports->now_ns}};
	const struct detector_out out = {on_snapshot_verdict, detect_want, &session};

	for (size_t i = 0; i < detect->count; i++) {
		if (detect->detectors[i]->snapshot)
			detect->detectors[i]->snapshot(job->state[i], &snapshot, &out);
	}
	hang_findings_round(job->hangs, reports->now_ns);
}

static void detect_snapshot_job(
	struct detect *detect, const struct reports *reports, uint32_t number, const struct align_job_info *known)
{
	struct detect_job *job;
	struct input input;

	if (detect_snapshot_reserve(&input, reports, known->ranks) &&
		sort_standings(detect, reports, number, known->ranks, &input)) {
		sort_stuck(detect, reports, number, known, &input);
		job = detect_job_find(detect, number, known);
		if (job)
			detect_snapshot_judge(detect, reports, job, known, &input);
	}
	detect_snapshot_free(&input);
}

void detect_snapshot(struct detect *detect, uint64_t now_ns, const struct standing *standing, size_t standings,
	const struct stuck *stuck, const char *const *stuck_job, size_t stucks, bool operations)
{
	const struct reports reports = {now_ns, standing, standings, stuck, stuck_job, stucks, operations};
	struct align_job_info known;

	detect->now_ns = now_ns;
	for (uint32_t number = 0; number < ALIGN_JOBS_MAX && align_job_info(detect->align, number, &known); number++) {
		if (!known.ended)
			detect_snapshot_job(detect, &reports, number, &known);
	}
}
