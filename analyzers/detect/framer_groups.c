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
struct align_groups_cursor {
	uint32_t rank; /* that is on its way */
	uint32_t first, at;
};

void align_groups_free(struct align_scratch *scratch)
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

bool align_groups_begin(struct align *align, const struct align_job *job)
{
	struct align_scratch *scratch = &align->scratch;

	if (!align_grow((void **)&scratch->cursor, &scratch->cursor_capacity, job->comms, sizeof(*scratch->cursor),
		    ALIGN_COMMS_MAX))
		return false;
	scratch->groups = scratch->ops = 0;
	scratch->hashed = false;
	scratch->tame = job->ranks < SHORTEST_RANKS;
	align_lanes_begin(scratch);
	return true;
}

static size_t align_groups_place_of(const struct align_scratch *scratch, const struct align_group_key *key)
{
	uint64_t what = (uint64_t)key->seq << 32 | key->comm, sides = (uint64_t)key->sides << 1 | key->p2p;
	size_t at = coll_mix(what, sides) & (scratch->hash_size - 1);

	for (; scratch->hash[at]; at = (at + 1) & (scratch->hash_size - 1)) {
		const struct align_group_key *other = &scratch->key[scratch->hash[at] - 1];

		if (other->seq == key->seq && other->comm == key->comm && other->sides == key->sides &&
			other->p2p == key->p2p)
			break;
	}
	return at;
}

/* So that it is half empty with that many groups. */
static bool align_groups_hash_grow(struct align_scratch *scratch, size_t groups)
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
static bool hash_begin(struct align_scratch *scratch, const struct align_job *job)
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

bool align_groups_room(struct align_scratch *scratch, size_t more)
{
	size_t many = scratch->group_capacity;

	if (!align_grow((void **)&scratch->key, &many, scratch->groups + more, sizeof(*scratch->key), UINT32_MAX / 2))
		return false;
	many = scratch->group_capacity;
	if (!align_grow(
		    (void **)&scratch->group, &many, scratch->groups + more, sizeof(*scratch->group), UINT32_MAX / 2))
		return false;
	many = scratch->group_capacity;
	if (!align_grow((void **)&scratch->shortest, &many, scratch->groups + more, sizeof(*scratch->shortest),
		    UINT32_MAX / 2))
		return false;
	scratch->group_capacity = many;
	return align_grow((void **)&scratch->op, &scratch->op_capacity, scratch->ops + more, sizeof(*scratch->op),
		       UINT32_MAX / 2) &&
	       (!scratch->hashed || align_groups_hash_grow(scratch, scratch->groups + more));
}

uint32_t align_groups_new(struct align_scratch *scratch, const struct align_job *job,
	const struct align_group_key *key, uint64_t bytes, uint16_t op)
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

uint32_t align_groups_find(struct align_scratch *scratch, const struct align_job *job,
	const struct align_group_key *key, uint64_t bytes, uint16_t op)
{
	size_t at = align_groups_place_of(scratch, key);

	if (!scratch->hash[at])
		scratch->hash[at] = align_groups_new(scratch, job, key, bytes, op) + 1;
	return scratch->hash[at] - 1;
}

static uint32_t align_groups_lookup(struct align_scratch *scratch, const struct align_job *job, const struct align_record *record)
{
	const struct align_group_key key = {.seq = record->seq,
		.comm = align_record_comm(record),
		.sides = record->sides,
		.p2p = align_record_p2p(record),
		.last = FRAME_NONE,
		.next = FRAME_NONE,
		.tier = align_record_tier(record)};

	return align_groups_find(scratch, job, &key, align_record_bytes(record), align_record_op(record));
}

static inline bool align_groups_is_of(const struct align_group_key *key, const struct align_record *record)
{
	return key->seq == record->seq && key->sides == record->sides && key->p2p == align_record_p2p(record);
}

/* The group of the record; *cursor: of its communicator. */
static inline uint32_t align_groups_follow(struct align_scratch *scratch, const struct align_job *job,
	const struct align_record *record, uint32_t rank, struct align_group_key *keys,
	struct align_groups_cursor *cursor)
{
	uint32_t *link = cursor->rank == rank ? &keys[cursor->at].next : &cursor->first, group = *link;

