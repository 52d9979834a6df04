/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of all ranks of a step to a frame. */
#include "analyzers/align/align_internal.h"
#include "analyzers/base/array.h"
#include "analyzers/base/hash.h"

#include <stdlib.h>
#include <string.h>

/* Records of a frame to its groups: those of one (communicator, seq), or (both sides, seq), are one operation. */

#define UNLIKE_MIN 2 /* steps in a row that do not go by their template: it is not theirs */
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
	free(scratch->stream);
	free(scratch->stream_hash);
	free(scratch->stream_group);
}

static void align_streams_begin(struct align_scratch *scratch);
static bool align_streams_add(
	struct align_scratch *scratch, const struct align_job *job, const struct align_slot *slot, uint32_t rank);
static void align_streams_end(struct align_scratch *scratch);

static bool align_groups_begin(struct align *align, const struct align_job *job)
{
	struct align_scratch *scratch = &align->scratch;

	if (!array_reserve((void **)&scratch->cursor, &scratch->cursor_capacity, job->comms, sizeof(*scratch->cursor),
		    ALIGN_COMMS_MAX))
		return false;
	scratch->groups = scratch->ops = 0;
	scratch->hashed = false;
	scratch->tame = job->ranks < SHORTEST_RANKS;
	align_streams_begin(scratch);
	return true;
}

static size_t align_groups_slot_of(const struct align_scratch *scratch, const struct align_group_key *key)
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
		hash[align_groups_slot_of(scratch, &scratch->key[i])] = i + 1;
	return true;
}

/* All groups are in the hash from the first record that is searched for: before, filling it would be wasted. */
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
		scratch->hash[align_groups_slot_of(scratch, &scratch->key[i])] = i + 1;
	scratch->hashed = true;
	return true;
}

