/* SPDX-License-Identifier: Apache-2.0 */
/* See guard_internal.h. */
#include <math.h>
#include "daemon/guard/guard_internal.h"

/*
 * How cold the caches are, from 0 (as in a loop) to 1: by the time of a piece of the programs that is the same everywhere. It is
 * a mean of n hits, each of which finds its lines in the caches or not: its error is at most 1 / sqrt(n) (two standard errors of
 * a proportion of one half).
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

static double guard_model_outside(const struct guard_model *model, enum rt_cost_kind kind, double cold)
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
	sum->ns += hits * (run_ns + guard_model_outside(model, kind, cold));
	sum->low_ns += hits * (run_ns + guard_model_outside(model, kind, cold - error) * fmax(0, 1 - 2 * model->spread));
	sum->high_ns += hits * (run_ns + guard_model_outside(model, kind, cold + error) * (1 + 2 * model->spread));
}
