/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/slow_rank_gain.h"

#include "analyzers/detect/robust.h"
#include "analyzers/detect/slow_rank_checkpoint.h"

#define LOST_SHARE 0.5
#define EQUAL 0.75 /* of the largest gain of the set: then they are equals */

static double gain_without(const struct gain_set *set, const uint32_t *rank, const uint64_t *excess, size_t n)
{
	uint64_t as_is = 0, whatif = measure_whatif(set->measure, set->frame, rank, excess, n, &as_is);

	return whatif && as_is && whatif < as_is ? 1 - (double)whatif / (double)as_is : 0;
}

/* What others waited for it, beyond what they did for its class, ns. */
static double waited_for(const struct gain_set *set, uint32_t rank)
{
	const struct measures *measures = set->measures;
	const struct measure_rank *of = &measures->rank[rank];
	size_t n = 0;

	for (size_t i = 0; i < measures->ranks; i++) {
		if (measures->rank[i].class == of->class)
			set->scratch[n++] = (double)measures->rank[i].last_ns;
	}
	return fmax(0, (double)of->last_ns - robust_median(set->scratch, n));
}

/* What one of the set costs at least, where a replay misses waits: a share of the step, at most its excess. */
static double gain_at_least(const struct gain_set *set, size_t i)
{
	double excess = (double)set->excess[i], step_ns = (double)set->measures->step_ns;

	if (!set->measures->step_ns || set->loss == GAIN_WHOLE)
		return 0;
	if (set->loss == GAIN_LOST_CHECKPOINT)
		return fmin(excess, checkpoint_lead_ns(set->frame, set->rank, set->n, set->rank[i])) / step_ns;
	return fmin(excess, LOST_SHARE * waited_for(set, set->rank[i])) / step_ns;
}

/* What one costs if the others alone were repaired, of what all of them cost. */
static double gain_alone(const struct gain_set *set, size_t i, double all)
{
	uint64_t others_excess[GAIN_SET_MAX];
	uint32_t others[GAIN_SET_MAX];
	size_t m = 0;

	for (size_t j = 0; j < set->n; j++) {
		if (j == i)
			continue;
		others[m] = set->rank[j];
		others_excess[m++] = set->excess[j];
	}
	return set->n == 1 ? all : all - gain_without(set, others, others_excess, m);
}

void gain_of_set(const struct gain_set *set, double *ret)
{
	double alone[GAIN_SET_MAX], sum = 0, most = 0, all;

	all = gain_without(set, set->rank, set->excess, set->n);
	for (size_t i = 0; i < set->n; i++) {
		alone[i] = fmax(gain_alone(set, i, all), gain_at_least(set, i));
		sum += alone[i];
		most = fmax(most, alone[i]);
		all = fmax(all, alone[i]);
	}
	for (size_t i = 0; i < set->n; i++) {
		/* Shares are of the whole where they would be more than it. */
		double gain = sum > all ? all * alone[i] / sum : alone[i];

		/* One of several equals would not pass with its share: it costs all that if it is the only one left.
		 * Who costs much less than the slowest may only wait for it, unseen. */
		if (gain < alone[i] && alone[i] >= set->least && gain < set->least && alone[i] >= EQUAL * most)
			gain = set->least;
		ret[i] = gain;
	}
}
