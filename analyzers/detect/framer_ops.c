/* SPDX-License-Identifier: Apache-2.0 */
/* Operations to records of a step: communicators and names become numbers, and the step is found. */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzers/ops_hash.h"
#include "analyzers/steps.h"

#define NAME_BYTES 64
#define EVIDENCE_PLENTY 32 /* operations a step */
#define EVIDENCE_ONE_IN 8  /* a power of two */
#define NAMES_KNOWN_BITS 5 /* log2 of sets of two */
#define NAMES_HASH 4096	   /* a power of two, well above FRAMER_NAMES_MAX */

struct framer_names {
	size_t count;
	uint64_t key[FRAMER_NAMES_MAX];
	uint16_t hash[NAMES_HASH]; /* number + 1 */
	struct framer_known known[2 << NAMES_KNOWN_BITS];
};

void framer_names_free(struct framer_names *names)
{
	free(names);
}

static uint64_t key_of(const char *text, size_t max)
{
	size_t length = strnlen(text, max);
	uint64_t key = length, word;

	for (; length >= sizeof(word); length -= sizeof(word), text += sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		key = ops_mix(word, key);
	}
	word = 0;
	memcpy(&word, text, length);
	return ops_mix(word, key);
}

static uint16_t number_find(struct framer_names *names, const char *name)
{
	uint64_t key = key_of(name, NAME_BYTES);
	size_t at;

	for (at = ops_mix(key, 0) & (NAMES_HASH - 1); names->hash[at]; at = (at + 1) & (NAMES_HASH - 1)) {
		if (names->key[names->hash[at] - 1] == key)
			return names->hash[at];
	}
	if (names->count == FRAMER_NAMES_MAX)
		return 0;
	names->key[names->count] = key;
	names->hash[at] = (uint16_t)++names->count;
	return names->hash[at];
}

/* From 1; 0 for all that are too many. */
static uint16_t number_of(struct framer *framer, const char *name)
{
	struct framer_names *names = framer->names;
	const struct framer_known *known;
	struct framer_known what, *set;

	if (!names)
		names = framer->names = calloc(1, sizeof(*names));
	if (!names)
		return 0;
	if (!framer_known_read(&what, name, strnlen(name, NAME_BYTES)))
		return number_find(names, name);
	set = framer_known_set(names->known, NAMES_KNOWN_BITS, &what);
	known = framer_known_find(set, &what);
	if (known)
		return (uint16_t)known->number;
	what.number = number_find(names, name);
	framer_known_keep(set, &what);
	return (uint16_t)what.number;
}

static void hash_put(struct framer_room *room, uint32_t comm)
{
	size_t at = ops_mix(room->comm_key[comm], 0) & (room->comm_hash_size - 1);

	while (room->comm_hash[at])
		at = (at + 1) & (room->comm_hash_size - 1);
	room->comm_hash[at] = comm + 1;
}

static bool hash_grow(struct framer_room *room)
{
	size_t size = room->comm_hash_size ? room->comm_hash_size * 2 : 64;
	uint32_t *hash;

	if (room->comms * 2 < room->comm_hash_size)
		return true;
	hash = calloc(size, sizeof(*hash));
	if (!hash)
		return false;
	free(room->comm_hash);
	room->comm_hash = hash;
	room->comm_hash_size = size;
	for (uint32_t i = 0; i < room->comms; i++)
		hash_put(room, i);
	return true;
}

/* Counts in `now` which communicators the records that wait are of; or gives them the numbers in it. */
static void each_comm(struct framer_process *process, uint32_t *now, bool renumber)
{
	for (int64_t step = process->low; step <= process->high; step++) {
		struct framer_slot *slot = framer_slot_find(process, step);

		for (uint32_t i = 0; slot && i < slot->records; i++) {
			if (renumber)
				slot->record[i].comm = now[slot->record[i].comm];
			else
				now[slot->record[i].comm]++;
		}
	}
}