/* Reserves so many more groups and operations; false: out of memory. */
static bool align_groups_reserve(struct align_scratch *scratch, size_t more)
{
	size_t many = scratch->group_capacity;

	if (!array_reserve(
		    (void **)&scratch->key, &many, scratch->groups + more, sizeof(*scratch->key), UINT32_MAX / 2))
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

/* The next group, as its first record has it. It is in the hash if all are. */
static uint32_t align_groups_new(struct align_scratch *scratch, const struct align_job *job,
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

/* Finds or makes; all groups must be in the hash. */
static uint32_t align_groups_find(struct align_scratch *scratch, const struct align_job *job,
	const struct align_group_key *key, uint64_t bytes, uint16_t op)
{
	size_t at = align_groups_slot_of(scratch, key);

	if (!scratch->hash[at])
		scratch->hash[at] = align_groups_new(scratch, job, key, bytes, op) + 1;
	return scratch->hash[at] - 1;
}

static uint32_t align_groups_lookup(
	struct align_scratch *scratch, const struct align_job *job, const struct align_record *record)
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

/* Writes to ops, which has space for all. Returns the number. */
static size_t align_groups_add_record(struct align_scratch *scratch, const struct align_job *job,
	const struct align_slot *slot, uint32_t rank, struct frame_op *ops)
{
	struct align_group_key *keys = scratch->key; /* reserved: it does not move */
	struct align_groups_cursor *cursors = scratch->cursor;
	const struct align_record *record = slot->record, *end = record + slot->records;
	struct frame_op *op = ops;
	uint64_t times = 0;

	for (; record < end; record++) {
		uint32_t group =
			align_groups_follow(scratch, job, record, rank, keys, &cursors[align_record_comm(record)]);
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

	return ORDER(x->start_ns, y->start_ns) ?: ORDER(x->seq, y->seq);
}

static void add_records(struct align *align, const struct align_job *job, struct align_slot *slot, uint32_t rank)
{
	struct align_scratch *scratch = &align->scratch;
	size_t added;

	if (!hash_begin(scratch, job) || !align_groups_reserve(scratch, slot->records)) {
		align->counts.coll_left_out += slot->records;
		return;
	}
	added = align_groups_add_record(scratch, job, slot, rank, scratch->op + scratch->ops);
	scratch->ops += added;
	align->counts.coll_left_out += slot->records - added;
}

/* What steps are expected to be like changes where two that differ from it come one after the other; where none is
 * ever like another, the search for it ends. */
static void note_unlike(struct align_job *job, struct align_process *process, const struct align_slot *slot)
{
	process->unlike += process->unlike < UINT32_MAX;
	if (process->template && process->unlike < UNLIKE_MIN)
		return;
	if ((process->unlike & (process->unlike - 1)) == 0 && !slot->unsorted)
		align_template_learn(job, process, slot);
	else if (process->unlike > UNLIKE_MAX)
		align_template_drop(job, &process->template);
}

/* Adds the records of a rank's step to the frame. */
static void align_groups_add(struct align *align, struct align_job *job, struct align_process *process,
	struct align_slot *slot, uint32_t rank)
{
	struct align_scratch *scratch = &align->scratch;

	if (slot->template && slot->records == slot->template->count) {
		if (process->unlike)
			process->unlike = 0;
		if (align_groups_reserve(scratch, slot->records) && align_streams_add(scratch, job, slot, rank))
			return;
		align_template_leave(align, job, process, slot);
	} else {
		if (slot->template)
			align_template_leave(align, job, process, slot);
		note_unlike(job, process, slot);
	}
	if (slot->unsorted)
		qsort(slot->record, slot->records, sizeof(*slot->record), align_groups_by_start);
	add_records(align, job, slot, rank);
}

static void align_groups_end(struct align *align)
{
	struct align_scratch *scratch = &align->scratch;

	align_streams_end(scratch);
	/* Without a known communicator size, the members seen are it. */
	for (size_t i = 0; i < scratch->groups; i++) {
		scratch->shortest[i].records = scratch->key[i].count;
		if (scratch->group[i].members < scratch->key[i].count)
			scratch->group[i].members = scratch->key[i].count;
	}
}

/*
 * Steps that went by their templates to a frame. The first rank of a stream makes its groups, those after it that have
 * the same numbers are of the same groups, one after the other: no operation is searched for. A rank of whose
 * streams one was seen with other numbers is taken record by record.
 */

struct align_frame_stream {
	struct align_stream is;
	struct align_pattern_stream pattern;
	uint32_t base;	/* its first number */
	uint32_t first; /* of its groups, in stream_group */
	uint32_t ranks;
};

static void align_streams_begin(struct align_scratch *scratch)
{
	scratch->streams = scratch->stream_groups = 0;
	if (scratch->stream_hash)
		memset(scratch->stream_hash, 0, scratch->stream_hash_size * sizeof(*scratch->stream_hash));
}

static size_t align_streams_slot_of(const struct align_scratch *scratch, const struct align_stream *stream)
{
	size_t at =
		hash_mix((uint64_t)stream->comm << 1 | stream->p2p, stream->sides) & (scratch->stream_hash_size - 1);

	for (; scratch->stream_hash[at]; at = (at + 1) & (scratch->stream_hash_size - 1)) {
		const struct align_stream *other = &scratch->stream[scratch->stream_hash[at] - 1].is;

		if (other->comm == stream->comm && other->sides == stream->sides && other->p2p == stream->p2p)
			break;
	}
	return at;
}

static bool align_streams_reserve(struct align_scratch *scratch, size_t streams, size_t groups)
{
	size_t size = scratch->stream_hash_size ? scratch->stream_hash_size : 256;
	uint32_t *hash;

	if (!array_reserve((void **)&scratch->stream, &scratch->stream_capacity, scratch->streams + streams,
		    sizeof(*scratch->stream), UINT32_MAX / 2) ||
		!array_reserve((void **)&scratch->stream_group, &scratch->stream_group_capacity,
			scratch->stream_groups + groups, sizeof(*scratch->stream_group), UINT32_MAX / 2))
		return false;
	while (size <= (scratch->streams + streams) * 2)
		size *= 2;
	if (size == scratch->stream_hash_size)
		return true;
	hash = calloc(size, sizeof(*hash));
	if (!hash)
		return false;
	free(scratch->stream_hash);
	scratch->stream_hash = hash;
	scratch->stream_hash_size = size;
	for (uint32_t i = 0; i < scratch->streams; i++)
		hash[align_streams_slot_of(scratch, &scratch->stream[i].is)] = i + 1;
	return true;
}

/* Those of the slot, by numbers in scratch->stream; *ret_new: from here on they have no groups yet. False: one is known
 * with other numbers. */
static bool align_streams_find(
	struct align_scratch *scratch, const struct align_slot *slot, uint32_t *ret_stream, uint32_t *ret_new)
{
	const struct align_template *template = slot->template;

	*ret_new = (uint32_t)scratch->streams;
	for (uint32_t i = 0; i < template->streams; i++) {
		const struct align_pattern_stream *pattern = &template->pattern->stream[i];
		size_t at = align_streams_slot_of(scratch, &template->stream[i]);
		struct align_frame_stream *stream;

		if (!scratch->stream_hash[at]) {
			scratch->stream[scratch->streams] = (struct align_frame_stream){
				.is = template->stream[i], .pattern = *pattern, .base = slot->word[i]};
			scratch->stream_hash[at] = (uint32_t)++scratch->streams;
		}
		ret_stream[i] = scratch->stream_hash[at] - 1;
		stream = &scratch->stream[ret_stream[i]];
		if (stream->base != slot->word[i] || stream->pattern.like != pattern->like ||
			stream->pattern.count != pattern->count)
			return false;
	}
	return true;
}

/* As if those from there on had not been found. */
static void align_frame_undo(struct align_scratch *scratch, uint32_t from)
{
	while (scratch->streams > from) {
		/* The newest ones first: what was put in before them is found as before. */
		scratch->stream_hash[align_streams_slot_of(scratch, &scratch->stream[scratch->streams - 1].is)] = 0;
		scratch->streams--;
	}
}

/* Groups of the streams that have none, in the order of their operations. False: there is one already, of another tier.
 */
static bool make_groups(struct align_scratch *scratch, const struct align_job *job, const struct align_slot *slot,
	const uint32_t *streams, uint32_t new)
{
	const struct align_template *template = slot->template;
	uint32_t *next[ALIGN_STREAMS_MAX];

	for (uint32_t i = 0; i < template->streams; i++) {
		struct align_frame_stream *stream = &scratch->stream[streams[i]];

		if (streams[i] < new)
			continue;
		stream->first = (uint32_t)scratch->stream_groups;
		next[i] = scratch->stream_group + stream->first;
		scratch->stream_groups += stream->pattern.count;
	}
	for (uint32_t i = 0; i < template->count; i++) {
		const struct align_entry *entry = &template->pattern->entry[i];
		const struct align_stream *stream = &template->stream[entry->stream];
		const struct align_group_key key = {.seq = slot->word[entry->stream] + entry->seq,
			.sides = stream->sides,
			.comm = stream->comm,
			.last = FRAME_NONE,
			.next = FRAME_NONE,
			.tier = align_what_tier(entry->what),
			.p2p = stream->p2p};
		uint32_t group;

		if (streams[entry->stream] < new)
			continue;
		group = scratch->hashed
				? align_groups_find(scratch, job, &key, entry->bytes, align_what_op(entry->what))
				: align_groups_new(scratch, job, &key, entry->bytes, align_what_op(entry->what));
		if (scratch->key[group].tier != key.tier)
			return false;
		*next[entry->stream]++ = group;
	}
	return true;
}

static void align_streams_write_ops(
	struct align_scratch *scratch, const struct align_slot *slot, const uint32_t *streams, uint32_t rank)
{
	const struct align_template *template = slot->template;
	const struct align_entry *entry = template->pattern->entry, *end = entry + template->count;
	const uint32_t *time = slot->word + template->streams, *group[ALIGN_STREAMS_MAX];
	struct frame_op *op = scratch->op + scratch->ops;
	struct shortest *shortest = scratch->shortest;
	const int64_t first_ns = (int64_t)slot->first_ns - (int64_t)slot->start_ns;
	int64_t start_ns = first_ns;

	for (uint32_t i = 0; i < template->streams; i++) {
		group[i] = scratch->stream_group + scratch->stream[streams[i]].first;
		scratch->stream[streams[i]].ranks++;
	}
	for (; entry < end; entry++, time += 2, op++) {
		start_ns += time[0];
		op->group = group[entry->stream][entry->nth];
		op->rank = rank;
		op->start_ns = start_ns;
		op->duration_ns = time[1];
		shortest_add(&shortest[op->group], time[1], rank);
	}
	scratch->ops += template->count;
	scratch->tame &=
		(((uint64_t)first_ns + FRAME_TAME_NS) | ((uint64_t)start_ns + FRAME_TAME_NS)) < 2 * FRAME_TAME_NS;
}

/* The whole step of a rank, that went by its template; false: nothing was added, it is to be taken record by record. */
static bool align_streams_add(
	struct align_scratch *scratch, const struct align_job *job, const struct align_slot *slot, uint32_t rank)
{
	const struct align_template *template = slot->template;
	uint32_t streams[ALIGN_STREAMS_MAX], new;
	size_t groups = scratch->stream_groups;

	if (slot->records < template->count || !align_streams_reserve(scratch, template->streams, template->count))
		return false;
	if (!align_streams_find(scratch, slot, streams, &new) ||
		(new < scratch->streams && !make_groups(scratch, job, slot, streams, new))) {
		align_frame_undo(scratch, new);
		scratch->stream_groups = groups;
		return false;
	}
	align_streams_write_ops(scratch, slot, streams, rank);
	return true;
}

static void align_streams_end(struct align_scratch *scratch)
{
	for (size_t i = 0; i < scratch->streams; i++) {
		const struct align_frame_stream *stream = &scratch->stream[i];

		for (uint32_t k = 0; k < stream->pattern.count; k++)
			scratch->key[scratch->stream_group[stream->first + k]].count += (uint16_t)stream->ranks;
	}
}

#define FRAMES_AHEAD 4
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

/* Less than half of the usual ones, and none of a later step: they ceased to be seen within it. Where operations are no
 * more, not all of them is enough: those of a card come after its step's end. */
static bool has_ops(const struct align_process *process, const struct align_slot *slot)
{
	uint32_t least = align_is_unwatched(process) ? process->typical.ops : process->typical.ops / 2;
	bool ceased = process->typical.ops != UINT32_MAX && slot->records < least && process->coll.newest <= slot->step;

	return slot->records && !slot->partial && !ceased && !align_is_cut(process, slot);
}

static bool align_out_reserve(struct align_scratch *scratch, size_t ranks)
{
	size_t many = scratch->rank_capacity;

	if (!array_reserve((void **)&scratch->slot, &many, ranks, sizeof(struct align_slot *), SIZE_MAX / 512))
		return false;
	many = scratch->rank_capacity;
	if (!array_reserve((void **)&scratch->rank, &many, ranks, sizeof(*scratch->rank), SIZE_MAX / 512))
		return false;
	many = scratch->rank_capacity;
	if (!array_reserve((void **)&scratch->stop, &many, ranks, sizeof(*scratch->stop), SIZE_MAX / 512))
		return false;
	scratch->rank_capacity = many;
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
		*rank = (struct frame_rank){.here = true,
			.step_ns = slot->step_ns,
			.end_ns = slot->start_ns + slot->step_ns,
			.unsplit = slot->unsplit};
		memcpy(rank->activity_ns, slot->activity_ns, sizeof(rank->activity_ns));
		rank->may_wait_from_ns = (int64_t)slot->may_wait_from_ns;
		rank->may_wait_until_ns = (int64_t)slot->may_wait_until_ns;
		rank->syncs = slot->syncs;
		align_host_write(slot, &rank->host);
		frame->lost += slot->lost;
		classes |= 1u << slot->class;
		slot->has_ops = has_ops(job->live[i], slot);
		rank->leads = slot->has_ops ? slot->leads : 0;
		rank->lead_ns = slot->has_ops ? slot->lead_ns : 0;
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

	if (i + 2 * FRAMES_AHEAD < ranks && scratch->slot[i + 2 * FRAMES_AHEAD])
		align_prefetch(scratch->slot[i + 2 * FRAMES_AHEAD], 128);
	slot = i + FRAMES_AHEAD < ranks ? scratch->slot[i + FRAMES_AHEAD] : NULL;
	if (!slot || !slot->template)
		return;
	align_prefetch(slot->template, sizeof(*slot->template) + 2 * sizeof(*slot->template->stream));
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
	qsort(sorted, count, sizeof(*sorted), compare_u64);
	job->step_ns = sorted[count / 2];
}

static void align_learn_typical(struct align_process *process, uint32_t records)
{
	process->typical.ops = records;
	process->typical.less = process->typical.before < records ? process->typical.before : records;
	process->typical.before = records;
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
			process->coll.live = false;
			if (process->typical.ops != UINT32_MAX)
				process->typical.once = process->typical.ops;
			align_typical_from(process, UINT32_MAX);
		}
		/* Where some were lost, it may have had more. */
		if (slot && process->coll.live && slot->records && !slot->partial &&
			(slot->step > process->lost_until || process->typical.ops == UINT32_MAX))
			align_learn_typical(process, slot->records);
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
