/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a process that shows none, from the repeating pattern of its operations: the shortest lag at which the
 * sequence agrees with itself (and hardly any longer one better: many like operations in a row agree at lag 1, but not
 * all). A step begins after the longest gap of the pattern. Learnt from PERIOD_TRY operations on, again with half as
 * many more each time; fewer than SURE of them must agree all, for the few that differ may be what makes the step.
 * Given up where the pattern no longer holds, and learnt anew: of more operations, if it had not held for long.
 */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/ops_hash.h"

#define PERIOD_TRY 48
#define ROUNDS 3			 /* a pattern is one that came so often */
#define KEPT_MAX (ALIGN_PERIOD_MAX * 4) /* operations */
#define MISSES 20			 /* 1 of so many may differ: 5 % */
#define SURE 2048
#define HELD 16 /* so many looks at a pattern, and it was the right one */
#define LOOK 256
#define BETTER 200 /* a longer lag that agrees better by 1 of so many is the pattern */

struct align_period {
	size_t count, capacity, first_try, next_try;
	uint32_t *what;
	uint64_t *gap_ns; /* before it */
	size_t gap_capacity;
	uint64_t end_ns; /* of what was seen so far */

	size_t lag;  /* 0: not known */
	bool strict; /* nothing differed as it was learnt: nothing may */
	size_t at, checked, missed, held;
	int64_t step; /* the open one, 0: none yet */
	uint64_t step_start_ns;
};

void align_period_free(struct align_period *period)
{
	if (!period)
		return;
	free(period->what);
	free(period->gap_ns);
	free(period);
}

/* Operations of the later part that differ from the one lag before; no more than limit are counted. */
static size_t misses(const struct align_period *period, size_t lag, size_t limit)
{
	size_t ret = 0;

	for (size_t i = period->count; i-- > period->count / ROUNDS && ret <= limit;)
		ret += period->what[i] != period->what[i - lag];
	return ret;
}

static size_t find_lag(const struct align_period *period)
{
	size_t compared = period->count - period->count / ROUNDS, ret = 0;
	size_t best = period->count < SURE ? 1 : compared / MISSES + 1;

	for (size_t lag = 1; lag <= period->count / ROUNDS && lag <= ALIGN_PERIOD_MAX && best; lag++) {
		size_t missed = misses(period, lag, best);

		if (missed < best && (!ret || best - missed > compared / BETTER)) {
			best = missed;
			ret = lag;
		}
	}
	return ret;
}

/* Makes the last lag operations the pattern, turned so that it begins after its longest gap. */
static void align_period_settle(struct align_period *period, size_t lag, bool strict)
{
	size_t first = period->count - lag, longest = 0;
	uint64_t longest_ns = 0;
	uint32_t *pattern = malloc(lag * sizeof(*pattern));

	if (!pattern)
		return;
	for (size_t i = 0; i < lag; i++) {
		uint64_t gap_ns = period->gap_ns[first + i], before_ns = period->gap_ns[first + i - lag];

		if (before_ns < gap_ns)
			gap_ns = before_ns; /* the shorter one: a pause may be anywhere, once */
		if (gap_ns > longest_ns) {
			longest_ns = gap_ns;
			longest = i;
		}
	}
	for (size_t i = 0; i < lag; i++)
		pattern[i] = period->what[first + (longest + i) % lag];
	memcpy(period->what, pattern, lag * sizeof(*pattern));
	free(pattern);
	period->lag = lag;
	period->at = (lag - longest) % lag;
	period->checked = period->missed = period->held = 0;
	period->strict = strict;
}

static void align_period_forget(struct align_period *period)
{
	period->lag = period->count = 0;
	period->first_try = period->held >= HELD ? PERIOD_TRY : period->first_try * 4;
	if (period->first_try > KEPT_MAX)
		period->first_try = KEPT_MAX;
	period->next_try = period->first_try;
	period->step_start_ns = 0;
	if (period->step)
		period->step++; /* the open one never ends */
}

static void align_period_learn(struct align_period *period, uint32_t what, uint64_t start_ns)
{
	size_t lag;

	if (period->count == KEPT_MAX) {
		period->count /= 2;
		memmove(period->what, period->what + period->count, period->count * sizeof(*period->what));
		memmove(period->gap_ns, period->gap_ns + period->count, period->count * sizeof(*period->gap_ns));
	}
	if (!align_grow((void **)&period->what, &period->capacity, period->count + 1, sizeof(*period->what), KEPT_MAX) ||
		!align_grow((void **)&period->gap_ns, &period->gap_capacity, period->count + 1, sizeof(*period->gap_ns),
			KEPT_MAX))
		return;
	period->what[period->count] = what;
	period->gap_ns[period->count++] = start_ns > period->end_ns ? start_ns - period->end_ns : 0;
	if (period->count < period->next_try && period->count < KEPT_MAX)
		return;
	period->next_try += period->next_try / 2;
	if (period->next_try > KEPT_MAX)
		period->next_try = KEPT_MAX;
	lag = find_lag(period);
	if (lag)
		align_period_settle(period, lag, misses(period, lag, 1) == 0);
}

/* The operation is the pattern's next one, or not. */
static void align_period_follow(struct align *align, struct align_process *process, uint32_t what, uint64_t start_ns)
{
	struct align_period *period = process->period;
	size_t snapshot;

	if (period->at == 0) {
		const struct align_step step = {.step = period->step,
			.start_ns = period->step_start_ns,
			.duration_ns = start_ns > period->step_start_ns ? start_ns - period->step_start_ns : 0};

		if (period->step && period->step_start_ns)
			align_step_closed(align, process, &step);
		process->from_start = false; /* the first one that was found, not the first one */
		period->step++;
		period->step_start_ns = start_ns;
	}
	period->missed += period->what[period->at] != what;
	period->checked++;
	period->at = (period->at + 1) % period->lag;
	snapshot = period->lag * 4 > LOOK ? period->lag * 4 : LOOK;
	if (period->missed > (period->strict ? 0 : snapshot / MISSES)) {
		align_period_forget(period);
	} else if (period->checked >= snapshot) {
		period->checked = period->missed = 0;
		period->held++;
	}
}

int64_t align_period_op(
	struct align *align, struct align_process *process, uint64_t what, uint64_t start_ns, uint64_t end_ns)
{
	struct align_period *period = process->period;

	if (!period) {
		period = process->period = calloc(1, sizeof(*period));
		if (!period)
			return ALIGN_NO_STEP;
		period->first_try = period->next_try = PERIOD_TRY;
	}
	if (period->lag)
		align_period_follow(align, process, (uint32_t)what, start_ns);
	else
		align_period_learn(period, (uint32_t)what, start_ns);
	if (end_ns > period->end_ns)
		period->end_ns = end_ns;
	return period->lag && period->step_start_ns ? period->step : ALIGN_NO_STEP;
}