/* Forgets those of which no record waits. */
static bool make_room(struct framer_room *room)
{
	uint32_t *now = calloc(room->comms, sizeof(*now)), kept = 0;

	if (!now)
		return false;
	for (size_t i = 0; i < room->ranks; i++)
		each_comm(room->live[i], now, false);
	for (uint32_t i = 0; i < room->comms; i++) {
		if (!now[i])
			continue;
		now[i] = kept;
		room->comm[kept] = room->comm[i];
		room->comm_key[kept++] = room->comm_key[i];
	}
	for (size_t i = 0; i < room->ranks; i++) {
		each_comm(room->live[i], now, true);
		memset(room->live[i]->known, 0, sizeof(room->live[i]->known));
	}
	free(now);
	room->comms = kept;
	memset(room->comm_hash, 0, room->comm_hash_size * sizeof(*room->comm_hash));
	for (uint32_t i = 0; i < kept; i++)
		hash_put(room, i);
	return kept < FRAMER_COMMS_MAX;
}

static uint32_t comm_add(struct framer_room *room, const char *communicator, uint64_t key)
{
	size_t many = room->comm_room;
	uint32_t comm;

	if (room->comms == FRAMER_COMMS_MAX && !make_room(room))
		return FRAME_NONE;
	if (!framer_grow((void **)&room->comm, &many, room->comms + 1, sizeof(*room->comm), FRAMER_COMMS_MAX))
		return FRAME_NONE;
	many = room->comm_room;
	if (!framer_grow((void **)&room->comm_key, &many, room->comms + 1, sizeof(*room->comm_key), FRAMER_COMMS_MAX))
		return FRAME_NONE;
	room->comm_room = many;
	if (!hash_grow(room))
		return FRAME_NONE;
	comm = (uint32_t)room->comms++;
	room->comm[comm] = (struct frame_comm){.kind = COMM_KIND_UNCLEAR};
	strncpy(room->comm[comm].communicator, communicator, sizeof(room->comm[comm].communicator) - 1);
	room->comm_key[comm] = key;
	hash_put(room, comm);
	return comm;
}

static uint32_t comm_find(struct framer_room *room, const char *communicator)
{
	uint64_t key = key_of(communicator, sizeof(room->comm->communicator) - 1);

	if (room->comm_hash_size) {
		size_t at = ops_mix(key, 0) & (room->comm_hash_size - 1);

		for (; room->comm_hash[at]; at = (at + 1) & (room->comm_hash_size - 1)) {
			if (room->comm_key[room->comm_hash[at] - 1] == key)
				return room->comm_hash[at] - 1;
		}
	}
	return comm_add(room, communicator, key);
}

static uint32_t comm_of(struct framer_room *room, struct framer_process *process, const char *communicator)
{
	size_t length = strnlen(communicator, sizeof(room->comm->communicator) - 1);
	const struct framer_known *known;
	struct framer_known what, *set;

	if (!framer_known_read(&what, communicator, length))
		return comm_find(room, communicator);
	set = framer_known_set(process->known, FRAMER_KNOWN_BITS, &what);
	known = framer_known_find(set, &what);
	if (known)
		return known->number;
	what.number = comm_find(room, communicator);
	if (what.number != FRAME_NONE)
		framer_known_keep(set, &what);
	return what.number;
}

void framer_ops_comm(struct framer *framer, struct framer_process *process, const char *communicator,
	enum comm_kind kind, uint32_t members)
{
	struct framer_room *room = framer_room_of(framer, process);
	uint32_t comm = comm_of(room, process, communicator);

	if (comm == FRAME_NONE)
		return;
	if (members)
		room->comm[comm].members = members;
	if (kind != COMM_KIND_UNCLEAR)
		room->comm[comm].kind = kind;
}

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

/* The slot that it belongs to; NULL where it has gone, or is far off. */
static struct framer_slot *slot_of(
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
	slot = framer_slot_find(process, step);
	if (!slot)
		slot = framer_slot_get(framer, process, step);
	if (!slot && process->newest != FRAMER_NO_STEP && step <= process->newest)
		late(framer, process);
	else if (!slot)
		framer->counts.ops_left_out++;
	return slot;
}

