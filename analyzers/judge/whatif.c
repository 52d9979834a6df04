/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/judge/whatif.h"
#include "analyzers/align/overlap.h"
#include "analyzers/judge/replay.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t whatif_known_identity(const struct frame_comm *comm)
{
	uint64_t hash = 14695981039346656037ULL;

	for (size_t i = 0; i < sizeof(comm->communicator) && comm->communicator[i]; i++)
		hash = (hash ^ (unsigned char)comm->communicator[i]) * 1099511628211ULL;
	return hash | 1;
}

static int whatif_known_reserve(struct whatif_known *known, size_t ranks)
{
	void *more;

	if (ranks <= known->ranks)
		return 0;
	more = reallocarray(known->identity, ranks, sizeof(*known->identity));
	if (!more)
		return -ENOMEM;
	known->identity = more;
	memset(known->identity + known->ranks, 0, (ranks - known->ranks) * sizeof(*known->identity));
	known->ranks = ranks;
	return 0;
}

int whatif_known_add(struct whatif_known *known, const struct frame *frame)
{
	uint64_t *identity = calloc(frame->comms + 1, sizeof(*identity));
	int r = identity ? whatif_known_reserve(known, frame->ranks) : -ENOMEM;

	for (size_t i = 0; !r && i < frame->comms; i++)
		identity[i] = whatif_known_identity(&frame->comm[i]);
	for (size_t i = 0; !r && i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];
		uint64_t *of;
		size_t k = 0;

		if (op->rank >= frame->ranks || op->group >= frame->groups || frame->group[op->group].p2p ||
			frame->group[op->group].comm >= frame->comms)
			continue;
		of = known->identity[op->rank];
		while (k < WHATIF_KNOWN_MAX && of[k] && of[k] != identity[frame->group[op->group].comm])
			k++;
		if (k < WHATIF_KNOWN_MAX)
			of[k] = identity[frame->group[op->group].comm];
	}
	free(identity);
	return r;
}

void whatif_known_free(struct whatif_known *known)
{
	free(known->identity);
	*known = (struct whatif_known){0};
}

#define HALVINGS 64

enum { NOT_NAMED, NAMED, TAKEN };

void whatif_own_free(struct whatif_own *own)
{
	free(own->first);
	free(own->own_first);
	free(own->named);
	free(own->time);
	free(own->over);
	*own = (struct whatif_own){0};
}

static int more_ranks(struct whatif_own *own, size_t ranks)
{
	if (own->first && ranks <= own->ranks_capacity)
		return 0;
	free(own->first);
	free(own->own_first);
	free(own->named);
	own->first = calloc(ranks + 2, sizeof(*own->first));
	own->own_first = calloc(ranks + 2, sizeof(*own->own_first));
	own->named = calloc(ranks + 1, sizeof(*own->named));
	own->ranks_capacity = own->first && own->own_first && own->named ? ranks : 0;
	return own->ranks_capacity == ranks ? 0 : -ENOMEM;
}

static int more_times(struct whatif_own *own, size_t times)
{
	if (own->time && times <= own->times_capacity)
		return 0;
	free(own->time);
	free(own->over);
	own->time = calloc(times + 1, sizeof(*own->time));
	own->over = calloc(times + 1, sizeof(*own->over));
	own->times_capacity = own->time && own->over ? times : 0;
	return own->times_capacity == times ? 0 : -ENOMEM;
}

int whatif_own_begin(struct whatif_own *own, size_t ranks, size_t ops)
{
	int r = more_ranks(own, ranks);

	if (!r)
		r = more_times(own, ranks + ops);
	if (r) {
		whatif_own_free(own);
		return r;
	}
	own->ranks = ranks;
	own->times = 0;
	own->own_first[0] = 0;
	memset(own->named, NOT_NAMED, ranks);
	return 0;
}

void whatif_own_add(struct whatif_own *own, double own_ns, uint32_t op, uint32_t edge)
{
	own->time[own->times++] = (struct own_time){own_ns, op, edge};
}

