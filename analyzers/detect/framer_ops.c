/* SPDX-License-Identifier: Apache-2.0 */
/* Operations to records of a step: their texts become numbers (framer_names.c), and the step is found. */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/ops_hash.h"
#include "analyzers/steps.h"

#define EVIDENCE_PLENTY 32 /* operations a step */
#define EVIDENCE_FEW 4	   /* of them are enough; a power of two */

/* An operation that makes sense, as numbers. */
struct heard {
	int64_t step;
	uint64_t start_ns, duration_ns, seq, bytes;
	uint32_t comm, sides;
	uint16_t what;
};

/* Its frame has gone: from now on frames wait for operations. */
static void late(struct framer *framer, struct framer_process *process)
{
	framer->counts.late++;
	framer->counts.ops_left_out++;
	if (process->ops_live || framer_is_unwatched(process))
		return;
	process->ops_live = true;
	framer_usual_from(process, process->usual_once);
	process->ops_since = process->newest == FRAMER_NO_STEP ? 0 : process->newest + 1;
	framer_wait_update(framer_room_of(framer, process), process);
}

/* The slot that it belongs to, which is not there yet; NULL where it has gone, or is far off. */
static __attribute__((noinline)) struct framer_slot *slot_make(
	struct framer *framer, struct framer_process *process, const struct heard *op, int64_t step)
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
	framer_usual_from(process, process->usual_once);
	process->ops_since = process->from_start && process->steps_seen == 0 ? FRAMER_NO_STEP : slot->step;
}

static inline void note_live(struct framer_process *process, struct framer_slot *slot)
{
	if (!process->ops_live && !framer_is_unwatched(process))
		begin_live(process, slot);
	if (slot->step > process->ops_newest)
		process->ops_newest = slot->step;
	slot->partial = process->ops_since != FRAMER_NO_STEP && slot->step <= process->ops_since &&
			!framer_is_watched(process, slot);
}

static __attribute__((noinline)) bool align_colls_grow(struct framer_slot *slot)
{
	size_t many = slot->capacity;

	if (!framer_grow((void **)&slot->record, &many, slot->records + 1, sizeof(*slot->record), FRAMER_RECORDS_MAX))
		return false;
	slot->capacity = (uint32_t)many;
	return true;
}

static uint32_t fold(uint64_t value)
{
	return (uint32_t)(value ^ value >> 32);
}

static inline void write(struct framer_record *record, const struct heard *op)
{
	uint64_t duration_ns = op->duration_ns < FRAMER_DURATION_MAX ? op->duration_ns : FRAMER_DURATION_MAX;

	record->start_ns = op->start_ns;
	record->duration_comm = duration_ns << 16 | op->comm;
	record->bytes_what = op->bytes << 16 | op->what;
	record->seq = fold(op->seq);
	record->sides = op->sides;
}

/* In the slot, by its plan; false: it is not as planned. Numbers beyond 32 bits never are: full records fold them. */
static bool align_colls_take(struct framer_slot *slot, const struct heard *op)
{
	const struct framer_plan *plan = slot->plan;
	const struct framer_entry *entry = &plan->shape->entry[slot->records];
	const struct framer_lane *lane;
	uint32_t *base = slot->word, *time = slot->word + plan->lanes + (size_t)slot->records * 2;
	uint64_t after_ns;

	if (slot->records == plan->count)
		return false;
	if (!slot->records)
		slot->first_ns = slot->last_ns = op->start_ns;
	lane = &plan->lane[entry->lane];
	after_ns = op->start_ns - slot->last_ns;
	if (!entry->seq)
		base[entry->lane] = (uint32_t)op->seq;
	if (lane->comm != op->comm || lane->sides != op->sides || entry->what != op->what ||
		entry->bytes != op->bytes || op->seq != base[entry->lane] + entry->seq || after_ns > UINT32_MAX ||
		op->duration_ns > UINT32_MAX)
		return false;
	time[0] = (uint32_t)after_ns;
	time[1] = (uint32_t)op->duration_ns;
	slot->last_ns = op->start_ns;
	return true;
}

/* False: left out. */
static inline bool align_colls_append(struct framer_slot *slot, const struct heard *op)
{
	if (slot->records == slot->capacity && !align_colls_grow(slot))
		return false;
	if (slot->records)
		slot->unsorted |= op->start_ns < slot->record[slot->records - 1].start_ns;
	write(&slot->record[slot->records], op);
	return true;
}

/* As it was planned, or as a full record; false: left out. */
static inline bool align_colls_put(struct framer *framer, struct framer_room *job, struct framer_process *process,
	struct framer_slot *slot, const struct heard *op)
{
	uint8_t tier = framer_what_tier(op->what);

	if (job->records >= FRAMER_OPS_MAX)
		return false;
	if (!slot->records && process->plan)
		framer_plan_begin(process, slot);
	if (slot->plan && !align_colls_take(slot, op))
		framer_plan_leave(framer, job, process, slot);
	if (!slot->plan && !align_colls_append(slot, op))
		return false;
	slot->worst_tier = !slot->records || tier < slot->worst_tier ? tier : slot->worst_tier;
	slot->records++;
	job->records++;
	return true;
}

