/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/traces/whatif.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/judge/replay.h"

#define NS 1e9
#define EDGES_PER_OP 6
#define SKEW_S 0.01 /* a transfer that ends this long before its begin has unsynchronized clocks */

/* Operations with lengths of the trace; the others' are ideal. */
struct choice {
	bool (*as_is)(const struct trace_op *op, const struct choice *choice);
	uint32_t dp, stage;
};

static bool all(const struct trace_op *op, const struct choice *choice)
{
	return op && choice;
}

static bool none(const struct trace_op *op, const struct choice *choice)
{
	return !op || !choice;
}

static bool of_dp(const struct trace_op *op, const struct choice *choice)
{
	return op->dp == choice->dp;
}

static bool of_stage(const struct trace_op *op, const struct choice *choice)
{
	return op->stage == choice->stage;
}

static bool not_of_stage(const struct trace_op *op, const struct choice *choice)
{
	return op->stage != choice->stage;
}

static bool not_of_worker(const struct trace_op *op, const struct choice *choice)
{
	return op->stage != choice->stage || op->dp != choice->dp;
}

struct study {
	const struct trace *trace;
	double *length_s; /* by operation */
	double ideal_s[TRACE_TYPE_MAX];
	double *latest_s; /* of each group of a step: its latest start */
	uint32_t *group;  /* of each group of a step: its index in the replay */
	struct replay *replay;
	size_t begin; /* the step's first operation */
};

static bool synchronises(enum trace_type type)
{
	return trace_type_kind(type) != TRACE_KIND_COMPUTE && trace_type_kind(type) != TRACE_KIND_TENSOR;
}

