/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/slow_rank_growth.h"

#include <stddef.h>

#include "analyzers/detect/robust.h"

#define SLOWER_STEPS 3

void growth_step(struct growth *growth, uint64_t number, uint64_t step_ns, enum frame_tier tier)
{
	if (tier != growth->tier) {
		growth->unseen = tier > growth->tier ? growth->of_tier : 0;
		growth->of_tier = 0;
		growth->tier = tier;
	}
	growth->of_tier++;
	growth->number[growth->steps % GROWTH_STEPS] = number;
	growth->step[growth->steps++ % GROWTH_STEPS] = (double)step_ns;
}

/* Those that are at least `from` and less than `until` steps back. Returns how many. */
static size_t take(const struct growth *growth, uint64_t from, uint64_t until, double *ret)
{
	size_t n = 0;

	for (uint64_t back = from; back < until && back < growth->steps && back < GROWTH_STEPS; back++)
		ret[n++] = growth->step[(growth->steps - 1 - back) % GROWTH_STEPS];
	return n;
}

static double median(const struct growth *growth, uint64_t from, uint64_t until)
{
	double step[GROWTH_STEPS];

	return robust_median(step, take(growth, from, until, step));
}

double growth_usual(const struct growth *growth)
{
	return median(growth, 0, GROWTH_RECENT);
}

bool growth_slower(const struct growth *growth)
{
	double before, now[SLOWER_STEPS];
	bool all = true;

	if (growth->steps <= GROWTH_MIN + SLOWER_STEPS)
		return false;
	before = median(growth, SLOWER_STEPS, GROWTH_RECENT);
	take(growth, 0, SLOWER_STEPS, now);
	for (size_t i = 0; i < SLOWER_STEPS; i++)
		all &= now[i] > GROWTH_LEAST * before;
	return all;
}

double growth_ln(const struct growth *growth)
{
	double before[GROWTH_STEPS], now, usual, spread;
	size_t n = take(growth, GROWTH_FROM, GROWTH_STEPS, before);

	if (n < GROWTH_MIN)
		return 0;
	now = median(growth, 0, GROWTH_NEW);
	usual = robust_median(before, n);
	spread = robust_spread(before, n, usual);
	if (!(usual > 0) || now < GROWTH_LEAST * usual || now < usual + GROWTH_SPREADS * spread)
		return 0;
	return log(now / usual);
}

/* So many of those that are known are of the onset or later. */
static uint64_t steps_since(const struct growth *growth, uint64_t onset)
{
	uint64_t back = 0;

	while (back < growth->steps && back < GROWTH_STEPS &&
		growth->number[(growth->steps - 1 - back) % GROWTH_STEPS] >= onset)
		back++;
	return back;
}

/* Did steps grow so many steps back, and only then? */
static struct growth_onset grown_at(const struct growth *growth, uint64_t since)
{
	double before, after;

	if (growth->steps < since + GROWTH_BEFORE || since + GROWTH_BEFORE > GROWTH_STEPS)
		return (struct growth_onset){0, 0};
	before = median(growth, since, since + GROWTH_BEFORE);
	after = median(growth, since - GROWTH_NEW, since);
	if (after < GROWTH_LEAST * before ||
		median(growth, since, since + GROWTH_BEFORE / 2) >
			GROWTH_LEAST * median(growth, since + GROWTH_BEFORE / 2, since + GROWTH_BEFORE))
		return (struct growth_onset){0, 0};
	return (struct growth_onset){(float)before, (float)after};
}

struct growth_onset growth_since(const struct growth *growth, uint64_t onset)
{
	uint64_t since = steps_since(growth, onset), earlier = 0;
	struct growth_onset most = {0, 0};

	if (since < GROWTH_NEW || since > GROWTH_STEPS / 2)
		return most;
	if (since + GROWTH_FIRST > growth->of_tier)
		earlier = growth->unseen < GROWTH_UNSEEN ? growth->unseen : GROWTH_UNSEEN;
	for (uint64_t back = since; back <= since + earlier; back++) {
		struct growth_onset at = grown_at(growth, back);

		if (at.before_ns > 0 &&
			(!(most.before_ns > 0) || at.after_ns * most.before_ns > most.after_ns * at.before_ns))
			most = at;
	}
	return most;
}

double growth_share(const struct growth *growth, const struct growth_onset *onset)
{
	double now = fmin(median(growth, 0, GROWTH_AFTER), (double)onset->after_ns), before = (double)onset->before_ns;

	return before > 0 && now > before ? 1 - before / now : 0;
}
