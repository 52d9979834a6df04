/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/accuracy_yardstick.h"

#include <stdlib.h>

#include "tests/sim/sim_internal.h"
#include "tests/yardstick/systrace_rules.h"

#define STEPS_MAX 256
#define METRICS 3

/* Indices of systrace_metrics. */
static const struct {
	unsigned metric;
	uint16_t op;
} looked_at[METRICS] = {{0, SIM_OP_ALL_GATHER}, {2, SIM_OP_REDUCE_SCATTER}, {4, SIM_OP_ALL_REDUCE}};

struct series {
	struct systrace_op *op;
	size_t ops, capacity;
};

struct yardstick {
	const struct case_spec *spec;
	const struct sim_options *options;
	enum comm_kind kind; /* of the groups compared */
	size_t ranks, steps;
	double ms[STEPS_MAX];
	size_t onset;	       /* index in ms */
	struct series *series; /* METRICS a rank */
	uint32_t *comm;	       /* of each rank, FRAME_NONE */
	bool *accused;
};

struct yardstick *yardstick_free(struct yardstick *yardstick)
{
	if (!yardstick)
		return NULL;
	for (size_t i = 0; yardstick->series && i < yardstick->ranks * METRICS; i++)
		free(yardstick->series[i].op);
	free(yardstick->series);
	free(yardstick->comm);
	free(yardstick->accused);
	free(yardstick);
	return NULL;
}

struct yardstick *yardstick_new(const struct case_spec *spec, const struct sim_options *options)
{
	struct yardstick *yardstick;
	size_t ranks = (size_t)options->tp * options->pp * options->dp;

	if (ranks > YARDSTICK_RANKS_MAX)
		return NULL;
	yardstick = calloc(1, sizeof(*yardstick));
	if (!yardstick)
		return NULL;
	*yardstick = (struct yardstick){.spec = spec,
		.options = options,
		.kind = options->tp > 1 ? COMM_KIND_TENSOR : COMM_KIND_DATA,
		.ranks = ranks,
		.series = calloc(ranks * METRICS, sizeof(*yardstick->series)),
		.comm = calloc(ranks, sizeof(*yardstick->comm)),
		.accused = calloc(ranks, sizeof(*yardstick->accused))};
	if (!yardstick->series || !yardstick->comm || !yardstick->accused)
		return yardstick_free(yardstick);
	for (size_t i = 0; i < ranks; i++)
		yardstick->comm[i] = FRAME_NONE;
	return yardstick;
}

static void add(struct series *series, struct systrace_op op)
{
	if (series->ops == series->capacity) {
		size_t capacity = series->capacity ? series->capacity * 2 : 256;
		struct systrace_op *grown = realloc(series->op, capacity * sizeof(*grown));

		if (!grown)
			return;
		series->op = grown;
		series->capacity = capacity;
	}
	series->op[series->ops++] = op;
}

void yardstick_step(struct yardstick *yardstick, const struct frame *frame)
{
	for (size_t i = 0; i < frame->ranks; i++) {
		if (!frame->rank[i].here || yardstick->steps == STEPS_MAX)
			continue;
		if (frame->step < yardstick->options->onset)
			yardstick->onset = yardstick->steps + 1;
		yardstick->ms[yardstick->steps++] = (double)frame->rank[i].step_ns * 1e-6;
		break;
	}
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];
		const struct frame_group *group = &frame->group[op->group];
		const struct frame_rank *rank = &frame->rank[op->rank];

		if (frame->comm[group->comm].kind != yardstick->kind)
			continue;
		yardstick->comm[op->rank] = group->comm;
		for (unsigned k = 0; k < METRICS; k++) {
			if (group->op == looked_at[k].op)
				add(&yardstick->series[op->rank * METRICS + k],
					(struct systrace_op){
						((double)rank->end_ns - (double)rank->step_ns + (double)op->start_ns) *
							1e-6,
						(double)op->duration_ns * 1e-6});
		}
	}
}

static void judge_comm(struct yardstick *yardstick, uint32_t comm, unsigned k)
{
	const struct systrace_op *op[YARDSTICK_RANKS_MAX];
	size_t ops[YARDSTICK_RANKS_MAX], rank[YARDSTICK_RANKS_MAX], n = 0;
	bool abnormal[YARDSTICK_RANKS_MAX];

	for (size_t i = 0; i < yardstick->ranks; i++) {
		if (yardstick->comm[i] != comm)
			continue;
		op[n] = yardstick->series[i * METRICS + k].op;
		ops[n] = yardstick->series[i * METRICS + k].ops;
		if (!ops[n])
			return;
		rank[n++] = i;
	}
	if (n < 2 || systrace_slow_ranks(&systrace_metrics[looked_at[k].metric], op, ops, n, abnormal) <= 0)
		return;
	for (size_t i = 0; i < n; i++)
		yardstick->accused[rank[i]] |= abnormal[i];
}

/* In its favour: any rank of a slow node, or of a stage with more work, counts as right. */
static bool is_right(const struct yardstick *yardstick, uint32_t rank)
{
	const struct sim_options *o = yardstick->options;

	switch (yardstick->spec->inject) {
	case SIM_CLEAN:
	case SIM_SEQUENCE:
		return false;
	case SIM_STAGE:
		return rank / (o->tp * o->dp) == o->culprit[0];
	case SIM_LINK_NODE:
		return sim_node(rank) == o->culprit[0];
	case SIM_LINK_PAIR:
		return sim_node(rank) == o->culprit[0] || sim_node(rank) == o->culprit[1];
	default:
		break;
	}
	for (uint32_t i = 0; i < o->culprits; i++) {
		if (o->culprit[i] == rank)
			return true;
	}
	return false;
}

void yardstick_judge(struct yardstick *yardstick, struct yardstick_outcome *ret)
{
	bool slow[STEPS_MAX];
	unsigned wanted = yardstick->options->culprits ? yardstick->options->culprits : 1;

	*ret = (struct yardstick_outcome){.judged = true};
	systrace_steps(&systrace_steps_config, yardstick->ms, yardstick->steps, slow);
	for (size_t i = yardstick->onset; i < yardstick->steps; i++)
		ret->slow |= slow[i];
	for (size_t i = 0; i < yardstick->ranks; i++) {
		bool first = yardstick->comm[i] != FRAME_NONE;

		for (size_t j = 0; first && j < i; j++)
			first = yardstick->comm[j] != yardstick->comm[i];
		for (unsigned k = 0; first && k < METRICS; k++)
			judge_comm(yardstick, yardstick->comm[i], k);
	}
	for (uint32_t i = 0; i < yardstick->ranks; i++) {
		if (yardstick->accused[i] && is_right(yardstick, i))
			ret->right++;
		else
			ret->wrong += yardstick->accused[i];
	}
	ret->top = !ret->wrong && ret->right >= wanted;
}
