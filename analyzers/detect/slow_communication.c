/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that take longer than they did, and than their peers, once all members have entered: a link, a node's
 * network, or a communicator. Which series are slow: links.h.
 *
 * Whose fault it is. With score(n) = records of node n in slow series / its records in series that cross nodes, those
 * that all ranks take part in left out: the link of two nodes, where no rank beside them has any; a node that has
 * nearly all of its own in slow ones, where no other has; else the communicator.
 *
 * What it costs: the excess of operations that nothing of the same rank overlaps; of those that may be an asynchronous
 * run (gradients) only the longest, as the others hide behind computing. The median of the ranks that lose at least
 * CONCERNED of what the one that loses most does: the others wait for them, and what all take part in (a loss that is
 * summed over all ranks) concerns all ranks a little. A step that loses less than half of gain_min is not reported.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/columns.h"
#include "analyzers/base/robust.h"
#include "analyzers/detect/links.h"

#define SCORE_NODE 0.75 /* of its own records: "nearly all" above */
#define SCORE_APART 0.7 /* the next node's score is less than that share of the best one's */
#define CONCERNED 0.5	/* of the largest loss of a rank: less is what all take part in */
#define SLACK_NS 2000	/* a shorter overlap of operations is taken for rounding of their times */
#define OTHERS_MAX 1024

struct endpoint {
	uint32_t slow, all;
	uint32_t rank; /* one of it */
};

struct slow_communication {
	struct detect_options options;
	struct links *links;
	struct endpoint *endpoint; /* by node, or by rank */
	int64_t *next_start;
	double *lost, *run, *delay, *scratch;
	struct columns columns; /* by rank */
};

static void *slow_communication_free(void *arg)
{
	struct slow_communication *state = arg;

	if (!state)
		return NULL;
	state->links = links_free(state->links);
	columns_free(&state->columns);
	free(state);
	return NULL;
}

static void *slow_communication_new(const struct detect_options *options)
{
	struct slow_communication *state = calloc(1, sizeof(*state));

	if (!state)
		return NULL;
	state->options = *options;
	state->columns = COLUMNS_OF(COLUMN_OF(state->endpoint), COLUMN_OF(state->next_start), COLUMN_OF(state->lost),
		COLUMN_OF(state->run), COLUMN_OF(state->delay), COLUMN_OF(state->scratch));
	state->links = links_new(options);
	return state->links ? state : slow_communication_free(state);
}

static const struct link_series *slow_series(const struct slow_communication *state, uint32_t group)
{
	const struct link_series *series = links_of_group(state->links, group);

	return series && series->is_slow ? series : NULL;
}

/* For how long the rank had no CPU. Where the host does what a device would, others' load holds up a transfer for so
 * long, equally on all links: no link is at fault. */
static double delay_of(const struct frame *frame, const struct frame_rank *rank)
{
	return frame->tier == FRAME_TIER_HOST && rank->host.run_delay_ns != FRAME_UNKNOWN
		       ? (double)rank->host.run_delay_ns
		       : 0;
}

/* Of the step, in ns. */
static double slow_communication_cost(struct slow_communication *state, const struct frame *frame)
{
	double most = 0;
	size_t n = 0;

	for (size_t i = 0; i < frame->ranks; i++) {
		state->next_start[i] = INT64_MAX;
		state->lost[i] = state->run[i] = 0;
		state->delay[i] = delay_of(frame, &frame->rank[i]);
	}
	for (size_t i = frame->ops; i-- > 0;) {
		const struct frame_op *op = &frame->op[i];
		const struct frame_group *group = &frame->group[op->group];
		const struct link_series *series = slow_series(state, op->group);
		int64_t next = state->next_start[op->rank];
		double excess;

		state->next_start[op->rank] = op->start_ns;
		if (!series || op->duration_ns > INT64_MAX / 4 || op->start_ns > INT64_MAX / 4 ||
			op->start_ns < INT64_MIN / 4 || op->start_ns + (int64_t)op->duration_ns - SLACK_NS > next)
			continue;
		excess = fmin(series->value_ns - series->reference_ns, (double)op->duration_ns);
		if (excess <= state->delay[op->rank])
			continue;
		if (!group->p2p && (frame->comm[group->comm].kind == COMM_KIND_DATA ||
					   frame->comm[group->comm].kind == COMM_KIND_UNCLEAR))
			state->run[op->rank] = fmax(state->run[op->rank], excess);
		else
			state->lost[op->rank] += excess;
	}
	for (size_t i = 0; i < frame->ranks; i++) {
		state->lost[i] = fmin(state->lost[i] + state->run[i], (double)frame->rank[i].step_ns);
		most = fmax(most, state->lost[i]);
	}
	for (size_t i = 0; i < frame->ranks; i++) {
		if (state->lost[i] > 0 && state->lost[i] >= CONCERNED * most)
			state->scratch[n++] = state->lost[i];
	}
	return robust_median(state->scratch, n);
}

