/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares out what the ranks of a node have in common. Users first, then the ranks of each: more ranks do not give a
 * user more. Of a user's part of the ring, half is divided among his ranks, and half is a pool for any of them, so that
 * one rank alone has all of it.
 */
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/kernel/kernel.h"
#include "daemon/ranks/ranks_internal.h"

static struct rank_user *find_user(const struct ranks *ranks, uint32_t uid)
{
	for (uint32_t i = 0; i < ranks->users; i++)
		if (ranks->user[i].uid == uid)
			return &ranks->user[i];
	return NULL;
}

uint32_t ranks_of_user(const struct ranks *ranks, uint32_t uid)
{
	const struct rank_user *user = find_user(ranks, uid);

	return user ? user->ranks : 0;
}

uint32_t ranks_users(const struct ranks *ranks)
{
	return ranks->users;
}

static uint64_t at_least(uint64_t value, uint64_t least)
{
	return value > least ? value : least;
}

/* Pools are numbered as the users; a pool changes its user when another one leaves, which is harmless. */
static void share_out(struct ranks *ranks, const struct rank_user *user, uint32_t slot)
{
	struct kernel *kernel = ranks->context->kernel;
	uint64_t ring_bytes = kernel_ring_bytes(kernel);
	uint64_t rate = ring_bytes * LIMIT_RING_TURNS / ranks->users / 2,
		 burst = ring_bytes / LIMIT_RING_BURST_PART / ranks->users / 2;
	struct kernel_limits pool = {
		.bytes_per_s = at_least(rate, 1), .burst_bytes = at_least(burst, LIMIT_RING_BURST_LEAST)};
	const struct kernel_limits limits = {
		.bytes_per_s = at_least(rate / user->ranks, 1),
		.burst_bytes = at_least(burst / user->ranks, LIMIT_RING_BURST_LEAST),
		.reserve_bytes = (uint32_t)(ring_bytes / LIMIT_RING_RESERVE_PART / ranks->users / user->ranks),
		.pool = kernel_pool(kernel, (unsigned)(user - ranks->user)),
		.threads_max = (uint32_t)at_least(LIMIT_OFFCPU_THREADS / (ranks->users + 1) / user->ranks, 1),
	};

	if (limits.pool)
		kernel_limit(kernel, limits.pool, &pool);
	kernel_limit(kernel, slot, &limits);
}

static void rank_shares_update(struct ranks *ranks)
{
	for (uint32_t i = 0; ranks->context->kernel && i < ranks->slots; i++)
		if (ranks->slot[i])
			share_out(ranks, find_user(ranks, ranks->slot[i]->rank.uid), i);
}

void rank_shares_add(struct ranks *ranks, const struct rank *rank)
{
	struct rank_user *user = find_user(ranks, rank->uid);

	if (!user) {
		user = &ranks->user[ranks->users++]; /* as many as slots */
		*user = (struct rank_user){.uid = rank->uid};
	}
	user->ranks++;
	rank_shares_update(ranks);
}

void rank_shares_drop(struct ranks *ranks, const struct rank *rank)
{
	struct rank_user *user = find_user(ranks, rank->uid);

	if (user && --user->ranks == 0)
		*user = ranks->user[--ranks->users];
	rank_shares_update(ranks);
}

struct tracked *rank_shares_excess(const struct ranks *ranks, uint32_t uid)
{
	const struct rank_user *greediest = NULL;
	struct tracked *newest = NULL;

	for (uint32_t i = 0; i < ranks->users; i++)
		if (!greediest || ranks->user[i].ranks > greediest->ranks)
			greediest = &ranks->user[i];
	if (!greediest || greediest->ranks < ranks_of_user(ranks, uid) + 2)
		return NULL;
	for (uint32_t i = 0; i < ranks->slots; i++)
		if (ranks->slot[i] && ranks->slot[i]->rank.uid == greediest->uid &&
			(!newest || ranks->slot[i]->rank.instance > newest->rank.instance))
			newest = ranks->slot[i];
	return newest;
}
