/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/slow_rank_checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/robust.h"

#define SPREAD_LEAST 0.01 /* of the self time */
#define SHARE_LEAST (-0.99)
#define PAST 2 /* distances without one */

void checkpoint_free(struct slow_rank_checkpoint *checkpoint)
{
	free(checkpoint->measured);
	free(checkpoint->rank);
	free(checkpoint->self);
	free(checkpoint->stage);
	free(checkpoint->start);
	free(checkpoint->by_class);
	*checkpoint = (struct slow_rank_checkpoint){0};
}

/* Nodes too are numbered from 0, so that there are no more of them than ranks; others are not known. */
static void find_leads(
	struct slow_rank_checkpoint *checkpoint, const struct frame *frame, const struct measures *measures)
{
	bool *class_seen = (bool *)checkpoint->self, *node_seen = (bool *)checkpoint->stage;

	memset(class_seen, 0, checkpoint->ranks);
	memset(node_seen, 0, checkpoint->ranks);
	for (size_t i = 0; i < checkpoint->ranks; i++) {
		uint32_t class = measures->rank[i].class, node = frame->who[i].node;

		if (class < checkpoint->ranks && !class_seen[class])
			checkpoint->rank[i].leads = class_seen[class] = true;
		if (node < checkpoint->ranks && !node_seen[node])
			checkpoint->rank[i].leads = node_seen[node] = true;
	}
}

static bool make_room(
	struct slow_rank_checkpoint *checkpoint, const struct frame *frame, const struct measures *measures)
{
	size_t ranks = measures->ranks;

	if (ranks == checkpoint->ranks && checkpoint->measured)
		return true;
	checkpoint_free(checkpoint);
	checkpoint->measured = calloc(ranks + 1, sizeof(*checkpoint->measured));
	checkpoint->rank = calloc(ranks + 1, sizeof(*checkpoint->rank));
	checkpoint->self = calloc(ranks + 1, sizeof(*checkpoint->self));
	checkpoint->stage = calloc(ranks + 1, sizeof(*checkpoint->stage));
	checkpoint->start = calloc(ranks + 2, sizeof(*checkpoint->start));
	checkpoint->by_class = calloc(ranks + 1, sizeof(*checkpoint->by_class));
	if (!checkpoint->measured || !checkpoint->rank || !checkpoint->self || !checkpoint->stage ||
		!checkpoint->start || !checkpoint->by_class) {
		checkpoint_free(checkpoint);
		return false;
	}
	checkpoint->ranks = ranks;
	find_leads(checkpoint, frame, measures);
	return true;
}

static double stage_of(const struct frame *frame, size_t i)
{
	const struct frame_rank *of = &frame->rank[i];
	uint64_t ns = of->stage_ns[STAGE_CHECKPOINT];

	return (double)(ns < of->step_ns ? ns : of->step_ns);
}

static double middle_of(const float value[CHECKPOINT_USUAL])
{
	double sorted[CHECKPOINT_USUAL];

	for (size_t i = 0; i < CHECKPOINT_USUAL; i++)
		sorted[i] = (double)value[i];
	return robust_kth(sorted, CHECKPOINT_USUAL, CHECKPOINT_USUAL / 2);
}

/* Of one that writes for others: what it takes more than it did; NAN: no more, or nothing is known of it. */
static double beyond_own(struct checkpoint_rank *rank, double its)
{
	double own;

	if (rank->seen_own < CHECKPOINT_USUAL) {
		if (its > 0)
			rank->own[rank->seen_own++] = (float)its;
		return NAN;
	}
	own = middle_of(rank->own);
	return its > CHECKPOINT_MORE * own ? its - own : NAN;
}

/* What is not so by design. */
static double beyond_usual(struct checkpoint_rank *rank, double share)
{
	if (!rank->leads)
		return share;
	if (rank->seen < CHECKPOINT_USUAL) {
		rank->usual[rank->seen++] = (float)share;
		return fmin(share, 0);
	}
	return share - fmax(0, middle_of(rank->usual));
}

static void compare_class(
	struct slow_rank_checkpoint *checkpoint, const struct frame *frame, const uint32_t *member, size_t n)
{
	double self, stage, spread;

