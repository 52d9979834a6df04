/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step numbers of processes to frame numbers of their job. The first process with a place (the reference) gives its
 * numbers; the others get theirs by what they have in common with those that have one. A place once given changes only
 * by strong evidence: most of the last votes of operations, or step ends that all lie whole steps off.
 */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>

#define NUMBER_APART_MAX 64 /* steps between ranks that started together: events come in batches */
#define TRIES_MAX 48	    /* steps after which a process that nothing tells of is not waited for */
#define VOTES_FIRST 4	    /* operations that all say the same give a place */
#define VOTES_QUICK 12	    /* that many without one against them change it */
#define VOTES_WINDOW 64

static bool is_placed(const struct align_process *process)
{
	return process->align != ALIGN_UNPLACED;
}

/* All its slots that can still go out are the job's now. */
static void register_slots(struct align *align, struct align_job *job, struct align_process *process)
{
	if (job->head - process->offset > process->low)
		align_slots_drop(align, process, job->head - process->offset);
	for (int64_t step = process->low; step <= process->high; step++) {
		const struct align_slot *slot = align_slot_find(process, step);

		if (slot && slot->closed)
			align_wait_ended(align, job, align_frame_of(process, step), slot->start_ns + slot->step_ns);
	}
}

static void align_steps_place(struct align *align, struct align_process *process, enum align_method how, int64_t offset)
{
	struct align_job *job = align_job_of(align, process);

	if (!is_placed(process) && !process->ended)
		job->placed++;
	process->align = how;
	process->offset = offset;
	process->hopeless = false;
	process->vote = (struct align_vote){0};
	process->shifts = 0;
	if (job->ref < 0)
		job->ref = process->number;
	if (process->node != FRAME_NONE && job->node_ref[process->node] < 0)
		job->node_ref[process->node] = process->number;
	register_slots(align, job, process);
	align_wait_update(job, process);
}

void align_steps_lose(struct align *align, struct align_process *process)
{
	struct align_job *job = align_job_of(align, process);

	align_slots_drop(align, process, INT64_MAX);
	process->low = 0;
	process->high = -1;
	process->newest = ALIGN_NO_STEP;
	process->vote = (struct align_vote){0};
	align_usual_from(process, UINT32_MAX);
	process->usual_once = UINT32_MAX;
	process->coll_live = false;
	process->lost_until = ALIGN_NO_STEP;
	process->coll_newest = process->coll_since = ALIGN_NO_STEP;
	process->steps_seen = 0;
	if (!is_placed(process))
		return;
	process->align = ALIGN_UNPLACED;
	process->from_start = false; /* its numbers do not say anything any more */
	if (!process->ended)
		job->placed--;
	align_steps_ended(align, process);
	align_wait_update(job, process);
}

/* With no process in place: this one's numbers count from here on. */
static void align_steps_found(struct align *align, struct align_job *job, struct align_process *process)
{
	int64_t offset = 0, first = process->low;

	while (first < process->high && !align_slot_find(process, first))
		first++;
	if (job->begun) {
		int64_t next = job->top >= job->head ? job->top + 1 : job->head;

		align_wait_flush(align, job, job->top);
		offset = next - first;
	}
	job->ref = process->number;
	job->pending_ns = 0;
	align_wait_begin(align, job, first + offset);
	align_steps_place(align, process, ALIGN_BY_NUMBER, offset);
}

/* Numbers tell, of processes seen from their start, where they stand about where the reference does, and that one is
 * not of a run before: all of a run begin their first step after all have started. */
static bool align_steps_by_number(const struct align *align, const struct align_job *job, struct align_process *process)
{
	const struct align_process *ref = align_process_get(align, job->ref);
	int64_t apart;

	if (!process->from_start || !ref || !ref->from_start || ref->newest == ALIGN_NO_STEP)
		return false;
	if (ref->first_end_ns < process->after_ns)
		return false;
	apart = process->newest - ref->newest;
	return apart <= NUMBER_APART_MAX && apart >= -NUMBER_APART_MAX;
}

