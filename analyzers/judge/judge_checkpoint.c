/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints, while they are the exception: a step with one that matters, and the next, in which others wait for it,
 * are no measure of a step, unless they grew by more than it explains. A checkpoint is slow beside those of the other
 * ranks in the same step, or, of a rank that writes alone, beside its own usual one. Slow ones in a row add up; one
 * that is not ends the episode.
 */
#include "analyzers/base/robust.h"
#include "analyzers/judge/judge_internal.h"

#include <math.h>
#include <string.h>

#define CHECKPOINT_RARE 0.2	  /* of steps: where more have one, they are a part of the step like others */
#define CHECKPOINT_AGAIN 0.1	  /* and where fewer have one, they are the exception again */
#define CHECKPOINT_STEPS 0.001	  /* weight of the newest step in that share */
#define CHECKPOINT_PACE 0.2	  /* of the newest checkpoint in the usual one */
#define CHECKPOINT_ALONE 1.5	  /* times the usual one: a rank that writes alone */
#define CHECKPOINT_SPREADS 5	  /* of the others, beyond their median */
#define CHECKPOINT_LEAST 0.05	  /* of a step: the smallest notice */
#define CHECKPOINT_CLIP 0.5	  /* of what opens: one slow checkpoint does not, */
#define CHECKPOINT_LONG_S 5.0	  /* unless it loses as long as the shortest warning, */
#define CHECKPOINT_LONG_STEPS 5.0 /* or as many steps */
#define CHECKPOINT_KNOWN 0.9	  /* of one: where more of it was a wait, its length is not learned */
#define CHECKPOINT_PEERS 2	  /* that write, too: enough to compare with */
#define CHECKPOINT_OTHER_S 1.0	  /* or as long as a step usually is: what else grew the step counts without it */

/* How late the rank is, in s, up to a constant of the frame: it began the step, and its limits made it longer than
 * usual, or its own work while it has an open finding. */
static double checkpoint_late(const struct judge *judge, const struct judge_rank *rank, const struct frame_rank *from)
{
	double took[JUDGE_MEASURE_MAX], own = 0,
					begin = (double)(int64_t)(from->end_ns - from->step_ns - judge->now_ns) * NS;

	for (int h = 0; h < JUDGE_MEASURE_MAX; h++)
		took[h] = judge_host_of(&from->host, h) - rank->usual.host[h];
	for (int a = 0; a < ACTIVITY_MAX && rank->watch.open; a++)
		if (a != ACTIVITY_CHECKPOINT && !activity_may_wait((enum activity)a, true))
			own += fmax(0, (double)from->activity_ns[a] * NS - rank->usual.act[a]);
	return begin + fmax(own, judge_limits_took(took));
}

static double checkpoint_whole(const struct frame_rank *rank)
{
	return rank->here ? (double)rank->activity_ns[ACTIVITY_CHECKPOINT] * NS : 0;
}

/* Fills the column with the length of each checkpoint, and returns the longest. A checkpoint copies from its card,
 * which may wait for a slow rank: its length is without what that rank is later than its own rank. */
static double checkpoint_lengths(struct judge *judge, const struct frame *frame)
{
	double most = -INFINITY, longest = 0, whole = 0;

	memset(judge->column, 0, judge->ranks * sizeof(*judge->column));
	for (size_t r = 0; r < frame->ranks; r++)
		whole = fmax(whole, checkpoint_whole(&frame->rank[r]));
	for (size_t r = 0; r < frame->ranks && judge->cards && whole > 0; r++) {
		if (!frame->rank[r].here || frame->rank[r].step_ns == FRAME_UNKNOWN || !frame->rank[r].end_ns)
			continue;
		judge->column[r] = checkpoint_late(judge, &judge->rank[r], &frame->rank[r]);
		most = fmax(most, judge->column[r]);
	}
	for (size_t r = 0; r < frame->ranks; r++) {
		judge->column[r] = fmax(0, checkpoint_whole(&frame->rank[r]) - fmax(0, most - judge->column[r]));
		longest = fmax(longest, judge->column[r]);
	}
	return longest;
}

/* How far the writers are apart, but for one (judge->ranks: of all). */
static double checkpoint_spread(const struct judge *judge, size_t but, double median)
{
	size_t n = 0;

	for (size_t r = 0; r < judge->ranks; r++)
		if (r != but && judge->column[r] > 0)
			judge->scratch[n++] = judge->column[r];
	return robust_spread(judge->scratch, n, median);
}

/* Fills judge->self with what each should have taken (0: not known) and judge->usually with what it took longer (0:
 * nothing that matters). The step waits for the longest alone: returns which part of them all it lost. */
static double checkpoint_excesses(struct judge *judge, size_t ranks)
{
	struct robust_middle middle;
	double shared = -1, most = 0, sum = 0;
	size_t n = 0;

	for (size_t r = 0; r < ranks; r++)
		if (judge->column[r] > 0)
			judge->scratch[n++] = judge->column[r];
	middle = robust_middle_of(judge->scratch, n);
	for (size_t r = 0; r < ranks; r++) {
		double length = judge->column[r], least = CHECKPOINT_LEAST * judge->usual,
		       usual = judge->rank[r].checkpoint;

		judge->self[r] = judge->usually[r] = 0;
		if (!(length > 0) || !(judge->usual > 0))
			continue;
		if (n <= CHECKPOINT_PEERS) {
			least = fmax(least, (CHECKPOINT_ALONE - 1) * usual);
		} else {
			usual = robust_others(middle, length);
			if (length - usual <= least)
				continue;
			if (n > JUDGE_MANY && shared < 0)
				shared = checkpoint_spread(judge, judge->ranks, middle.high);
			least = fmax(least,
				CHECKPOINT_SPREADS * (n > JUDGE_MANY ? shared : checkpoint_spread(judge, r, usual)));
		}
		judge->self[r] = usual;
		judge->usually[r] = usual > 0 && length - usual > least ? length - usual : 0;
		most = fmax(most, judge->usually[r]);
		sum += judge->usually[r];
	}
	return sum > 0 ? most / sum : 0;
}

