/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a frame to its groups: those of one (communicator, seq), or (both sides, seq), are one operation. */
#include "analyzers/detect/framer_groups.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/ops_hash.h"

#define UNLIKE_MIN 2 /* steps in a row that do not go by their plan: it is not theirs */
#define UNLIKE_MAX 8

/* Ranks of a communicator go through the same groups of it: the one after a rank's last one is likely the one that
 * came after it with the rank before, so that most groups are found without the hash. */
struct framer_groups_cursor {
	uint32_t rank; /* that is on its way */
	uint32_t first, at;
};

void framer_groups_free(struct framer_scratch *scratch)
{
	free(scratch->rank);
	free(scratch->slot);
	free(scratch->group);
	free(scratch->key);
	free(scratch->shortest);
	free(scratch->stop);
	free(scratch->op);
	free(scratch->hash);
	free(scratch->cursor);
	free(scratch->lane);
	free(scratch->lane_hash);
	free(scratch->lane_group);
}

bool framer_groups_begin(struct framer *framer, const struct framer_room *job)
{
	struct framer_scratch *scratch = &framer->scratch;

	if (!framer_grow((void **)&scratch->cursor, &scratch->cursor_room, job->comms, sizeof(*scratch->cursor),
		    FRAMER_COMMS_MAX))
		return false;
	scratch->groups = scratch->ops = 0;
	scratch->hashed = false;
	scratch->tame = job->ranks < SHORTEST_RANKS;
	framer_lanes_begin(scratch);
	return true;
}

static size_t align_groups_place_of(const struct framer_scratch *scratch, const struct framer_group_key *key)
{
	uint64_t what = (uint64_t)key->seq << 32 | key->comm, sides = (uint64_t)key->sides << 1 | key->p2p;
	size_t at = ops_mix(what, sides) & (scratch->hash_size - 1);

	for (; scratch->hash[at]; at = (at + 1) & (scratch->hash_size - 1)) {
		const struct framer_group_key *other = &scratch->key[scratch->hash[at] - 1];

		if (other->seq == key->seq && other->comm == key->comm && other->sides == key->sides &&
			other->p2p == key->p2p)
			break;
	}
	return at;
}

/* So that it is half empty with that many groups. */
static bool align_groups_hash_grow(struct framer_scratch *scratch, size_t groups)
{
	size_t size = scratch->hash_size ? scratch->hash_size : 256;
	uint32_t *hash;

	while (size <= groups * 2)
		size *= 2;
	if (size == scratch->hash_size)
		return true;
	hash = calloc(size, sizeof(*hash));
	if (!hash)
		return false;
	free(scratch->hash);
	scratch->hash = hash;
	scratch->hash_size = size;
	for (uint32_t i = 0; i < scratch->groups; i++)
		hash[align_groups_place_of(scratch, &scratch->key[i])] = i + 1;
	return true;
}

/* From the first record on that is looked up all groups are in the hash, which is most work for nothing else. */
static bool hash_begin(struct framer_scratch *scratch, const struct framer_room *job)
{
	size_t had = scratch->hash_size;

	if (scratch->hashed)
		return true;
	if (job->comms)
		memset(scratch->cursor, 0xff, job->comms * sizeof(*scratch->cursor)); /* FRAME_NONE */
	if (scratch->hash)
		memset(scratch->hash, 0, had * sizeof(*scratch->hash));
	if (!align_groups_hash_grow(scratch, scratch->groups))
		return false;
	for (uint32_t i = 0; i < scratch->groups && scratch->hash_size == had; i++)
		scratch->hash[align_groups_place_of(scratch, &scratch->key[i])] = i + 1;
	scratch->hashed = true;
	return true;
}

bool framer_groups_room(struct framer_scratch *scratch, size_t more)
{
	size_t many = scratch->group_room;

	if (!framer_grow((void **)&scratch->key, &many, scratch->groups + more, sizeof(*scratch->key), UINT32_MAX / 2))
		return false;
	many = scratch->group_room;
	if (!framer_grow(
		    (void **)&scratch->group, &many, scratch->groups + more, sizeof(*scratch->group), UINT32_MAX / 2))
		return false;
	many = scratch->group_room;
	if (!framer_grow((void **)&scratch->shortest, &many, scratch->groups + more, sizeof(*scratch->shortest),
		    UINT32_MAX / 2))
		return false;
	scratch->group_room = many;
	return framer_grow((void **)&scratch->op, &scratch->op_room, scratch->ops + more, sizeof(*scratch->op),
		       UINT32_MAX / 2) &&
	       (!scratch->hashed || align_groups_hash_grow(scratch, scratch->groups + more));
}

uint32_t framer_groups_new(struct framer_scratch *scratch, const struct framer_room *job,
	const struct framer_group_key *key, uint64_t bytes, uint16_t op)
{
	scratch->key[scratch->groups] = *key;
	scratch->shortest[scratch->groups] = shortest_none();
	scratch->group[scratch->groups] = (struct frame_group){.comm = key->comm,
		.members = key->p2p ? 2 : job->comm[key->comm].members,
		.bytes = bytes,
		.op = op,
		.p2p = key->p2p};
	return (uint32_t)scratch->groups++;
}

