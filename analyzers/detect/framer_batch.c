/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of a rank given together. Those that go by the plan of their step are compared with it and their times
 * kept, in one loop; all others, and those that change more than their step, are taken one by one.
 */
#include "analyzers/detect/framer_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/steps.h"

int framer_comm_handle(struct framer *framer, int number, const char *communicator)
{
	struct framer_process *process = framer_living(framer, number);
	const size_t bytes = sizeof(*process->handle_text);
	size_t room;

	if (!process || !communicator || !*communicator)
		return -EINVAL;
	for (uint32_t i = 0; i < process->handles; i++) {
		if (strncmp(process->handle_text[i], communicator, bytes - 1) == 0)
			return (int)i;
	}
	if (process->handles == FRAMER_HANDLES_MAX)
		return -ENOSPC;
	room = process->handle_room;
	if (!framer_grow((void **)&process->handle_text, &room, process->handles + 1, bytes, FRAMER_HANDLES_MAX))
		return -ENOMEM;
	room = process->handle_room;
	if (!framer_grow((void **)&process->handle, &room, process->handles + 1, sizeof(*process->handle),
		    FRAMER_HANDLES_MAX))
		return -ENOMEM;
	process->handle_room = room;
	memset(process->handle_text[process->handles], 0, bytes);
	strncpy(process->handle_text[process->handles], communicator, bytes - 1);
	process->handle[process->handles] = FRAME_NONE;
	return (int)process->handles++;
}

/* FRAME_NONE: there is none, or no room for it. */
static uint32_t comm_of(struct framer_room *room, struct framer_process *process, uint32_t handle)
{
	if (handle >= process->handles)
		return FRAME_NONE;
	if (process->handle[handle] == FRAME_NONE)
		process->handle[handle] = framer_names_comm(room, process, process->handle_text[handle]);
	return process->handle[handle];
}

static bool makes_sense(const struct framer_called *op)
{
	return framer_is_time(op->start_ns, op->duration_ns) && op->seq && op->op <= FRAMER_NAMES_MAX &&
	       framer_is_peer(op->member, op->peer);
}

/* What an operation that went by its slot's plan came with is its lane's. */
static void learn(const struct framer_process *process, const struct framer_ops *ops, const struct framer_called *op,
	const struct framer_slot *before, uint32_t records)
{
	const struct framer_slot *slot = framer_slot_find(process, ops->step);
	const struct framer_entry *entry;
	struct framer_lane *lane;

	if (!slot || slot != before || !slot->plan || slot->records != records + 1)
		return;
	entry = &slot->plan->shape->entry[records];
	lane = &slot->plan->lane[entry->lane];
	lane->known = true;
	lane->peer = op->peer;
	lane->member = op->member;
	lane->communicator = op->communicator;
	lane->what_less_op = entry->what - op->op;
}

static void take_one(struct framer *framer, struct framer_room *room, struct framer_process *process,
	const struct framer_ops *ops, const struct framer_called *op)
{
	const struct framer_slot *slot = ops->step == STEPS_NONE ? NULL : framer_slot_find(process, ops->step);
	uint32_t comm, records = slot ? slot->records : 0;
	bool p2p = op->peer >= 0, receive = false;
	uint16_t number = (uint16_t)op->op;
	struct framer_heard heard;

	if (!makes_sense(op)) {
		framer->counts.ops_left_out++;
		return;
	}
	if (p2p)
		receive = framer_names_p2p(framer, number, &number);
	comm = comm_of(room, process, op->communicator);
	if (comm == FRAME_NONE) {
		framer->counts.ops_left_out++;
		framer_ops_done(framer, room, process);
		return;
	}
	heard = (struct framer_heard){.step = ops->step,
		.start_ns = op->start_ns,
		.duration_ns = op->duration_ns,
		.seq = op->seq,
		.bytes = op->bytes < FRAMER_BYTES_MAX ? op->bytes : FRAMER_BYTES_MAX,
		.comm = comm,
		.sides = p2p ? framer_sides(op->member, op->peer, receive) : 0,
		.what = framer_what(number, ops->tier, p2p)};
	framer_ops_heard(framer, room, process, &heard);
	if (slot)
		learn(process, ops, op, slot, records);
}

/*
 * From the first on up to the last, as many as go by the plan of the slot. No number is looked at twice, and nothing is
 * called: this is what a job at work costs an operation.
 */
static __attribute__((noinline)) size_t take_planned(
	struct framer_slot *slot, const struct framer_ops *ops, size_t from, size_t to)
{
	const struct framer_plan *plan = slot->plan;
	const struct framer_lane *const lanes = plan->lane;
	const struct framer_entry *entry = plan->shape->entry + slot->records;
	const struct framer_called *const first = ops->op + from, *op = first, *end;
	uint32_t *const base = slot->word, *time = base + plan->lanes + (size_t)slot->records * 2;
	const uint32_t left = plan->count - slot->records;
	uint64_t last_ns = slot->last_ns;

