/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of ranks that pay more than the budget although the plan samples what it may, one a job; and of the daemon
 * itself. */
#include "daemon/core/context.h"
#include "daemon/gauges/gauges.h"
#include "daemon/guard/guard_internal.h"

static bool guard_excess_is_known(const struct guard *guard, uint64_t job)
{
	for (size_t i = 0; i < guard->slots; i++)
		if (guard->rank[i] && guard->rank[i]->turn.finding.number && guard->rank[i]->job == job)
			return true;
	return false;
}

/* Opens the finding of an excess, or closes it. rank NULL: of the daemon itself. */
static void guard_publish_turn(const struct guard *guard, struct guard_turn *turn, const struct rank *rank, bool over)
{
	const struct config *config = &guard->context->config;
	struct online_overhead_info info = {
		.rank = rank,
		.part = turn->excess.part,
		.percent = 100 * turn->excess.share,
		.part_percent = 100 * turn->excess.part_share,
		.budget_percent = (double)(rank ? config->budget_rank_ppm : config->budget_cpu_ppm) * 1e-4,
		.since_ns = turn->excess.since_ns,
	};

	online_overhead(guard->context->findings, &info, over, &turn->finding);
}

static void guard_excess_of(const struct guard *guard, const struct guard_rank *of, struct guard_excess *ret)
{
	const struct levels *levels = &guard->context->levels;
	struct guard_share share[GUARD_LEVELS] = {0};

	for (enum level level = 0; level < GUARD_LEVELS; level++)
		if ((levels->on[level] || levels->sampled[level]) && !levels->is_auto[level])
			share[level] = guard_share_of(
				&of->level[level].share, &of->level[level].between, guard->window[level].duty);
	guard_excess((double)guard->context->config.budget_rank_ppm * 1e-6, share, of->turn.over_ns != 0, ret);
}

struct guard_excess_walk {
	struct guard *guard;
	uint64_t now_ns;
};

static struct guard_rank *guard_excess_find(const struct guard *guard, const struct rank *rank)
{
	struct guard_rank *of = rank->slot < guard->slots ? guard->rank[rank->slot] : NULL;

	return of && of->instance == rank->instance ? of : NULL;
}

static void guard_excess_rank(void *arg, const struct rank *rank)
{
	const struct guard_excess_walk *walk = arg;
	struct guard_rank *of = guard_excess_find(walk->guard, rank);
	struct guard_excess excess;
	int due;

	if (!of || rank->ended)
		return;
	guard_excess_of(walk->guard, of, &excess);
	due = guard_excess_turn(
		&of->turn, &excess, guard_excess_is_known(walk->guard, of->job), GUARD_EXCESS_NS, walk->now_ns);
	if (due)
		guard_publish_turn(walk->guard, &of->turn, rank, due < 0);
}

static void guard_publish_own(struct guard *guard, uint64_t now_ns)
{
	struct gauges_status gauges;
	struct guard_excess excess;
	int due;

	if (!guard->own_known)
		return;
	guard_excess_own((double)guard->context->config.budget_cpu_ppm * 1e-6, guard->own_cpus,
		guard->own_turn.over_ns != 0, &excess);
	guard_excess_part(&excess, "workers", guard->own_workers);
	for (enum level level = 0; level < LEVEL_MAX; level++)
		guard_excess_part(&excess, level_name(level), guard->own_level[level] * guard->window[level].duty);
	for (unsigned i = 0; gauges_status(guard->context->gauges, i, &gauges); i++)
		guard_excess_part(&excess, gauges.source->name, gauges.cpus);
	due = guard_excess_turn(&guard->own_turn, &excess, false, GUARD_EXCESS_OWN_NS, now_ns);
	if (due > 0) { /* what lasts, not the largest, as when a job began */
		excess.since_ns = guard->own_turn.excess.since_ns;
		guard->own_turn.excess = excess;
	}
	if (due)
		guard_publish_turn(guard, &guard->own_turn, NULL, due < 0);
}

static void guard_publish_memory_turn(struct guard *guard, bool over)
{
	const struct online_overhead_info info = {
		.bytes = guard->memory_turn.excess.share,
		.budget_bytes = (double)guard->context->config.budget_memory_bytes,
		.since_ns = guard->memory_turn.excess.since_ns,
	};

	online_overhead(guard->context->findings, &info, over, &guard->memory_turn.finding);
}

static void guard_publish_memory(struct guard *guard, uint64_t now_ns)
{
	struct guard_excess excess;
	int due;

	guard_excess_memory((double)guard->context->config.budget_memory_bytes, (double)guard->memory_bytes,
		guard->memory_turn.over_ns != 0, &excess);
	due = guard_excess_turn(&guard->memory_turn, &excess, false, GUARD_EXCESS_MEMORY_NS, now_ns);
	if (due)
		guard_publish_memory_turn(guard, due < 0);
}

void guard_publish_excess(struct guard *guard, uint64_t now_ns)
{
	struct guard_excess_walk walk = {guard, now_ns};

	ranks_each(guard->context->ranks, guard_excess_rank, &walk);
	guard_publish_own(guard, now_ns);
	guard_publish_memory(guard, now_ns);
}

void guard_end_excess(struct guard *guard, const struct rank *rank)
{
	struct guard_rank *of = guard_excess_find(guard, rank);

	if (of && of->turn.finding.number)
		guard_publish_turn(guard, &of->turn, rank, true);
}

void guard_end_own_excess(struct guard *guard)
{
	if (guard->own_turn.finding.number)
		guard_publish_turn(guard, &guard->own_turn, NULL, true);
	if (guard->memory_turn.finding.number)
		guard_publish_memory_turn(guard, true);
}