uint32_t framer_groups_find(struct framer_scratch *scratch, const struct framer_room *job,
	const struct framer_group_key *key, uint64_t bytes, uint16_t op)
{
	size_t at = align_groups_place_of(scratch, key);

	if (!scratch->hash[at])
		scratch->hash[at] = framer_groups_new(scratch, job, key, bytes, op) + 1;
	return scratch->hash[at] - 1;
}

static uint32_t align_groups_find(struct framer_scratch *scratch, const struct framer_room *job, const struct framer_record *record)
{
	const struct framer_group_key key = {.seq = record->seq,
		.comm = framer_record_comm(record),
		.sides = record->sides,
		.p2p = framer_record_p2p(record),
		.last = FRAME_NONE,
		.next = FRAME_NONE,
		.tier = framer_record_tier(record)};

	return framer_groups_find(scratch, job, &key, framer_record_bytes(record), framer_record_op(record));
}

static inline bool align_groups_is_of(const struct framer_group_key *key, const struct framer_record *record)
{
	return key->seq == record->seq && key->sides == record->sides && key->p2p == framer_record_p2p(record);
}

/* The group of the record; *cursor: of its communicator. */
static inline uint32_t align_groups_follow(struct framer_scratch *scratch, const struct framer_room *job,
	const struct framer_record *record, uint32_t rank, struct framer_group_key *keys,
	struct framer_groups_cursor *cursor)
{
	uint32_t *link = cursor->rank == rank ? &keys[cursor->at].next : &cursor->first, group = *link;

	if (group == FRAME_NONE || !align_groups_is_of(&keys[group], record)) {
		group = align_groups_find(scratch, job, record);
		*link = group;
	}
	cursor->rank = rank;
	cursor->at = group;
	return group;
}

/* To ops, which has room for all; how many they are. */
static size_t align_groups_add(struct framer_scratch *scratch, const struct framer_room *job, const struct framer_slot *slot,
	uint32_t rank, struct frame_op *ops)
{
	struct framer_group_key *keys = scratch->key; /* room was made: it stays where it is */
	struct framer_groups_cursor *cursors = scratch->cursor;
	const struct framer_record *record = slot->record, *end = record + slot->records;
	struct frame_op *op = ops;
	uint64_t times = 0;

	for (; record < end; record++) {
		uint32_t group = align_groups_follow(scratch, job, record, rank, keys, &cursors[framer_record_comm(record)]);
		struct framer_group_key *key = &keys[group];

		if (key->last == rank || key->tier != framer_record_tier(record))
			continue;
		key->last = rank;
		key->count++;
		op->group = group;
		op->rank = rank;
		op->start_ns = (int64_t)record->start_ns - (int64_t)slot->start_ns;
		op->duration_ns = framer_record_duration(record);
		times |= op->duration_ns | ((uint64_t)op->start_ns + FRAME_TAME_NS);
		shortest_add(&scratch->shortest[group], op->duration_ns, rank);
		op++;
	}
	scratch->tame &= times < 2 * FRAME_TAME_NS;
	return (size_t)(op - ops);
}

static int align_groups_by_start(const void *a, const void *b)
{
	const struct framer_record *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

static void add_records(struct framer *framer, const struct framer_room *job, struct framer_slot *slot, uint32_t rank)
{
	struct framer_scratch *scratch = &framer->scratch;
	size_t added;

	if (!hash_begin(scratch, job) || !framer_groups_room(scratch, slot->records)) {
		framer->counts.ops_left_out += slot->records;
		return;
	}
	added = align_groups_add(scratch, job, slot, rank, scratch->op + scratch->ops);
	scratch->ops += added;
	framer->counts.ops_left_out += slot->records - added;
}

/* What steps are expected to be like changes where two that differ from it come one after the other; where none is
 * ever like another, looking for it ends. */
static void note_unlike(struct framer_room *job, struct framer_process *process, const struct framer_slot *slot)
{
	process->unlike += process->unlike < UINT32_MAX;
	if (process->plan && process->unlike < UNLIKE_MIN)
		return;
	if ((process->unlike & (process->unlike - 1)) == 0 && !slot->unsorted)
		framer_plan_learn(job, process, slot);
	else if (process->unlike > UNLIKE_MAX)
		framer_plan_drop(job, &process->plan);
}

void framer_groups_add(struct framer *framer, struct framer_room *job, struct framer_process *process,
	struct framer_slot *slot, uint32_t rank)
{
	struct framer_scratch *scratch = &framer->scratch;

	if (slot->plan && slot->records == slot->plan->count) {
		if (process->unlike)
			process->unlike = 0;
		if (framer_groups_room(scratch, slot->records) && framer_lanes_add(scratch, job, slot, rank))
			return;
		framer_plan_leave(framer, job, process, slot);
	} else {
		if (slot->plan)
			framer_plan_leave(framer, job, process, slot);
		note_unlike(job, process, slot);
	}
	if (slot->unsorted)
		qsort(slot->record, slot->records, sizeof(*slot->record), align_groups_by_start);
	add_records(framer, job, slot, rank);
}

void framer_groups_end(struct framer *framer)
{
	struct framer_scratch *scratch = &framer->scratch;

	framer_lanes_end(scratch);
	/* Where nothing told a communicator's size, those that were seen are it. */
	for (size_t i = 0; i < scratch->groups; i++) {
		scratch->shortest[i].records = scratch->key[i].count;
		if (scratch->group[i].members < scratch->key[i].count)
			scratch->group[i].members = scratch->key[i].count;
	}
}
