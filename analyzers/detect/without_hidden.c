/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/without_hidden.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct member {
	uint32_t rank, next;
};

/* The ranks of each communicator; which of them are in the group that is looked at. */
struct members {
	struct member *member;
	uint32_t *first, *count;      /* of each communicator */
	uint32_t *group_of_rank;      /* the last group that it was seen in */
	uint32_t *group_first, *next; /* operations of each group */
	uint32_t members;
};

/* As far as groups go that others wait in: at most as many as there are records. */
static uint64_t missing(const struct frame *frame, const struct whatif_group *group, size_t g)
{
	uint64_t members = frame->group[g].members;

	if (frame->group[g].p2p || frame->group[g].comm >= frame->comms || group[g].records < 2)
		return 0;
	return members > group[g].records && members <= 2ULL * group[g].records ? members - group[g].records : 0;
}

size_t whatif_count_lost(const struct frame *frame, const struct whatif_group *group)
{
	size_t lost = 0;

	for (size_t g = 0; g < frame->groups; g++)
		lost += missing(frame, group, g);
	return lost;
}

static void free_members(struct members *members)
{
	free(members->member);
	free(members->first);
	free(members->count);
	free(members->group_of_rank);
	free(members->group_first);
	free(members->next);
}

static void whatif_hidden_add_member(struct members *members, uint32_t comm, uint32_t rank)
{
	members->member[members->members] = (struct member){rank, members->first[comm]};
	members->first[comm] = members->members++;
	members->count[comm]++;
}

struct identity {
	uint64_t identity;
	uint32_t comm;
};

static int by_identity(const void *a, const void *b)
{
	const struct identity *x = a, *y = b;

	return (x->identity > y->identity) - (x->identity < y->identity);
}

/* Those that are here and have used it in a frame before, though not in this one. */
static int add_known(struct members *members, const struct frame *frame, const struct whatif_known *known)
{
	struct identity *identity = malloc((frame->comms + 1) * sizeof(*identity));
	uint32_t before = members->members;

	if (!identity)
		return -ENOMEM;
	for (uint32_t i = 0; i < frame->comms; i++)
		identity[i] = (struct identity){whatif_known_identity(&frame->comm[i]), i};
	qsort(identity, frame->comms, sizeof(*identity), by_identity);
	for (uint32_t rank = 0; rank < frame->ranks && rank < known->ranks; rank++) {
		for (size_t k = 0; k < WHATIF_KNOWN_MAX && known->identity[rank][k] && frame->rank[rank].here; k++) {
			struct identity key = {known->identity[rank][k], 0}, *found;
			bool there = false;

			found = bsearch(&key, identity, frame->comms, sizeof(*identity), by_identity);
			for (uint32_t m = found ? members->first[found->comm] : REPLAY_NONE; m != REPLAY_NONE && !there;
				m = members->member[m].next)
				there = m < before && members->member[m].rank == rank;
			if (found && !there)
				whatif_hidden_add_member(members, found->comm, rank);
		}
	}
	free(identity);
	return 0;
}

static int whatif_hidden_find_members(struct members *members, const struct whatif_own *own, const struct frame *frame,
	const uint32_t *place, const struct whatif_known *known)
{
	members->member = calloc(frame->ops + frame->ranks * WHATIF_KNOWN_MAX + 1, sizeof(*members->member));
	members->first = malloc((frame->comms + 1) * sizeof(*members->first));
	members->count = calloc(frame->comms + 1, sizeof(*members->count));
	members->group_of_rank = malloc((frame->ranks + 1) * sizeof(*members->group_of_rank));
	members->group_first = malloc((frame->groups + 1) * sizeof(*members->group_first));
	members->next = malloc((frame->ops + 1) * sizeof(*members->next));
	if (!members->member || !members->first || !members->count || !members->group_of_rank ||
		!members->group_first || !members->next)
		return -ENOMEM;
	memset(members->first, 0xff, frame->comms * sizeof(*members->first));
	memset(members->group_of_rank, 0xff, frame->ranks * sizeof(*members->group_of_rank));
	memset(members->group_first, 0xff, frame->groups * sizeof(*members->group_first));
	for (uint32_t i = 0; i < own->first[frame->ranks]; i++) {
		const struct frame_op *op = &frame->op[place[i]];
		uint32_t comm = frame->group[op->group].comm;

		members->next[place[i]] = members->group_first[op->group];
		members->group_first[op->group] = place[i];
		if (comm >= frame->comms || frame->group[op->group].p2p ||
			(members->first[comm] != REPLAY_NONE && members->member[members->first[comm]].rank == op->rank))
			continue;
		whatif_hidden_add_member(members, comm, op->rank);
	}
	return add_known(members, frame, known);
}

