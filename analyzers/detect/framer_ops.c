/* SPDX-License-Identifier: Apache-2.0 */
/* Operations to records of a step: their texts become numbers (framer_names.c), and the step is found. */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/ops_hash.h"
#include "analyzers/steps.h"

#define EVIDENCE_PLENTY 32 /* operations a step */
#define EVIDENCE_ONE_IN 8  /* a power of two */

/* Its frame has gone: from now on frames wait for operations. */
static void late(struct framer *framer, struct framer_process *process)
{
	framer->counts.late++;
	framer->counts.ops_left_out++;
	if (process->ops_live)
		return;
	process->ops_live = true;
	process->usual = UINT32_MAX;
	process->ops_since = process->newest == FRAMER_NO_STEP ? 0 : process->newest + 1;
	framer_wait_update(framer_room_of(framer, process), process);
}

/* The slot that it belongs to, which is not there yet; NULL where it has gone, or is far off. */
static __attribute__((noinline)) struct framer_slot *slot_make(
	struct framer *framer, struct framer_process *process, const struct framer_op *op, int64_t step)
{
	struct framer_slot *slot;

	if (step == FRAMER_NO_STEP) {
		if (process->newest != FRAMER_NO_STEP && op->start_ns < process->newest_end_ns)
			late(framer, process);
		else
			framer->counts.ops_left_out++;
		return NULL;
	}
	slot = framer_slot_get(framer, process, step);
	if (!slot && process->newest != FRAMER_NO_STEP && step <= process->newest)
		late(framer, process);
	else if (!slot)
		framer->counts.ops_left_out++;
	return slot;
}

static __attribute__((noinline)) void begin_live(struct framer_process *process, const struct framer_slot *slot)
{
	process->ops_live = true;
	process->usual = UINT32_MAX;
	process->ops_since = process->from_start && process->steps_seen == 0 ? FRAMER_NO_STEP : slot->step;
}

static inline void note_live(struct framer_process *process, struct framer_slot *slot)
{
	if (!process->ops_live)
		begin_live(process, slot);
	if (slot->step > process->ops_newest)
		process->ops_newest = slot->step;
	slot->partial = process->ops_since != FRAMER_NO_STEP && slot->step <= process->ops_since;
}

static __attribute__((noinline)) bool grow(struct framer_slot *slot)
{
	size_t many = slot->room;

	if (!framer_grow((void **)&slot->record, &many, slot->records + 1, sizeof(*slot->record), FRAMER_RECORDS_MAX))
		return false;
	slot->room = (uint32_t)many;
	return true;
}

/* Room for one more; NULL: left out. */
static inline struct framer_record *append(
	struct framer *framer, struct framer_room *room, struct framer_slot *slot, uint64_t start_ns, uint8_t tier)
{
	struct framer_record *record;

	if (room->records >= FRAMER_OPS_MAX || (slot->records == slot->room && !grow(slot))) {
		framer->counts.ops_left_out++;
		slot->lost++;
		return NULL;
	}
	record = &slot->record[slot->records];
	if (!slot->records) {
		slot->worst_tier = tier;
	} else {
		slot->unsorted |= start_ns < record[-1].start_ns;
		slot->worst_tier = tier < slot->worst_tier ? tier : slot->worst_tier;
	}
	slot->records++;
	room->records++;
	return record;
}

static uint32_t fold(uint64_t value)
{
	return (uint32_t)(value ^ value >> 32);
}

/* Both sides in one word: one word of two for each pair of numbers below 65536, and almost surely for others. */
static uint32_t sides_of(const struct framer_op *op, bool receive)
{
	uint32_t sender = (uint32_t)(receive ? op->peer : op->member);
	uint32_t receiver = (uint32_t)(receive ? op->member : op->peer);

	return (sender << 16 | sender >> 16) ^ receiver;
}

/* Where there is plenty, one operation in EVIDENCE_ONE_IN tells enough of which step is whose; the same ones of all. */
static uint64_t thinned(const struct framer_process *process)
{
	bool plenty =
		process->align != FRAMER_UNPLACED && process->usual != UINT32_MAX && process->usual >= EVIDENCE_PLENTY;

	return plenty ? EVIDENCE_ONE_IN - 1 : 0;
}