static void note_live(struct framer_process *process, struct framer_slot *slot)
{
	if (!process->ops_live) {
		process->ops_live = true;
		process->usual = UINT32_MAX;
		process->ops_since = process->from_start && process->steps_seen == 0 ? FRAMER_NO_STEP : slot->step;
	}
	if (slot->step > process->ops_newest)
		process->ops_newest = slot->step;
	slot->partial = process->ops_since != FRAMER_NO_STEP && slot->step <= process->ops_since;
}

static bool grow(struct framer_slot *slot)
{
	size_t many = slot->room;

	if (!framer_grow((void **)&slot->record, &many, slot->records + 1, sizeof(*slot->record), FRAMER_RECORDS_MAX))
		return false;
	slot->room = (uint32_t)many;
	return true;
}

/* Room for one more, of which the start and the tier are set; NULL: left out. */
static struct framer_record *append(
	struct framer *framer, struct framer_room *room, struct framer_slot *slot, const struct framer_op *op)
{
	struct framer_record *record;

	if (room->records >= FRAMER_OPS_MAX || (slot->records == slot->room && !grow(slot))) {
		framer->counts.ops_left_out++;
		slot->lost++;
		return NULL;
	}
	record = &slot->record[slot->records];
	record->start_ns = op->start_ns;
	record->tier = (uint8_t)op->tier;
	if (!slot->records) {
		slot->worst_tier = record->tier;
	} else {
		slot->unsorted |= op->start_ns < record[-1].start_ns;
		slot->worst_tier = record->tier < slot->worst_tier ? record->tier : slot->worst_tier;
	}
	slot->records++;
	room->records++;
	return record;
}

static bool is_receive(const char *op)
{
	return strncasecmp(op, "recv", 4) == 0 || strncasecmp(op, "irecv", 5) == 0;
}

/* Where there is plenty, one operation in EVIDENCE_ONE_IN tells enough of which step is whose; the same ones of all. */
static uint64_t thinned(const struct framer_process *process)
{
	bool plenty =
		process->align != FRAMER_UNPLACED && process->usual != UINT32_MAX && process->usual >= EVIDENCE_PLENTY;

	return plenty ? EVIDENCE_ONE_IN - 1 : 0;
}

static void write_sides(struct framer_record *record, const struct framer_op *op, bool p2p, bool receive)
{
	record->sender = !p2p ? -1 : receive ? op->peer : op->member;
	record->receiver = !p2p ? -1 : receive ? op->member : op->peer;
}

/* The number of its step; FRAMER_NO_STEP. */
static int64_t step_of(struct framer *framer, struct framer_process *process, const struct framer_op *op, uint64_t key,
	uint16_t number)
{
	if (op->step != STEPS_NONE)
		return op->step;
	if (process->loop_seen)
		return framer_slot_at(process, op->start_ns);
	return framer_period_op(framer, process, ops_mix(ops_mix(key, number), op->bytes), op->start_ns,
		op->start_ns + op->duration_ns);
}

void framer_ops_add(struct framer *framer, struct framer_process *process, const struct framer_op *op)
{
	struct framer_room *room = framer_room_of(framer, process);
	const char *name = op->op ? op->op : "";
	bool p2p = op->peer >= 0, receive = p2p && is_receive(name);
	uint16_t number = number_of(framer, receive ? "Send" : name);
	uint32_t comm = comm_of(room, process, op->communicator);
	struct framer_record *record;
	struct framer_slot *slot;
	uint64_t key;
	int64_t step;

	if (comm == FRAME_NONE) {
		framer->counts.ops_left_out++;
		return;
	}
	step = step_of(framer, process, op, room->comm_key[comm], number);
	slot = slot_of(framer, process, op, step);
	if (!slot)
		return;
	note_live(process, slot);
	record = append(framer, room, slot, op);
	if (!record)
		return;
	record->seq = op->seq;
	record->duration_ns = op->duration_ns;
	record->comm = comm;
	record->op = number;
	record->bytes = op->bytes;
	write_sides(record, op, p2p, receive);
	if (p2p || room->comm[comm].members == 1 || room->ranks <= 1)
		return;
	key = ops_mix(room->comm_key[comm], op->seq);
	if (!(key & thinned(process)))
		framer_evidence_op(framer, process, key, step);
}
