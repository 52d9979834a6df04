/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces of real jobs published by StragglerAnalysis (data/README.md): every operation of one rank per tensor group,
 * some of the job's steps. Times are seconds of a clock per step.
 */
#ifndef RANKTRACE_TRACES_TRACE_H
#define RANKTRACE_TRACES_TRACE_H

#include <stddef.h>
#include <stdint.h>

/* TRACE_TYPE(id, name, kind). Sorted by name. */
#define TRACE_TYPES \
	TRACE_TYPE(BACKWARD_COMPUTE, "backward-compute", COMPUTE) \
	TRACE_TYPE(BACKWARD_RECV, "backward-recv", P2P) \
	TRACE_TYPE(BACKWARD_SEND, "backward-send", P2P) \
	TRACE_TYPE(EMBEDDING, "embedding-grads-all-reduce", EDGES) \
	TRACE_TYPE(FORWARD_COMPUTE, "forward-compute", COMPUTE) \
	TRACE_TYPE(FORWARD_RECV, "forward-recv", P2P) \
	TRACE_TYPE(FORWARD_SEND, "forward-send", P2P) \
	TRACE_TYPE(GC, "gc", COMPUTE) \
	TRACE_TYPE(GRADIENTS, "grads-reduce-scatter", DATA) \
	TRACE_TYPE(LAYERNORM, "layernorm-grads-all-reduce", TENSOR) \
	TRACE_TYPE(OPTIMIZER, "optimizer", COMPUTE) \
	TRACE_TYPE(CLIP, "optimizer-clip-main-grad", ALL) \
	TRACE_TYPE(PARAMETERS, "params-all-gather", DATA)

enum trace_type {
#define TRACE_TYPE(id, name, kind) TRACE_##id,
	TRACE_TYPES
#undef TRACE_TYPE
		TRACE_TYPE_MAX
};

/* Participants. */
enum trace_kind {
	TRACE_KIND_COMPUTE, /* only the rank */
	TRACE_KIND_TENSOR,  /* ranks missing in the trace */
	TRACE_KIND_P2P,	    /* the next or the previous pipeline stage */
	TRACE_KIND_EDGES,   /* the first and the last stage of the same data-parallel rank */
	TRACE_KIND_DATA,    /* the same stage of all data-parallel ranks */
	TRACE_KIND_ALL
};

struct trace_op {
	uint32_t dp, stage, rank, step, seq;
	enum trace_type type;
	double start_s, duration_s;
};

struct trace {
	size_t ops;
	struct trace_op *op; /* by step, worker, start, seq, type */
	uint32_t dps, stages;
	size_t steps;
	size_t *first; /* steps + 1: of each step's operations */
};

const char *trace_type_name(enum trace_type type);
enum trace_kind trace_type_kind(enum trace_type type);
/* NULL and a message on stderr: unreadable. */
struct trace *trace_read(const char *path);
struct trace *trace_free(struct trace *trace);
/* 0 to dps * stages - 1: stage by stage. */
uint32_t trace_worker(const struct trace *trace, const struct trace_op *op);
/* Number of the operation's group, unique in the step and below trace_groups(); its members. */
uint32_t trace_group(const struct trace *trace, const struct trace_op *op);
uint32_t trace_groups(const struct trace *trace);
uint32_t trace_members(const struct trace *trace, const struct trace_op *op);

#endif