/* The number of its step where that is not told; FRAMER_NO_STEP. */
static __attribute__((noinline)) int64_t step_of(struct framer *framer, struct framer_process *process,
	const struct framer_op *op, const struct framer_kind *kind)
{
	const struct framer_room *room = framer_room_of(framer, process);
	uint64_t what = ops_mix(room->comm_key[kind->comm], kind->op);

	if (process->loop_seen)
		return framer_slot_at(process, op->start_ns);
	return framer_period_op(
		framer, process, ops_mix(what, op->bytes), op->start_ns, op->start_ns + op->duration_ns);
}

static inline void write(struct framer_record *record, const struct framer_op *op, const struct framer_kind *kind)
{
	uint64_t duration_ns = op->duration_ns < FRAMER_DURATION_MAX ? op->duration_ns : FRAMER_DURATION_MAX;
	uint64_t bytes = op->bytes < FRAMER_BYTES_MAX ? op->bytes : FRAMER_BYTES_MAX;

	record->start_ns = op->start_ns;
	record->duration_comm = duration_ns << 16 | kind->comm;
	record->bytes_what = bytes << 16 | (uint64_t)kind->p2p << 13 | (uint64_t)op->tier << 11 | kind->op;
	record->seq = fold(op->seq);
	record->sides = kind->p2p ? sides_of(op, kind->receive) : 0;
}

/* The one that came after the kind before, the last time. */
static inline const struct framer_kind *guess_kind(struct framer_process *process, const struct framer_op *op)
{
	uint8_t next = process->kind[process->kind_last].next;
	const struct framer_kind *kind = &process->kind[next];

	if (!op->op || kind->p2p != (op->peer >= 0) || strcmp(op->communicator, kind->communicator) != 0 ||
		strcmp(op->op, kind->name) != 0)
		return NULL;
	process->kind_last = next;
	return kind;
}

/* What tells which step of others this one is. */
static inline void witness(struct framer *framer, struct framer_room *room, struct framer_process *process,
	const struct framer_op *op, uint32_t comm, int64_t step)
{
	uint64_t key;

	if (room->comm[comm].members == 1 || room->ranks <= 1)
		return;
	key = ops_mix(room->comm_key[comm], op->seq);
	if (!(key & thinned(process)))
		framer_evidence_op(framer, process, key, step);
}

static inline void add(struct framer *framer, struct framer_room *room, struct framer_process *process,
	const struct framer_op *op, const struct framer_kind *kind)
{
	int64_t step = op->step == STEPS_NONE ? step_of(framer, process, op, kind) : op->step;
	struct framer_slot *slot = framer_slot_find(process, step);
	struct framer_record *record;

	if (!slot)
		slot = slot_make(framer, process, op, step);
	if (!slot)
		return;
	note_live(process, slot);
	record = append(framer, room, slot, op->start_ns, (uint8_t)op->tier);
	if (!record)
		return;
	write(record, op, kind);
	if (!kind->p2p)
		witness(framer, room, process, op, kind->comm, step);
}

static __attribute__((noinline)) void add_other(
	struct framer *framer, struct framer_room *room, struct framer_process *process, const struct framer_op *op)
{
	struct framer_kind kind;

	if (framer_names_kind(framer, process, op, &kind))
		add(framer, room, process, op, &kind);
	else
		framer->counts.ops_left_out++;
}

/* It is waited for because of its step: operations change nothing. */
static inline bool lags(const struct framer_room *room, const struct framer_process *process)
{
	return framer_wait_lacks_step(process, room->head) && !process->absent && !process->hopeless;
}

/* It can be joined with those of others. */
static inline bool makes_sense(const struct framer_op *op)
{
	if (!framer_is_time(op->start_ns, op->duration_ns) || !op->communicator || !*op->communicator || !op->seq ||
		(op->tier != FRAME_TIER_HOST && op->tier != FRAME_TIER_DEVICE))
		return false;
	if (op->step != STEPS_NONE && !framer_is_step(op->step))
		return false;
	return op->peer == -1 || (op->peer >= 0 && op->member >= 0 && op->member != op->peer);
}

void framer_op(struct framer *framer, int number, const struct framer_op *op)
{
	struct framer_process *process = framer_living(framer, number);
	const struct framer_kind *kind;
	struct framer_room *room;

	if (!process)
		return;
	framer->counts.ops++;
	if (!makes_sense(op)) {
		framer->counts.ops_left_out++;
		return;
	}
	room = framer_room_of(framer, process);
	kind = guess_kind(process, op);
	if (kind)
		add(framer, room, process, op, kind);
	else
		add_other(framer, room, process, op);
	if (process->waited && !lags(room, process)) {
		framer_wait_update(room, process);
		if (!process->waited)
			framer_wait_pump(framer, room);
	}
}
