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

uint32_t framer_wait_max(const struct framer_room *room)
{
	uint32_t max = FRAMER_CELLS_MAX / (room->ranks ? (uint32_t)room->ranks : 1);

	if (max < FRAMER_OPEN_MIN)
		return FRAMER_OPEN_MIN;
	return max < FRAMER_OPEN_MAX ? UINT32_C(1) << (31 - __builtin_clz(max)) : FRAMER_OPEN_MAX;
}

void framer_wait_begin(struct framer *framer, struct framer_room *room, int64_t head)
{
	(void)framer;
	if (!room->begun || head > room->head)
		room->head = head;
	if (!room->begun)
		room->top = head - 1;
	room->begun = true;
}

static struct framer_due *due_of(struct framer_room *room, int64_t frame)
{
	return &room->due[(uint64_t)frame & (room->dues - 1)];
}

static bool align_wait_grow(struct framer_room *room, uint32_t need)
{
	uint32_t dues = room->dues ? room->dues : DUES_MIN, old_dues = room->dues;
	struct framer_due *grown, *old = room->due;

	while (dues < need)
		dues *= 2;
	if (dues == old_dues)
		return true;
	grown = calloc(dues, sizeof(*grown));
	if (!grown)
		return false;
	for (int64_t frame = room->head; old_dues && frame <= room->top; frame++)
		grown[(uint64_t)frame & (dues - 1)] = old[(uint64_t)frame & (old_dues - 1)];
	free(old);
	room->due = grown;
	room->dues = dues;
	return true;
}

void framer_wait_ended(struct framer *framer, struct framer_room *room, int64_t frame, uint64_t end_ns)
{
	uint32_t max = framer_wait_max(room);
	struct framer_due *due;
	uint64_t latest_ns = framer->now_ns + FRAMER_SETTLE_NS;

	if (frame < room->head)
		return;
	if (frame - room->head >= max)
		framer_wait_flush(framer, room, frame - max);
	if (!align_wait_grow(room, (uint32_t)(frame - room->head) + 1))
		return;
	for (; room->top < frame; room->top++)
		*due_of(room, room->top + 1) = (struct framer_due){0};
	due = due_of(room, frame);
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

bool framer_wait_done(const struct framer_room *room, const struct framer_process *process, int64_t frame)
{
	const struct framer_slot *slot;

	(void)room;
	if (framer_wait_lacks_step(process, frame))
		return process->absent || process->hopeless;
	slot = framer_slot_find(process, frame - process->offset);
	return !slot || !(lacks_ops(process, slot) || lacks_host(process, slot));
}

void framer_wait_update(struct framer_room *room, struct framer_process *process)
{
	bool waited = room->begun && !process->ended && !framer_wait_done(room, process, room->head);

	if (waited == process->waited)
		return;
	process->waited = waited;
	room->waiting += waited ? 1 : (size_t)-1;
}

void framer_wait_recount(struct framer_room *room)
{
	for (size_t i = 0; i < room->ranks; i++) {
		if (room->live[i])
			framer_wait_update(room, room->live[i]);
	}
}

/* Sends the head, or steps over it where nobody has it. */
static void pass(struct framer *framer, struct framer_room *room)
{
	bool any = due_of(room, room->head)->ended > 0;

	if (any)
		framer_out(framer, room);
	room->head++;
	if (room->top < room->head - 1)
		room->top = room->head - 1;
	framer_wait_recount(room);
}

/* Of a rank of which it is known how many records a step has; NULL: it is not, or it has none of the head. */
static struct framer_slot *expected_of(const struct framer_room *room, const struct framer_process *process)
{
	struct framer_slot *slot;

	if (!process || process->align == FRAMER_UNPLACED || process->usual == UINT32_MAX)
		return NULL;
	slot = framer_slot_find(process, room->head - process->offset);
	return slot && slot->records ? slot : NULL;
}

/* What one rank does now and then (a broadcast each tenth step), its peers do: those whose record of it is still to
 * come have as many as ever. Once a head: they are expected to have more, and waited for as for any. */
static void expect_more(struct framer_room *room)
{
	uint32_t more = 0;

	if (room->more < room->head || room->evened == room->head)
		return;
	room->evened = room->head;
	for (size_t i = 0; i < room->ranks; i++) {
		const struct framer_slot *slot = expected_of(room, room->live[i]);

		if (slot && slot->records > room->live[i]->usual && slot->records - room->live[i]->usual > more)
			more = slot->records - room->live[i]->usual;
	}
	for (size_t i = 0; i < room->ranks && more; i++) {
		if (!expected_of(room, room->live[i]))
			continue;
		room->live[i]->usual += more;
		framer_wait_update(room, room->live[i]);
	}
}

void framer_wait_pump(struct framer *framer, struct framer_room *room)
{
	while (room->begun && !room->waiting && room->head <= room->top) {
		expect_more(room);
		if (!room->waiting)
			pass(framer, room);
	}
}

/* What is waited for in vain is not waited for again. */
static void give_up(struct framer_room *room)
{
	for (size_t i = 0; i < room->ranks; i++) {
		struct framer_process *process = room->live[i];
		const struct framer_slot *slot;

		if (!process || !process->waited)
			continue;
		if (process->align == FRAMER_UNPLACED)
			process->hopeless = true;
		if (framer_wait_lacks_step(process, room->head)) {
			process->absent = true;
			continue;
		}
		slot = framer_slot_find(process, room->head - process->offset);
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

void framer_wait_flush(struct framer *framer, struct framer_room *room, int64_t until)
{
	int64_t last = until < room->top ? until : room->top;

	while (room->begun && room->head <= last) {
		if (room->waiting)
			give_up(room);
		pass(framer, room);
	}
	if (room->begun && room->head <= until) {
		room->head = until + 1;
		room->top = until;
		framer_wait_recount(room);
	}
}

/* A rank that has not ended the step is waited for as long as nobody is two steps on: nothing else can go out then. */
static bool is_late(const struct framer *framer, const struct framer_room *room)
{
	const struct framer_due *due = &room->due[(uint64_t)room->head & (room->dues - 1)];
	uint64_t base_ns = due->base_ns;

	for (int64_t frame = room->head; frame <= room->top && !due->ended; frame++) {
		due = &room->due[(uint64_t)frame & (room->dues - 1)];
		base_ns = due->base_ns;
	}
	if (framer->now_ns < base_ns || framer->now_ns - base_ns < FRAMER_SETTLE_NS)
		return false;
	if (room->top >= room->head + 2 || framer->now_ns - base_ns >= FRAMER_STALL_NS)
		return true;
	for (size_t i = 0; i < room->ranks; i++) {
		const struct framer_process *process = room->live[i];

		if (process && process->waited && process->align != FRAMER_UNPLACED &&
			process->newest != FRAMER_NO_STEP && framer_wait_lacks_step(process, room->head))
			return false;
	}
	return true;
}

void framer_wait_tick(struct framer *framer, struct framer_room *room)
{
	if (!room->placed && room->alive && room->pending_ns && framer->now_ns > room->pending_ns &&
		framer->now_ns - room->pending_ns >= FRAMER_SETTLE_NS)
		framer_align_tick(framer, room, true);
	framer_wait_pump(framer, room);
	while (room->begun && room->head <= room->top && is_late(framer, room)) {
		give_up(room);
		pass(framer, room);
		framer_wait_pump(framer, room);
	}
}