/* The number of its step where that is not told; FRAMER_NO_STEP. */
static __attribute__((noinline)) int64_t align_colls_step_of(
	struct framer *framer, struct framer_process *process, const struct heard *op)
{
	const struct framer_room *job = framer_room_of(framer, process);
	uint64_t what = ops_mix(job->comm_key[op->comm], framer_what_op(op->what));

	if (process->loop_seen)
		return framer_slot_at(process, op->start_ns);
	return framer_period_op(
		framer, process, ops_mix(what, op->bytes), op->start_ns, op->start_ns + op->duration_ns);
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

/* It may have more records than the step before: then its peers' are looked at (framer_wait.c). */
static inline void note_more(
	struct framer_room *job, const struct framer_process *process, const struct framer_slot *slot)
{
	if (slot->records > process->usual && process->align != FRAMER_UNPLACED &&
		framer_frame_of(process, slot->step) > job->more)
		job->more = framer_frame_of(process, slot->step);
}

/* Where there is plenty, a few operations a step tell enough of which step is whose: one in 2 to the power of this. */
static inline unsigned thinned(const struct framer_process *process)
{
	bool plenty =
		process->align != FRAMER_UNPLACED && process->usual != UINT32_MAX && process->usual >= EVIDENCE_PLENTY;

	return plenty ? (unsigned)__builtin_clz(EVIDENCE_FEW) - (unsigned)__builtin_clz(process->usual) : 0;
}

/* It tells which step of others this one is: the same ones of all ranks do, those of fewer are among those of more. */
static inline bool is_witness(
	const struct framer_room *job, const struct framer_process *process, const struct heard *op)
{
	return !framer_what_p2p(op->what) &&
	       (uint32_t)op->seq * UINT32_C(0x9e3779b1) <= UINT32_MAX >> thinned(process) &&
	       job->comm[op->comm].members != 1 && job->ranks > 1;
}

static inline void align_colls_add(
	struct framer *framer, struct framer_room *job, struct framer_process *process, const struct heard *op)
{
	int64_t step = op->step == STEPS_NONE ? align_colls_step_of(framer, process, op) : op->step;
	struct framer_slot *slot = framer_slot_find(process, step);

	if (!slot)
		slot = slot_make(framer, process, op, step);
	if (!slot)
		return;
	note_live(process, slot);
	if (!align_colls_put(framer, job, process, slot, op)) {
		framer->counts.ops_left_out++;
		slot->lost++;
		return;
	}
	note_more(job, process, slot);
	if (is_witness(job, process, op))
		framer_evidence_op(framer, process, ops_mix(job->comm_key[op->comm], op->seq), step);
}

/* It is waited for because of its step: operations change nothing. */
static inline bool lags(const struct framer_room *job, const struct framer_process *process)
{
	return framer_wait_lacks_step(process, job->head) && !process->absent && !process->hopeless;
}

/* Goes out what was waited for. */
static inline void send_ready(struct framer *framer, struct framer_room *job, struct framer_process *process)
{
	if (!process->waited || lags(job, process))
		return;
	framer_wait_update(job, process);
	if (!process->waited)
		framer_wait_pump(framer, job);
}

static inline bool is_tier(enum frame_tier tier)
{
	return tier == FRAME_TIER_HOST || tier == FRAME_TIER_DEVICE;
}

/* Collective, or of two. */
static inline bool align_colls_is_peer(int32_t member, int32_t peer)
{
	return peer == -1 || (peer >= 0 && member >= 0 && member != peer);
}

/* It can be joined with those of others. */
static inline bool makes_sense(const struct framer_op *op)
{
	return framer_is_time(op->start_ns, op->duration_ns) && op->communicator && *op->communicator && op->seq &&
	       is_tier(op->tier) && (op->step == STEPS_NONE || framer_is_step(op->step)) &&
	       align_colls_is_peer(op->member, op->peer);
}

void framer_op(struct framer *framer, int number, const struct framer_op *op)
{
	struct framer_process *process = framer_living(framer, number);
	const struct framer_kind *kind;
	struct framer_kind other;
	struct heard heard;
	struct framer_room *job;

	if (!process)
		return;
	framer->counts.ops++;
	if (!makes_sense(op)) {
		framer->counts.ops_left_out++;
		return;
	}
	job = framer_room_of(framer, process);
	kind = guess_kind(process, op);
	if (!kind && framer_names_kind(framer, process, op, &other))
		kind = &other;
	if (kind) {
		heard = (struct heard){.step = op->step,
			.start_ns = op->start_ns,
			.duration_ns = op->duration_ns,
			.seq = op->seq,
			.bytes = op->bytes < FRAMER_BYTES_MAX ? op->bytes : FRAMER_BYTES_MAX,
			.comm = kind->comm,
			.sides = kind->p2p ? framer_sides(op->member, op->peer, kind->receive) : 0,
			.what = framer_what(kind->op, op->tier, kind->p2p)};
		align_colls_add(framer, job, process, &heard);
	} else {
		framer->counts.ops_left_out++;
	}
	send_ready(framer, job, process);
}