static void try_place(struct align *align, struct align_job *job, struct align_process *process)
{
	const struct align_process *ref = NULL;
	int64_t offset;

	if (align_steps_by_number(align, job, process)) {
		ref = align_process_get(align, job->ref);
		align_steps_place(align, process, ALIGN_BY_NUMBER, ref->offset);
		return;
	}
	if (process->node != FRAME_NONE)
		ref = align_process_get(align, job->node_ref[process->node]);
	if (ref && ref != process && align_evidence_time(process, ref, &offset)) {
		align_steps_place(align, process, ALIGN_BY_TIME, offset);
		return;
	}
	if (process->steps_seen > TRIES_MAX)
		process->hopeless = true;
	if (process->hopeless && !process->told) {
		process->told = true;
		align->counts.ranks_left_out++;
	}
	align_wait_update(job, process);
}

/* Nobody is in place: the one seen from its start with the lowest index is, at once where it is the one that asks;
 * among those attached in mid-run the lowest index, once all had a step or it is late. */
static struct align_process *align_steps_choose(const struct align_job *job, bool late)
{
	struct align_process *first = NULL;
	bool all = true;

	for (size_t i = 0; i < job->ranks; i++) {
		struct align_process *process = job->live[i];

		if (!process || process->ended)
			continue;
		if (process->newest == ALIGN_NO_STEP) {
			all = false;
			continue;
		}
		if (process->steps_seen >= ALIGN_UNPLACED_MAX / 2)
			late = true;
		if (!first || (process->from_start && !first->from_start))
			first = process;
	}
	return first && (first->from_start || all || late) ? first : NULL;
}

void align_steps_tick(struct align *align, struct align_job *job, bool late)
{
	struct align_process *first;

	if (job->placed || !job->alive)
		return;
	first = align_steps_choose(job, late);
	if (!first)
		return;
	align_steps_found(align, job, first);
	for (size_t i = 0; i < job->ranks; i++) {
		struct align_process *process = job->live[i];

		if (process && !process->ended && !is_placed(process) && process->newest != ALIGN_NO_STEP)
			try_place(align, job, process);
	}
	align_wait_recount(job);
}

void align_steps_step(struct align *align, struct align_process *process)
{
	struct align_job *job = align_job_of(align, process);
	const struct align_process *ref;

	if (!is_placed(process) && !job->placed) {
		if (!job->pending_ns)
			job->pending_ns = align->now_ns ? align->now_ns : 1;
		align_steps_tick(align, job, false);
		return;
	}
	if (!is_placed(process)) {
		try_place(align, job, process);
		return;
	}
	if (process->node == FRAME_NONE || process->coll_live || job->ref == process->number)
		return;
	ref = align_process_get(align, job->node_ref[process->node]);
	if (ref && ref != process)
		align_evidence_shift(align, process, ref);
}

/* Boyer and Moore's majority, of those that differ; those that agree are counted. */
void align_steps_vote(struct align *align, struct align_process *process, int64_t offset)
{
	struct align_job *job = align_job_of(align, process);
	struct align_vote *vote = &process->vote;

	if (job->ref == process->number)
		return;
	vote->total++;
	if (is_placed(process) && offset == process->offset) {
		vote->same++;
	} else if (!vote->others || vote->other == offset) {
		vote->other = offset;
		vote->others++;
	} else {
		vote->others--;
	}
	if (!is_placed(process)) {
		if (vote->others >= VOTES_FIRST)
			align_steps_place(align, process, ALIGN_BY_OPS, vote->other);
		return;
	}
	if ((vote->others >= VOTES_QUICK && !vote->same) || vote->others > VOTES_WINDOW / 2)
		align_steps_place(align, process, ALIGN_BY_OPS, vote->other);
	else if (vote->total >= VOTES_WINDOW)
		*vote = (struct align_vote){0};
}

static struct align_process *placed_but(
	const struct align_job *job, const struct align_process *but, uint32_t node)
{
	for (size_t i = 0; i < job->ranks; i++) {
		struct align_process *process = job->live[i];

		if (process && process != but && !process->ended && is_placed(process) &&
			(node == FRAME_NONE || process->node == node))
			return process;
	}
	return NULL;
}

void align_steps_ended(struct align *align, struct align_process *process)
{
	struct align_job *job = align_job_of(align, process);
	struct align_process *next;

	if (job->ref == process->number) {
		next = placed_but(job, process, FRAME_NONE);
		job->ref = next ? next->number : -1;
	}
	if (process->node != FRAME_NONE && job->node_ref[process->node] == process->number) {
		next = placed_but(job, process, process->node);
		job->node_ref[process->node] = next ? next->number : -1;
	}
}