/* The first own time of the rank that ended no earlier; NULL: none. */
static struct own_time *time_after(const struct replay *replay, const struct whatif_own *own, uint32_t rank, double ns)
{
	uint32_t low = own->own_first[rank], high = own->own_first[rank + 1];

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (replay_start_ns(replay, own->time[middle].op) < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < own->own_first[rank + 1] ? &own->time[low] : NULL;
}

static bool fill_in(struct replay *replay, struct whatif_own *own, const struct whatif_group *group, uint32_t rank)
{
	double end_ns = replay_end_ns(replay, group->op);
	struct own_time *time = time_after(replay, own, rank, end_ns);
	double from_there_ns;

	if (!time)
		return false;
	from_there_ns = replay_start_ns(replay, time->op) - end_ns;
	if (time->own_ns <= from_there_ns + (double)group->transfer_ns)
		return false;
	replay_after(replay, time->op, group->op, REPLAY_END, from_there_ns);
	whatif_own_set(replay, time, from_there_ns + (double)group->transfer_ns);
	return true;
}

int whatif_lost(struct replay *replay, struct whatif_own *own, const struct frame *frame,
	const struct whatif_group *group, const uint32_t *place, const struct whatif_known *known)
{
	struct members members = {0};
	int found = whatif_hidden_find_members(&members, own, frame, place, known);

	for (uint32_t g = 0; found >= 0 && g < frame->groups; g++) {
		uint32_t comm = frame->group[g].comm;
		uint64_t left = missing(frame, group, g);

		if (!left || members.count[comm] > frame->group[g].members)
			continue;
		for (uint32_t i = members.group_first[g]; i != REPLAY_NONE; i = members.next[i])
			members.group_of_rank[frame->op[i].rank] = g;
		for (uint32_t m = members.first[comm]; m != REPLAY_NONE && left; m = members.member[m].next)
			if (members.group_of_rank[members.member[m].rank] != g && left--)
				found += fill_in(replay, own, &group[g], members.member[m].rank);
	}
	free_members(&members);
	return found;
}

/* Of each class the rank of the least self time, REPLAY_NONE: of none that tells. */
static uint32_t *find_fastest(const struct whatif_own *own, const struct measures *measures)
{
	uint32_t *fastest = malloc((measures->classes + 1) * sizeof(*fastest));

	if (!fastest)
		return NULL;
	memset(fastest, 0xff, measures->classes * sizeof(*fastest));
	for (uint32_t i = 0; i < measures->ranks; i++) {
		const struct measure_rank *rank = &measures->rank[i];

		if (rank->class >= measures->classes || rank->wait_ns == FRAME_UNKNOWN || whatif_own_named(own, i))
			continue;
		if (fastest[rank->class] == REPLAY_NONE || rank->self_ns < measures->rank[fastest[rank->class]].self_ns)
			fastest[rank->class] = i;
	}
	return fastest;
}

int whatif_unrecorded(struct replay *replay, struct whatif_own *own, const struct measures *measures)
{
	uint32_t *fastest;
	int found = 0;

	if (!measures)
		return 0;
	fastest = find_fastest(own, measures);
	if (!fastest)
		return -ENOMEM;
	for (uint32_t i = 0; i < measures->ranks; i++) {
		const struct measure_rank *rank = &measures->rank[i], *least;
		uint32_t peer = rank->class < measures->classes ? fastest[rank->class] : REPLAY_NONE;

		if (peer == REPLAY_NONE || peer == i || whatif_own_named(own, i) ||
			measures->class_ranks[rank->class] < 3 || rank->wait_ns == FRAME_UNKNOWN)
			continue;
		least = &measures->rank[peer];
		if (!(least->ratio < WHATIF_FASTEST) || rank->self_ns <= least->self_ns)
			continue;
		found += whatif_own_shorten(own, replay, i, peer, (double)(rank->self_ns - least->self_ns));
	}
	free(fastest);
	return found;
}
