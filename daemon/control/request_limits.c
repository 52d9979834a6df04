/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks use together of what is bounded (docs/limits.md), for `status`: one row each. */
#include "daemon/control/request.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/kernel/kernel.h"
#include "daemon/ranks/rank_budget.h"
#include "daemon/ranks/ranks.h"

struct use {
	uint64_t used, max, exceeded;
};

static void use_ranks(const struct context *context, const Ranktrace__StatusBody *body, struct use *ret)
{
	ret->used = context->ranks ? ranks_count(context->ranks, RANK_ROLE_RANK) : 0;
	ret->max = context->config.ranks_max;
}

static void use_others(const struct context *context, const Ranktrace__StatusBody *body, struct use *ret)
{
	ret->max = LIMIT_OTHERS;
	if (context->ranks)
		ret->used =
			ranks_count(context->ranks, RANK_ROLE_CHILD) + ranks_count(context->ranks, RANK_ROLE_LAUNCHER);
}

static void use_candidates(const struct context *context, const Ranktrace__StatusBody *body, struct use *ret)
{
	ret->max = LIMIT_CANDIDATES;
	if (context->ranks)
		ret->used = ranks_candidates(context->ranks, &ret->exceeded);
}

static void use_state(const struct context *context, const Ranktrace__StatusBody *body, struct use *ret)
{
	uint32_t frozen;

	ret->used = rank_budget_bytes(context->budget) >> 20;
	ret->max = rank_budget_bytes_max(context->budget) >> 20;
	rank_budget_counts(context->budget, &frozen, &ret->exceeded);
}

/* The rank with the most. */
static void use_calls(const struct context *context, const Ranktrace__StatusBody *body, struct use *ret)
{
	ret->max = RT_RANK_CALLS_MAX;
	for (uint32_t i = 0; context->kernel && context->ranks && i < context->config.ranks_max; i++) {
		uint32_t held = ranks_by_slot(context->ranks, i) ? kernel_held(context->kernel, i, RT_HELD_CALLS) : 0;

		ret->used = held > ret->used ? held : ret->used;
	}
}

static void use_libraries(const struct context *context, const Ranktrace__StatusBody *body, struct use *ret)
{
	ret->max = LIMIT_LIBRARIES;
	for (size_t i = 0; i < body->n_collectors; i++)
		if (streq(body->collectors[i]->name, "call"))
			ret->used = body->collectors[i]->libraries;
}

static void use_rows(const struct context *context, const Ranktrace__StatusBody *body, struct use *ret)
{
	ret->used = body->store ? body->store->rows_pending : 0;
	ret->max = LIMIT_QUEUE_ROWS;
}

static const struct {
	const char *name, *unit;
	void (*measure)(const struct context *context, const Ranktrace__StatusBody *body, struct use *ret);
} limits[] = {
	{"ranks", "ranks", use_ranks},
	{"children and launchers", "processes", use_others},
	{"processes that may become ranks", "processes", use_candidates},
	{"state of ranks", "MiB", use_state},
	{"calls in flight of a rank", "calls", use_calls},
	{"libraries", "files", use_libraries},
	{"rows waiting in memory", "rows", use_rows},
};

int request_limits_fill(const struct context *context, Ranktrace__StatusBody *body)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		Ranktrace__Limit *item = REQUEST_ADD(body, limits);
		struct use use = {0};

		if (!item)
			return -ENOMEM;
		limits[i].measure(context, body, &use);
		item->name = strdup(limits[i].name);
		item->unit = strdup(limits[i].unit);
		item->used = use.used;
		item->max = use.max;
		item->exceeded = use.exceeded;
	}
	return 0;
}