	if (group == FRAME_NONE || !align_groups_is_of(&keys[group], record)) {
		group = align_groups_lookup(scratch, job, record);
		*link = group;
	}
	cursor->rank = rank;
	cursor->at = group;
	return group;
}

/* To ops, which has room for all; how many they are. */
static size_t align_groups_add_record(struct align_scratch *scratch, const struct align_job *job, const struct align_slot *slot,
	uint32_t rank, struct frame_op *ops)
{
	struct align_group_key *keys = scratch->key; /* room was made: it stays where it is */
	struct align_groups_cursor *cursors = scratch->cursor;
	const struct align_record *record = slot->record, *end = record + slot->records;
	struct frame_op *op = ops;
	uint64_t times = 0;

	for (; record < end; record++) {
		uint32_t group = align_groups_follow(scratch, job, record, rank, keys, &cursors[align_record_comm(record)]);
		struct align_group_key *key = &keys[group];

		if (key->last == rank || key->tier != align_record_tier(record))
			continue;
		key->last = rank;
		key->count++;
		op->group = group;
		op->rank = rank;
		op->start_ns = (int64_t)record->start_ns - (int64_t)slot->start_ns;
		op->duration_ns = align_record_duration(record);
		times |= op->duration_ns | ((uint64_t)op->start_ns + FRAME_TAME_NS);
		shortest_add(&scratch->shortest[group], op->duration_ns, rank);
		op++;
	}
	scratch->tame &= times < 2 * FRAME_TAME_NS;
	return (size_t)(op - ops);
}

static int align_groups_by_start(const void *a, const void *b)
{
	const struct align_record *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

static void add_records(struct align *align, const struct align_job *job, struct align_slot *slot, uint32_t rank)
{
	struct align_scratch *scratch = &align->scratch;
	size_t added;

	if (!hash_begin(scratch, job) || !align_groups_room(scratch, slot->records)) {
		align->counts.coll_left_out += slot->records;
		return;
	}
	added = align_groups_add_record(scratch, job, slot, rank, scratch->op + scratch->ops);
	scratch->ops += added;
	align->counts.coll_left_out += slot->records - added;
}

/* What steps are expected to be like changes where two that differ from it come one after the other; where none is
 * ever like another, looking for it ends. */
static void note_unlike(struct align_job *job, struct align_process *process, const struct align_slot *slot)
{
	process->unlike += process->unlike < UINT32_MAX;
	if (process->plan && process->unlike < UNLIKE_MIN)
		return;
	if ((process->unlike & (process->unlike - 1)) == 0 && !slot->unsorted)
		align_template_learn(job, process, slot);
	else if (process->unlike > UNLIKE_MAX)
		align_template_drop(job, &process->plan);
}

void align_groups_add(struct align *align, struct align_job *job, struct align_process *process,
	struct align_slot *slot, uint32_t rank)
{
	struct align_scratch *scratch = &align->scratch;

	if (slot->plan && slot->records == slot->plan->count) {
		if (process->unlike)
			process->unlike = 0;
		if (align_groups_room(scratch, slot->records) && align_lanes_add(scratch, job, slot, rank))
			return;
		align_template_leave(align, job, process, slot);
	} else {
		if (slot->plan)
			align_template_leave(align, job, process, slot);
		note_unlike(job, process, slot);
	}
	if (slot->unsorted)
		qsort(slot->record, slot->records, sizeof(*slot->record), align_groups_by_start);
	add_records(align, job, slot, rank);
}

void align_groups_end(struct align *align)
{
	struct align_scratch *scratch = &align->scratch;

	align_lanes_end(scratch);
	/* Where nothing told a communicator's size, those that were seen are it. */
	for (size_t i = 0; i < scratch->groups; i++) {
		scratch->shortest[i].records = scratch->key[i].count;
		if (scratch->group[i].members < scratch->key[i].count)
			scratch->group[i].members = scratch->key[i].count;
	}
}