void whatif_own_end(struct whatif_own *own, uint32_t rank)
{
	own->own_first[rank + 1] = (uint32_t)own->times;
}

uint32_t whatif_own_last(const struct whatif_own *own, size_t rank)
{
	return own->time[own->own_first[rank + 1] - 1].op;
}

bool whatif_own_name(struct whatif_own *own, uint32_t rank)
{
	if (rank >= own->ranks || own->named[rank] != NOT_NAMED)
		return false;
	own->named[rank] = NAMED;
	return true;
}

bool whatif_own_named(const struct whatif_own *own, size_t rank)
{
	return own->named[rank] != NOT_NAMED;
}

static size_t whatif_own_times_of(const struct whatif_own *own, size_t rank)
{
	return own->own_first[rank + 1] - own->own_first[rank];
}

static bool whatif_own_is_peer(const struct whatif_own *own, const struct measures *measures, uint32_t rank, size_t other)
{
	return own->named[other] == NOT_NAMED && measures->rank[other].class == measures->rank[rank].class &&
	       whatif_own_times_of(own, other) == whatif_own_times_of(own, rank);
}

/* Up to WITHOUT_PEERS of them, from all over the class. */
static size_t find_peers(
	const struct whatif_own *own, const struct measures *measures, uint32_t rank, uint32_t peer[WHATIF_PEERS])
{
	size_t all = 0, seen = 0, found = 0;

	if (!measures || measures->rank[rank].class == FRAME_NONE)
		return 0;
	for (size_t other = 0; other < own->ranks; other++)
		all += whatif_own_is_peer(own, measures, rank, other);
	for (size_t other = 0; other < own->ranks && found < WHATIF_PEERS; other++)
		if (whatif_own_is_peer(own, measures, rank, other) && seen++ * WHATIF_PEERS >= found * all)
			peer[found++] = (uint32_t)other;
	return found;
}

static double median_time(const struct whatif_own *own, const uint32_t *peer, size_t peers, size_t at)
{
	double sorted[WHATIF_PEERS];

	for (size_t p = 0; p < peers; p++) {
		double own_ns = own->time[own->own_first[peer[p]] + at].own_ns;
		size_t to = p;

		for (; to > 0 && sorted[to - 1] > own_ns; to--)
			sorted[to] = sorted[to - 1];
		sorted[to] = own_ns;
	}
	return (sorted[(peers - 1) / 2] + sorted[peers / 2]) / 2;
}

/* Takes excess_ns out of what is over that of the peers, in proportion. Returns what of it is left. */
static double take_over(struct whatif_own *own, uint32_t rank, const uint32_t *peer, size_t peers, double excess_ns)
{
	struct own_time *time = &own->time[own->own_first[rank]];
	double total = 0, share;

	for (size_t i = 0; i < whatif_own_times_of(own, rank); i++) {
		own->over[i] = fmax(0, time[i].own_ns - fmax(0, median_time(own, peer, peers, i)));
		total += own->over[i];
	}
	if (!(total > 0))
		return excess_ns;
	share = fmin(1, excess_ns / total);
	for (size_t i = 0; i < whatif_own_times_of(own, rank); i++)
		time[i].own_ns -= share * own->over[i];
	return fmax(0, excess_ns - total);
}

/* Takes excess_ns out of the longest, down to a common length. */
static void take_longest(struct own_time *time, size_t times, double excess_ns)
{
	double low = 0, high = 0;

	for (size_t i = 0; i < times; i++)
		high = fmax(high, time[i].own_ns);
	for (int n = 0; n < HALVINGS; n++) {
		double middle = low + (high - low) / 2, taken = 0;

		for (size_t i = 0; i < times; i++)
			taken += fmax(0, time[i].own_ns - middle);
		if (taken > excess_ns)
			low = middle;
		else
			high = middle;
	}
	for (size_t i = 0; i < times; i++)
		time[i].own_ns = fmin(time[i].own_ns, high);
}

