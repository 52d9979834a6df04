/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a frame may go out. Frames go in order, so that only the head is waited for: the job counts the processes that
 * are not done with it, and each event that could make one done checks that one alone. When the head has gone, all
 * are checked once, which costs no more than to write the frame.
 *
 * What does not come in time is not waited for again until it comes: the steps of a process (absent), its operations
 * (ops_live), its host samples (host_live).
 */
#include "analyzers/align/align_internal.h"

#include <stdlib.h>

#define DUES_MIN 64

uint32_t align_wait_max(const struct align_job *job)
{
	uint32_t max = ALIGN_CELLS_MAX / (job->ranks ? (uint32_t)job->ranks : 1);

	if (max < ALIGN_OPEN_MIN)
		return ALIGN_OPEN_MIN;
	return max < ALIGN_OPEN_MAX ? UINT32_C(1) << (31 - __builtin_clz(max)) : ALIGN_OPEN_MAX;
}

void align_wait_begin(struct align *align, struct align_job *job, int64_t head)
{
	if (!job->begun || head > job->head)
		job->head = head;
	if (!job->begun)
		job->top = head - 1;
	job->begun = true;
}

static struct align_due *due_of(struct align_job *job, int64_t frame)
{
	return &job->due[(uint64_t)frame & (job->dues - 1)];
}