/* Slow and all records by node; false: no series that crosses nodes is slow, or nodes are not known. */
static bool by_node(struct slow_communication *state, const struct frame *frame)
{
	bool any = false;

	memset(state->endpoint, 0, frame->ranks * sizeof(*state->endpoint));
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];
		const struct link_series *series = links_of_group(state->links, op->group);
		uint32_t node = frame->who[op->rank].node;

		if (!series || !series->spans || node >= frame->ranks ||
			frame->group[op->group].members >= frame->ranks)
			continue;
		state->endpoint[node].all++;
		state->endpoint[node].rank = op->rank;
		if (series->is_slow) {
			state->endpoint[node].slow++;
			any = true;
		}
	}
	return any;
}

static double slow_communication_score(const struct endpoint *endpoint)
{
	return endpoint->all ? (double)endpoint->slow / endpoint->all : 0;
}

/* The node's index, FRAME_NONE; *ret_pair: the only two nodes concerned. */
static uint32_t find_node(const struct slow_communication *state, size_t ranks, uint32_t ret_pair[2])
{
	uint32_t best = 0, touched = 0, nodes = 0;
	double next = 0;

	ret_pair[0] = ret_pair[1] = FRAME_NONE;
	for (uint32_t i = 1; i < ranks; i++) {
		if (slow_communication_score(&state->endpoint[i]) > slow_communication_score(&state->endpoint[best]))
			best = i;
	}
	for (uint32_t i = 0; i < ranks; i++) {
		nodes += state->endpoint[i].all > 0;
		if (i != best)
			next = fmax(next, slow_communication_score(&state->endpoint[i]));
		if (!state->endpoint[i].slow)
			continue;
		if (touched < 2)
			ret_pair[touched] = i;
		touched++;
	}
	if (touched != 2)
		ret_pair[0] = ret_pair[1] = FRAME_NONE;
	if (nodes > 2 && slow_communication_score(&state->endpoint[best]) >= SCORE_NODE &&
		next < SCORE_APART * slow_communication_score(&state->endpoint[best]))
		return best;
	return FRAME_NONE;
}

static void slow_communication_name_ranks(
	struct finding *finding, const struct frame *frame, uint32_t node, uint32_t other)
{
	int32_t rank[OTHERS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < frame->ranks && n < OTHERS_MAX; i++) {
		if (frame->who[i].node == node || frame->who[i].node == other)
			rank[n++] = frame->who[i].rank;
	}
	finding_ranks(rank, n, finding->others, sizeof(finding->others));
}

static void slow_communication_blame(struct slow_communication *state, const struct frame *frame,
	const struct link_series *worst, struct finding *finding)
{
	uint32_t pair[2], node = FRAME_NONE;

	finding->cause = CAUSE_COMMUNICATION;
	if (by_node(state, frame)) {
		node = find_node(state, frame->ranks, pair);
		if (pair[0] != FRAME_NONE) {
			finding->cause = CAUSE_LINK;
			slow_communication_name_ranks(finding, frame, pair[0], pair[1]);
			return;
		}
		if (node != FRAME_NONE) {
			finding->cause = CAUSE_NODE;
			snprintf(finding->host, sizeof(finding->host), "%.63s",
				frame->who[state->endpoint[node].rank].host);
			slow_communication_name_ranks(finding, frame, node, node);
			return;
		}
	}
	snprintf(finding->communicator, sizeof(finding->communicator), "%.19s", frame->comm[worst->comm].communicator);
}

static void slow_communication_frame(
	void *arg, const struct frame *frame, const struct measures *measures, const struct detector_out *out)
{
	struct slow_communication *state = arg;
	struct verdict verdict = {0};
	const struct link_series *worst;
	double gain;

	if (frame->class != FRAME_TRAIN || frame->tier == FRAME_TIER_STAGES || !frame->ops ||
		!columns_renew(&state->columns, frame->ranks) || links_frame(state->links, frame, measures) < 0)
		return;
	worst = links_worst(state->links);
	if (!worst || !(worst->reference_ns > 0))
		return;
	verdict.lost_ns = slow_communication_cost(state, frame);
	gain = measures->step_ns ? fmin(verdict.lost_ns / (double)measures->step_ns, 0.99) : 0;
	if (gain < state->options.gain_min / 2)
		return;
	verdict.finding.kind = FINDING_SLOW_COMMUNICATION;
	verdict.finding.rank = -1;
	verdict.finding.tier = frame->tier;
	verdict.finding.since_step = worst->since_step;
	verdict.finding.since_ns = worst->since_ns;
	verdict.finding.confidence = frame->tier == FRAME_TIER_DEVICE ? 0.9 : 0.8;
	slow_communication_blame(state, frame, worst, &verdict.finding);
	finding_add(&verdict.finding, "transfer", "ns", worst->value_ns, worst->reference_ns,
		worst->reference_ns < worst->baseline_ns || worst->reference_ns > worst->baseline_ns
			? "others of its kind"
			: "");
	out->emit(out->arg, &verdict);
}

const struct detector slow_communication_detector = {
	.name = "slow_communication",
	.new = slow_communication_new,
	.free = slow_communication_free,
	.frame = slow_communication_frame,
};