void whatif_own_set(struct replay *replay, struct own_time *time, double own_ns)
{
	time->own_ns = own_ns;
	if (time->edge == REPLAY_NONE)
		replay_set_first(replay, time->op, own_ns);
	else
		replay_set_lag(replay, time->edge, own_ns);
}

bool whatif_own_shorten(struct whatif_own *own, struct replay *replay, uint32_t rank, uint32_t peer, double excess_ns)
{
	if (whatif_own_times_of(own, rank) != whatif_own_times_of(own, peer))
		return false;
	take_over(own, rank, &peer, 1, excess_ns);
	for (size_t i = own->own_first[rank]; i < own->own_first[rank + 1]; i++)
		whatif_own_set(replay, &own->time[i], own->time[i].own_ns);
	return true;
}

void whatif_own_take(struct whatif_own *own, struct replay *replay, const struct measures *measures, uint32_t rank,
	uint64_t excess_ns)
{
	uint32_t peer[WHATIF_PEERS];
	struct own_time *time;
	size_t peers;
	double left_ns = (double)excess_ns;

	if (rank >= own->ranks || own->named[rank] != NAMED)
		return;
	own->named[rank] = TAKEN;
	time = &own->time[own->own_first[rank]];
	peers = find_peers(own, measures, rank, peer);
	if (peers > 0)
		left_ns = take_over(own, rank, peer, peers, left_ns);
	if (left_ns > 0)
		take_longest(time, whatif_own_times_of(own, rank), left_ns);
	for (size_t i = 0; i < whatif_own_times_of(own, rank); i++)
		whatif_own_set(replay, &time[i], time[i].own_ns);
}

struct sorting {
	int64_t start_ns;
	uint32_t rank, place;
};

static int by_rank_and_start(const void *a, const void *b)
{
	const struct sorting *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

int whatif_own_sort(uint32_t *place, size_t places, const struct frame_op *op)
{
	struct sorting *sorting = calloc(places, sizeof(*sorting));

	if (!sorting)
		return -ENOMEM;
	for (size_t i = 0; i < places; i++)
		sorting[i] = (struct sorting){op[place[i]].start_ns, op[place[i]].rank, place[i]};
	qsort(sorting, places, sizeof(*sorting), by_rank_and_start);
	for (size_t i = 0; i < places; i++)
		place[i] = sorting[i].place;
	free(sorting);
	return 0;
}

struct member {
	uint32_t rank, next;
};

/* The ranks of each communicator; which of them are in the group that is checked. */
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

/* Of each class the rank of the least self time, REPLAY_NONE: none is known. */
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

#define STEP_MAX_NS (1ULL << 60) /* what is longer is no length of a step */

struct flight {
	double until_ns; /* its end, less overlap_slack_ns() */
	double end_ns;
	uint32_t op;
	bool p2p;
};

/* What operations of one name, size and kind take beside waiting, in this frame; two kinds on one row are one. */
struct like {
	double transfer_ns;
	uint32_t groups;
};

#define PEERS 256
#define PEERS_MIN 3
#define SENDS_MAX 4

struct whatif {
	struct replay *replay;
	struct like like[PEERS];
	struct whatif_own own;
	struct whatif_known known;
	struct whatif_group *group;
	uint32_t *place;       /* operations, rank by rank, in the order of their starts */
	struct flight *flight; /* heap of one rank's operations that have not ended */
	size_t groups_capacity, ops_capacity;
};

struct whatif *whatif_new(void)
{
	struct whatif *whatif = calloc(1, sizeof(*whatif));

	if (whatif)
		whatif->replay = replay_new();
	return whatif && whatif->replay ? whatif : whatif_free(whatif);
}

struct whatif *whatif_free(struct whatif *whatif)
{
	if (!whatif)
		return NULL;
	replay_free(whatif->replay);
	whatif_own_free(&whatif->own);
	whatif_known_free(&whatif->known);
	free(whatif->group);
	free(whatif->place);
	free(whatif->flight);
	free(whatif);
	return NULL;
}

static bool whatif_grow(void **array, size_t wanted, size_t size)
{
	void *grown = reallocarray(*array, wanted ? wanted : 1, size);

	if (grown)
		*array = grown;
	return grown;
}

static int whatif_reserve(struct whatif *whatif, const struct frame *frame)
{
	if (frame->ranks >= REPLAY_NONE || frame->ops >= REPLAY_NONE || frame->groups >= REPLAY_NONE)
		return -E2BIG;
	if (frame->groups > whatif->groups_capacity || !whatif->group) {
		if (!whatif_grow((void **)&whatif->group, frame->groups, sizeof(*whatif->group)))
			return -ENOMEM;
		whatif->groups_capacity = frame->groups;
	}
	if (frame->ops > whatif->ops_capacity || !whatif->place) {
		if (!whatif_grow((void **)&whatif->place, frame->ops, sizeof(*whatif->place)) ||
			!whatif_grow((void **)&whatif->flight, frame->ops, sizeof(*whatif->flight)))
			return -ENOMEM;
		whatif->ops_capacity = frame->ops;
	}
	return whatif_own_begin(&whatif->own, frame->ranks, frame->ops);
}

static bool whatif_is_here(const struct frame_rank *rank)
{
	return rank->here && rank->step_ns > 0 && rank->step_ns < STEP_MAX_NS;
}

static bool counts(const struct frame *frame, const struct frame_op *op)
{
	return op->rank < frame->ranks && op->group < frame->groups && whatif_is_here(&frame->rank[op->rank]);
}

static void whatif_read_groups(struct whatif *whatif, const struct frame *frame)
{
	for (size_t g = 0; g < frame->groups; g++)
		whatif->group[g] = (struct whatif_group){UINT64_MAX, 0, REPLAY_NONE, REPLAY_NONE};
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];

		if (!counts(frame, op))
			continue;
		whatif->group[op->group].records++;
		if (op->duration_ns < whatif->group[op->group].transfer_ns)
			whatif->group[op->group].transfer_ns = op->duration_ns;
	}
}

