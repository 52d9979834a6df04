/* SPDX-License-Identifier: Apache-2.0 */
/* Operations to records of a step: their texts become numbers (align_colls.c), and the step is found. */
#include "analyzers/align/align_internal.h"
#include "analyzers/base/hash.h"
#include "analyzers/steps/steps.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Texts of operations to numbers: communicators of a job, names, and the kinds of operation of a process. */

#define NAME_BYTES 64
#define NAMES_KNOWN_BITS 5 /* log2 of sets of two */
#define NAMES_HASH 4096	   /* a power of two, well above ALIGN_NAMES_MAX */

struct align_names {
	size_t count;
	uint64_t key[ALIGN_NAMES_MAX];
	uint16_t hash[NAMES_HASH]; /* number + 1 */
	struct align_known known[2 << NAMES_KNOWN_BITS];
};

void align_names_free(struct align_names *names)
{
	free(names);
}

static uint64_t align_names_key_of(const char *text, size_t max)
{
	size_t length = strnlen(text, max);
	uint64_t key = length, word;

	for (; length >= sizeof(word); length -= sizeof(word), text += sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		key = hash_mix(word, key);
	}
	word = 0;
	memcpy(&word, text, length);
	return hash_mix(word, key);
}

static uint16_t number_find(struct align_names *names, const char *name)
{
	uint64_t key = align_names_key_of(name, NAME_BYTES);
	size_t at;

	for (at = hash_mix(key, 0) & (NAMES_HASH - 1); names->hash[at]; at = (at + 1) & (NAMES_HASH - 1)) {
		if (names->key[names->hash[at] - 1] == key)
			return names->hash[at];
	}
	if (names->count == ALIGN_NAMES_MAX)
		return 0;
	names->key[names->count] = key;
	names->hash[at] = (uint16_t)++names->count;
	return names->hash[at];
}

/* From 1; 0 for all that are too many. */
static uint16_t align_names_number_of(struct align *align, const char *name)
{
	struct align_names *names = align->names;
	const struct align_known *known;
	struct align_known what, *set;

	if (!names)
		names = align->names = calloc(1, sizeof(*names));
	if (!names)
		return 0;
	if (!align_known_read(&what, name, strnlen(name, NAME_BYTES)))
		return number_find(names, name);
	set = align_known_set(names->known, NAMES_KNOWN_BITS, &what);
	known = align_known_find(set, &what);
	if (known)
		return (uint16_t)known->number;
	what.number = number_find(names, name);
	align_known_keep(set, &what);
	return (uint16_t)what.number;
}

static void hash_put(struct align_job *job, uint32_t comm)
{
	size_t at = hash_mix(job->comm_key[comm], 0) & (job->comm_hash_size - 1);

	while (job->comm_hash[at])
		at = (at + 1) & (job->comm_hash_size - 1);
	job->comm_hash[at] = comm + 1;
}

static bool align_names_hash_grow(struct align_job *job)
{
	size_t size = job->comm_hash_size ? job->comm_hash_size * 2 : 64;
	uint32_t *hash;

	if (job->comms * 2 < job->comm_hash_size)
		return true;
	hash = calloc(size, sizeof(*hash));
	if (!hash)
		return false;
	free(job->comm_hash);
	job->comm_hash = hash;
	job->comm_hash_size = size;
	for (uint32_t i = 0; i < job->comms; i++)
		hash_put(job, i);
	return true;
}

/* Counts in `now` which communicators the records that wait are of; or gives them the numbers in it. */
static void each_comm(struct align_process *process, uint32_t *now, bool renumber)
{
	for (int64_t step = process->low; step <= process->high; step++) {
		struct align_slot *slot = align_slot_find(process, step);

		for (uint32_t i = 0; slot && i < slot->records; i++) {
			uint32_t comm = align_record_comm(&slot->record[i]);

			if (renumber)
				slot->record[i].duration_comm += (uint64_t)now[comm] - comm;
			else
				now[comm]++;
		}
	}
}

/* Numbers of communicators are kept nowhere but in full records, and beside texts. */
static void only_records(struct align_job *job, struct align_process *process)
{
	for (int64_t step = process->low; step <= process->high; step++) {
		struct align_slot *slot = align_slot_find(process, step);

		if (slot && slot->template)
			align_template_leave(job->align, job, process, slot);
	}
	align_template_drop(job, &process->template);
	memset(process->known, 0, sizeof(process->known));
	memset(process->kind, 0, sizeof(process->kind));
}