static void lengths_of_step(struct study *study, size_t step)
{
	const struct trace *trace = study->trace;

	for (uint32_t g = 0; g < trace_groups(trace); g++)
		study->latest_s[g] = -INFINITY;
	for (size_t i = trace->first[step]; i < trace->first[step + 1]; i++) {
		double *latest_s = &study->latest_s[trace_group(trace, &trace->op[i])];

		*latest_s = fmax(*latest_s, trace->op[i].start_s);
	}
	for (size_t i = trace->first[step]; i < trace->first[step + 1]; i++) {
		const struct trace_op *op = &trace->op[i];

		study->length_s[i] = op->duration_s;
		if (!synchronises(op->type))
			continue;
		study->length_s[i] = op->start_s + op->duration_s - study->latest_s[trace_group(trace, op)];
		if (study->length_s[i] <= -SKEW_S)
			study->length_s[i] = 0;
	}
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int find_ideals(struct study *study)
{
	const struct trace *trace = study->trace;
	double *of_type = calloc(trace->ops, sizeof(*of_type));

	if (!of_type)
		return -ENOMEM;
	for (enum trace_type type = 0; type < TRACE_TYPE_MAX; type++) {
		double sum = 0;
		size_t n = 0;

		for (size_t i = 0; i < trace->ops; i++)
			if (trace->op[i].type == type)
				sum += of_type[n++] = study->length_s[i];
		if (n == 0)
			continue;
		qsort(of_type, n, sizeof(*of_type), compare);
		study->ideal_s[type] = trace_type_kind(type) == TRACE_KIND_COMPUTE
					       ? sum / (double)n
					       : (of_type[(n - 1) / 2] + of_type[n / 2]) / 2;
	}
	free(of_type);
	return 0;
}

/* One worker's operations of a step, by start. */
struct worker {
	const struct trace_op *op;
	size_t ops;
	uint32_t base; /* of the first one in the replay */
	struct replay *replay;
};

static bool is_compute(enum trace_type type)
{
	return type == TRACE_FORWARD_COMPUTE || type == TRACE_BACKWARD_COMPUTE;
}

static void after(const struct worker *worker, size_t op, size_t before)
{
	if (op < worker->ops && before < worker->ops && op != before)
		replay_after(
			worker->replay, worker->base + (uint32_t)op, worker->base + (uint32_t)before, REPLAY_END, 0);
}

/* The n-th of its type, from 0; worker->ops if there is none. */
static size_t nth(const struct worker *worker, enum trace_type type, size_t n)
{
	for (size_t i = 0; i < worker->ops; i++)
		if (worker->op[i].type == type && n-- == 0)
			return i;
	return worker->ops;
}

static void stream(const struct worker *worker, enum trace_type one, enum trace_type other)
{
	size_t last = worker->ops;

	for (size_t i = 0; i < worker->ops; i++)
		if (worker->op[i].type == one || worker->op[i].type == other) {
			after(worker, i, last);
			last = i;
		}
}

static void messages(
	const struct worker *worker, enum trace_type compute, enum trace_type send, enum trace_type receive)
{
	for (size_t n = 0; n < worker->ops; n++) {
		size_t computed = nth(worker, compute, n);

		if (computed == worker->ops)
			return;
		after(worker, nth(worker, send, n), computed);
		after(worker, computed, nth(worker, receive, n));
		after(worker, nth(worker, receive, n + 1), computed);
	}
}

static void first_backward(const struct worker *worker)
{
	size_t computed[2] = {worker->ops, worker->ops};

	for (size_t i = 0; i < worker->ops; i++) {
		if (worker->op[i].type == TRACE_BACKWARD_COMPUTE)
			break;
		if (is_compute(worker->op[i].type)) {
			computed[0] = computed[1];
			computed[1] = i;
		}
	}
	after(worker, nth(worker, TRACE_BACKWARD_SEND, 0), computed[0]);
	after(worker, nth(worker, TRACE_BACKWARD_RECV, 0), computed[0]);
}

static void end_of_step(const struct worker *worker)
{
	static const enum trace_type row[] = {
		TRACE_GC, TRACE_LAYERNORM, TRACE_EMBEDDING, TRACE_GRADIENTS, TRACE_CLIP, TRACE_OPTIMIZER};
	size_t last = worker->ops;

	for (size_t i = 0; i < worker->ops; i++)
		if (is_compute(worker->op[i].type))
			last = i;
	for (size_t t = 0; t < sizeof(row) / sizeof(row[0]); t++)
		for (size_t i = 0; i < worker->ops; i++)
			if (worker->op[i].type == row[t]) {
				after(worker, i, last);
				last = i;
			}
}

static void build_worker(const struct worker *worker)
{
	static const enum trace_type streams[][2] = {{TRACE_FORWARD_COMPUTE, TRACE_BACKWARD_COMPUTE},
		{TRACE_FORWARD_SEND, TRACE_FORWARD_SEND}, {TRACE_FORWARD_RECV, TRACE_FORWARD_RECV},
		{TRACE_BACKWARD_SEND, TRACE_BACKWARD_SEND}, {TRACE_BACKWARD_RECV, TRACE_BACKWARD_RECV},
		{TRACE_PARAMETERS, TRACE_GRADIENTS}};

	for (size_t s = 0; s < sizeof(streams) / sizeof(streams[0]); s++)
		stream(worker, streams[s][0], streams[s][1]);
	messages(worker, TRACE_FORWARD_COMPUTE, TRACE_FORWARD_SEND, TRACE_FORWARD_RECV);
	messages(worker, TRACE_BACKWARD_COMPUTE, TRACE_BACKWARD_SEND, TRACE_BACKWARD_RECV);
	first_backward(worker);
	after(worker, nth(worker, TRACE_FORWARD_COMPUTE, 0), nth(worker, TRACE_PARAMETERS, 0));
	end_of_step(worker);
}

static int build_step(struct study *study, size_t step)
{
	const struct trace *trace = study->trace;
	size_t begin = trace->first[step], ops = trace->first[step + 1] - begin;
	int r = replay_begin(study->replay, ops, ops * EDGES_PER_OP, ops);

	if (r)
		return r;
	study->begin = begin;
	memset(study->group, 0xff, trace_groups(trace) * sizeof(*study->group));
	for (size_t i = begin; i < begin + ops; i++) {
		uint32_t *group = &study->group[trace_group(trace, &trace->op[i])];

		if (synchronises(trace->op[i].type) && *group == REPLAY_NONE)
			*group = replay_group(study->replay, false);
		replay_op(study->replay, *group, 0, 0);
	}
	for (size_t i = begin, next; i < begin + ops; i = next) {
		for (next = i; next < begin + ops; next++)
			if (trace_worker(trace, &trace->op[next]) != trace_worker(trace, &trace->op[i]))
				break;
		build_worker(&(struct worker){&trace->op[i], next - i, (uint32_t)(i - begin), study->replay});
	}
	return 0;
}

/* Seconds; negative errno. */
static double run(struct study *study, size_t ops, const struct choice *choice)
{
	const struct trace_op *op = &study->trace->op[study->begin];
	double end_ns = 0;
	int r;

	for (uint32_t i = 0; i < ops; i++)
		replay_set_length(study->replay, i,
			NS * (choice->as_is(&op[i], choice) ? study->length_s[study->begin + i]
							    : study->ideal_s[op[i].type]));
	r = replay_run(study->replay);
	if (r)
		return r;
	for (uint32_t i = 0; i < ops; i++)
		end_ns = fmax(end_ns, replay_end_ns(study->replay, i));
	return end_ns / NS;
}

/* The mean step; negative errno. */
static double mean(struct study *study, const struct choice choice)
{
	double sum = 0;

	for (size_t step = 0; step < study->trace->steps; step++) {
		double length_s = build_step(study, step);

		if (length_s == 0)
			length_s = run(study, study->trace->first[step + 1] - study->trace->first[step], &choice);
		if (length_s < 0)
			return length_s;
		sum += length_s;
	}
	return sum / (double)study->trace->steps;
}

static int judge(struct study *study, struct whatif_case *ret)
{
	const struct trace *trace = study->trace;
	double best = 0, fixed_s, stage_s;

	ret->as_is_s = mean(study, (struct choice){all, 0, 0});
	ret->ideal_s = mean(study, (struct choice){none, 0, 0});
	if (ret->as_is_s < 0 || ret->ideal_s <= 0)
		return -ELOOP;
	ret->s = ret->as_is_s / ret->ideal_s;
	for (uint32_t dp = 0; dp < trace->dps; dp++)
		ret->s_dp[dp] = mean(study, (struct choice){of_dp, dp, 0}) / ret->ideal_s;
	for (uint32_t stage = 0; stage < trace->stages; stage++)
		ret->s_stage[stage] = mean(study, (struct choice){of_stage, 0, stage}) / ret->ideal_s;
	for (uint32_t dp = 0; dp < trace->dps; dp++)
		for (uint32_t stage = 0; stage < trace->stages; stage++)
			if (fmin(ret->s_dp[dp], ret->s_stage[stage]) > best) {
				best = fmin(ret->s_dp[dp], ret->s_stage[stage]);
				ret->slowest_dp = dp;
				ret->slowest_stage = stage;
			}
	fixed_s = mean(study, (struct choice){not_of_worker, ret->slowest_dp, ret->slowest_stage});
	stage_s = mean(study, (struct choice){not_of_stage, 0, trace->stages - 1});
	ret->m_w = (ret->as_is_s - fixed_s) / (ret->as_is_s - ret->ideal_s);
	ret->m_s = (ret->as_is_s - stage_s) / (ret->as_is_s - ret->ideal_s);
	return 0;
}

int whatif(const struct trace *trace, struct whatif_case *ret)
{
	struct study study = {.trace = trace,
		.replay = replay_new(),
		.length_s = calloc(trace->ops, sizeof(double)),
		.latest_s = calloc(trace_groups(trace), sizeof(double)),
		.group = calloc(trace_groups(trace), sizeof(uint32_t))};
	int r = trace->dps > WHATIF_PLACES_MAX || trace->stages > WHATIF_PLACES_MAX ? -E2BIG : 0;

	if (!study.replay || !study.length_s || !study.latest_s || !study.group)
		r = -ENOMEM;
	for (size_t step = 0; !r && step < trace->steps; step++)
		lengths_of_step(&study, step);
	if (!r)
		r = find_ideals(&study);
	if (!r)
		r = judge(&study, ret);
	replay_free(study.replay);
	free(study.length_s);
	free(study.latest_s);
	free(study.group);
	return r;
}
