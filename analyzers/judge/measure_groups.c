/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who came last to each group, and what it takes once all are there: see measure.h. One pass over the records, and a
 * few over the groups.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analyzers/judge/measure_internal.h"

/* Gradients are reduced in buckets, each while the next is computed. */
static uint32_t run_of(const struct frame *frame, const struct frame_group *group)
{
	enum comm_kind kind = frame->comm[group->comm].kind;

	if (group->p2p || (kind != COMM_KIND_DATA && kind != COMM_KIND_UNCLEAR))
		return 0;
	return (group->comm * 65599U + group->op) | 1U << 31;
}

static uint64_t like_key(const struct frame *frame, const struct frame_group *group)
{
	uint64_t hash = (uint64_t)frame->comm[group->comm].kind << 40 | (uint64_t)group->op << 1 | group->p2p;

	hash = (hash ^ group->bytes) * 0x9e3779b97f4a7c15ULL;
	hash = (hash ^ hash >> 31 ^ group->members) * 0x9e3779b97f4a7c15ULL;
	return hash | 1;
}

static uint32_t like_row(uint64_t key)
{
	return (uint32_t)(key >> (64 - MEASURE_PEERS_BITS));
}

/* Written whether it is shorter or not: who comes last is chance, and a processor that guesses it guesses wrong. */
static inline void add_record(struct measure_shortest *group, uint64_t duration_ns, uint32_t rank)
{
	uint64_t first_ns = group->first_ns, second_ns = group->second_ns;
	uint32_t first = group->first, second = group->second;
	bool is_first = duration_ns < first_ns, is_second = duration_ns < second_ns;

	second_ns = is_second ? duration_ns : second_ns;
	second = is_second ? rank : second;
	group->second_ns = is_first ? first_ns : second_ns;
	group->second = is_first ? first : second;
	group->first_ns = is_first ? duration_ns : first_ns;
	group->first = is_first ? rank : first;
	group->records++;
}

static int check_groups(const struct frame *frame)
{
	for (size_t i = 0; i < frame->groups; i++) {
		if (frame->group[i].comm >= frame->comms)
			return -EINVAL;
	}
	return 0;
}

static int find_shortest(struct measure *measure, const struct frame *frame)
{
	if (!measure->wild)
		measure->wild = calloc(measure->by_group.capacity, sizeof(*measure->wild));
	if (!measure->wild)
		return -ENOMEM;
	for (size_t i = 0; i < frame->groups; i++)
		measure->wild[i] = (struct measure_shortest){UINT64_MAX, UINT64_MAX, FRAME_NONE, FRAME_NONE, 0};
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];

		if (op->group >= frame->groups || op->rank >= frame->ranks)
			return -EINVAL;
		if (measure->here[op->rank])
			add_record(&measure->wild[op->group], op->duration_ns, op->rank);
	}
	return 0;
}

/* As find_shortest(), with keys, where the frame is tame: false where it is not, nor valid. */
static bool find_keys(struct measure *measure, const struct frame *frame)
{
	struct shortest *shortest = measure->own_shortest;
	const struct frame_op *op = frame->op, *end = op + frame->ops;
	size_t groups = frame->groups;
	uint64_t next = 0;

	for (size_t i = 0; i < groups; i++)
		shortest[i] = shortest_none();
	while (op < end) {
		uint64_t rank = op->rank, times = 0;
		int64_t before = op->start_ns;

		if (rank < next || rank >= frame->ranks || !measure->here[rank])
			return false;
		for (; next < rank; next++)
			measure->own_stop[next] = (size_t)(op - frame->op);
		for (; op < end && op->rank == rank; op++) {
			if (op->group >= groups)
				return false;
			times |= op->duration_ns | ((uint64_t)op->start_ns + FRAME_TAME_NS);
			times |= (uint64_t)op->start_ns - (uint64_t)before;
			before = op->start_ns;
			shortest_add(&shortest[op->group], op->duration_ns, rank);
			shortest[op->group].records++;
		}
		if (times >= 2 * FRAME_TAME_NS)
			return false;
		measure->own_stop[rank] = (size_t)(op - frame->op);
		next = rank + 1;
	}
	for (; next < frame->ranks; next++)
		measure->own_stop[next] = frame->ops;
	return true;
}