	for (size_t i = 0; i < n; i++) {
		checkpoint->self[i] = (double)checkpoint->measured[member[i]].self_ns;
		checkpoint->stage[i] = stage_of(frame, member[i]);
	}
	self = robust_median(checkpoint->self, n);
	stage = robust_median(checkpoint->stage, n);
	spread = n > 2 ? robust_spread(checkpoint->stage, n, stage) : 0;
	for (size_t i = 0; i < n; i++) {
		struct measure_rank *rank = &checkpoint->measured[member[i]];
		double its = stage_of(frame, member[i]), over = (double)rank->self_ns - self, share;
		double more = self > 0 ? beyond_own(&checkpoint->rank[member[i]], its / self) : NAN;
		bool alone = !(stage > 0) || its > CHECKPOINT_APART * stage;

		if (!(self > 0) || (alone && isnan(more))) {
			rank->class = FRAME_NONE;
			continue;
		}
		if (alone)
			share = fmin(more, over / self);
		else
			share = beyond_usual(&checkpoint->rank[member[i]], fmin(its - stage, over) / self);
		share = fmax(share, SHARE_LEAST);
		rank->self_ns = (uint64_t)(self * (1 + share));
		rank->ratio = 1 + share;
		rank->z = share * self / fmax(spread, SPREAD_LEAST * self);
	}
}

static void compare(struct slow_rank_checkpoint *checkpoint, const struct frame *frame)
{
	uint32_t *start = checkpoint->start;
	size_t ranks = checkpoint->ranks;

	memset(start, 0, (ranks + 1) * sizeof(*start));
	for (size_t i = 0; i < ranks; i++) {
		if (checkpoint->measured[i].class < ranks)
			start[checkpoint->measured[i].class + 1]++;
	}
	for (size_t c = 0; c < ranks; c++)
		start[c + 1] += start[c];
	for (uint32_t i = 0; i < ranks; i++) {
		if (checkpoint->measured[i].class < ranks)
			checkpoint->by_class[start[checkpoint->measured[i].class]++] = i;
	}
	/* Each start now is the next one's. */
	for (size_t c = 0, from = 0; c < ranks; from = start[c++]) {
		if (start[c] > from)
			compare_class(checkpoint, frame, checkpoint->by_class + from, start[c] - from);
	}
}

const struct measures *checkpoint_measures(
	struct slow_rank_checkpoint *checkpoint, const struct frame *frame, const struct measures *measures)
{
	if (measures->ranks != frame->ranks || !make_room(checkpoint, frame, measures))
		return NULL;
	if (checkpoint->any && frame->step > checkpoint->last_step &&
		frame->step - checkpoint->last_step > checkpoint->distance)
		checkpoint->distance = frame->step - checkpoint->last_step;
	checkpoint->any = true;
	checkpoint->last_step = frame->step;
	memcpy(checkpoint->measured, measures->rank, measures->ranks * sizeof(*checkpoint->measured));
	for (size_t i = 0; i < measures->ranks; i++) {
		if (measures->rank[i].wait_ns == FRAME_UNKNOWN)
			checkpoint->measured[i].class = FRAME_NONE;
	}
	compare(checkpoint, frame);
	checkpoint->measures = *measures;
	checkpoint->measures.rank = checkpoint->measured;
	/* Where records were lost a rank's self time is too long, and its checkpoint is as long as it was. */
	checkpoint->measures.staged = NULL;
	checkpoint->measures.lost = 0;
	return &checkpoint->measures;
}

bool checkpoint_past(const struct slow_rank_checkpoint *checkpoint, uint64_t step)
{
	return !checkpoint->any || step < checkpoint->last_step ||
	       step - checkpoint->last_step > PAST * checkpoint->distance;
}

double checkpoint_slowdown(
	const struct slow_rank_checkpoint *checkpoint, double lost_ns, double checkpoint_ns, double step_ns)
{
	double others = checkpoint->distance > 1 ? (double)(checkpoint->distance - 1) * step_ns : 0;
	double without = others + checkpoint_ns - lost_ns;

	return without > 0 ? 1 + lost_ns / without : 1;
}
