/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/without_own.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/without.h"

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