/* Whether the frame is tame, and the shortest of its groups if it is. */
static bool is_tame(struct measure *measure, const struct frame *frame)
{
	measure->shortest = frame->shortest;
	measure->stop = frame->stop;
	if (frame->shortest && frame->stop && !measure->odd)
		return true;
	if (!frame->ops || frame->ranks >= SHORTEST_RANKS)
		return false;
	if (!measure->own_shortest)
		measure->own_shortest = calloc(measure->by_group.capacity, sizeof(*measure->own_shortest));
	measure->shortest = measure->own_shortest;
	measure->stop = measure->own_stop;
	return measure->own_shortest && find_keys(measure, frame);
}

static int find_last(struct measure *measure, const struct frame *frame)
{
	int r = check_groups(frame);

	if (r < 0)
		return r;
	measure->tame = is_tame(measure, frame);
	return measure->tame ? 0 : find_shortest(measure, frame);
}

static struct measure_shortest shortest_of(const struct measure *measure, size_t group)
{
	const struct shortest *keys = measure->tame ? &measure->shortest[group] : NULL;
	struct measure_shortest shortest;

	if (!keys)
		return measure->wild[group];
	shortest = (struct measure_shortest){UINT64_MAX, UINT64_MAX, FRAME_NONE, FRAME_NONE, keys->records};
	if (keys->first != UINT64_MAX) {
		shortest.first_ns = shortest_ns(keys->first);
		shortest.first = shortest_rank(keys->first);
	}
	if (keys->second != UINT64_MAX) {
		shortest.second_ns = shortest_ns(keys->second);
		shortest.second = shortest_rank(keys->second);
	}
	return shortest;
}

static uint64_t members_of(const struct frame_group *group)
{
	return group->p2p ? 2 : group->members;
}

/* Enough of its members have a record for the shortest to be that of the last one to come. */
static bool measure_groups_is_covered(const struct frame_group *group, const struct measure_shortest *shortest)
{
	return shortest->records >= 2 && 2 * (uint64_t)shortest->records >= members_of(group) &&
	       shortest->second != FRAME_NONE && shortest->second != shortest->first;
}

static void measure_groups_add_peer(
	struct measure *measure, uint64_t key, const struct measure_shortest *shortest, bool all)
{
	struct measure_peer *peer = &measure->peer[like_row(key)];

	if (!peer->key)
		*peer = (struct measure_peer){.key = key, .shortest_ns = INFINITY};
	peer->mixed |= peer->key != key;
	if ((double)shortest->first_ns < peer->shortest_ns)
		peer->shortest_ns = (double)shortest->first_ns;
	if (all) {
		peer->transfer_ns += (double)shortest->first_ns;
		peer->groups++;
	}
}

/* UINT64_MAX: not known. */
static uint64_t measure_groups_peer_transfer(const struct measure *measure, const struct frame *frame, uint32_t group)
{
	const struct measure_peer *peer = &measure->peer[like_row(like_key(frame, &frame->group[group]))];
	double transfer_ns = peer->groups >= MEASURE_PEERS_MIN ? peer->transfer_ns / peer->groups : peer->shortest_ns;

	if (!peer->key || peer->mixed || !(transfer_ns < (double)MEASURE_TIME_MAX))
		return UINT64_MAX;
	return (uint64_t)transfer_ns;
}

