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
static void late(struct align *align, struct align_process *process)
{
	align->counts.late++;
	align->counts.coll_left_out++;
	if (process->coll_live || align_is_unwatched(process))
		return;
	process->coll_live = true;
	align_usual_from(process, process->usual_once);
	process->coll_since = process->newest == ALIGN_NO_STEP ? 0 : process->newest + 1;
	align_wait_update(align_job_of(align, process), process);
}

/* The slot that it belongs to, which is not there yet; NULL where it has gone, or is far off. */
static __attribute__((noinline)) struct align_slot *slot_make(
	struct align *align, struct align_process *process, const struct heard *op, int64_t step)
{
	struct align_slot *slot;

	if (step == ALIGN_NO_STEP) {
		if (process->newest != ALIGN_NO_STEP && op->start_ns < process->newest_end_ns)
			late(align, process);
		else
			align->counts.coll_left_out++;
		return NULL;
	}
	slot = align_slot_get(align, process, step);
	if (!slot && process->newest != ALIGN_NO_STEP && step <= process->newest)
		late(align, process);
	else if (!slot)
		align->counts.coll_left_out++;
	return slot;
}

static __attribute__((noinline)) void begin_live(struct align_process *process, const struct align_slot *slot)
{
	process->coll_live = true;
	align_usual_from(process, process->usual_once);
	process->coll_since = process->from_start && process->steps_seen == 0 ? ALIGN_NO_STEP : slot->step;
}

static inline void note_live(struct align_process *process, struct align_slot *slot)
{
	if (!process->coll_live && !align_is_unwatched(process))
		begin_live(process, slot);
	if (slot->step > process->coll_newest)
		process->coll_newest = slot->step;
	slot->partial = process->coll_since != ALIGN_NO_STEP && slot->step <= process->coll_since &&
			!align_is_watched(process, slot);
}

static __attribute__((noinline)) bool align_colls_grow(struct align_slot *slot)
{
	size_t many = slot->capacity;

	if (!align_grow((void **)&slot->record, &many, slot->records + 1, sizeof(*slot->record), ALIGN_RECORDS_MAX))
		return false;
	slot->capacity = (uint32_t)many;
	return true;
}

static uint32_t fold(uint64_t value)
{
	return (uint32_t)(value ^ value >> 32);
}

static inline void write(struct align_record *record, const struct heard *op)
{
	uint64_t duration_ns = op->duration_ns < ALIGN_DURATION_MAX ? op->duration_ns : ALIGN_DURATION_MAX;

	record->start_ns = op->start_ns;
	record->duration_comm = duration_ns << 16 | op->comm;
	record->bytes_what = op->bytes << 16 | op->what;
	record->seq = fold(op->seq);
	record->sides = op->sides;
}

