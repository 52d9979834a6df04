/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are slower than their peers from the start: there is no growth, so only peers show it. Of the usual:
 *   own    with L1 self time (step less waits), else the activities that hold no wait; beyond the median of the same role
 *   gain   own, at most what the other ranks wait longer than this one: the time that the job would save
 * On cards without L1 a late host may be hidden behind a full device queue: nothing is said then.
 */
#include "analyzers/base/robust.h"
#include "analyzers/judge/judge_internal.h"

#include <math.h>
#include <string.h>

#define START_LEAST 0.03	/* of the step: the gain that is told; noise of a few steps' mean is below */
#define START_ALLOW 0.015	/* of the step: half of it */
#define START_CLIP 0.25		/* of what opens: the most that one tick may count */
#define START_SPREADS 5		/* of its peers: what differs by less is noise */
#define START_PEER 0.5		/* of the largest gain: a smaller one hides behind it */

struct start {
	struct judge *judge;
	bool l1, newest; /* newest: of this tick alone */
	size_t n;
};

static bool holds_wait(const struct start *start, int a)
{
	return activity_may_wait((enum activity)a, start->judge->cards);
}

/* Mean a step of its usual, or of this tick. */
static double start_act(const struct start *start, const struct judge_rank *rank, int a)
{
	return start->newest ? rank->tick.sum.act[a] / rank->tick.steps : rank->usual.act[a];
}

static double start_l1_wait(const struct start *start, const struct judge_rank *rank)
{
	return start->newest ? rank->tick.sum.wait / rank->tick.l1_steps : rank->usual.wait;
}

static double start_self(const struct start *start, const struct judge_rank *rank)
{
	double sum = 0;

	for (int a = 0; a < ACTIVITY_MAX; a++)
		sum += start->l1 || !holds_wait(start, a) ? start_act(start, rank, a) : 0;
	return sum - (start->l1 ? start_l1_wait(start, rank) : 0);
}

static double start_wait(const struct start *start, const struct judge_rank *rank)
{
	double sum = 0;

	for (int a = 0; a < ACTIVITY_MAX; a++)
		sum += holds_wait(start, a) ? start_act(start, rank, a) : 0;
	return start->l1 ? start_l1_wait(start, rank) : sum;
}

/* Median of the other ranks' value; of the same role only. NAN: there is none. */
static double start_others(const struct start *start, const struct judge_rank *of, bool role,
	double (*value)(const struct start *, const struct judge_rank *))
{
	const struct judge *judge = start->judge;
	size_t n = 0;

	for (size_t r = 0; r < judge->ranks; r++) {
		const struct judge_rank *rank = &judge->rank[r];

		if (rank != of && rank->tick.steps > 0 && (!role || rank->class == of->class))
			judge->scratch[n++] = value(start, rank);
	}
	return n ? robust_median(judge->scratch, n) : NAN;
}

/* How far ranks of its role, but this one, are apart. */
static double start_spread(const struct start *start, const struct judge_rank *of)
{
	const struct judge *judge = start->judge;
	size_t n = 0;

	for (size_t r = 0; r < judge->ranks; r++) {
		const struct judge_rank *rank = &judge->rank[r];

		if (rank != of && rank->tick.steps > 0 && rank->class == of->class)
			judge->scratch[n++] = start_self(start, rank);
	}
	return n ? robust_spread(judge->scratch, n, robust_median(judge->scratch, n)) : 0;
}

/* The activity in which it exceeds its peers most; with L1, on a card or without stages, computing. */
static enum activity start_activity(const struct start *start, const struct judge_rank *of)
{
	const struct judge *judge = start->judge;
	double act[ACTIVITY_MAX] = {0}, sum = 0;

	for (int a = 0; a < ACTIVITY_MAX; a++) {
		size_t n = 0;

		for (size_t r = 0; r < judge->ranks; r++)
			if (&judge->rank[r] != of && judge->rank[r].tick.steps > 0 && judge->rank[r].class == of->class)
				judge->scratch[n++] = judge->rank[r].usual.act[a];
		act[a] = fmax(0, of->usual.act[a] - robust_median(judge->scratch, n));
		act[a] *= activity_may_wait((enum activity)a, true) ? 0 : 1;
		sum += act[a];
	}
	act[ACTIVITY_COMPUTE] = start->l1 ? fmax(0, start_self(start, of) - start_others(start, of, true, start_self) - sum) : 0;
	if (!judge->cards && of->usual.act[ACTIVITY_FORWARD] > act[ACTIVITY_COMPUTE]) {
		act[ACTIVITY_FORWARD] = act[ACTIVITY_COMPUTE];
		act[ACTIVITY_COMPUTE] = 0;
	}
	return judge_most(act);
}

/* s a step; 0: none, or not known. */
static double start_gain(const struct start *start, const struct judge_rank *rank)
{
	double own = start_self(start, rank) - start_others(start, rank, true, start_self);
	double waits = start_others(start, rank, false, start_wait) - (start->l1 ? 0 : start_wait(start, rank));

	if (isnan(own) || isnan(waits) || own < START_SPREADS * start_spread(start, rank))
		return 0;
	return fmax(0, fmin(own, waits));
}

static void start_rank(const struct start *start, struct judge_rank *rank, double gain, double top)
{
	struct judge *judge = start->judge;
	struct judge_watch *watch = &rank->start;
	double steps = judge->steps, lost = gain * steps;

	if (gain <= START_LEAST * judge->usual / (watch->open ? 2 : 1) || gain < START_PEER * top) {
		watch->evidence = 0;
		if (watch->open)
			judge_watch_close(judge, watch, false);
		return;
	}
	if (!(watch->evidence > 0) && !watch->open)
		judge_watch_reset(watch, judge->first_ns, 0);
	watch->evidence += fmin((gain - START_ALLOW * judge->usual) * steps, START_CLIP * judge_open_at(judge));
	watch->lost += lost;
	watch->cost += lost;
	watch->base += (judge->usual - gain) * steps;
	if (watch->open) {
		watch->pending = lost;
		watch->pending_base = (judge->usual - gain) * steps;
		judge_watch_slow(judge, watch, rank, lost, lost);
	} else if (watch->evidence >= judge_open_at(judge)) {
		judge_watch_open(judge, watch, rank, start_activity(start, rank), lost, watch->cost);
	}
}

void judge_start(struct judge *judge)
{
	struct start start = {.judge = judge, .l1 = judge->l1_ticks > 0};
	double top = 0;

	for (size_t r = 0; r < judge->ranks; r++) {
		start.n += judge->rank[r].tick.steps > 0;
		start.l1 = start.l1 && (!(judge->rank[r].tick.steps > 0) || judge->rank[r].tick.l1_steps > 0);
	}
	if (start.n < 2 || (judge->cards && !start.l1))
		return;
	for (size_t r = 0; r < judge->ranks; r++) {
		judge->column[r] = 0;
		if (!(judge->rank[r].tick.steps > 0))
			continue;
		start.newest = false;
		judge->column[r] = start_gain(&start, &judge->rank[r]);
		start.newest = true; /* both must show it: one odd tick moves a young mean far */
		if (judge->column[r] > 0)
			judge->column[r] = fmin(judge->column[r], start_gain(&start, &judge->rank[r]));
		top = fmax(top, judge->column[r]);
	}
	start.newest = false;
	for (size_t r = 0; r < judge->ranks; r++)
		if (judge->rank[r].tick.steps > 0)
			start_rank(&start, &judge->rank[r], judge->column[r], top);
}
