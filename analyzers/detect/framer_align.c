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

static bool is_placed(const struct framer_process *process)
{
	return process->align != FRAMER_UNPLACED;
}

/* All its slots that can still go out are the job's now. */
static void register_slots(struct framer *framer, struct framer_room *job, struct framer_process *process)
{
	if (job->head - process->offset > process->low)
		framer_slots_drop(framer, process, job->head - process->offset);
	for (int64_t step = process->low; step <= process->high; step++) {
		const struct framer_slot *slot = framer_slot_find(process, step);

		if (slot && slot->closed)
			framer_wait_ended(framer, job, framer_frame_of(process, step), slot->start_ns + slot->step_ns);
	}
}

static void align_steps_place(struct framer *framer, struct framer_process *process, enum framer_align how, int64_t offset)
{
	struct framer_room *job = framer_room_of(framer, process);

	if (!is_placed(process) && !process->ended)
		job->placed++;
	process->align = how;
	process->offset = offset;
	process->hopeless = false;
	process->vote = (struct framer_vote){0};
	process->shifts = 0;
	if (job->ref < 0)
		job->ref = process->number;
	if (process->node != FRAME_NONE && job->node_ref[process->node] < 0)
		job->node_ref[process->node] = process->number;
	register_slots(framer, job, process);
	framer_wait_update(job, process);
}

void framer_align_lose(struct framer *framer, struct framer_process *process)
{
	struct framer_room *job = framer_room_of(framer, process);

	framer_slots_drop(framer, process, INT64_MAX);
	process->low = 0;
	process->high = -1;
	process->newest = FRAMER_NO_STEP;
	process->vote = (struct framer_vote){0};
	framer_usual_from(process, UINT32_MAX);
	process->usual_once = UINT32_MAX;
	process->ops_live = false;
	process->lost_until = FRAMER_NO_STEP;
	process->ops_newest = process->ops_since = FRAMER_NO_STEP;
	process->steps_seen = 0;
	if (!is_placed(process))
		return;
	process->align = FRAMER_UNPLACED;
	process->from_start = false; /* its numbers do not say anything any more */
	if (!process->ended)
		job->placed--;
	framer_align_ended(framer, process);
	framer_wait_update(job, process);
}

/* With no process in place: this one's numbers count from here on. */
static void align_steps_found(struct framer *framer, struct framer_room *job, struct framer_process *process)
{
	int64_t offset = 0, first = process->low;

	while (first < process->high && !framer_slot_find(process, first))
		first++;
	if (job->begun) {
		int64_t next = job->top >= job->head ? job->top + 1 : job->head;

		framer_wait_flush(framer, job, job->top);
		offset = next - first;
	}
	job->ref = process->number;
	job->pending_ns = 0;
	framer_wait_begin(framer, job, first + offset);
	align_steps_place(framer, process, FRAMER_BY_NUMBER, offset);
}

/* Numbers tell, of processes seen from their start, where they stand about where the reference does, and that one is
 * not of a run before: all of a run begin their first step after all have started. */
static bool align_steps_by_number(const struct framer *framer, const struct framer_room *job, struct framer_process *process)
{
	const struct framer_process *ref = framer_process_get(framer, job->ref);
	int64_t apart;

	if (!process->from_start || !ref || !ref->from_start || ref->newest == FRAMER_NO_STEP)
		return false;
	if (ref->first_end_ns < process->after_ns)
		return false;
	apart = process->newest - ref->newest;
	return apart <= NUMBER_APART_MAX && apart >= -NUMBER_APART_MAX;
}

static void try_place(struct framer *framer, struct framer_room *job, struct framer_process *process)
{
	const struct framer_process *ref = NULL;
	int64_t offset;

	if (align_steps_by_number(framer, job, process)) {
		ref = framer_process_get(framer, job->ref);
		align_steps_place(framer, process, FRAMER_BY_NUMBER, ref->offset);
		return;
	}
	if (process->node != FRAME_NONE)
		ref = framer_process_get(framer, job->node_ref[process->node]);
	if (ref && ref != process && framer_evidence_time(process, ref, &offset)) {
		align_steps_place(framer, process, FRAMER_BY_TIME, offset);
		return;
	}
	if (process->steps_seen > TRIES_MAX)
		process->hopeless = true;
	if (process->hopeless && !process->told) {
		process->told = true;
		framer->counts.ranks_left_out++;
	}
	framer_wait_update(job, process);
}

