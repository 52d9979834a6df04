/* SPDX-License-Identifier: Apache-2.0 */
/* See guard_internal.h. */
#include <math.h>
#include "analyzers/base/robust.h"
#include "daemon/guard/guard_internal.h"

#define GUARD_ROUNDS_MAX 16

int guard_model_outside(const struct guard_round *round, size_t count, struct guard_outside *ret)
{
	double outside[GUARD_ROUNDS_MAX], find[GUARD_ROUNDS_MAX];

	if (count == 0 || count > GUARD_ROUNDS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		double timed = (double)round[i].inside.timed;

		if (!round[i].inside.timed)
			return -ENODATA;
		find[i] = (double)round[i].inside.find_ns / timed;
		outside[i] = fmax(0, round[i].with_ns - round[i].without_ns - (double)round[i].inside.run_ns / timed);
	}
	*ret = (struct guard_outside){.ns = robust_median(outside, count), .find_ns = robust_median(find, count)};
	if (ret->ns > 0)
		ret->spread = robust_spread(outside, count, ret->ns) / ret->ns;
	return 0;
}

void guard_model_fill(
	const struct guard_outside warm[RT_COST_KINDS], const struct guard_outside *cold, struct guard_model *ret)
{
	double warm_ns = warm[RT_COST_EMULATED].ns, factor = warm_ns > 0 ? fmax(1, cold->ns / warm_ns) : 1;

	*ret = (struct guard_model){
		.spread = cold->spread, .find_hot_ns = warm[RT_COST_EMULATED].find_ns, .find_cold_ns = cold->find_ns};
	for (enum rt_cost_kind kind = 0; kind < RT_COST_KINDS; kind++) {
		ret->hot_ns[kind] = warm[kind].ns;
		ret->cold_ns[kind] = warm[kind].ns * factor;
		ret->spread = fmax(ret->spread, warm[kind].spread);
	}
}

/*
 * How cold the caches are, from 0 (as in a loop) to 1: by the time of a piece of the programs that is the same
 * everywhere. It is a mean of n hits, each of which finds its lines in the caches or not: its error is at most 1 /
 * sqrt(n) (two standard errors of a proportion of one half).
 */
static double guard_model_cold(const struct guard_model *model, const struct rt_cost *counts, double *ret_error)
{
	double range_ns = model->find_cold_ns - model->find_hot_ns, cold;

	if (counts->timed == 0 || !(range_ns > 0)) {
		*ret_error = 0.5;
		return 0.5;
	}
	cold = ((double)counts->find_ns / (double)counts->timed - model->find_hot_ns) / range_ns;
	*ret_error = 1 / sqrt((double)counts->timed);
	return cold < 0 ? 0 : cold > 1 ? 1 : cold;
}

static double guard_model_between(const struct guard_model *model, enum rt_cost_kind kind, double cold)
{
	cold = cold < 0 ? 0 : cold > 1 ? 1 : cold;
	return model->hot_ns[kind] + cold * (model->cold_ns[kind] - model->hot_ns[kind]);
}

void guard_model_add(
	const struct guard_model *model, enum rt_cost_kind kind, const struct rt_cost *counts, struct guard_cost *sum)
{
	double hits = (double)counts->hits, error, cold = guard_model_cold(model, counts, &error);
	double run_ns = counts->timed ? (double)counts->run_ns / (double)counts->timed : 0;

	sum->hits += counts->hits;
	sum->ns += hits * (run_ns + guard_model_between(model, kind, cold));
	sum->low_ns +=
		hits * (run_ns + guard_model_between(model, kind, cold - error) * fmax(0, 1 - 2 * model->spread));
	sum->high_ns += hits * (run_ns + guard_model_between(model, kind, cold + error) * (1 + 2 * model->spread));
}