/* Forgets those of which no record waits. */
static bool align_names_reserve(struct align_job *job)
{
	uint32_t *now = calloc(job->comms, sizeof(*now)), kept = 0;

	if (!now)
		return false;
	for (size_t i = 0; i < job->ranks; i++)
		only_records(job, job->live[i]);
	for (size_t i = 0; i < job->ranks; i++)
		each_comm(job->live[i], now, false);
	for (uint32_t i = 0; i < job->comms; i++) {
		if (!now[i])
			continue;
		now[i] = kept;
		job->comm[kept] = job->comm[i];
		job->comm_key[kept++] = job->comm_key[i];
	}
	for (size_t i = 0; i < job->ranks; i++)
		each_comm(job->live[i], now, true);
	free(now);
	job->comms = kept;
	memset(job->comm_hash, 0, job->comm_hash_size * sizeof(*job->comm_hash));
	for (uint32_t i = 0; i < kept; i++)
		hash_put(job, i);
	return kept < ALIGN_COMMS_MAX;
}

static uint32_t comm_add(struct align_job *job, const char *communicator, uint64_t key)
{
	size_t many = job->comm_capacity;
	uint32_t comm;

	if (job->comms == ALIGN_COMMS_MAX && !align_names_reserve(job))
		return FRAME_NONE;
	if (!array_reserve((void **)&job->comm, &many, job->comms + 1, sizeof(*job->comm), ALIGN_COMMS_MAX))
		return FRAME_NONE;
	many = job->comm_capacity;
	if (!array_reserve((void **)&job->comm_key, &many, job->comms + 1, sizeof(*job->comm_key), ALIGN_COMMS_MAX))
		return FRAME_NONE;
	job->comm_capacity = many;
	if (!align_names_hash_grow(job))
		return FRAME_NONE;
	comm = (uint32_t)job->comms++;
	job->comm[comm] = (struct frame_comm){.kind = COMM_KIND_UNCLEAR};
	strncpy(job->comm[comm].communicator, communicator, sizeof(job->comm[comm].communicator) - 1);
	job->comm_key[comm] = key;
	hash_put(job, comm);
	return comm;
}

static uint32_t comm_find(struct align_job *job, const char *communicator)
{
	uint64_t key = align_names_key_of(communicator, sizeof(job->comm->communicator) - 1);

	if (job->comm_hash_size) {
		size_t at = hash_mix(key, 0) & (job->comm_hash_size - 1);

		for (; job->comm_hash[at]; at = (at + 1) & (job->comm_hash_size - 1)) {
			if (job->comm_key[job->comm_hash[at] - 1] == key)
				return job->comm_hash[at] - 1;
		}
	}
	return comm_add(job, communicator, key);
}

/* FRAME_NONE: full. */
static uint32_t align_names_comm_of(struct align_job *job, struct align_process *process, const char *communicator)
{
	size_t length = strnlen(communicator, sizeof(job->comm->communicator) - 1);
	const struct align_known *known;
	struct align_known what, *set;

	if (!align_known_read(&what, communicator, length))
		return comm_find(job, communicator);
	set = align_known_set(process->known, ALIGN_KNOWN_BITS, &what);
	known = align_known_find(set, &what);
	if (known)
		return known->number;
	what.number = comm_find(job, communicator);
	if (what.number != FRAME_NONE)
		align_known_keep(set, &what);
	return what.number;
}

void align_names_comm(struct align *align, struct align_process *process, const char *communicator, enum comm_kind kind,
	uint32_t members)
{
	struct align_job *job = align_job_of(align, process);
	uint32_t comm = align_names_comm_of(job, process, communicator);

	if (comm == FRAME_NONE)
		return;
	if (members)
		job->comm[comm].members = members;
	if (kind != COMM_KIND_UNCLEAR)
		job->comm[comm].kind = kind;
}

/* Where it is kept; its texts are set. */
static struct align_kind *align_kind_slot(
	struct align_process *process, const struct align_op *op, uint32_t comm, uint16_t number, bool p2p)
{
	struct align_kind *kind;

