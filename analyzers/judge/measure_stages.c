/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Self time where only stages were seen: see measure.h. What a rank has more of than its class does, in stages that
 * hold no wait. Forward holds one where shards or tensors are gathered in it, and on a card it only launches: it counts
 * only of ranks without a card, only as far as no rank's own stages explain it (others would wait there for as long),
 * and only where one rank alone has it, or a few that cannot be one group (those of a tensor group wait for the slow
 * one in it, and appear the same): see measure_internal.h.
 */
#include "analyzers/base/robust.h"
#include "analyzers/judge/measure_internal.h"

/* `ranks` ranks from the first on, at this distance. */
static bool is_group(int32_t first, int64_t distance, size_t ranks, uint32_t world_size)
{
	return world_size % ((uint64_t)distance * ranks) == 0 && first / distance % (int64_t)ranks == 0;
}

bool measure_alike_grouped(const int32_t *rank, size_t ranks, uint32_t world_size)
{
	bool even = true;

	for (size_t i = 0; i < ranks; i++) {
		for (size_t j = i + 1; j < ranks; j++) {
			int64_t distance = (int64_t)rank[j] - rank[i];

			if (rank[i] < 0 || distance < 1 || is_group(rank[i], distance, 2, world_size))
				return true;
			even &= j != i + 1 || distance == (int64_t)rank[1] - rank[0];
		}
	}
	return ranks > 2 && even && is_group(rank[0], (int64_t)rank[1] - rank[0], ranks, world_size);
}

static const enum stage_kind own_stage[] = {STAGE_DATALOADER, STAGE_ZERO_GRAD, STAGE_OPTIMIZER, STAGE_CHECKPOINT};
#define OWN_STAGES (sizeof(own_stage) / sizeof(own_stage[0]))
#define FORWARD_SPREADS 3
#define ALIKE 0.5  /* forward excesses from that share of the longest on are taken for one cause */
#define APART 0.25 /* where several have it, no other rank has more than that share */

static double measure_stages_stage_of(const struct frame *frame, uint32_t rank, enum stage_kind kind)
{
	const struct frame_rank *of = &frame->rank[rank];

	return (double)(of->stage_ns[kind] < of->step_ns ? of->stage_ns[kind] : of->step_ns);
}

static double median_stage(struct measure *measure, const struct frame *frame, uint32_t class, enum stage_kind kind)
{
	const uint32_t *rank = measure->by_class + measure->class_start[class];
	uint32_t ranks = measure->class_ranks[class];

	for (uint32_t i = 0; i < ranks; i++)
		measure->scratch[i] = measure_stages_stage_of(frame, rank[i], kind);
	return robust_median(measure->scratch, ranks);
}

/* Forward, without the garbage collections, which may lie in it: they count by themselves. */
static double measure_stages_forward_of(const struct frame *frame, uint32_t rank)
{
	return fmax(measure_stages_stage_of(frame, rank, STAGE_FORWARD) - measure_stages_stage_of(frame, rank, STAGE_GC), 0);
}

static double median_forward(struct measure *measure, const struct frame *frame, uint32_t class)
{
	const uint32_t *rank = measure->by_class + measure->class_start[class];
	uint32_t ranks = measure->class_ranks[class];

	for (uint32_t i = 0; i < ranks; i++)
		measure->scratch[i] = measure_stages_forward_of(frame, rank[i]);
	return robust_median(measure->scratch, ranks);
}

/* Those of a class that are longer in forward by about as much, if they are few, apart from all others, and each by
 * itself: into ret, as places in the class. scratch: excess of forward. Returns how many. */
static size_t longer_in_forward(
	const struct measure *measure, const struct frame *frame, uint32_t class, double most, uint32_t *ret)
{
	const uint32_t *rank = measure->by_class + measure->class_start[class];
	int32_t number[MEASURE_ALIKE_MAX];
	size_t n = 0, near = 0;

	for (uint32_t i = 0; most > 0 && i < measure->class_ranks[class]; i++) {
		near += measure->scratch[i] > APART * most;
		if (!(measure->scratch[i] > ALIKE * most))
			continue;
		if (n == MEASURE_ALIKE_MAX || frame->who[rank[i]].card[0])
			return 0;
		number[n] = frame->who[rank[i]].rank;
		ret[n++] = i;
	}
	return n == 1 || (n == near && !measure_alike_grouped(number, n, frame->world_size)) ? n : 0;
}