static bool is_joined(const struct whatif_group *seen, const struct frame_group *group)
{
	uint64_t members = group->p2p ? 2 : group->members;

	return seen->records >= 2 && seen->records <= members && 2ULL * seen->records >= members;
}

static struct like *like_of(struct whatif *whatif, const struct frame_group *group)
{
	uint64_t hash =
		(group->bytes ^ ((uint64_t)group->op << 40) ^ (uint64_t)group->p2p << 63) * 0x9e3779b97f4a7c15ULL;

	return &whatif->like[hash >> 56];
}

static void whatif_read_peers(struct whatif *whatif, const struct frame *frame)
{
	memset(whatif->like, 0, sizeof(whatif->like));
	for (size_t g = 0; g < frame->groups; g++) {
		struct like *like = like_of(whatif, &frame->group[g]);

		if (!is_joined(&whatif->group[g], &frame->group[g]))
			continue;
		like->transfer_ns += (double)whatif->group[g].transfer_ns;
		like->groups++;
	}
}

/* Of an operation whose others' records are lost: what it took is its wait and its transfer, and its wait would not be
 * the same without the excess. */
static double alone_of(struct whatif *whatif, const struct frame_group *group, double duration_ns)
{
	const struct like *like = like_of(whatif, group);

	return like->groups < PEERS_MIN ? duration_ns : fmin(duration_ns, like->transfer_ns / like->groups);
}

/* Rank by rank; those of a rank are in the order of their starts already, or are brought into it. */
static int whatif_order(struct whatif *whatif, const struct frame *frame)
{
	uint32_t *first = whatif->own.first;
	bool sorted = true;

	memset(first, 0, (frame->ranks + 2) * sizeof(*first));
	for (size_t i = 0; i < frame->ops; i++)
		if (counts(frame, &frame->op[i]))
			first[frame->op[i].rank + 2]++;
	for (size_t r = 0; r < frame->ranks; r++)
		first[r + 2] += first[r + 1];
	for (size_t i = 0; i < frame->ops; i++)
		if (counts(frame, &frame->op[i]))
			whatif->place[first[frame->op[i].rank + 1]++] = (uint32_t)i;
	for (size_t i = 1; i < first[frame->ranks] && sorted; i++) {
		const struct frame_op *a = &frame->op[whatif->place[i - 1]], *b = &frame->op[whatif->place[i]];

		sorted = a->rank != b->rank || a->start_ns <= b->start_ns;
	}
	return sorted ? 0 : whatif_own_sort(whatif->place, first[frame->ranks], frame->op);
}

