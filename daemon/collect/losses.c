/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the view `drops` for records that were lost before they reached the store: in the full ring, by kind, which
 * may be of any rank; beyond a rank's part of ring, maps and memory, each charged to its rank.
 */
#include "daemon/collect/collect_internal.h"
#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/ranks/rank_budget.h"
#include "daemon/store/store.h"

#define LOSSES_EVERY_NS (60 * NSEC_PER_SEC) /* a row a minute and rank at most, whatever it does */

/* Counted so far, and in rows. */
struct losses_of_rank {
	int64_t instance;
	uint64_t limited, refused;
};

struct losses {
	const struct context *context;
	uint64_t written_ns;
	uint64_t of_kind[RT_KIND_MAX];
	uint64_t of_ranks; /* in rows of ranks */
	size_t slots;
	struct losses_of_rank slot[];
};

struct losses *losses_new(const struct context *context)
{
	size_t slots = context->config.ranks_max;
	struct losses *losses = calloc(1, sizeof(*losses) + slots * sizeof(losses->slot[0]));

	if (!losses)
		return NULL;
	losses->context = context;
	losses->slots = slots;
	losses->written_ns = context->started_ns;
	return losses;
}

struct losses *losses_free(struct losses *losses)
{
	free(losses);
	return NULL;
}

/* *written: what rows say already, is brought up to `lost`. rank NULL: any. */
static void losses_put(const struct losses *losses, const char *source, const char *reason, const struct rank *rank,
	uint64_t lost, uint64_t *written)
{
	const struct row_drops row = {
		.start_ns = field_time(store_utc_ns(losses->context->store, losses->written_ns)),
		.source = field_text(source),
		.reason = field_text(reason),
		.count = field_int((int64_t)(lost - *written)),
		.table_name = field_text_if(""),
		.rank = field_int_if(rank && rank->env.rank >= 0, rank ? rank->env.rank : 0),
		.uid = field_int_if(rank, rank ? rank->uid : 0),
		.instance = field_int_if(rank, rank ? rank->instance : 0),
	};

	if (lost > *written)
		store_put_drops(losses->context->store, &row);
	*written = lost;
}

/* What the rank has lost so far; *ret_written: what rows say of it. False: nothing is counted of it. */
static bool losses_of(const struct losses *losses, const struct rank *rank, struct losses_of_rank *ret,
	struct losses_of_rank *ret_written)
{
	const struct context *context = losses->context;
	struct rank_budget_use use;

	if (!context->kernel || !context->store || rank->slot >= losses->slots)
		return false;
	*ret_written = losses->slot[rank->slot];
	if (ret_written->instance != rank->instance)
		*ret_written = (struct losses_of_rank){.instance = rank->instance};
	rank_budget_use(context->budget, rank, &use);
	*ret = (struct losses_of_rank){rank->instance, kernel_limited(context->kernel, rank->slot), use.refused};
	/* A process that has started another program goes on in its slot, which begins anew. */
	ret_written->limited = ret_written->limited <= ret->limited ? ret_written->limited : 0;
	ret_written->refused = ret_written->refused <= ret->refused ? ret_written->refused : 0;
	return true;
}

static uint64_t losses_more(const struct losses_of_rank *lost, const struct losses_of_rank *written)
{
	return lost->limited - written->limited + lost->refused - written->refused;
}

void losses_rank(struct losses *losses, const struct rank *rank)
{
	struct losses_of_rank lost, written;

	if (!losses_of(losses, rank, &lost, &written))
		return;
	losses->of_ranks += losses_more(&lost, &written);
	losses_put(losses, "kernel", "beyond the rank's part of ring and maps", rank, lost.limited, &written.limited);
	losses_put(
		losses, "ranks", "beyond the rank's part of the daemon's memory", rank, lost.refused, &written.refused);
	losses->slot[rank->slot] = written;
}

uint64_t losses_of_ranks(const struct losses *losses)
{
	uint64_t sum = losses->of_ranks;
	struct losses_of_rank lost, written;

	for (size_t i = 0; losses->context->ranks && i < losses->slots; i++) {
		const struct rank *rank = ranks_by_slot(losses->context->ranks, (uint32_t)i);

		if (rank && losses_of(losses, rank, &lost, &written))
			sum += losses_more(&lost, &written);
	}
	return sum;
}

static void losses_each(void *arg, const struct rank *rank)
{
	losses_rank(arg, rank);
}

void losses_write(struct losses *losses, const char *(*source)(void *arg, unsigned kind), void *arg)
{
	const struct context *context = losses->context;

	if (!context->kernel || !context->store)
		return;
	for (unsigned kind = RT_KIND_NONE + 1; kind < RT_KIND_MAX; kind++)
		losses_put(losses, source(arg, kind), "lost in the kernel", NULL, kernel_drops(context->kernel, kind),
			&losses->of_kind[kind]);
	if (context->ranks)
		ranks_each(context->ranks, losses_each, losses);
	losses->written_ns = monotonic_ns();
}

bool losses_due(const struct losses *losses, uint64_t now_ns)
{
	return now_ns >= losses->written_ns + LOSSES_EVERY_NS;
}