static bool align_wait_grow(struct align_job *job, uint32_t need)
{
	uint32_t dues = job->dues ? job->dues : DUES_MIN, old_dues = job->dues;
	struct align_due *grown, *old = job->due;

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

void align_wait_ended(struct align *align, struct align_job *job, int64_t frame, uint64_t end_ns)
{
	uint32_t max = align_wait_max(job);
	struct align_due *due;
	uint64_t latest_ns = align->now_ns + ALIGN_SETTLE_NS;

	if (frame < job->head)
		return;
	if (frame - job->head >= max)
		align_wait_flush(align, job, frame - max);
	if (!align_wait_grow(job, (uint32_t)(frame - job->head) + 1))
		return;
	for (; job->top < frame; job->top++)
		*due_of(job, job->top + 1) = (struct align_due){0};
	due = due_of(job, frame);
	if (due->ended++)
		return;
	due->base_ns = end_ns;
	if (align->now_ns && end_ns < align->now_ns)
		due->base_ns = align->now_ns;
	else if (align->now_ns && end_ns > latest_ns)
		due->base_ns = latest_ns;
}

/* Not all of its operations are here, as far as the steps before show. */
static bool lacks_ops(const struct align_process *process, const struct align_slot *slot)
{
	if (!process->coll.live || slot->partial || slot->step <= process->lost_until)
		return false;
	if (align_is_unwatched(process) || align_is_cut(process, slot))
		return false;
	if (process->typical.ops == UINT32_MAX)
		return process->coll.newest <= slot->step;
	if (slot->records >= process->typical.ops)
		return false;
	/* As many as one of the last two had: the other had one more (a broadcast each tenth step), and one of the next
	 * step shows as well that no more is to come. */
	return process->coll.newest < slot->step + (slot->records >= process->typical.less ? 1 : 2);
}

static bool lacks_host(const struct align_process *process, const struct align_slot *slot)
{
	return process->host.live && slot->start_ns + slot->step_ns > process->host.until_ns;
}

static bool align_wait_done(const struct align_job *job, const struct align_process *process, int64_t frame)
{
	const struct align_slot *slot;

	if (align_wait_lacks_step(process, frame))
		return process->absent || process->hopeless;
	slot = align_slot_find(process, frame - process->offset);
	return !slot || !(lacks_ops(process, slot) || lacks_host(process, slot));
}

void align_wait_update(struct align_job *job, struct align_process *process)
{
	bool waited = job->begun && !process->ended && !align_wait_done(job, process, job->head);

	if (waited == process->waited)
		return;
	process->waited = waited;
	job->waiting += waited ? 1 : (size_t)-1;
}

void align_wait_recount(struct align_job *job)
{
	for (size_t i = 0; i < job->ranks; i++) {
		if (job->live[i])
			align_wait_update(job, job->live[i]);
	}
}

/* Sends the head, or steps over it where no rank has it. */
static void align_wait_pass(struct align *align, struct align_job *job)
{
	bool any = due_of(job, job->head)->ended > 0;

	if (any)
		align_out(align, job);
	job->head++;
	if (job->top < job->head - 1)
		job->top = job->head - 1;
	align_wait_recount(job);
}

/* Of a rank of which it is known how many records a step has; NULL: it is not, or it has none of the head. */
static struct align_slot *expected_of(const struct align_job *job, const struct align_process *process)
{
	struct align_slot *slot;

	if (!process || process->align == ALIGN_UNPLACED || process->typical.ops == UINT32_MAX)
		return NULL;
	slot = align_slot_find(process, job->head - process->offset);
	return slot && slot->records ? slot : NULL;
}

/* What one rank does now and then (a broadcast each tenth step), its peers do: those whose record of it is still to
 * come have as many as ever. Once a head: they are expected to have more, and waited for as for any. */
static void expect_more(struct align_job *job)
{
	uint32_t more = 0;

	if (job->more < job->head || job->evened == job->head)
		return;
	job->evened = job->head;
	for (size_t i = 0; i < job->ranks; i++) {
		const struct align_slot *slot = expected_of(job, job->live[i]);

		if (slot && slot->records > job->live[i]->typical.ops &&
			slot->records - job->live[i]->typical.ops > more)
			more = slot->records - job->live[i]->typical.ops;
	}
	for (size_t i = 0; i < job->ranks && more; i++) {
		if (!expected_of(job, job->live[i]))
			continue;
		job->live[i]->typical.ops += more;
		align_wait_update(job, job->live[i]);
	}
}

void align_wait_pump(struct align *align, struct align_job *job)
{
	while (job->begun && !job->waiting && job->head <= job->top) {
		expect_more(job);
		if (!job->waiting)
			align_wait_pass(align, job);
	}
}

/* What is waited for in vain is not waited for again. */
static void give_up(struct align_job *job)
{
	for (size_t i = 0; i < job->ranks; i++) {
		struct align_process *process = job->live[i];
		const struct align_slot *slot;

		if (!process || !process->waited)
			continue;
		if (process->align == ALIGN_UNPLACED)
			process->hopeless = true;
		if (align_wait_lacks_step(process, job->head)) {
			process->absent = true;
			continue;
		}
		slot = align_slot_find(process, job->head - process->offset);
		if (!slot) /* it was dropped meanwhile */
			continue;
		if (lacks_host(process, slot))
			process->host.live = false;
		if (lacks_ops(process, slot) && !slot->records) {
			process->coll.live = false;
			align_typical_from(process, UINT32_MAX);
		}
	}
}

void align_wait_flush(struct align *align, struct align_job *job, int64_t until)
{
	int64_t last = until < job->top ? until : job->top;

	while (job->begun && job->head <= last) {
		if (job->waiting)
			give_up(job);
		align_wait_pass(align, job);
	}
	if (job->begun && job->head <= until) {
		job->head = until + 1;
		job->top = until;
		align_wait_recount(job);
	}
}

/* Others go on without the ranks that have not ended the head: one ended a step ALIGN_SETTLE_NS after it, as long ago
 * as that. Where hosts run ahead of their cards, they are some steps on before they stand, too. */
static bool others_go_on(const struct align *align, struct align_job *job, uint64_t base_ns)
{
	for (int64_t frame = job->head + 1; frame <= job->top; frame++) {
		const struct align_due *due = due_of(job, frame);

		if (due->ended && due->base_ns >= base_ns + ALIGN_SETTLE_NS)
			return align->now_ns >= due->base_ns + ALIGN_SETTLE_NS;
	}
	return false;
}

/* A rank that has not ended the step is waited for as long as the others do not go on: nothing else can go out then. */
static bool is_late(const struct align *align, struct align_job *job)
{
	const struct align_due *due = due_of(job, job->head);
	uint64_t base_ns = due->base_ns;

	for (int64_t frame = job->head; frame <= job->top && !due->ended; frame++) {
		due = due_of(job, frame);
		base_ns = due->base_ns;
	}
	if (align->now_ns < base_ns || align->now_ns - base_ns < ALIGN_SETTLE_NS)
		return false;
	if (align->now_ns - base_ns >= ALIGN_STALL_NS || others_go_on(align, job, base_ns))
		return true;
	for (size_t i = 0; i < job->ranks; i++) {
		const struct align_process *process = job->live[i];

		if (process && process->waited && process->align != ALIGN_UNPLACED &&
			process->newest != ALIGN_NO_STEP && align_wait_lacks_step(process, job->head))
			return false;
	}
	return true;
}

void align_wait_tick(struct align *align, struct align_job *job)
{
	if (!job->placed && job->alive && job->pending_ns && align->now_ns > job->pending_ns &&
		align->now_ns - job->pending_ns >= ALIGN_SETTLE_NS)
		align_steps_tick(align, job, true);
	align_wait_pump(align, job);
	while (job->begun && job->head <= job->top && is_late(align, job)) {
		give_up(job);
		align_wait_pass(align, job);
		align_wait_pump(align, job);
	}
}
