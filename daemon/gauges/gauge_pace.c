/* SPDX-License-Identifier: Apache-2.0 */
/* See gauges_internal.h. */
#include <math.h>

#include "daemon/gauges/gauges_internal.h"

/* A driver that answered late twice is asked again after that; 5 s of it cost 1.7 % of a CPU. */
#define INTERVAL_MOST_NS (300.0 * NSEC_PER_SEC)

static uint64_t gauge_pace_every_ns(const struct gauge_group *group)
{
	return (group->every_s ? group->every_s : 1) * NSEC_PER_SEC;
}

double gauge_pace_need(const struct gauge_pace *pace, const struct gauge_group *group)
{
	return (double)pace->cost_ns / (double)gauge_pace_every_ns(group);
}

double gauge_pace_level(double share, double urgent, const double *need, size_t count)
{
	double left = fmax(share - urgent, share / 2), level = left;
	size_t costly = count;

	/* What cheap groups leave raises the level, and makes more of them cheap: once each, at most. */
	for (size_t turn = 0; turn < count && costly; turn++) {
		double cheap = 0;

		level = turn ? level : left / (double)count;
		costly = 0;
		for (size_t i = 0; i < count; i++) {
			costly += need[i] > level;
			cheap += need[i] > level ? 0 : need[i];
		}
		if (costly)
			level = (left - cheap) / (double)costly;
	}
	return costly ? level : left;
}

bool gauge_pace_is_slow(const struct gauge_pace *pace, const struct gauge_group *group, double level)
{
	return !group->is_urgent && gauge_pace_need(pace, group) > level;
}

uint64_t gauge_pace_interval_ns(const struct gauge_pace *pace, const struct gauge_group *group, double level)
{
	return gauge_pace_is_slow(pace, group, level) ? (uint64_t)fmin((double)pace->cost_ns / level, INTERVAL_MOST_NS)
						      : gauge_pace_every_ns(group);
}

bool gauge_pace_is_due(const struct gauge_pace *pace, const struct gauge_group *group, double level, uint64_t round_ns)
{
	return !pace->read_ns || round_ns - pace->read_ns >= gauge_pace_interval_ns(pace, group, level);
}

int gauge_pace_read(struct gauge_pace *pace, const struct gauge_group *group, void *state, struct gauge_batch *batch,
	uint64_t round_ns)
{
	uint64_t begin_ns = monotonic_ns(), cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), took_ns;
	int r = group->read(state, batch);

	pace->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	took_ns = monotonic_ns() - begin_ns;
	if (took_ns < pace->cpu_ns)
		took_ns = pace->cpu_ns;
	pace->cost_ns = took_ns < pace->took_ns ? took_ns : pace->took_ns;
	pace->took_ns = took_ns;
	pace->read_ns = round_ns;
	return r;
}
