/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of all ranks of a step to a frame. */
#include "analyzers/align/align_internal.h"
#include "analyzers/base/hash.h"

#include <stdlib.h>
#include <string.h>

/* Records of a frame to its groups: those of one (communicator, seq), or (both sides, seq), are one operation. */

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

	if (!array_reserve((void **)&scratch->cursor, &scratch->cursor_capacity, job->comms, sizeof(*scratch->cursor),
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
	size_t at = hash_mix(what, sides) & (scratch->hash_size - 1);

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

	if (!array_reserve((void **)&scratch->key, &many, scratch->groups + more, sizeof(*scratch->key), UINT32_MAX / 2))
		return false;
	many = scratch->group_capacity;
	if (!array_reserve(
		    (void **)&scratch->group, &many, scratch->groups + more, sizeof(*scratch->group), UINT32_MAX / 2))
		return false;
	many = scratch->group_capacity;
	if (!array_reserve((void **)&scratch->shortest, &many, scratch->groups + more, sizeof(*scratch->shortest),
		    UINT32_MAX / 2))
		return false;
	scratch->group_capacity = many;
	return array_reserve((void **)&scratch->op, &scratch->op_capacity, scratch->ops + more, sizeof(*scratch->op),
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

/*
 * Steps that went by their plans to a frame. The first rank of a lane makes its groups, those after it that have the
 * same numbers are of the same groups, one after the other: nothing is looked up for an operation. A rank of whose
 * lanes one was seen with other numbers is taken record by record.
 */

struct align_lanes_lane {
	struct align_lane is;
	struct align_shape_lane shape;
	uint32_t base;	/* its first number */
	uint32_t first; /* of its groups, in lane_group */
	uint32_t ranks;
};

void align_lanes_begin(struct align_scratch *scratch)
{
	scratch->lanes = scratch->lane_groups = 0;
	if (scratch->lane_hash)
		memset(scratch->lane_hash, 0, scratch->lane_hash_size * sizeof(*scratch->lane_hash));
}

static size_t align_lanes_place_of(const struct align_scratch *scratch, const struct align_lane *lane)
{
	size_t at = hash_mix((uint64_t)lane->comm << 1 | lane->p2p, lane->sides) & (scratch->lane_hash_size - 1);

	for (; scratch->lane_hash[at]; at = (at + 1) & (scratch->lane_hash_size - 1)) {
		const struct align_lane *other = &scratch->lane[scratch->lane_hash[at] - 1].is;

		if (other->comm == lane->comm && other->sides == lane->sides && other->p2p == lane->p2p)
			break;
	}
	return at;
}

static bool align_lanes_reserve(struct align_scratch *scratch, size_t lanes, size_t groups)
{
	size_t size = scratch->lane_hash_size ? scratch->lane_hash_size : 256;
	uint32_t *hash;

	if (!array_reserve((void **)&scratch->lane, &scratch->lane_capacity, scratch->lanes + lanes, sizeof(*scratch->lane),
		    UINT32_MAX / 2) ||
		!array_reserve((void **)&scratch->lane_group, &scratch->lane_group_capacity, scratch->lane_groups + groups,
			sizeof(*scratch->lane_group), UINT32_MAX / 2))
		return false;
	while (size <= (scratch->lanes + lanes) * 2)
		size *= 2;
	if (size == scratch->lane_hash_size)
		return true;
	hash = calloc(size, sizeof(*hash));
	if (!hash)
		return false;
	free(scratch->lane_hash);
	scratch->lane_hash = hash;
	scratch->lane_hash_size = size;
	for (uint32_t i = 0; i < scratch->lanes; i++)
		hash[align_lanes_place_of(scratch, &scratch->lane[i].is)] = i + 1;
	return true;
}

/* Those of the slot, by numbers in scratch->lane; *ret_new: from here on they have no groups yet. False: one is known
 * with other numbers. */
static bool find_lanes(
	struct align_scratch *scratch, const struct align_slot *slot, uint32_t *ret_lane, uint32_t *ret_new)
{
	const struct align_template *plan = slot->plan;

	*ret_new = (uint32_t)scratch->lanes;
	for (uint32_t i = 0; i < plan->lanes; i++) {
		const struct align_shape_lane *shape = &plan->shape->lane[i];
		size_t at = align_lanes_place_of(scratch, &plan->lane[i]);
		struct align_lanes_lane *lane;

		if (!scratch->lane_hash[at]) {
			scratch->lane[scratch->lanes] =
				(struct align_lanes_lane){.is = plan->lane[i], .shape = *shape, .base = slot->word[i]};
			scratch->lane_hash[at] = (uint32_t)++scratch->lanes;
		}
		ret_lane[i] = scratch->lane_hash[at] - 1;
		lane = &scratch->lane[ret_lane[i]];
		if (lane->base != slot->word[i] || lane->shape.like != shape->like || lane->shape.count != shape->count)
			return false;
	}
	return true;
}

/* As if those from there on had not been found. */
static void undo(struct align_scratch *scratch, uint32_t from)
{
	while (scratch->lanes > from) {
		/* The newest ones first: what was put in before them is found as before. */
		scratch->lane_hash[align_lanes_place_of(scratch, &scratch->lane[scratch->lanes - 1].is)] = 0;
		scratch->lanes--;
	}
}

/* Groups of the lanes that have none, in the order of their operations. False: there is one already, of another tier.
 */
static bool make_groups(struct align_scratch *scratch, const struct align_job *job, const struct align_slot *slot,
	const uint32_t *lanes, uint32_t new)
{
	const struct align_template *plan = slot->plan;
	uint32_t *next[ALIGN_LANES_MAX];

	for (uint32_t i = 0; i < plan->lanes; i++) {
		struct align_lanes_lane *lane = &scratch->lane[lanes[i]];

		if (lanes[i] < new)
			continue;
		lane->first = (uint32_t)scratch->lane_groups;
		next[i] = scratch->lane_group + lane->first;
		scratch->lane_groups += lane->shape.count;
	}
	for (uint32_t i = 0; i < plan->count; i++) {
		const struct align_entry *entry = &plan->shape->entry[i];
		const struct align_lane *lane = &plan->lane[entry->lane];
		const struct align_group_key key = {.seq = slot->word[entry->lane] + entry->seq,
			.sides = lane->sides,
			.comm = lane->comm,
			.last = FRAME_NONE,
			.next = FRAME_NONE,
			.tier = align_what_tier(entry->what),
			.p2p = lane->p2p};
		uint32_t group;

		if (lanes[entry->lane] < new)
			continue;
		group = scratch->hashed
				? align_groups_find(scratch, job, &key, entry->bytes, align_what_op(entry->what))
				: align_groups_new(scratch, job, &key, entry->bytes, align_what_op(entry->what));
		if (scratch->key[group].tier != key.tier)
			return false;
		*next[entry->lane]++ = group;
	}
	return true;
}

static void align_lanes_write_ops(
	struct align_scratch *scratch, const struct align_slot *slot, const uint32_t *lanes, uint32_t rank)
{
	const struct align_template *plan = slot->plan;
	const struct align_entry *entry = plan->shape->entry, *end = entry + plan->count;
	const uint32_t *time = slot->word + plan->lanes, *group[ALIGN_LANES_MAX];
	struct frame_op *op = scratch->op + scratch->ops;
	struct shortest *shortest = scratch->shortest;
	const int64_t first_ns = (int64_t)slot->first_ns - (int64_t)slot->start_ns;
	int64_t start_ns = first_ns;

	for (uint32_t i = 0; i < plan->lanes; i++) {
		group[i] = scratch->lane_group + scratch->lane[lanes[i]].first;
		scratch->lane[lanes[i]].ranks++;
	}
	for (; entry < end; entry++, time += 2, op++) {
		start_ns += time[0];
		op->group = group[entry->lane][entry->nth];
		op->rank = rank;
		op->start_ns = start_ns;
		op->duration_ns = time[1];
		shortest_add(&shortest[op->group], time[1], rank);
	}
	scratch->ops += plan->count;
	scratch->tame &=
		(((uint64_t)first_ns + FRAME_TAME_NS) | ((uint64_t)start_ns + FRAME_TAME_NS)) < 2 * FRAME_TAME_NS;
}

bool align_lanes_add(
	struct align_scratch *scratch, const struct align_job *job, const struct align_slot *slot, uint32_t rank)
{
	const struct align_template *plan = slot->plan;
	uint32_t lanes[ALIGN_LANES_MAX], new;
	size_t groups = scratch->lane_groups;

	if (slot->records < plan->count || !align_lanes_reserve(scratch, plan->lanes, plan->count))
		return false;
	if (!find_lanes(scratch, slot, lanes, &new) ||
		(new < scratch->lanes && !make_groups(scratch, job, slot, lanes, new))) {
		undo(scratch, new);
		scratch->lane_groups = groups;
		return false;
	}
	align_lanes_write_ops(scratch, slot, lanes, rank);
	return true;
}

void align_lanes_end(struct align_scratch *scratch)
{
	for (size_t i = 0; i < scratch->lanes; i++) {
		const struct align_lanes_lane *lane = &scratch->lane[i];

		for (uint32_t k = 0; k < lane->shape.count; k++)
			scratch->key[scratch->lane_group[lane->first + k]].count += (uint16_t)lane->ranks;
	}
}

#define PREFETCH_RANKS 4
#define PREFETCH_WORDS 160 /* what follows them the processor finds */

/* Which class a frame is, by the ranks': the first of these that one has. */
static const enum frame_class precedence[] = {FRAME_FIRST, FRAME_CHECKPOINT, FRAME_EVALUATION};

static struct align_slot *align_out_slot_of(const struct align_job *job, size_t index)
{
	const struct align_process *process = job->live[index];
	struct align_slot *slot;

	if (process->align == ALIGN_UNPLACED)
		return NULL;
	slot = align_slot_find(process, job->head - process->offset);
	return slot && slot->closed ? slot : NULL;
}

/* Less than half of the usual ones, and none of a later step: they ceased to be seen within it. Where nobody looks any
 * more, not all of them is enough: those of a card come after its step's end. */
static bool has_ops(const struct align_process *process, const struct align_slot *slot)
{
	uint32_t least = align_is_unwatched(process) ? process->usual : process->usual / 2;
	bool ceased = process->usual != UINT32_MAX && slot->records < least && process->coll_newest <= slot->step;

	return slot->records && !slot->partial && !ceased && !align_is_cut(process, slot);
}

static bool align_out_reserve(struct align_scratch *scratch, size_t ranks)
{
	size_t many = scratch->rank_room;

	if (!array_reserve((void **)&scratch->slot, &many, ranks, sizeof(struct align_slot *), SIZE_MAX / 512))
		return false;
	many = scratch->rank_room;
	if (!array_reserve((void **)&scratch->rank, &many, ranks, sizeof(*scratch->rank), SIZE_MAX / 512))
		return false;
	many = scratch->rank_room;
	if (!array_reserve((void **)&scratch->stop, &many, ranks, sizeof(*scratch->stop), SIZE_MAX / 512))
		return false;
	scratch->rank_room = many;
	return true;
}

static bool align_out_write_ranks(struct align *align, struct align_job *job, struct frame *frame, size_t *ret_with_ops)
{
	struct align_scratch *scratch = &align->scratch;
	unsigned classes = 0;
	size_t here = 0;

	*ret_with_ops = 0;
	if (!align_out_reserve(scratch, job->ranks))
		return false;
	for (size_t i = 0; i < job->ranks; i++) {
		struct align_slot *slot = scratch->slot[i] = align_out_slot_of(job, i);
		struct frame_rank *rank = &scratch->rank[i];

		align_slot_prefetch(job, i);
		if (!slot) {
			*rank = (struct frame_rank){.here = false};
			continue;
		}
		here++;
		*rank = (struct frame_rank){
			.here = true, .step_ns = slot->step_ns, .end_ns = slot->start_ns + slot->step_ns};
		memcpy(rank->stage_ns, slot->stage_ns, sizeof(rank->stage_ns));
		align_host_write(slot, &rank->host);
		frame->lost += slot->lost;
		classes |= 1u << slot->class;
		slot->has_ops = has_ops(job->live[i], slot);
		*ret_with_ops += slot->has_ops;
	}
	if (*ret_with_ops * 2 <= here)
		*ret_with_ops = 0;
	for (size_t i = sizeof(precedence) / sizeof(precedence[0]); i-- > 0;) {
		if (classes & 1u << precedence[i])
			frame->class = precedence[i];
	}
	return here > 0;
}

/* Of a rank that comes soon. */
static void prefetch_ops(const struct align_scratch *scratch, size_t ranks, size_t i)
{
	const struct align_slot *slot;

	if (i + 2 * PREFETCH_RANKS < ranks && scratch->slot[i + 2 * PREFETCH_RANKS])
		align_prefetch(scratch->slot[i + 2 * PREFETCH_RANKS], 128);
	slot = i + PREFETCH_RANKS < ranks ? scratch->slot[i + PREFETCH_RANKS] : NULL;
	if (!slot || !slot->plan)
		return;
	align_prefetch(slot->plan, sizeof(*slot->plan) + 2 * sizeof(*slot->plan->lane));
	align_prefetch(slot->word, slot->words < PREFETCH_WORDS ? slot->words * 4 : PREFETCH_WORDS * 4);
}

static void align_out_write_ops(struct align *align, struct align_job *job, struct frame *frame, bool wanted)
{
	const struct align_scratch *scratch = &align->scratch;
	uint8_t worst = FRAME_TIER_MAX;

	if (!align_groups_begin(align, job))
		wanted = false;
	for (size_t i = 0; i < job->ranks; i++) {
		struct align_slot *slot = scratch->slot[i];

		prefetch_ops(scratch, job->ranks, i);
		scratch->stop[i] = scratch->ops;
		if (!slot || !slot->records)
			continue;
		if (!wanted || !slot->has_ops) {
			align->counts.coll_left_out += slot->records;
			continue;
		}
		align_groups_add(align, job, job->live[i], slot, (uint32_t)i);
		scratch->stop[i] = scratch->ops;
		if (slot->worst_tier < worst)
			worst = slot->worst_tier;
	}
	align_groups_end(align);
	frame->tier = align->scratch.ops ? worst : FRAME_TIER_STAGES;
	frame->comms = job->comms;
	frame->comm = job->comm;
	frame->groups = align->scratch.groups;
	frame->group = align->scratch.group;
	frame->ops = align->scratch.ops;
	frame->op = align->scratch.op;
	if (scratch->tame && scratch->ops) {
		frame->shortest = scratch->shortest;
		frame->stop = scratch->stop;
	}
}

static int align_out_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The reference's step stands for the job's: they differ little. */
static void align_out_learn(struct align_job *job, const struct frame *frame)
{
	uint64_t sorted[ALIGN_MEDIAN];
	size_t index = 0, count;
	const struct align_process *ref = align_process_get(job->align, job->ref);

	if (ref && frame->rank[ref->index].here)
		index = ref->index;
	while (index < frame->ranks && !frame->rank[index].here)
		index++;
	if (index == frame->ranks || (frame->class != FRAME_TRAIN && job->recents >= ALIGN_FIRST))
		return;
	if (frame->class == FRAME_TRAIN && !job->trained) { /* the first ones were better than nothing */
		job->trained = true;
		job->recents = 0;
	}
	job->recent[job->recents++ % ALIGN_MEDIAN] = frame->rank[index].step_ns;
	count = job->recents < ALIGN_MEDIAN ? job->recents : ALIGN_MEDIAN;
	memcpy(sorted, job->recent, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), align_out_compare);
	job->step_ns = sorted[count / 2];
}

static void learn_usual(struct align_process *process, uint32_t records)
{
	process->usual = records;
	process->less = process->before < records ? process->before : records;
	process->before = records;
}

static void align_out_release(struct align *align, struct align_job *job)
{
	for (size_t i = 0; i < job->ranks; i++) {
		struct align_process *process = job->live[i];
		struct align_slot *slot;

		align_slot_prefetch(job, i);
		if (process->align == ALIGN_UNPLACED)
			continue;
		slot = align_slot_find(process, job->head - process->offset);
		if (slot && align_is_unwatched(process) && align_is_cut(process, slot)) {
			process->coll_live = false;
			if (process->usual != UINT32_MAX)
				process->usual_once = process->usual;
			align_usual_from(process, UINT32_MAX);
		}
		/* Where some were lost, it may have had more. */
		if (slot && process->coll_live && slot->records && !slot->partial &&
			(slot->step > process->lost_until || process->usual == UINT32_MAX))
			learn_usual(process, slot->records);
		align_slots_drop(align, process, job->head - process->offset + 1);
	}
}

void align_out(struct align *align, struct align_job *job)
{
	struct frame frame = {.step = (uint64_t)job->head,
		.world_size = job->world_size > job->ranks ? job->world_size : (uint32_t)job->ranks,
		.ranks = job->ranks,
		.who = job->who,
		.lost = job->lost};
	size_t with_ops;

	frame.cards = frame.world_size;
	if (align_out_write_ranks(align, job, &frame, &with_ops)) {
		frame.rank = align->scratch.rank;
		align_out_write_ops(align, job, &frame, with_ops > 0);
		job->lost = 0;
		align->counts.frames++;
		align_out_learn(job, &frame);
		if (align->sink.frame)
			align->sink.frame(align->sink.arg, job->number, &frame);
	}
	align_out_release(align, job);
}
