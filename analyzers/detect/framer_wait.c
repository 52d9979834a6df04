/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a frame may go out. Frames go in order, so that only the head is waited for: the job counts the processes that
 * are not done with it, and each event that could make one done looks at that one alone. When the head has gone, all
 * are looked at once, which costs no more than to write the frame.
 *
 * What does not come in time is not waited for again until it comes: the steps of a process (absent), its operations
 * (ops_live), its host samples (host_live).
 */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>

#define DUES_MIN 64

uint32_t framer_wait_max(const struct framer_room *job)
{
	uint32_t max = FRAMER_CELLS_MAX / (job->ranks ? (uint32_t)job->ranks : 1);

	if (max < FRAMER_OPEN_MIN)
		return FRAMER_OPEN_MIN;
	return max < FRAMER_OPEN_MAX ? UINT32_C(1) << (31 - __builtin_clz(max)) : FRAMER_OPEN_MAX;
}

void framer_wait_begin(struct framer *framer, struct framer_room *job, int64_t head)
{
	(void)framer;
	if (!job->begun || head > job->head)
		job->head = head;
	if (!job->begun)
		job->top = head - 1;
	job->begun = true;
}

static struct framer_due *due_of(struct framer_room *job, int64_t frame)
{
	return &job->due[(uint64_t)frame & (job->dues - 1)];
}

static bool align_wait_grow(struct framer_room *job, uint32_t need)
{
	uint32_t dues = job->dues ? job->dues : DUES_MIN, old_dues = job->dues;
	struct framer_due *grown, *old = job->due;

	while (dues < need)
		dues *= 2;
	if (dues == old_dues)
		return true;
	grown = calloc(dues, sizeof(*grown));
	if (!grown)
		return false;
	for (int64_t frame = job->head; old_dues && frame <= job->top; frame++)
		grown[(uint64_t)frame & (dues - 1)] = old[(uint64_t)frame & (old_dues - 1)];
	free(old);
	job->due = grown;
	job->dues = dues;
	return true;
}

void framer_wait_ended(struct framer *framer, struct framer_room *job, int64_t frame, uint64_t end_ns)
{
	uint32_t max = framer_wait_max(job);
	struct framer_due *due;
	uint64_t latest_ns = framer->now_ns + FRAMER_SETTLE_NS;

	if (frame < job->head)
		return;
	if (frame - job->head >= max)
		framer_wait_flush(framer, job, frame - max);
	if (!align_wait_grow(job, (uint32_t)(frame - job->head) + 1))
		return;
	for (; job->top < frame; job->top++)
		*due_of(job, job->top + 1) = (struct framer_due){0};
	due = due_of(job, frame);
	if (due->ended++)
		return;
	due->base_ns = end_ns;
	if (framer->now_ns && end_ns < framer->now_ns)
		due->base_ns = framer->now_ns;
	else if (framer->now_ns && end_ns > latest_ns)
		due->base_ns = latest_ns;
}

/* Not all of its operations are here, as far as the steps before tell. */
static bool lacks_ops(const struct framer_process *process, const struct framer_slot *slot)
{
	if (!process->ops_live || slot->partial || slot->step <= process->lost_until)
		return false;
	if (framer_is_unwatched(process) || framer_is_cut(process, slot))
		return false;
	if (process->usual == UINT32_MAX)
		return process->ops_newest <= slot->step;
	if (slot->records >= process->usual)
		return false;
	/* As many as one of the last two had: the other had one more (a broadcast each tenth step), and one of the next
	 * step tells as well that no more is to come. */
	return process->ops_newest < slot->step + (slot->records >= process->less ? 1 : 2);
}

static bool lacks_host(const struct framer_process *process, const struct framer_slot *slot)
{
	return process->host_live && slot->start_ns + slot->step_ns > process->host_until_ns;
}

bool framer_wait_done(const struct framer_room *job, const struct framer_process *process, int64_t frame)
{
	const struct framer_slot *slot;

	(void)job;
	if (framer_wait_lacks_step(process, frame))
		return process->absent || process->hopeless;
	slot = framer_slot_find(process, frame - process->offset);
	return !slot || !(lacks_ops(process, slot) || lacks_host(process, slot));
}

void framer_wait_update(struct framer_room *job, struct framer_process *process)
{
	bool waited = job->begun && !process->ended && !framer_wait_done(job, process, job->head);

	if (waited == process->waited)
		return;
	process->waited = waited;
	job->waiting += waited ? 1 : (size_t)-1;
}

void framer_wait_recount(struct framer_room *job)
{
	for (size_t i = 0; i < job->ranks; i++) {
		if (job->live[i])
			framer_wait_update(job, job->live[i]);
	}
}

