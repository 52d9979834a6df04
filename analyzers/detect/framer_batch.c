/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of a rank given together. Those that go by the plan of their step are compared with it and their times
 * kept, in one loop; all others, and those that change more than their step, are taken one by one.
 */
#include "analyzers/detect/framer_internal.h"

#include <errno.h>
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

static void take_one(struct framer *framer, struct framer_room *room, struct framer_process *process,
	const struct framer_ops *ops, const struct framer_called *op)
{
	bool p2p = op->peer >= 0, receive = false;
	uint16_t number = (uint16_t)op->op;
	struct framer_heard heard;
	uint32_t comm;

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
}

/* The sides of an operation of two are the lane's, and its name is the entry's. */
static __attribute__((noinline)) bool same_sides(struct framer *framer, const struct framer_called *op,
	const struct framer_lane *lane, const struct framer_entry *entry)
{
	uint16_t number;
	bool receive;

	if (op->op > FRAMER_NAMES_MAX || !framer_is_peer(op->member, op->peer))
		return false;
	receive = framer_names_p2p(framer, (uint16_t)op->op, &number);
	return lane->p2p && framer_what_op(entry->what) == number &&
	       framer_sides(op->member, op->peer, receive) == lane->sides;
}

/*
 * As many from the first on as go by the plan of the slot, up to one that is a witness, which may change everything.
 * How many they are; *ret_witness: the last one is to be told of.
 */
static size_t take_planned(struct framer *framer, const struct framer_process *process, struct framer_slot *slot,
	const struct framer_ops *ops, size_t from, bool *ret_witness)
{
	const struct framer_plan *plan = slot->plan;
	const struct framer_entry *entry = plan->shape->entry + slot->records, *last = plan->shape->entry + plan->count;
	const struct framer_called *first = ops->op + from, *op = first, *end = ops->op + ops->count;
	uint32_t *base = slot->word, *time = base + plan->lanes + (size_t)slot->records * 2;
	const uint32_t *handle = process->handle;
	uint64_t last_ns = slot->last_ns;
	unsigned thinned = framer_thinned(process);
	bool witness = false;

	for (; op < end && entry < last && !witness; op++, entry++, time += 2) {
		const struct framer_lane *lane = &plan->lane[entry->lane];
		uint64_t after_ns = op->start_ns - last_ns;

		if (op->communicator >= process->handles || handle[op->communicator] != lane->comm)
			break;
		if (!entry->seq) {
			base[entry->lane] = (uint32_t)op->seq;
			if (!op->seq)
				break;
		}
		if (op->peer == -1 ? op->op != framer_what_op(entry->what) || lane->p2p
				   : !same_sides(framer, op, lane, entry))
			break;
		if (op->seq != (uint64_t)base[entry->lane] + entry->seq || op->bytes != entry->bytes ||
			framer_what_tier(entry->what) != ops->tier ||
			(after_ns | op->duration_ns) >> 32 || op->start_ns >= FRAMER_TIME_MAX)
			break;
		time[0] = (uint32_t)after_ns;
		time[1] = (uint32_t)op->duration_ns;
		last_ns = op->start_ns;
		witness = !lane->p2p && framer_witnesses(op->seq, thinned);
	}
	slot->last_ns = last_ns;
	slot->records += (uint32_t)(op - first);
	*ret_witness = witness;
	return (size_t)(op - first);
}

/* The step's slot, if it goes by its plan, and nothing but that is changed by what goes by it. */
static struct framer_slot *planned(
	const struct framer_room *room, const struct framer_process *process, const struct framer_ops *ops)
{
	struct framer_slot *slot;

	if (ops->step == STEPS_NONE || (process->waited && !framer_lags(room, process)))
		return NULL;
	slot = framer_slot_find(process, ops->step);
	if (!slot || !slot->plan || !slot->records || !process->ops_live || ops->step > process->ops_newest ||
		slot->worst_tier > ops->tier || room->records + ops->count > FRAMER_OPS_MAX)
		return NULL;
	slot->partial = process->ops_since != FRAMER_NO_STEP && ops->step <= process->ops_since;
	return slot;
}

/* From there on; how many were taken, at least one. */
static size_t take(struct framer *framer, struct framer_room *room, struct framer_process *process,
	const struct framer_ops *ops, size_t from)
{
	struct framer_slot *slot = planned(room, process, ops);
	bool witness = false;
	size_t taken;

	taken = slot ? take_planned(framer, process, slot, ops, from, &witness) : 0;
	room->records += taken;
	if (witness) {
		const struct framer_called *op = &ops->op[from + taken - 1];

		framer_ops_witness(framer, room, process, op->seq, process->handle[op->communicator], ops->step);
		framer_ops_done(framer, room, process);
	}
	if (taken)
		return taken;
	take_one(framer, room, process, ops, &ops->op[from]);
	return 1;
}

void framer_ops(struct framer *framer, int number, const struct framer_ops *ops)
{
	struct framer_process *process = framer_living(framer, number);
	struct framer_room *room;

	if (!process)
		return;
	framer->counts.ops += ops->count;
	if (!framer_is_tier(ops->tier) || (ops->step != STEPS_NONE && !framer_is_step(ops->step))) {
		framer->counts.ops_left_out += ops->count;
		return;
	}
	room = framer_room_of(framer, process);
	for (size_t i = 0; i < ops->count;)
		i += take(framer, room, process, ops, i);
}