/* Nobody is in place: the one seen from its start with the lowest index is, at once where it is the one that asks;
 * among those attached in mid-run the lowest index, once all had a step or it is late. */
static struct framer_process *align_steps_choose(const struct framer_room *job, bool late)
{
	struct framer_process *first = NULL;
	bool all = true;

	for (size_t i = 0; i < job->ranks; i++) {
		struct framer_process *process = job->live[i];

		if (!process || process->ended)
			continue;
		if (process->newest == FRAMER_NO_STEP) {
			all = false;
			continue;
		}
		if (process->steps_seen >= FRAMER_UNPLACED_MAX / 2)
			late = true;
		if (!first || (process->from_start && !first->from_start))
			first = process;
	}
	return first && (first->from_start || all || late) ? first : NULL;
}

void framer_align_tick(struct framer *framer, struct framer_room *job, bool late)
{
	struct framer_process *first;

	if (job->placed || !job->alive)
		return;
	first = align_steps_choose(job, late);
	if (!first)
		return;
	align_steps_found(framer, job, first);
	for (size_t i = 0; i < job->ranks; i++) {
		struct framer_process *process = job->live[i];

		if (process && !process->ended && !is_placed(process) && process->newest != FRAMER_NO_STEP)
			try_place(framer, job, process);
	}
	framer_wait_recount(job);
}

void framer_align_step(struct framer *framer, struct framer_process *process)
{
	struct framer_room *job = framer_room_of(framer, process);
	const struct framer_process *ref;

	if (!is_placed(process) && !job->placed) {
		if (!job->pending_ns)
			job->pending_ns = framer->now_ns ? framer->now_ns : 1;
		framer_align_tick(framer, job, false);
		return;
	}
	if (!is_placed(process)) {
		try_place(framer, job, process);
		return;
	}
	if (process->node == FRAME_NONE || process->ops_live || job->ref == process->number)
		return;
	ref = framer_process_get(framer, job->node_ref[process->node]);
	if (ref && ref != process)
		framer_evidence_shift(framer, process, ref);
}

/* Boyer and Moore's majority, of those that differ; those that agree are counted. */
void framer_align_vote(struct framer *framer, struct framer_process *process, int64_t offset)
{
	struct framer_room *job = framer_room_of(framer, process);
	struct framer_vote *vote = &process->vote;

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
			align_steps_place(framer, process, FRAMER_BY_OPS, vote->other);
		return;
	}
	if ((vote->others >= VOTES_QUICK && !vote->same) || vote->others > VOTES_WINDOW / 2)
		align_steps_place(framer, process, FRAMER_BY_OPS, vote->other);
	else if (vote->total >= VOTES_WINDOW)
		*vote = (struct framer_vote){0};
}

static struct framer_process *placed_but(
	const struct framer_room *job, const struct framer_process *but, uint32_t node)
{
	for (size_t i = 0; i < job->ranks; i++) {
		struct framer_process *process = job->live[i];

		if (process && process != but && !process->ended && is_placed(process) &&
			(node == FRAME_NONE || process->node == node))
			return process;
	}
	return NULL;
}

void framer_align_ended(struct framer *framer, struct framer_process *process)
{
	struct framer_room *job = framer_room_of(framer, process);
	struct framer_process *next;

	if (job->ref == process->number) {
		next = placed_but(job, process, FRAME_NONE);
		job->ref = next ? next->number : -1;
	}
	if (process->node != FRAME_NONE && job->node_ref[process->node] == process->number) {
		next = placed_but(job, process, process->node);
		job->node_ref[process->node] = next ? next->number : -1;
	}
}