	for (uint32_t i = 0; i < ALIGN_KINDS; i++) {
		kind = &process->kind[i];
		if (kind->comm == comm && kind->op == number && kind->p2p == p2p &&
			strcmp(kind->communicator, op->communicator) == 0 && strcmp(kind->name, op->op) == 0)
			return kind;
	}
	kind = &process->kind[process->kinds++ % ALIGN_KINDS];
	*kind = (struct align_kind){.comm = comm, .op = number, .p2p = p2p};
	strncpy(kind->communicator, op->communicator, sizeof(kind->communicator) - 1);
	strncpy(kind->name, op->op, sizeof(kind->name) - 1);
	return kind;
}

static bool align_names_fits(const struct align_op *op)
{
	struct align_kind *kind;

	return op->op && strnlen(op->communicator, sizeof(kind->communicator)) < sizeof(kind->communicator) &&
	       strnlen(op->op, sizeof(kind->name)) < sizeof(kind->name);
}

static bool is_receive(const char *op)
{
	return strncasecmp(op, "recv", 4) == 0 || strncasecmp(op, "irecv", 5) == 0;
}

/* The kind of that operation, which is remembered if its texts are not long; false: of no communicator. */
static bool align_names_kind(
	struct align *align, struct align_process *process, const struct align_op *op, struct align_kind *ret)
{
	const char *name = op->op ? op->op : "";
	bool p2p = op->peer >= 0, receive = p2p && is_receive(name);
	uint16_t number = align_names_number_of(align, receive ? "Send" : name);
	uint32_t comm = align_names_comm_of(align_job_of(align, process), process, op->communicator);
	struct align_kind *kind;

	if (comm == FRAME_NONE)
		return false;
	*ret = (struct align_kind){.comm = comm, .op = number, .p2p = p2p, .receive = receive};
	if (!align_names_fits(op))
		return true;
	kind = align_kind_slot(process, op, comm, number, p2p);
	kind->receive = receive;
	process->kind[process->kind_last].next = (uint8_t)(kind - process->kind);
	process->kind_last = (uint8_t)(kind - process->kind);
	return true;
}

#define EVIDENCE_PLENTY 32 /* operations a step */
#define EVIDENCE_FEW 4	   /* of them are enough; a power of two */

/* An operation that makes sense, as numbers. */
struct align_op_input {
	int64_t step;
	uint64_t start_ns, duration_ns, seq, bytes;
	int64_t lead_ns;
	uint32_t comm, sides;
	uint16_t what;
};

/* Its frame has gone: from now on frames wait for operations. */
static void align_colls_late(struct align *align, struct align_process *process)
{
	align->counts.late++;
	align->counts.coll_left_out++;
	if (process->coll.live || align_is_unwatched(process))
		return;
	process->coll.live = true;
	align_typical_from(process, process->typical.once);
	process->coll.since = process->newest == ALIGN_NO_STEP ? 0 : process->newest + 1;
	align_wait_update(align_job_of(align, process), process);
}

/* The slot that it belongs to, which is not there yet; NULL where it has gone, or is far off. */
static __attribute__((noinline)) struct align_slot *slot_make(
	struct align *align, struct align_process *process, const struct align_op_input *op, int64_t step)
{
	struct align_slot *slot;

	if (step == ALIGN_NO_STEP) {
		if (process->newest != ALIGN_NO_STEP && op->start_ns < process->newest_end_ns)
			align_colls_late(align, process);
		else
			align->counts.coll_left_out++;
		return NULL;
	}
	slot = align_slot_get(align, process, step);
	if (!slot && process->newest != ALIGN_NO_STEP && step <= process->newest)
		align_colls_late(align, process);
	else if (!slot)
		align->counts.coll_left_out++;
	return slot;
}

static __attribute__((noinline)) void begin_live(struct align_process *process, const struct align_slot *slot)
{
	process->coll.live = true;
	align_typical_from(process, process->typical.once);
	process->coll.since = process->from_start && process->steps_seen == 0 ? ALIGN_NO_STEP : slot->step;
}

static inline void note_live(struct align_process *process, struct align_slot *slot)
{
	if (!process->coll.live && !align_is_unwatched(process))
		begin_live(process, slot);
	if (slot->step > process->coll.newest)
		process->coll.newest = slot->step;
	slot->partial = process->coll.since != ALIGN_NO_STEP && slot->step <= process->coll.since &&
			!align_is_watched(process, slot);
}

static __attribute__((noinline)) bool align_colls_grow(struct align_slot *slot)
{
	size_t many = slot->capacity;

	if (!array_reserve((void **)&slot->record, &many, slot->records + 1, sizeof(*slot->record), ALIGN_RECORDS_MAX))
		return false;
	slot->capacity = (uint32_t)many;
	return true;
}

