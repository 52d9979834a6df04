/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tracectl fleet` compares between nodes: means a step of the last minute, and their usual, the lower quartile of
 * the minutes of an hour. Each node computes its own, so that the fleet's store has a sample to return and nothing to
 * compute. Sums are kept each 5 s; a window begins with what is known.
 */
#include <math.h>

#include "analyzers/base/robust.h"
#include "daemon/metrics/metrics_internal.h"

#define MINUTE_TICK_NS (5 * NSEC_PER_SEC)
#define MINUTE_LEAST 2 /* ticks: less than 10 s are no window */

static void metrics_minute_value(struct metrics_minute_value *value, double now, bool keep)
{
	double past[METRICS_MINUTE_PAST];
	size_t n = 0;

	value->now = now;
	if (!keep || isnan(now))
		return;
	value->past[value->next++ % METRICS_MINUTE_PAST] = (float)now;
	while (n < value->next && n < METRICS_MINUTE_PAST) {
		past[n] = (double)value->past[n];
		n++;
	}
	value->usual = robust_kth(past, n, (n - 1) / 4);
}

static struct metrics_minute_sums metrics_minute_sums_of(const struct metrics_rank *rank, bool l1)
{
	struct metrics_minute_sums sums = {.l1 = l1, .steps = rank->steps.count, .step_ns = rank->steps.sum_ns};

	for (enum activity activity = 0; activity < ACTIVITY_COMPUTE; activity++)
		sums.activity_ns[activity] = rank->activity_ns[activity];
	for (size_t i = 0; i < rank->ops; i++)
		sums.operations_ns += rank->op[i].duration_ns;
	return sums;
}

/* L1 was on at all ticks since then: else operations are those of a part of the window. */
static bool metrics_minute_l1(const struct metrics_minute *minute, size_t ticks)
{
	for (size_t i = 1; i <= ticks; i++)
		if (!minute->tick[(minute->ticks - i) % METRICS_MINUTE_TICKS].l1)
			return false;
	return true;
}

void metrics_minute_tick(struct metrics_minute *minute, const struct metrics_minute_sums *now)
{
	size_t ticks = minute->ticks < METRICS_MINUTE_TICKS ? minute->ticks : METRICS_MINUTE_TICKS;
	const struct metrics_minute_sums *then = &minute->tick[(minute->ticks - ticks) % METRICS_MINUTE_TICKS];
	bool keep = minute->ticks % METRICS_MINUTE_TICKS == 0 && ticks == METRICS_MINUTE_TICKS;
	double steps = (double)(now->steps - then->steps), all = 0, step = NAN, operations = NAN;

	if (ticks >= MINUTE_LEAST && now->steps > then->steps) {
		step = (double)(now->step_ns - then->step_ns) / steps / 1e9;
		if (now->l1 && metrics_minute_l1(minute, ticks))
			operations = (double)(now->operations_ns - then->operations_ns) / steps / 1e9;
	}
	for (enum activity activity = 0; activity < ACTIVITY_COMPUTE; activity++)
		all += (double)(now->activity_ns[activity] - then->activity_ns[activity]);
	metrics_minute_value(&minute->step, step, keep);
	metrics_minute_value(&minute->operations, operations, keep);
	/* Not all steps are compared between ranks, so the parts are scaled to the step. */
	for (enum activity activity = 0; activity < ACTIVITY_COMPUTE; activity++)
		metrics_minute_value(&minute->activity[activity],
			all > 0 ? step * (double)(now->activity_ns[activity] - then->activity_ns[activity]) / all : NAN,
			keep);
	minute->tick[minute->ticks++ % METRICS_MINUTE_TICKS] = *now;
}

void metrics_minute_init(struct metrics_minute *minute)
{
	*minute = (struct metrics_minute){.step = METRICS_MINUTE_UNKNOWN, .operations = METRICS_MINUTE_UNKNOWN};
	for (enum activity activity = 0; activity < ACTIVITY_COMPUTE; activity++)
		minute->activity[activity] = METRICS_MINUTE_UNKNOWN;
}

/* Operations of one kind of a job's ranks on this node; made where there is none. NULL: beyond the bound. */
static struct metrics_node_op *metrics_node_op_of(struct metrics *metrics, const char *job, const struct metrics_op *op)
{
	struct metrics_node_op *node;

	for (size_t i = 0; i < metrics->node_ops; i++) {
		node = &metrics->node_op[i];
		if (streq(node->job, job) && streq(node->group, op->group) && streq(node->operation, op->operation))
			return node;
	}
	if (metrics->node_ops == LIMIT_METRIC_NODE_OPS)
		return NULL;
	node = &metrics->node_op[metrics->node_ops++];
	*node = (struct metrics_node_op){.value = METRICS_MINUTE_UNKNOWN};
	(void)copy_text(node->job, sizeof(node->job), job);
	(void)copy_text(node->group, sizeof(node->group), op->group);
	(void)copy_text(node->operation, sizeof(node->operation), op->operation);
	return node;
}

static void metrics_node_op_end(struct metrics_node_op *node, bool l1)
{
	size_t ticks = node->ticks < METRICS_MINUTE_TICKS ? node->ticks : METRICS_MINUTE_TICKS;
	const struct metrics_node_tick *then = &node->tick[(node->ticks - ticks) % METRICS_MINUTE_TICKS];
	bool keep = node->ticks % METRICS_MINUTE_TICKS == 0 && ticks == METRICS_MINUTE_TICKS;

	/* A rank that ended, or a pause of L1: the window begins anew. */
	if (ticks && (!l1 || node->sum.steps < then->steps || node->sum.duration_ns < then->duration_ns)) {
		node->ticks = 0;
		ticks = 0;
	}
	metrics_minute_value(&node->value,
		ticks >= MINUTE_LEAST && node->sum.steps > then->steps
			? (double)(node->sum.duration_ns - then->duration_ns) /
				  (double)(node->sum.steps - then->steps) / 1e9
			: NAN,
		keep);
	node->tick[node->ticks++ % METRICS_MINUTE_TICKS] = node->sum;
}

static void metrics_node_ops_add(struct metrics *metrics, const struct rank *rank, const struct metrics_rank *state)
{
	for (size_t i = 0; i < state->ops; i++) {
		struct metrics_node_op *node = metrics_node_op_of(metrics, rank->env.job, &state->op[i]);

		if (node)
			node->sum.duration_ns += state->op[i].duration_ns;
	}
}

static void metrics_node_ops_end(struct metrics *metrics, bool l1)
{
	size_t kept = 0;

	for (size_t i = 0; i < metrics->node_ops; i++) {
		struct metrics_node_op *node = &metrics->node_op[i];

		for (uint32_t slot = 0; slot < metrics->slots; slot++) {
			const struct rank *rank =
				metrics->slot[slot] ? ranks_by_slot(metrics->context->ranks, slot) : NULL;

			if (rank && rank->instance == metrics->slot[slot]->instance && streq(rank->env.job, node->job))
				node->sum.steps += metrics->slot[slot]->steps.count;
		}
		if (!node->sum.duration_ns) /* its ranks have ended */
			continue;
		metrics_node_op_end(node, l1);
		if (kept < i)
			metrics->node_op[kept] = *node;
		kept++;
	}
	metrics->node_ops = kept;
}

void metrics_minutes_tick(struct metrics *metrics, uint64_t now_ns)
{
	bool l1 = metrics->context->levels.on[LEVEL_L1];

	if (now_ns < metrics->minute_ns + MINUTE_TICK_NS)
		return;
	metrics->minute_ns = now_ns;
	for (size_t i = 0; i < metrics->node_ops; i++)
		metrics->node_op[i].sum = (struct metrics_node_tick){0};
	for (uint32_t slot = 0; slot < metrics->slots; slot++) {
		const struct rank *rank = metrics->slot[slot] ? ranks_by_slot(metrics->context->ranks, slot) : NULL;
		struct metrics_minute_sums sums;

		if (!rank || rank->instance != metrics->slot[slot]->instance)
			continue;
		sums = metrics_minute_sums_of(metrics->slot[slot], l1);
		metrics_minute_tick(&metrics->slot[slot]->minute, &sums);
		metrics_node_ops_add(metrics, rank, metrics->slot[slot]);
	}
	metrics_node_ops_end(metrics, l1);
}

/* A family of one sample a rank, of a value. */
#define METRICS_OF_MINUTES(word, of, where) \
	void metrics_of_##word(const struct metrics_gather *gather, struct metrics_page *page) \
	{ \
		for (size_t i = 0; i < gather->ranks; i++) \
			if (!isnan(gather->rank[i].state->minute.of.where)) \
				metrics_page_real( \
					page, &gather->rank[i].labels, gather->rank[i].state->minute.of.where); \
	}

METRICS_OF_MINUTES(rank_minute_step_seconds, step, now)
METRICS_OF_MINUTES(rank_usual_step_seconds, step, usual)
METRICS_OF_MINUTES(rank_minute_operations_seconds, operations, now)
METRICS_OF_MINUTES(rank_usual_operations_seconds, operations, usual)

/* Activities that the rank never had are left out: 0 now and 0 usually. */
static void metrics_write_minutes(const struct metrics_gather *gather, struct metrics_page *page, bool usual)
{
	for (size_t i = 0; i < gather->ranks; i++) {
		const struct metrics_minute *minute = &gather->rank[i].state->minute;

		for (enum activity activity = 0; activity < ACTIVITY_COMPUTE; activity++) {
			double value = usual ? minute->activity[activity].usual : minute->activity[activity].now;
			struct metrics_labels labels = gather->rank[i].labels;

			if (isnan(value) || !gather->rank[i].state->activity_ns[activity])
				continue;
			metrics_labels_add(&labels, "activity", activity_word(activity));
			metrics_page_real(page, &labels, value);
		}
	}
}

void metrics_of_rank_minute_activity_seconds(const struct metrics_gather *gather, struct metrics_page *page)
{
	metrics_write_minutes(gather, page, false);
}

void metrics_of_rank_usual_activity_seconds(const struct metrics_gather *gather, struct metrics_page *page)
{
	metrics_write_minutes(gather, page, true);
}

static void metrics_write_node_ops(const struct metrics_gather *gather, struct metrics_page *page, bool usual)
{
	for (size_t i = 0; i < gather->metrics->node_ops; i++) {
		const struct metrics_node_op *node = &gather->metrics->node_op[i];
		double value = usual ? node->value.usual : node->value.now;
		struct metrics_labels labels = {.used = 0};

		if (isnan(value))
			continue;
		metrics_labels_add(&labels, "job", node->job);
		metrics_labels_add(&labels, "group", node->group);
		metrics_labels_add(&labels, "operation", node->operation);
		metrics_page_real(page, &labels, value);
	}
}

void metrics_of_node_minute_operation_seconds(const struct metrics_gather *gather, struct metrics_page *page)
{
	metrics_write_node_ops(gather, page, false);
}

void metrics_of_node_usual_operation_seconds(const struct metrics_gather *gather, struct metrics_page *page)
{
	metrics_write_node_ops(gather, page, true);
}