/* Sends the head, or steps over it where nobody has it. */
static void pass(struct framer *framer, struct framer_room *job)
{
	bool any = due_of(job, job->head)->ended > 0;

	if (any)
		framer_out(framer, job);
	job->head++;
	if (job->top < job->head - 1)
		job->top = job->head - 1;
	framer_wait_recount(job);
}

/* Of a rank of which it is known how many records a step has; NULL: it is not, or it has none of the head. */
static struct framer_slot *expected_of(const struct framer_room *job, const struct framer_process *process)
{
	struct framer_slot *slot;

	if (!process || process->align == FRAMER_UNPLACED || process->usual == UINT32_MAX)
		return NULL;
	slot = framer_slot_find(process, job->head - process->offset);
	return slot && slot->records ? slot : NULL;
}

/* What one rank does now and then (a broadcast each tenth step), its peers do: those whose record of it is still to
 * come have as many as ever. Once a head: they are expected to have more, and waited for as for any. */
static void expect_more(struct framer_room *job)
{
	uint32_t more = 0;

	if (job->more < job->head || job->evened == job->head)
		return;
	job->evened = job->head;
	for (size_t i = 0; i < job->ranks; i++) {
		const struct framer_slot *slot = expected_of(job, job->live[i]);

		if (slot && slot->records > job->live[i]->usual && slot->records - job->live[i]->usual > more)
			more = slot->records - job->live[i]->usual;
	}
	for (size_t i = 0; i < job->ranks && more; i++) {
		if (!expected_of(job, job->live[i]))
			continue;
		job->live[i]->usual += more;
		framer_wait_update(job, job->live[i]);
	}
}

void framer_wait_pump(struct framer *framer, struct framer_room *job)
{
	while (job->begun && !job->waiting && job->head <= job->top) {
		expect_more(job);
		if (!job->waiting)
			pass(framer, job);
	}
}

/* What is waited for in vain is not waited for again. */
static void give_up(struct framer_room *job)
{
	for (size_t i = 0; i < job->ranks; i++) {
		struct framer_process *process = job->live[i];
		const struct framer_slot *slot;

		if (!process || !process->waited)
			continue;
		if (process->align == FRAMER_UNPLACED)
			process->hopeless = true;
		if (framer_wait_lacks_step(process, job->head)) {
			process->absent = true;
			continue;
		}
		slot = framer_slot_find(process, job->head - process->offset);
		if (!slot) /* it was dropped meanwhile */
			continue;
		if (lacks_host(process, slot))
			process->host_live = false;
		if (lacks_ops(process, slot) && !slot->records) {
			process->ops_live = false;
			framer_usual_from(process, UINT32_MAX);
		}
	}
}

void framer_wait_flush(struct framer *framer, struct framer_room *job, int64_t until)
{
	int64_t last = until < job->top ? until : job->top;

	while (job->begun && job->head <= last) {
		if (job->waiting)
			give_up(job);
		pass(framer, job);
	}
	if (job->begun && job->head <= until) {
		job->head = until + 1;
		job->top = until;
		framer_wait_recount(job);
	}
}

/* A rank that has not ended the step is waited for as long as nobody is two steps on: nothing else can go out then. */
static bool is_late(const struct framer *framer, const struct framer_room *job)
{
	const struct framer_due *due = &job->due[(uint64_t)job->head & (job->dues - 1)];
	uint64_t base_ns = due->base_ns;

	for (int64_t frame = job->head; frame <= job->top && !due->ended; frame++) {
		due = &job->due[(uint64_t)frame & (job->dues - 1)];
		base_ns = due->base_ns;
	}
	if (framer->now_ns < base_ns || framer->now_ns - base_ns < FRAMER_SETTLE_NS)
		return false;
	if (job->top >= job->head + 2 || framer->now_ns - base_ns >= FRAMER_STALL_NS)
		return true;
	for (size_t i = 0; i < job->ranks; i++) {
		const struct framer_process *process = job->live[i];

		if (process && process->waited && process->align != FRAMER_UNPLACED &&
			process->newest != FRAMER_NO_STEP && framer_wait_lacks_step(process, job->head))
			return false;
	}
	return true;
}

void framer_wait_tick(struct framer *framer, struct framer_room *job)
{
	if (!job->placed && job->alive && job->pending_ns && framer->now_ns > job->pending_ns &&
		framer->now_ns - job->pending_ns >= FRAMER_SETTLE_NS)
		framer_align_tick(framer, job, true);
	framer_wait_pump(framer, job);
	while (job->begun && job->head <= job->top && is_late(framer, job)) {
		give_up(job);
		pass(framer, job);
		framer_wait_pump(framer, job);
	}
}
