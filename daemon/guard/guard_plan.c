/* SPDX-License-Identifier: Apache-2.0 */
/* See guard_internal.h. */
#include "daemon/guard/guard_internal.h"

/* From windows back to all the time: not before a budget of so much less would do. */
#define PLAN_RETURN 0.8

/* Levels that may be sampled, the most useful to findings first: it keeps its time longest. */
static const enum level guard_order[] = {LEVEL_L1, LEVEL_L3, LEVEL_L2};

static double guard_plan_part(double left, double cost)
{
	return cost > 0 ? left / cost : 2;
}

static double guard_plan_duty(double left_rank, double left_own, const struct guard_need *need, double before)
{
	double rank = guard_plan_part(left_rank, need->share), own = guard_plan_part(left_own, need->own_cpus);
	double duty = rank < own ? rank : own;

	if (before < 1 ? duty * PLAN_RETURN >= 1 : duty >= 1)
		return 1;
	if (duty > PLAN_RETURN)
		return PLAN_RETURN;
	return duty > GUARD_DUTY_MIN ? duty : GUARD_DUTY_MIN;
}

void guard_plan(const struct guard_limits *limits, const struct guard_need need[LEVEL_MAX], const double before[LEVEL_MAX],
	double ret[LEVEL_MAX])
{
	double left_rank = limits->rank_share, left_own = limits->own_cpus;

	for (enum level level = 0; level < LEVEL_MAX; level++) {
		ret[level] = 1;
		if (need[level].on && !need[level].sampled) {
			left_rank -= need[level].share;
			left_own -= need[level].own_cpus;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(guard_order); i++) {
		enum level level = guard_order[i];

		if (!need[level].on || !need[level].sampled)
			continue;
		ret[level] = guard_plan_duty(left_rank, left_own, &need[level], before[level]);
		left_rank -= ret[level] * need[level].share;
		left_own -= ret[level] * need[level].own_cpus;
	}
}
