/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/slow_rank_internal.h"

#include <stddef.h>

#include "analyzers/base/robust.h"

#define SLOWER_STEPS 3

void growth_step(struct growth *growth, uint64_t number, uint64_t step_ns, uint64_t longest_ns, enum frame_tier tier)
{
	if (tier != growth->tier) {
		growth->unseen = tier > growth->tier ? growth->of_tier : 0;
		growth->of_tier = 0;
		growth->tier = tier;
	}
	growth->of_tier++;
	growth->number[growth->steps % GROWTH_STEPS] = number;
	growth->longest[growth->steps % GROWTH_STEPS] = (double)longest_ns;
	growth->step[growth->steps++ % GROWTH_STEPS] = (double)step_ns;
}

/* Those of `of` that are at least `from` and less than `until` steps back. Returns how many. */
static size_t take_of(const struct growth *growth, const double *of, uint64_t from, uint64_t until, double *ret)
{
	size_t n = 0;

	for (uint64_t back = from; back < until && back < growth->steps && back < GROWTH_STEPS; back++)
		ret[n++] = of[(growth->steps - 1 - back) % GROWTH_STEPS];
	return n;
}

static size_t slow_rank_growth_take(const struct growth *growth, uint64_t from, uint64_t until, double *ret)
{
	return take_of(growth, growth->step, from, until, ret);
}

static double slow_rank_growth_median(const struct growth *growth, uint64_t from, uint64_t until)
{
	double step[GROWTH_STEPS];

	return robust_median(step, slow_rank_growth_take(growth, from, until, step));
}

double growth_typical(const struct growth *growth)
{
	return slow_rank_growth_median(growth, 0, GROWTH_RECENT);
}

/* Are the last ones longer than anything that is remembered of before? They are checked as soon as enough is
 * remembered, as they are a part of it themselves when a third one comes. */
static bool slow_rank_growth_is_far(const struct growth *growth)
{
	double before[GROWTH_STEPS], now[GROWTH_FAR_STEPS] = {0}, most = 0, typical, limit;
	size_t n = take_of(growth, growth->longest, GROWTH_FAR_STEPS, GROWTH_FAR_STEPS + GROWTH_RECENT, before);

	for (size_t i = 0; i < n; i++)
		most = fmax(most, before[i]);
	if (n < GROWTH_MIN)
		return false;
	typical = robust_median(before, n);
	limit = fmax(GROWTH_FAR * typical, typical + GROWTH_FAR_SPREADS * robust_spread(before, n, typical));
	take_of(growth, growth->longest, 0, GROWTH_FAR_STEPS, now);
	for (size_t i = 0; i < GROWTH_FAR_STEPS; i++) {
		if (!(now[i] > fmax(most, limit)))
			return false;
	}
	return true;
}

bool growth_is_long(const struct growth *growth)
{
	double newest;

	return growth->steps > GROWTH_MIN && slow_rank_growth_take(growth, 0, 1, &newest) == 1 &&
	       newest > GROWTH_FAR * slow_rank_growth_median(growth, 1, GROWTH_RECENT);
}

bool growth_slower(const struct growth *growth)
{
	double before, now[SLOWER_STEPS] = {0};
	bool all = true;

	if (growth->steps <= GROWTH_MIN + SLOWER_STEPS)
		return slow_rank_growth_is_far(growth);
	before = slow_rank_growth_median(growth, SLOWER_STEPS, GROWTH_RECENT);
	slow_rank_growth_take(growth, 0, SLOWER_STEPS, now);
	for (size_t i = 0; i < SLOWER_STEPS; i++)
		all &= now[i] > GROWTH_LEAST * before;
	return all || slow_rank_growth_is_far(growth);
}

double growth_ln(const struct growth *growth)
{
	double before[GROWTH_STEPS], now, typical, spread;
	size_t n = slow_rank_growth_take(growth, GROWTH_FROM, GROWTH_STEPS, before);

	if (n < GROWTH_MIN)
		return 0;
	now = slow_rank_growth_median(growth, 0, GROWTH_NEW);
	typical = robust_median(before, n);
	spread = robust_spread(before, n, typical);
	if (!(typical > 0) || now < GROWTH_LEAST * typical || now < typical + GROWTH_SPREADS * spread)
		return 0;
	return log(now / typical);
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
		return (struct growth_onset){0};
	before = slow_rank_growth_median(growth, since, since + GROWTH_BEFORE);
	after = slow_rank_growth_median(growth, since - GROWTH_NEW, since);
	if (after < GROWTH_LEAST * before ||
		slow_rank_growth_median(growth, since, since + GROWTH_BEFORE / 2) >
			GROWTH_LEAST * slow_rank_growth_median(growth, since + GROWTH_BEFORE / 2, since + GROWTH_BEFORE))
		return (struct growth_onset){0};
	return (struct growth_onset){.before_ns = (float)before, .after_ns = (float)after};
}

/* A median of GROWTH_NEW is not exact to the step: the first one of those around it that is longer. So many steps
 * back, 1 the newest. */
static uint64_t first_longer(const struct growth *growth, uint64_t since, const struct growth_onset *onset)
{
	double middle = ((double)onset->before_ns + (double)onset->after_ns) / 2;
	uint64_t from = since + GROWTH_BEFORE / 4, until = since > GROWTH_NEW / 2 ? since - GROWTH_NEW / 2 : 1;

	for (uint64_t back = from; back >= until; back--) {
		if (back <= growth->steps && growth->step[(growth->steps - back) % GROWTH_STEPS] > middle)
			return back;
	}
	return since;
}

struct growth_onset growth_since(const struct growth *growth, uint64_t onset)
{
	uint64_t since = steps_since(growth, onset), earlier = 0;
	struct growth_onset most = {0};

	if (since + GROWTH_FIRST > growth->of_tier)
		earlier = growth->unseen < GROWTH_UNSEEN ? growth->unseen : GROWTH_UNSEEN;
	if (since + earlier < GROWTH_NEW || since > GROWTH_STEPS / 2)
		return most;
	for (uint64_t back = since; back <= since + earlier; back++) {
		struct growth_onset at = grown_at(growth, back);

		at.steps = back;
		if (at.before_ns > 0 &&
			(!(most.before_ns > 0) || at.after_ns * most.before_ns > most.after_ns * at.before_ns))
			most = at;
	}
	if (!(most.before_ns > 0))
		return most;
	most.steps = first_longer(growth, most.steps, &most);
	most.step = growth->number[(growth->steps - most.steps) % GROWTH_STEPS];
	for (uint64_t back = most.steps; earlier && back > since; back--)
		most.earlier_ns += (uint64_t)growth->step[(growth->steps - back) % GROWTH_STEPS];
	return most;
}

double growth_share(const struct growth *growth, const struct growth_onset *onset)
{
	double now = fmin(slow_rank_growth_median(growth, 0, GROWTH_AFTER), (double)onset->after_ns), before = (double)onset->before_ns;

	return before > 0 && now > before ? 1 - before / now : 0;
}