/* The peers of each group, and the most records of a group of its communicator. */
static void measure_groups_find_peers(struct measure *measure, const struct frame *frame)
{
	memset(measure->peer, 0, sizeof(measure->peer));
	memset(measure->most, 0, frame->comms * sizeof(*measure->most));
	for (size_t i = 0; i < frame->groups; i++) {
		const struct frame_group *group = &frame->group[i];
		const struct measure_shortest shortest = shortest_of(measure, i);
		uint32_t *most = &measure->most[group->comm];

		if (!group->p2p && shortest.records > *most)
			*most = shortest.records;
		if (measure_groups_is_covered(group, &shortest))
			measure_groups_add_peer(
				measure, like_key(frame, group), &shortest, shortest.records >= members_of(group));
	}
}

/* The last one to come kept the others waiting. */
static void blame_last(struct measure_meeting *meeting, const struct measure_shortest *shortest)
{
	meeting->last = shortest->first;
	meeting->kept_ns = measure_clamp_length(shortest->second_ns - shortest->first_ns);
}

/* False: a member has no record. */
static bool measure_groups_read_whole(struct measure *measure, const struct frame *frame, uint32_t i)
{
	const struct frame_group *of = &frame->group[i];
	const struct measure_shortest shortest = shortest_of(measure, i);
	struct measure_meeting *meeting = &measure->meeting[i];

	*meeting = (struct measure_meeting){.last = FRAME_NONE, .run = run_of(frame, of), .p2p = of->p2p};
	if (!measure_groups_is_covered(of, &shortest) || shortest.records < members_of(of))
		return false;
	measure->group[i] = (struct measure_group){shortest.first_ns, shortest.first, shortest.second};
	meeting->transfer_ns = shortest.first_ns;
	blame_last(meeting, &shortest);
	return shortest.records == frame->comm[of->comm].members || of->p2p;
}

/* Where a member has no record, it may be the one that came last: then those that are there seem not to have waited. */
static void measure_groups_read_part(struct measure *measure, const struct frame *frame, uint32_t i)
{
	const struct measure_shortest shortest = shortest_of(measure, i);
	struct measure_group *group = &measure->group[i];
	struct measure_meeting *meeting = &measure->meeting[i];
	uint64_t typical = measure_groups_peer_transfer(measure, frame, i);

	if (!measure_groups_is_covered(&frame->group[i], &shortest)) {
		*group = (struct measure_group){FRAME_UNKNOWN, FRAME_NONE, FRAME_NONE};
		meeting->transfer_ns = typical;
		measure->result.left_out++;
		return;
	}
	*group = (struct measure_group){shortest.first_ns, shortest.first, shortest.second};
	if (typical < group->transfer_ns)
		group->transfer_ns = typical;
	meeting->transfer_ns = group->transfer_ns;
	/* Not if someone who has no record came after it. */
	if (shortest.first_ns <= group->transfer_ns + group->transfer_ns / 2)
		blame_last(meeting, &shortest);
}

/* Groups with members without a record, from their peers; all were read as if they were whole. */
static void measure_groups_read_parts(struct measure *measure, const struct frame *frame)
{
	measure_groups_find_peers(measure, frame);
	for (uint32_t i = 0; i < frame->groups; i++) {
		const struct frame_group *group = &frame->group[i];
		const struct measure_shortest shortest = shortest_of(measure, i);

		if (!measure_groups_is_covered(group, &shortest) || shortest.records < members_of(group))
			measure_groups_read_part(measure, frame, i);
		if (!group->p2p)
			measure->result.lost += measure->most[group->comm] - shortest.records;
	}
}

int measure_groups(struct measure *measure, const struct frame *frame)
{
	int r = find_last(measure, frame);
	bool whole = true;

	if (r < 0)
		return r;
	measure->result.left_out = 0;
	measure->result.lost = frame->lost;
	for (uint32_t i = 0; i < frame->groups; i++)
		whole &= measure_groups_read_whole(measure, frame, i);
	if (!whole)
		measure_groups_read_parts(measure, frame);
	return 0;
}