/* What limits took in this step: the checkpoint may be slow for that. */
static void checkpoint_took(
	const struct judge_rank *rank, const struct frame_host *host, double excess, double to[JUDGE_MEASURE_MAX])
{
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++) {
		double took = judge_host_of(host, h) - rank->usual.host[h];

		if (judge_hosts[h].kind == JUDGE_HOST_SURE && took > 0 && rank->host_learned[h] > 0)
			to[h] += fmin(excess, took);
	}
}

/* part: of what all take longer. */
static void checkpoint_slow(
	struct judge *judge, struct judge_rank *rank, double part, const struct frame *frame, size_t r)
{
	struct judge_watch *watch = &rank->checkpoint_watch;
	uint64_t step_ns = frame->rank[r].step_ns;
	double excess = judge->usually[r], took[JUDGE_MEASURE_MAX] = {0}, opens = judge_open_at(judge),
	       counts = fmin(excess, CHECKPOINT_CLIP * opens), base;

	if (excess >= fmax(CHECKPOINT_LONG_S, CHECKPOINT_LONG_STEPS * judge->usual))
		counts = opens;
	excess *= part;
	checkpoint_took(rank, &frame->rank[r].host, excess, took);
	if (!(watch->evidence > 0) && !watch->open)
		judge_watch_reset(watch, judge->now_ns > step_ns ? judge->now_ns - step_ns : 0, frame->step);
	watch->evidence += fmax(counts, judge_limits_took(took)); /* no noise */
	watch->span.lost += excess;
	watch->span.cost += excess;
	watch->span.total += excess; /* measured on the rank alone */
	base = watch->span.base;
	watch->span.base = fmax(judge->usual, (double)(judge->now_ns - watch->span.onset_ns) * NS - watch->span.lost);
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++)
		(watch->open ? watch->pending_host : watch->span.host)[h] += took[h];
	if (watch->open) {
		watch->pending = excess;
		watch->pending_base = watch->span.base - base;
		judge_watch_slow(judge, watch, rank, excess, excess);
	} else if (watch->evidence >= opens) {
		judge_watch_open(judge, watch, rank, ACTIVITY_CHECKPOINT, excess, watch->span.cost);
	}
}

/* The mean of the ranks' checkpoints, as their mean step has it. */
static double checkpoint_mean(const struct judge *judge, const struct frame *frame)
{
	double sum = 0;
	size_t n = 0;

	for (size_t r = 0; r < frame->ranks; r++) {
		bool here = frame->rank[r].here && frame->rank[r].step_ns != FRAME_UNKNOWN;

		sum += here ? judge->column[r] : 0;
		n += here;
	}
	return n ? sum / (double)n : 0;
}

bool judge_checkpoint(struct judge *judge, const struct frame *frame, double *ret_step)
{
	double longest = checkpoint_lengths(judge, frame),
	       part = longest > 0 ? checkpoint_excesses(judge, frame->ranks) : 0;
	double mean = checkpoint_mean(judge, frame), waits = fmax(0, fmax(longest, judge->checkpoint_longest) - mean),
	       rest = *ret_step - mean - waits;
	bool any, skip, frequent;

	for (size_t r = 0; longest > 0 && r < frame->ranks; r++) {
		struct judge_rank *rank = &judge->rank[r];
		double length = judge->column[r];

		if (!(length > 0))
			continue;
		if (judge->usually[r] > 0) {
			rank->checkpoint_slow_s = length;
			rank->checkpoint_due_s = judge->self[r];
			checkpoint_slow(judge, rank, part, frame, r);
		} else {
			if (rank->checkpoint_watch.open)
				judge_watch_close(judge, &rank->checkpoint_watch);
			rank->checkpoint_watch.evidence = 0;
		}
		if (length < CHECKPOINT_KNOWN * checkpoint_whole(&frame->rank[r]))
			continue;
		rank->checkpoint += rank->checkpoint > 0
					    ? CHECKPOINT_PACE * (fmin(length, CHECKPOINT_ALONE * rank->checkpoint) -
									rank->checkpoint)
					    : length;
	}
	any = longest > CHECKPOINT_LEAST * judge->usual;
	judge->checkpoints += CHECKPOINT_STEPS * (any - judge->checkpoints);
	skip = any || judge->was_checkpoint;
	judge->was_checkpoint = any;
	frequent = judge->checkpoints >= (judge->frequent ? CHECKPOINT_AGAIN : CHECKPOINT_RARE);
	if (frequent != judge->frequent)
		judge_relearn(judge); /* the usual step has them now, or no more */
	judge->frequent = frequent;
	judge->checkpoint_longest = longest;
	/* Others wait for the longest at most, in this step or the next. */
	judge->without_checkpoint = skip && !frequent && judge->ticks > JUDGE_TICKS_LEARN &&
				    rest - judge->usual >= fmax(CHECKPOINT_OTHER_S, judge->usual);
	if (judge->without_checkpoint)
		*ret_step = rest;
	return skip && !frequent && !judge->without_checkpoint;
}