static void whatif_take_off(struct flight *heap, size_t *flights)
{
	size_t n = --*flights;
	struct flight last = heap[n];
	size_t at = 0;

	for (size_t child = 1; child < n; child = 2 * at + 1) {
		if (child + 1 < n && heap[child + 1].until_ns < heap[child].until_ns)
			child++;
		if (heap[child].until_ns >= last.until_ns)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
}

static void put_on(struct flight *heap, size_t *flights, struct flight flight)
{
	size_t at = (*flights)++;

	for (; at > 0 && heap[(at - 1) / 2].until_ns > flight.until_ns; at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = flight;
}

/* What of its rank the one that is being added comes after. */
struct last {
	struct flight ended, started; /* op: index in the replay, REPLAY_NONE: nothing yet; started.end_ns: its start */
	size_t flights, sends;
	struct flight sent[SENDS_MAX]; /* the last ones that no rank waits for */
	bool sends_overlap;	       /* see struct measures */
};

/* What is sent and has not ended by now is waited for no more; what is sent next may queue behind it. */
static void drop_sends(struct whatif *whatif, struct last *last)
{
	size_t n = last->flights;

	last->flights = 0;
	for (size_t i = 0; i < n; i++) {
		if (whatif->flight[i].p2p)
			last->sent[last->sends++ % SENDS_MAX] = whatif->flight[i];
		else
			put_on(whatif->flight, &last->flights, whatif->flight[i]);
	}
}

/* One that begins when one before it ends comes after that one, and nothing comes after its begin. */
static bool add_queued(struct whatif *whatif, struct last *last, double start_ns, uint32_t index)
{
	for (size_t i = 0; i < last->sends && i < SENDS_MAX; i++) {
		double slack_ns = last->sent[i].end_ns - last->sent[i].until_ns;
		double own_ns = start_ns - last->sent[i].end_ns;
		uint32_t edge;

		if (fabs(own_ns) > slack_ns)
			continue;
		edge = replay_after(whatif->replay, index, last->sent[i].op, REPLAY_END, own_ns);
		whatif_own_add(&whatif->own, own_ns, index, edge);
		return true;
	}
	return false;
}

static void whatif_add(struct whatif *whatif, struct last *last, double start_ns, uint32_t index)
{
	uint32_t edge = REPLAY_NONE;
	double own_ns = start_ns;

	while (last->flights > 0 && whatif->flight[0].until_ns <= start_ns) {
		if (last->ended.op == REPLAY_NONE || whatif->flight[0].end_ns >= last->ended.end_ns)
			last->ended = whatif->flight[0];
		whatif_take_off(whatif->flight, &last->flights);
	}
	if (last->ended.op != REPLAY_NONE &&
		(last->started.op == REPLAY_NONE || last->ended.end_ns >= last->started.end_ns)) {
		own_ns = start_ns - last->ended.end_ns;
		edge = replay_after(whatif->replay, index, last->ended.op, REPLAY_END, own_ns);
	} else if (last->started.op != REPLAY_NONE) {
		own_ns = start_ns - last->started.end_ns;
		edge = replay_after(whatif->replay, index, last->started.op, REPLAY_START, own_ns);
	} else {
		replay_set_first(whatif->replay, index, start_ns);
	}
	whatif_own_add(&whatif->own, own_ns, index, edge);
	if (last->sends_overlap)
		drop_sends(whatif, last);
	last->started = (struct flight){start_ns, start_ns, index, false};
}

static void whatif_add_rank(struct whatif *whatif, const struct frame *frame, uint32_t rank, bool sends_overlap)
{
	struct last last = {.ended.op = REPLAY_NONE, .started.op = REPLAY_NONE, .sends_overlap = sends_overlap};

	for (uint32_t i = whatif->own.first[rank]; i < whatif->own.first[rank + 1]; i++) {
		const struct frame_op *op = &frame->op[whatif->place[i]];
		struct whatif_group *seen = &whatif->group[op->group];
		double duration_ns = (double)op->duration_ns, start_ns = (double)op->start_ns, end_ns;
		uint32_t index = replay_op(whatif->replay, seen->index,
			seen->index == REPLAY_NONE ? alone_of(whatif, &frame->group[op->group], duration_ns)
						   : (double)seen->transfer_ns,
			duration_ns);

		seen->op = index;
		end_ns = start_ns + duration_ns;
		if (last.sends_overlap && frame->group[op->group].p2p && add_queued(whatif, &last, start_ns, index)) {
			last.sent[last.sends++ % SENDS_MAX] = (struct flight){
				end_ns - (double)overlap_slack_ns(op->duration_ns), end_ns, index, true};
			continue;
		}
		whatif_add(whatif, &last, start_ns, index);
		put_on(whatif->flight, &last.flights,
			(struct flight){end_ns - (double)overlap_slack_ns(op->duration_ns), end_ns, index,
				frame->group[op->group].p2p});
	}
	if (whatif_is_here(&frame->rank[rank]))
		whatif_add(whatif, &last, (double)frame->rank[rank].step_ns, replay_op(whatif->replay, REPLAY_NONE, 0, 0));
	whatif_own_end(&whatif->own, rank);
}

static int build(struct whatif *whatif, const struct frame *frame, bool sends_overlap)
{
	size_t all = frame->ops + frame->ranks;
	int r = whatif_reserve(whatif, frame);

	if (r)
		return r;
	whatif_read_groups(whatif, frame);
	whatif_read_peers(whatif, frame);
	r = replay_begin(whatif->replay, all, all + whatif_count_lost(frame, whatif->group), frame->groups);
	if (!r)
		r = whatif_order(whatif, frame);
	if (r)
		return r;
	for (size_t g = 0; g < frame->groups; g++)
		if (is_joined(&whatif->group[g], &frame->group[g]))
			whatif->group[g].index = replay_group(whatif->replay, frame->group[g].p2p);
	for (uint32_t rank = 0; rank < frame->ranks; rank++)
		whatif_add_rank(whatif, frame, rank, sends_overlap);
	return 0;
}

/* 0: unknown. */
static uint64_t whatif_length(struct whatif *whatif, const struct frame *frame)
{
	double longest_ns = 0;

	if (replay_run(whatif->replay))
		return 0;
	for (size_t rank = 0; rank < frame->ranks; rank++)
		if (whatif_is_here(&frame->rank[rank]))
			longest_ns =
				fmax(longest_ns, replay_end_ns(whatif->replay, whatif_own_last(&whatif->own, rank)));
	return longest_ns < STEP_MAX_NS ? (uint64_t)longest_ns : 0;
}

/* Waits that no record shows become waits. 0: there are none; negative errno. */
static int find_hidden(struct whatif *whatif, const struct frame *frame, const struct measures *measures)
{
	int lost = 0, unrecorded;

	if (whatif_count_lost(frame, whatif->group) > 0)
		lost = whatif_lost(
			whatif->replay, &whatif->own, frame, whatif->group, whatif->place, &whatif->known);
	if (lost < 0)
		return lost;
	unrecorded = whatif_unrecorded(whatif->replay, &whatif->own, measures);
	return unrecorded < 0 ? unrecorded : lost + unrecorded;
}

static uint64_t of_operations(struct whatif *whatif, const struct frame *frame, const struct measures *measures,
	const uint32_t *rank, const uint64_t *excess_ns, size_t ranks, uint64_t *ret_as_is_ns)
{
	uint64_t as_is_ns, whatif_ns;
	int hidden;

	if (whatif_known_add(&whatif->known, frame) || build(whatif, frame, measures && measures->sends_overlap))
		return 0;
	for (size_t i = 0; i < ranks; i++)
		whatif_own_name(&whatif->own, rank[i]);
	as_is_ns = whatif_length(whatif, frame);
	hidden = as_is_ns ? find_hidden(whatif, frame, measures) : -ENODATA;
	if (hidden < 0)
		return 0;
	if (hidden > 0)
		as_is_ns = whatif_length(whatif, frame);
	for (size_t i = 0; i < ranks; i++)
		whatif_own_take(&whatif->own, whatif->replay, measures, rank[i], excess_ns[i]);
	whatif_ns = whatif_length(whatif, frame);
	*ret_as_is_ns = whatif_ns ? as_is_ns : 0;
	return as_is_ns ? whatif_ns : 0;
}

/* By how much a rank's self time is over its class's median. */
static double excess_of(const struct measure_rank *rank)
{
	if (rank->class == FRAME_NONE || rank->self_ns == FRAME_UNKNOWN || !(rank->ratio > 1))
		return 0;
	return (double)rank->self_ns * (1 - 1 / rank->ratio);
}

/* A checkpoint is the last of its step: who has written his goes on and waits in the next step, so that his own is no
 * longer for it. It takes as long as that of the longest of those whose excess is in question. */
static double whatif_step_of(const struct frame *frame, const struct measures *measures, const uint32_t *rank, size_t ranks)
{
	double step_ns = (double)measures->step_ns;

	for (size_t i = 0; frame->class == FRAME_CHECKPOINT && i < ranks; i++) {
		if (rank[i] < frame->ranks && frame->rank[rank[i]].here)
			step_ns = fmax(step_ns, (double)frame->rank[rank[i]].step_ns);
	}
	return step_ns;
}

/* The step waits for the largest excess: with the others' left, it is shorter by the difference. */
static uint64_t of_stages(struct whatif *whatif, const struct frame *frame, const struct measures *measures,
	const uint32_t *rank, const uint64_t *excess_ns, size_t ranks, uint64_t *ret_as_is_ns)
{
	double before = 0, after = 0, step_ns = whatif_step_of(frame, measures, rank, ranks);

	if (whatif_own_begin(&whatif->own, measures->ranks, 0))
		return 0;
	for (size_t i = 0; i < ranks; i++)
		if (whatif_own_name(&whatif->own, rank[i])) {
			double excess = excess_of(&measures->rank[rank[i]]);

			before = fmax(before, fmax(excess, (double)excess_ns[i]));
			after = fmax(after, excess - (double)excess_ns[i]);
		}
	for (size_t i = 0; i < measures->ranks; i++)
		if (!whatif_own_named(&whatif->own, i)) {
			before = fmax(before, excess_of(&measures->rank[i]));
			after = fmax(after, excess_of(&measures->rank[i]));
		}
	if (!(step_ns < STEP_MAX_NS) || before - after >= step_ns)
		return 0;
	*ret_as_is_ns = (uint64_t)step_ns;
	return (uint64_t)(step_ns - (before - after));
}

uint64_t whatif_excess(struct whatif *whatif, const struct frame *frame, const struct measures *measures,
	const uint32_t *rank, const uint64_t *excess_ns, size_t ranks, uint64_t *ret_as_is_ns)
{
	uint64_t as_is_ns = 0, whatif_ns;

	if (measures && measures->ranks != frame->ranks)
		measures = NULL;
	if (frame->tier != FRAME_TIER_STAGES && frame->ops > 0)
		whatif_ns = of_operations(whatif, frame, measures, rank, excess_ns, ranks, &as_is_ns);
	else
		whatif_ns = measures ? of_stages(whatif, frame, measures, rank, excess_ns, ranks, &as_is_ns) : 0;
	if (ret_as_is_ns)
		*ret_as_is_ns = as_is_ns;
	return whatif_ns;
}
