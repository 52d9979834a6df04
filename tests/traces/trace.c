/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/traces/trace.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEQ_MAX 256
#define PLACES_MAX 1024 /* data-parallel ranks, stages */

static const struct {
	const char *name;
	enum trace_kind kind;
} types[TRACE_TYPE_MAX] = {
#define TRACE_TYPE(id, name, kind) {name, TRACE_KIND_##kind},
	TRACE_TYPES
#undef TRACE_TYPE
};

const char *trace_type_name(enum trace_type type)
{
	return types[type].name;
}

enum trace_kind trace_type_kind(enum trace_type type)
{
	return types[type].kind;
}

static bool parse(const char *line, struct trace_op *op)
{
	char name[64];

	if (sscanf(line, "%u,%u,%u,%u,%63[^,],%lf,%lf,%u", &op->dp, &op->stage, &op->rank, &op->step, name,
		    &op->start_s, &op->duration_s, &op->seq) != 8)
		return false;
	if (op->dp >= PLACES_MAX || op->stage >= PLACES_MAX || op->seq >= SEQ_MAX)
		return false;
	for (op->type = 0; op->type < TRACE_TYPE_MAX; op->type++)
		if (strcmp(name, types[op->type].name) == 0)
			return true;
	return false;
}

static bool read_lines(FILE *file, struct trace *trace)
{
	char line[256];
	size_t capacity = 0, lines = 0;

	while (fgets(line, sizeof(line), file)) {
		if (lines++ == 0)
			continue;
		if (trace->ops == capacity) {
			struct trace_op *more = reallocarray(trace->op, capacity = capacity * 2 + 1024, sizeof(*more));

			if (!more)
				return false;
			trace->op = more;
		}
		if (!parse(line, &trace->op[trace->ops])) {
			fprintf(stderr, "line %zu: not understood: %s", lines, line);
			return false;
		}
		trace->ops++;
	}
	return trace->ops > 0;
}

static int compare(const void *a, const void *b)
{
	const struct trace_op *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->stage != y->stage)
		return x->stage < y->stage ? -1 : 1;
	if (x->dp != y->dp)
		return x->dp < y->dp ? -1 : 1;
	if (x->start_s != y->start_s)
		return x->start_s < y->start_s ? -1 : 1;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return x->type < y->type ? -1 : x->type > y->type;
}

static bool arrange(struct trace *trace)
{
	qsort(trace->op, trace->ops, sizeof(*trace->op), compare);
	trace->first = calloc(trace->ops + 1, sizeof(*trace->first));
	if (!trace->first)
		return false;
	for (size_t i = 0; i < trace->ops; i++) {
		const struct trace_op *op = &trace->op[i];

		if (i == 0 || op->step != op[-1].step)
			trace->first[trace->steps++] = i;
		if (op->dp >= trace->dps)
			trace->dps = op->dp + 1;
		if (op->stage >= trace->stages)
			trace->stages = op->stage + 1;
	}
	trace->first[trace->steps] = trace->ops;
	return true;
}

struct trace *trace_free(struct trace *trace)
{
	if (!trace)
		return NULL;
	free(trace->op);
	free(trace->first);
	free(trace);
	return NULL;
}

struct trace *trace_read(const char *path)
{
	struct trace *trace = calloc(1, sizeof(*trace));
	char command[4096 + 16];
	FILE *file;
	bool good;

	if (!trace || snprintf(command, sizeof(command), "gzip -dc '%s'", path) >= (int)sizeof(command))
		return trace_free(trace);
	file = popen(command, "re");
	if (!file)
		return trace_free(trace);
	good = read_lines(file, trace);
	good = pclose(file) == 0 && good && arrange(trace);
	return good ? trace : trace_free(trace);
}

uint32_t trace_worker(const struct trace *trace, const struct trace_op *op)
{
	return op->stage * trace->dps + op->dp;
}

/* Type and stage of a point-to-point operation's sender. */
uint32_t trace_group(const struct trace *trace, const struct trace_op *op)
{
	uint32_t type = op->type, stage = op->stage, dp = op->dp;

	switch (types[op->type].kind) {
	case TRACE_KIND_P2P:
		if (type == TRACE_FORWARD_RECV) {
			type = TRACE_FORWARD_SEND;
			stage = (stage + trace->stages - 1) % trace->stages;
		} else if (type == TRACE_BACKWARD_RECV) {
			type = TRACE_BACKWARD_SEND;
			stage = (stage + 1) % trace->stages;
		}
		break;
	case TRACE_KIND_EDGES:
		stage = 0;
		break;
	case TRACE_KIND_DATA:
		dp = 0;
		break;
	case TRACE_KIND_ALL:
		stage = dp = 0;
		break;
	default:
		break;
	}
	return ((type * SEQ_MAX + op->seq) * trace->stages + stage) * trace->dps + dp;
}

uint32_t trace_groups(const struct trace *trace)
{
	return TRACE_TYPE_MAX * SEQ_MAX * trace->stages * trace->dps;
}

uint32_t trace_members(const struct trace *trace, const struct trace_op *op)
{
	const uint32_t members[] = {[TRACE_KIND_COMPUTE] = 1,
		[TRACE_KIND_TENSOR] = 1,
		[TRACE_KIND_P2P] = 2,
		[TRACE_KIND_EDGES] = 2,
		[TRACE_KIND_DATA] = trace->dps,
		[TRACE_KIND_ALL] = trace->dps * trace->stages};

	return members[types[op->type].kind];
}