static uint32_t align_colls_fold(uint64_t value)
{
	return (uint32_t)(value ^ value >> 32);
}

static inline void align_colls_write(struct align_record *record, const struct align_op_input *op)
{
	uint64_t duration_ns = op->duration_ns < ALIGN_DURATION_MAX ? op->duration_ns : ALIGN_DURATION_MAX;

	record->start_ns = op->start_ns;
	record->duration_comm = duration_ns << 16 | op->comm;
	record->bytes_what = op->bytes << 16 | op->what;
	record->seq = align_colls_fold(op->seq);
	record->sides = op->sides;
}

/* In the slot, by its template; false: it is not as the template says. Numbers beyond 32 bits never are: full records
 * fold them. */
static bool align_colls_take(struct align_slot *slot, const struct align_op_input *op)
{
	const struct align_template *template = slot->template;
	const struct align_entry *entry = &template->pattern->entry[slot->records];
	const struct align_stream *stream;
	uint32_t *base = slot->word, *time = slot->word + template->streams + (size_t)slot->records * 2;
	uint64_t after_ns;

	if (slot->records == template->count)
		return false;
	if (!slot->records)
		slot->first_ns = slot->last_ns = op->start_ns;
	stream = &template->stream[entry->stream];
	after_ns = op->start_ns - slot->last_ns;
	if (!entry->seq)
		base[entry->stream] = (uint32_t)op->seq;
	if (stream->comm != op->comm || stream->sides != op->sides || entry->what != op->what ||
		entry->bytes != op->bytes || op->seq != base[entry->stream] + entry->seq || after_ns > UINT32_MAX ||
		op->duration_ns > UINT32_MAX)
		return false;
	time[0] = (uint32_t)after_ns;
	time[1] = (uint32_t)op->duration_ns;
	slot->last_ns = op->start_ns;
	return true;
}

/* False: left out. */
static inline bool align_colls_append(struct align_slot *slot, const struct align_op_input *op)
{
	if (slot->records == slot->capacity && !align_colls_grow(slot))
		return false;
	if (slot->records)
		slot->unsorted |= op->start_ns < slot->record[slot->records - 1].start_ns;
	align_colls_write(&slot->record[slot->records], op);
	return true;
}

/* As it was planned, or as a full record; false: left out. */
static inline bool align_colls_put(struct align *align, struct align_job *job, struct align_process *process,
	struct align_slot *slot, const struct align_op_input *op)
{
	uint8_t tier = align_what_tier(op->what);

	if (job->records >= ALIGN_OPS_MAX)
		return false;
	if (!slot->records && process->template)
		align_template_begin(process, slot);
	if (slot->template && !align_colls_take(slot, op))
		align_template_leave(align, job, process, slot);
	if (!slot->template && !align_colls_append(slot, op))
		return false;
	slot->worst_tier = !slot->records || tier < slot->worst_tier ? tier : slot->worst_tier;
	slot->records++;
	job->records++;
	return true;
}

/* The number of its step where that is unknown; ALIGN_NO_STEP. */
static __attribute__((noinline)) int64_t align_colls_step_of(
	struct align *align, struct align_process *process, const struct align_op_input *op)
{
	const struct align_job *job = align_job_of(align, process);
	uint64_t what = hash_mix(job->comm_key[op->comm], align_what_op(op->what));

