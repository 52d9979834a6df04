/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes once in many steps, and has a usual length of its own: checkpoints of a rank (judge_checkpoint.c). Slow ones in a row add up; one that is
 * not slow ends the episode.
 */
#include "analyzers/judge/judge_internal.h"

#include <math.h>

#define RARE_PACE 0.2	     /* of the newest one in the usual one */
#define RARE_TIMES 1.5	     /* the usual one: slow */
#define RARE_CLIP 0.5	     /* of what opens: one slow one does not, */
#define RARE_LONG_S 5.0	     /* unless it loses as long as the shortest warning, */
#define RARE_LONG_STEPS 5.0  /* or as many steps */
#define NS 1e-9

double judge_rare_least(const struct judge *judge, const struct judge_rare *rare)
{
	return fmax(JUDGE_RARE_LEAST * judge->usual, (RARE_TIMES - 1) * rare->usual);
}

void judge_rare_learn(struct judge_rare *rare, double length)
{
	rare->usual += rare->usual > 0 ? RARE_PACE * (fmin(length, RARE_TIMES * rare->usual) - rare->usual) : length;
}

void judge_rare_slow(struct judge *judge, struct judge_rare *rare, struct judge_rank *rank, enum activity activity, const struct frame *frame,
	double excess, const double took[HOST_MEASURE_MAX])
{
	struct judge_watch *watch = &rare->watch;
	uint64_t step_ns = (uint64_t)((judge->usual + rare->took) / NS);
	double opens = judge_open_at(judge), counts = fmin(excess, RARE_CLIP * opens);

	if (excess >= fmax(RARE_LONG_S, RARE_LONG_STEPS * judge->usual))
		counts = opens;
	if (!(watch->evidence > 0) && !watch->open)
		judge_watch_reset(watch, judge->now_ns > step_ns ? judge->now_ns - step_ns : 0, frame->step);
	watch->evidence += fmax(counts, judge_limits_took(took)); /* no noise */
	watch->span.lost += excess;
	watch->span.cost += excess;
	watch->span.total += excess; /* measured on it alone */
	watch->span.base = fmax(judge->usual, (double)(judge->now_ns - watch->span.onset_ns) * NS - watch->span.lost);
	for (int h = 0; h < HOST_MEASURE_MAX; h++)
		(watch->open ? watch->pending_host : watch->span.host)[h] += took[h];
	if (watch->open) {
		watch->pending = excess;
		watch->pending_base = watch->span.base - watch->episode->base;
		judge_watch_slow(judge, watch, rank, excess, excess);
	} else if (watch->evidence >= opens) {
		judge_watch_open(judge, watch, rank, activity, excess, watch->span.cost);
	}
}

void judge_rare_over(struct judge *judge, struct judge_rare *rare)
{
	if (rare->watch.open)
		judge_watch_close(judge, &rare->watch);
	rare->watch.evidence = 0;
}
