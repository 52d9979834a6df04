/* SPDX-License-Identifier: Apache-2.0 */
/* What the guard knows, for status and metrics. */
#include "daemon/guard/guard_internal.h"

void guard_rank_share(const struct guard *guard, const struct rank *rank, enum level level, struct guard_share *ret)
{
	const struct guard_rank *of = rank->slot < guard->slots ? guard->rank[rank->slot] : NULL;

	*ret = (struct guard_share){0};
	if (of && of->instance == rank->instance && level < GUARD_LEVELS)
		*ret = of->level[level].share;
}

void guard_rank_between(const struct guard *guard, const struct rank *rank, enum level level, struct guard_share *ret)
{
	const struct guard_rank *of = rank->slot < guard->slots ? guard->rank[rank->slot] : NULL;

	*ret = (struct guard_share){0};
	if (of && of->instance == rank->instance && level < GUARD_LEVELS)
		*ret = of->level[level].between;
}

void guard_rank_paid(const struct guard *guard, const struct rank *rank, enum level level, struct guard_share *ret)
{
	struct guard_share on, between;

	guard_rank_share(guard, rank, level, &on);
	guard_rank_between(guard, rank, level, &between);
	*ret = guard_share_of(&on, &between, guard->window[level].duty);
}

void guard_status(const struct guard *guard, struct guard_status *ret)
{
	*ret = (struct guard_status){.reason = guard->error ? strerror(-guard->error) : "",
		.calibrated = guard->calibrated,
		.hot_ns = guard->model.hot_ns[RT_COST_EMULATED],
		.cold_ns = guard->model.cold_ns[RT_COST_EMULATED],
		.spread = guard->model.spread,
		.own_cpus = guard->own_cpus,
		.own_known = guard->own_known};
}

double guard_coverage(const struct guard *guard, enum level level)
{
	return guard->window[level].duty;
}