/* Adds the forward excess of the few ranks that have some which no rank's own stages explain. What makes forward longer
 * makes backward longer by the same factor, where it hides behind the others' waiting. excess: of own stages. */
static void add_forward(
	struct measure *measure, const struct frame *frame, uint32_t class, double *excess, double median)
{
	const uint32_t *rank = measure->by_class + measure->class_start[class];
	uint32_t ranks = measure->class_ranks[class], longest[MEASURE_ALIKE_MAX];
	double own = 0, most = 0, forward[MEASURE_ALIKE_MAX], spread;
	size_t n;

	for (uint32_t i = 0; i < ranks; i++) {
		measure->scratch[i] = measure_stages_forward_of(frame, rank[i]) - median;
		if (measure->scratch[i] > most && !frame->who[rank[i]].card[0])
			most = measure->scratch[i];
	}
	n = longer_in_forward(measure, frame, class, most, longest);
	for (size_t k = 0; k < n; k++)
		forward[k] = measure->scratch[longest[k]];
	for (uint32_t i = 0; i < ranks; i++) {
		bool is = false;

		for (size_t k = 0; k < n; k++)
			is |= longest[k] == i;
		if (!is && excess[i] > own)
			own = excess[i];
	}
	spread = robust_spread(measure->scratch, ranks, 0);
	for (size_t k = 0; k < n; k++) {
		if (forward[k] > own && forward[k] > FORWARD_SPREADS * spread)
			excess[longest[k]] +=
				(forward[k] - own) *
				(1 + measure_stages_stage_of(frame, rank[longest[k]], STAGE_BACKWARD) / (median + forward[k]));
	}
}

static void excess_of_class(
	struct measure *measure, const struct frame *frame, uint32_t class, bool with_forward, double *excess)
{
	const uint32_t *rank = measure->by_class + measure->class_start[class];
	uint32_t ranks = measure->class_ranks[class];
	double median;

	for (uint32_t i = 0; i < ranks; i++)
		excess[i] = 0;
	for (size_t k = 0; k < OWN_STAGES; k++) {
		median = median_stage(measure, frame, class, own_stage[k]);
		for (uint32_t i = 0; i < ranks; i++)
			excess[i] += measure_stages_stage_of(frame, rank[i], own_stage[k]) - median;
	}
	/* A collection lies within another stage, and makes that longer as well, or in none that counts. */
	median = median_stage(measure, frame, class, STAGE_GC);
	for (uint32_t i = 0; i < ranks; i++) {
		double collected = measure_stages_stage_of(frame, rank[i], STAGE_GC) - median;

		if (collected > excess[i])
			excess[i] = collected;
	}
	if (with_forward)
		add_forward(measure, frame, class, excess, median_forward(measure, frame, class));
}

void measure_stages(struct measure *measure, const struct frame *frame, bool with_forward, struct measure_rank *to)
{
	double *excess = measure->spread, rest = INFINITY;

	for (uint32_t c = 0; c < measure->result.classes; c++)
		excess_of_class(measure, frame, c, with_forward, excess + measure->class_start[c]);
	/* The step that would be left to the one with the most. */
	for (uint32_t c = 0; c < measure->result.classes; c++) {
		for (uint32_t i = 0; i < measure->class_ranks[c]; i++) {
			uint32_t at = measure->class_start[c] + i;
			double left = (double)frame->rank[measure->by_class[at]].step_ns - excess[at];

			if (left < rest)
				rest = left;
		}
	}
	for (uint32_t c = 0; c < measure->result.classes; c++) {
		for (uint32_t i = 0; i < measure->class_ranks[c]; i++) {
			uint32_t at = measure->class_start[c] + i;
			struct measure_rank *rank = &to[measure->by_class[at]];
			uint64_t step_ns = frame->rank[measure->by_class[at]].step_ns;
			double self = rest + excess[at];

			if (self < 0)
				self = 0;
			rank->self_ns = self < (double)step_ns ? (uint64_t)self : step_ns;
			rank->wait_ns = step_ns - rank->self_ns;
			rank->last_ns = 0;
		}
	}
}