	if (process->loop_seen)
		return align_slot_at(process, op->start_ns);
	return align_period_op(align, process, hash_mix(what, op->bytes), op->start_ns, op->start_ns + op->duration_ns);
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

/* Ahead of its device by nothing at least. The records of a step are too few for a sum that overflows. */
static inline void note_lead(struct align_slot *slot, const struct align_op_input *op)
{
	if (align_what_tier(op->what) != FRAME_TIER_DEVICE || op->lead_ns == ALIGN_LEAD_UNKNOWN ||
		op->lead_ns >= (int64_t)ALIGN_DURATION_MAX)
		return;
	slot->leads++;
	slot->lead_ns += op->lead_ns > 0 ? (uint64_t)op->lead_ns : 0;
}

/* It may have more records than the step before: then its peers' are checked (align_wait.c). */
static inline void note_more(struct align_job *job, const struct align_process *process, const struct align_slot *slot)
{
	if (slot->records > process->typical.ops && process->align != ALIGN_UNPLACED &&
		align_frame_of(process, slot->step) > job->more)
		job->more = align_frame_of(process, slot->step);
}

/* Where there is plenty, a few operations a step show enough of which step is whose: one in 2 to the power of this. */
static inline unsigned align_colls_thinned(const struct align_process *process)
{
	bool plenty = process->align != ALIGN_UNPLACED && process->typical.ops != UINT32_MAX &&
		      process->typical.ops >= EVIDENCE_PLENTY;

	return plenty ? (unsigned)__builtin_clz(EVIDENCE_FEW) - (unsigned)__builtin_clz(process->typical.ops) : 0;
}

/* Shows which step of others this one is: the same ones of all ranks do, those of fewer are among those of more. */
static inline bool is_witness(
	const struct align_job *job, const struct align_process *process, const struct align_op_input *op)
{
	return !align_what_p2p(op->what) &&
	       (uint32_t)op->seq * UINT32_C(0x9e3779b1) <= UINT32_MAX >> align_colls_thinned(process) &&
	       job->comm[op->comm].members != 1 && job->ranks > 1;
}

static inline void align_colls_add(
	struct align *align, struct align_job *job, struct align_process *process, const struct align_op_input *op)
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
	note_lead(slot, op);
	note_more(job, process, slot);
	if (is_witness(job, process, op))
		align_evidence_op(align, process, hash_mix(job->comm_key[op->comm], op->seq), step);
}

/* It is waited for because of its step: operations change nothing. */
static inline bool align_colls_lags(const struct align_job *job, const struct align_process *process)
{
	return align_wait_lacks_step(process, job->head) && !process->absent && !process->hopeless;
}

/* Goes out what was waited for. */
static inline void send_ready(struct align *align, struct align_job *job, struct align_process *process)
{
	if (!process->waited || align_colls_lags(job, process))
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

/* The row of such operations; NULL: others of this step have all. */
static struct align_counted *align_colls_counted(struct align_process *process, const struct align_op_input *op)
{
	struct align_counted *oldest = NULL;

	for (size_t i = 0; i < ALIGN_COUNTED; i++) {
		struct align_counted *one = &process->counted[i];

		if (one->known && one->comm == op->comm && one->sides == op->sides)
			return one;
		if (!one->known || (one->step < op->step && (!oldest || (oldest->known && one->step < oldest->step))))
			oldest = one;
	}
	if (oldest)
		*oldest = (struct align_counted){op->step, op->comm, op->sides, ALIGN_COUNTED_STEP, true};
	return oldest;
}

/* Its number within its step, equal on both sides. 0: left out, as of the first step, which may be partial. */
static uint64_t align_colls_number(struct align_process *process, const struct align_op_input *op)
{
	struct align_counted *one;

	if (op->step == STEPS_NONE || process->align == ALIGN_UNPLACED)
		return 0;
	one = align_colls_counted(process, op);
	if (!one)
		return 0;
	if (op->step > one->step)
		*one = (struct align_counted){op->step, op->comm, op->sides, 0, true};
	if (op->step < one->step || one->count >= ALIGN_COUNTED_STEP)
		return 0;
	return (uint64_t)align_frame_of(process, op->step) * (ALIGN_COUNTED_STEP + 1) + ++one->count;
}

void align_op(struct align *align, int number, const struct align_op *op)
{
	struct align_process *process = align_living(align, number);
	const struct align_kind *kind;
	struct align_kind other;
	struct align_op_input align_op_input;
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
		align_op_input = (struct align_op_input){.step = op->step,
			.start_ns = op->start_ns,
			.duration_ns = op->duration_ns,
			.seq = op->seq,
			.bytes = op->bytes < ALIGN_BYTES_MAX ? op->bytes : ALIGN_BYTES_MAX,
			.lead_ns = op->lead_ns,
			.comm = kind->comm,
			.sides = kind->p2p ? align_sides(op->member, op->peer, kind->receive) : 0,
			.what = align_what(kind->op, op->tier, kind->p2p)};
		if (op->counted)
			align_op_input.seq = align_colls_number(process, &align_op_input);
	}
	if (kind && align_op_input.seq) {
		align_colls_add(align, job, process, &align_op_input);
	} else {
		align->counts.coll_left_out++;
	}
	send_ready(align, job, process);
}