	end = first + (to - from < left ? to - from : left);
	for (; op < end; op++, entry++, time += 2) {
		const struct framer_lane *lane = &lanes[entry->lane];
		uint64_t after_ns = op->start_ns - last_ns, wrong;

		if (__builtin_expect(!entry->seq, 0)) {
			base[entry->lane] = (uint32_t)op->seq;
			if (!op->seq)
				break;
		}
		wrong = op->seq ^ ((uint64_t)base[entry->lane] + entry->seq);
		wrong |= (op->bytes ^ entry->bytes) | !lane->known;
		wrong |= (after_ns | op->duration_ns) >> 32;
		wrong |= (uint32_t)((op->peer ^ lane->peer) | (op->member ^ lane->member));
		wrong |= (op->communicator ^ lane->communicator) | ((op->op + lane->what_less_op) ^ entry->what);
		if (wrong)
			break;
		time[0] = (uint32_t)after_ns;
		time[1] = (uint32_t)op->duration_ns;
		last_ns = op->start_ns;
	}
	if (last_ns >= FRAMER_TIME_MAX)
		return 0;
	slot->last_ns = last_ns;
	slot->records += (uint32_t)(op - first);
	return (size_t)(op - first);
}

/* So many may go by the plan before the job's head could go out because of them. */
static size_t unnoticed(
	const struct framer_room *room, const struct framer_process *process, const struct framer_slot *slot)
{
	if (!process->waited || framer_lags(room, process))
		return SIZE_MAX;
	if (process->align == FRAMER_UNPLACED || framer_frame_of(process, slot->step) != room->head ||
		!framer_wait_lacks_ops(process, slot) || process->usual == UINT32_MAX)
		return 0;
	return process->usual - 1 - slot->records;
}

/* The step's slot, if it goes by its plan, and nothing but that is changed by what goes by it. */
static struct framer_slot *planned(
	const struct framer_room *room, const struct framer_process *process, const struct framer_ops *ops)
{
	struct framer_slot *slot;

	if (ops->step == STEPS_NONE)
		return NULL;
	slot = framer_slot_find(process, ops->step);
	if (!slot || !slot->plan || slot->plan->shape->tier != ops->tier || !slot->records || !process->ops_live ||
		ops->step > process->ops_newest || slot->worst_tier > ops->tier ||
		room->records + ops->count > FRAMER_OPS_MAX)
		return NULL;
	slot->partial = process->ops_since != FRAMER_NO_STEP && ops->step <= process->ops_since;
	return slot;
}

/* The operations of a batch that tell which step is whose, two of them known ahead. */
struct witnesses {
	unsigned thinned;
	size_t next, after;
};

/* The first one from there on; it is looked for in memory while others are taken. */
static size_t find_witness(const struct framer_room *room, const struct framer_process *process,
	const struct framer_ops *ops, size_t from, unsigned thinned)
{
	const struct framer_called *op;

	while (from < ops->count && !framer_witnesses(ops->op[from].seq, thinned))
		from++;
	if (from == ops->count)
		return from;
	op = &ops->op[from];
	if (op->communicator < process->handles && process->handle[op->communicator] != FRAME_NONE)
		framer_evidence_prefetch(room, process->handle[op->communicator], op->seq);
	return from;
}

/* So that the next one does not lie before that. */
static void find_witnesses(const struct framer_room *room, const struct framer_process *process,
	const struct framer_ops *ops, size_t from, struct witnesses *ret)
{
	unsigned thinned = framer_thinned(process);

	if (thinned == ret->thinned && ret->next >= from)
		return;
	if (thinned == ret->thinned && ret->after >= from)
		ret->next = ret->after;
	else
		ret->next = find_witness(room, process, ops, from, thinned);
	ret->thinned = thinned;
	ret->after = ret->next < ops->count ? find_witness(room, process, ops, ret->next + 1, thinned) : ret->next;
}

/* From there on; how many were taken, at least one. */
static size_t take(struct framer *framer, struct framer_room *room, struct framer_process *process,
	const struct framer_ops *ops, size_t from, struct witnesses *witnesses)
{
	struct framer_slot *slot = planned(room, process, ops);
	size_t most = slot ? unnoticed(room, process, slot) : 0, taken = 0, to;

	if (most) {
		find_witnesses(room, process, ops, from, witnesses);
		to = witnesses->next < ops->count ? witnesses->next + 1 : ops->count;
		to = to - from > most ? from + most : to;
		taken = take_planned(slot, ops, from, to);
		room->records += taken;
		framer_note_more(room, process, slot);
		if (taken && from + taken == witnesses->next + 1) {
			const struct framer_called *op = &ops->op[witnesses->next];

			if (op->peer == -1)
				framer_ops_witness(
					framer, room, process, op->seq, process->handle[op->communicator], ops->step);
			framer_ops_done(framer, room, process);
		}
	}
	if (taken)
		return taken;
	take_one(framer, room, process, ops, &ops->op[from]);
	return 1;
}

void framer_ops(struct framer *framer, int number, const struct framer_ops *ops)
{
	struct framer_process *process = framer_living(framer, number);
	struct witnesses witnesses = {.thinned = UINT_MAX};
	struct framer_room *room;

	if (!process)
		return;
	framer->counts.ops += ops->count;
	if (!framer_is_tier(ops->tier) || (ops->step != STEPS_NONE && !framer_is_step(ops->step))) {
		framer->counts.ops_left_out += ops->count;
		return;
	}
	room = framer_room_of(framer, process);
	framer_process_prefetch(room, process->index);
	for (size_t i = 0; i < ops->count;)
		i += take(framer, room, process, ops, i, &witnesses);
}
