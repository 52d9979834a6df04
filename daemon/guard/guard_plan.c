/* SPDX-License-Identifier: Apache-2.0 */
/* See guard_internal.h. */
#include <math.h>
#include "daemon/guard/guard_internal.h"

/* From windows back to all the time: not before a budget of so much less would do. */
#define PLAN_RETURN 0.8
/* Of the budget: windows of a level that costs less save little, and lose what is asked for. */
#define PLAN_LITTLE 0.1

/* Levels that may be sampled, the most useful to findings first: it keeps its time longest. */
static const enum level guard_order[] = {LEVEL_L0, LEVEL_L1, LEVEL_L3, LEVEL_L2};

static double guard_plan_part(double left, double cost, double budget)
{
	return cost > PLAN_LITTLE * budget ? left / cost : 2;
}

static double guard_plan_duty(const struct guard_limits *limits, double left_rank, double left_own,
	const struct guard_need *need, double before)
{
	double rank = guard_plan_part(left_rank - need->between, need->share - need->between, limits->rank_share);
	double own = guard_plan_part(left_own, need->own_cpus, limits->own_budget);
	double duty = rank < own ? rank : own;

	if (before < 1 ? duty * PLAN_RETURN >= 1 : duty >= 1)
		return 1;
	if (duty > PLAN_RETURN)
		return PLAN_RETURN;
	return duty > GUARD_DUTY_MIN ? duty : GUARD_DUTY_MIN;
}

struct guard_share guard_share_of(const struct guard_share *on, const struct guard_share *between, double duty)
{
	struct guard_share ret = *on;

	ret.share = on->share * duty + between->share * (1 - duty);
	ret.low = on->low * duty + between->low * (1 - duty);
	ret.high = on->high * duty + between->high * (1 - duty);
	ret.hits_per_s = on->hits_per_s * duty + between->hits_per_s * (1 - duty);
	return ret;
}

bool guard_hold_turn(struct guard_hold *hold, uint64_t suspected_ns, bool open, uint64_t now_ns)
{
	double took_ns = hold->at_ns ? (double)(now_ns - hold->at_ns) : 0;
	bool held = suspected_ns && now_ns < suspected_ns + GUARD_HOLD_NS;

	hold->left_ns = hold->at_ns ? hold->left_ns + took_ns * GUARD_HELD_PART : GUARD_HELD_NS;
	if (hold->left_ns > GUARD_HELD_NS)
		hold->left_ns = GUARD_HELD_NS;
	hold->left_ns -= open && held ? took_ns : 0;
	hold->at_ns = now_ns;
	return held && hold->left_ns > 0;
}

void guard_excess_part(struct guard_excess *excess, const char *part, double share)
{
	if (share <= excess->part_share)
		return;
	excess->part = part;
	excess->part_share = share;
}

void guard_excess(double budget, const struct guard_share share[GUARD_LEVELS], bool before, struct guard_excess *ret)
{
	double low = 0;

	*ret = (struct guard_excess){.part = ""};
	for (enum level level = 0; level < GUARD_LEVELS; level++) {
		double part = share[level].known ? share[level].share : 0;

		ret->share += part;
		low += share[level].known ? share[level].low : 0;
		guard_excess_part(ret, level_name(level), part);
	}
	ret->over = low > (before ? budget * PLAN_RETURN : budget);
}

void guard_excess_own(double budget, double own_cpus, bool before, struct guard_excess *ret)
{
	*ret = (struct guard_excess){
		.part = "", .share = own_cpus, .over = own_cpus > (before ? budget * PLAN_RETURN : budget)};
}

void guard_excess_memory(double budget, double bytes, bool before, struct guard_excess *ret)
{
	*ret = (struct guard_excess){.part = "", .share = bytes, .over = bytes > (before ? budget * 7 / 8 : budget)};
}

int guard_excess_turn(
	struct guard_turn *turn, const struct guard_excess *excess, bool known, uint64_t lasts_ns, uint64_t now_ns)
{
	if (!excess->over) {
		turn->over_ns = 0;
		return turn->finding.number ? -1 : 0;
	}
	if (!turn->over_ns || excess->share > turn->excess.share)
		turn->excess = *excess;
	if (!turn->over_ns)
		turn->over_ns = now_ns;
	turn->excess.since_ns = turn->over_ns;
	return !turn->finding.number && !known && now_ns - turn->over_ns >= lasts_ns;
}

void guard_plan(const struct guard_limits *limits, const struct guard_need need[LEVEL_MAX],
	const double before[LEVEL_MAX], double ret[LEVEL_MAX])
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
		/* Stages are worth more than the daemon's CPU time. */
		ret[level] = guard_plan_duty(
			limits, left_rank, level == LEVEL_L0 ? INFINITY : left_own, &need[level], before[level]);
		left_rank -= ret[level] * need[level].share + (1 - ret[level]) * need[level].between;
		left_own -= ret[level] * need[level].own_cpus;
	}
}