/* In the slot, by its plan; false: it is not as planned. Numbers beyond 32 bits never are: full records fold them. */
static bool align_colls_take(struct align_slot *slot, const struct heard *op)
{
	const struct align_template *plan = slot->plan;
	const struct align_entry *entry = &plan->shape->entry[slot->records];
	const struct align_lane *lane;
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
static inline bool align_colls_append(struct align_slot *slot, const struct heard *op)
{
	if (slot->records == slot->capacity && !align_colls_grow(slot))
		return false;
	if (slot->records)
		slot->unsorted |= op->start_ns < slot->record[slot->records - 1].start_ns;
	write(&slot->record[slot->records], op);
	return true;
}

/* As it was planned, or as a full record; false: left out. */
static inline bool align_colls_put(struct align *align, struct align_job *job, struct align_process *process,
	struct align_slot *slot, const struct heard *op)
{
	uint8_t tier = align_what_tier(op->what);

	if (job->records >= ALIGN_OPS_MAX)
		return false;
	if (!slot->records && process->plan)
		align_template_begin(process, slot);
	if (slot->plan && !align_colls_take(slot, op))
		align_template_leave(align, job, process, slot);
	if (!slot->plan && !align_colls_append(slot, op))
		return false;
	slot->worst_tier = !slot->records || tier < slot->worst_tier ? tier : slot->worst_tier;
	slot->records++;
	job->records++;
	return true;
}

/* The number of its step where that is not told; ALIGN_NO_STEP. */
static __attribute__((noinline)) int64_t align_colls_step_of(
	struct align *align, struct align_process *process, const struct heard *op)
{
	const struct align_job *job = align_job_of(align, process);
	uint64_t what = coll_mix(job->comm_key[op->comm], align_what_op(op->what));

	if (process->loop_seen)
		return align_slot_at(process, op->start_ns);
	return align_period_op(
		align, process, coll_mix(what, op->bytes), op->start_ns, op->start_ns + op->duration_ns);
}

/* The one that came after the kind before, the last time. */
static inline const struct align_kind *guess_kind(struct align_process *process, const struct align_op *op)
{
	uint8_t next = process->kind[process->kind_last].next;
	const struct align_kind *kind = &process->kind[next];

	if (!op->op || kind->p2p != (op->peer >= 0) || strcmp(op->communicator, kind->communicator) != 0 ||
		strcmp(op->op, kind->name) != 0)
		return NULL;
	process->kind_last = next;
	return kind;
}

/* It may have more records than the step before: then its peers' are looked at (framer_wait.c). */
static inline void note_more(
	struct align_job *job, const struct align_process *process, const struct align_slot *slot)
{
	if (slot->records > process->usual && process->align != ALIGN_UNPLACED &&
		align_frame_of(process, slot->step) > job->more)
		job->more = align_frame_of(process, slot->step);
}

/* Where there is plenty, a few operations a step tell enough of which step is whose: one in 2 to the power of this. */
static inline unsigned thinned(const struct align_process *process)
{
	bool plenty =
		process->align != ALIGN_UNPLACED && process->usual != UINT32_MAX && process->usual >= EVIDENCE_PLENTY;

	return plenty ? (unsigned)__builtin_clz(EVIDENCE_FEW) - (unsigned)__builtin_clz(process->usual) : 0;
}

/* It tells which step of others this one is: the same ones of all ranks do, those of fewer are among those of more. */
static inline bool is_witness(
	const struct align_job *job, const struct align_process *process, const struct heard *op)
{
	return !align_what_p2p(op->what) &&
	       (uint32_t)op->seq * UINT32_C(0x9e3779b1) <= UINT32_MAX >> thinned(process) &&
	       job->comm[op->comm].members != 1 && job->ranks > 1;
}

static inline void align_colls_add(
	struct align *align, struct align_job *job, struct align_process *process, const struct heard *op)
{
	int64_t step = op->step == STEPS_NONE ? align_colls_step_of(align, process, op) : op->step;
	struct align_slot *slot = align_slot_find(process, step);

	if (!slot)
		slot = slot_make(align, process, op, step);
	if (!slot)
		return;
	note_live(process, slot);
	if (!align_colls_put(align, job, process, slot, op)) {
		align->counts.coll_left_out++;
		slot->lost++;
		return;
	}
	note_more(job, process, slot);
	if (is_witness(job, process, op))
		align_evidence_op(align, process, coll_mix(job->comm_key[op->comm], op->seq), step);
}

/* It is waited for because of its step: operations change nothing. */
static inline bool lags(const struct align_job *job, const struct align_process *process)
{
	return align_wait_lacks_step(process, job->head) && !process->absent && !process->hopeless;
}

/* Goes out what was waited for. */
static inline void send_ready(struct align *align, struct align_job *job, struct align_process *process)
{
	if (!process->waited || lags(job, process))
		return;
	align_wait_update(job, process);
	if (!process->waited)
		align_wait_pump(align, job);
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
static inline bool makes_sense(const struct align_op *op)
{
	return align_is_time(op->start_ns, op->duration_ns) && op->communicator && *op->communicator && op->seq &&
	       is_tier(op->tier) && (op->step == STEPS_NONE || align_is_step(op->step)) &&
	       align_colls_is_peer(op->member, op->peer);
}

void align_op(struct align *align, int number, const struct align_op *op)
{
	struct align_process *process = align_living(align, number);
	const struct align_kind *kind;
	struct align_kind other;
	struct heard heard;
	struct align_job *job;

	if (!process)
		return;
	align->counts.ops++;
	if (!makes_sense(op)) {
		align->counts.coll_left_out++;
		return;
	}
	job = align_job_of(align, process);
	kind = guess_kind(process, op);
	if (!kind && align_names_kind(align, process, op, &other))
		kind = &other;
	if (kind) {
		heard = (struct heard){.step = op->step,
			.start_ns = op->start_ns,
			.duration_ns = op->duration_ns,
			.seq = op->seq,
			.bytes = op->bytes < ALIGN_BYTES_MAX ? op->bytes : ALIGN_BYTES_MAX,
			.comm = kind->comm,
			.sides = kind->p2p ? align_sides(op->member, op->peer, kind->receive) : 0,
			.what = align_what(kind->op, op->tier, kind->p2p)};
		align_colls_add(align, job, process, &heard);
	} else {
		align->counts.coll_left_out++;
	}
	send_ready(align, job, process);
}
