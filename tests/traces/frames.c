/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/traces/frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS 1e9
#define STEP_GAP_NS 60000000000ULL /* the traces lack step times: steps are far apart */

struct frames {
	const struct trace *trace;
	struct frame frame;
	struct frame_who *who;
	struct frame_rank *rank;
	struct frame_comm *comm;
	struct frame_group *group;
	struct frame_op *op;
	uint32_t *group_of; /* of each group of the trace, its index in the frame */
};

/* Communicators: of each stage its data group; of each data-parallel rank its pipeline; the whole job. */
static uint32_t comm_of(const struct trace *trace, const struct trace_op *op)
{
	switch (trace_type_kind(op->type)) {
	case TRACE_KIND_DATA:
		return op->stage;
	case TRACE_KIND_ALL:
		return trace->stages + trace->dps;
	default:
		return trace->stages + op->dp;
	}
}

static void name_comms(struct frames *frames)
{
	const struct trace *trace = frames->trace;

	frames->frame.comms = trace->stages + trace->dps + 1;
	for (uint32_t i = 0; i < frames->frame.comms; i++) {
		struct frame_comm *comm = &frames->comm[i];

		snprintf(comm->communicator, sizeof(comm->communicator), "%u", i + 1);
		if (i < trace->stages) {
			comm->kind = COMM_KIND_DATA;
			comm->members = trace->dps;
		} else if (i < trace->stages + trace->dps) {
			comm->kind = COMM_KIND_PIPELINE;
			comm->members = trace->stages;
		} else {
			comm->members = trace->stages * trace->dps;
		}
	}
}

static void name_ranks(struct frames *frames)
{
	for (size_t i = 0; i < frames->trace->ops; i++) {
		const struct trace_op *op = &frames->trace->op[i];

		frames->who[trace_worker(frames->trace, op)] =
			(struct frame_who){.rank = (int32_t)op->rank, .node = FRAME_NONE, .stage = op->stage};
	}
}

struct frames *frames_new(const struct trace *trace)
{
	struct frames *frames = calloc(1, sizeof(*frames));
	size_t ranks = trace->dps * trace->stages;

	if (!frames)
		return NULL;
	frames->trace = trace;
	frames->who = calloc(ranks, sizeof(*frames->who));
	frames->rank = calloc(ranks, sizeof(*frames->rank));
	frames->comm = calloc(trace->stages + trace->dps + 1, sizeof(*frames->comm));
	frames->group = calloc(trace->ops, sizeof(*frames->group));
	frames->op = calloc(trace->ops, sizeof(*frames->op));
	frames->group_of = calloc(trace_groups(trace), sizeof(*frames->group_of));
	if (!frames->who || !frames->rank || !frames->comm || !frames->group || !frames->op || !frames->group_of)
		return frames_free(frames);
	name_comms(frames);
	name_ranks(frames);
	frames->frame.tier = FRAME_TIER_DEVICE;
	frames->frame.world_size = frames->frame.cards = (uint32_t)ranks;
	frames->frame.ranks = ranks;
	frames->frame.who = frames->who;
	frames->frame.rank = frames->rank;
	frames->frame.comm = frames->comm;
	frames->frame.group = frames->group;
	frames->frame.op = frames->op;
	return frames;
}

struct frames *frames_free(struct frames *frames)
{
	if (!frames)
		return NULL;
	free(frames->who);
	free(frames->rank);
	free(frames->comm);
	free(frames->group);
	free(frames->op);
	free(frames->group_of);
	free(frames);
	return NULL;
}

static uint32_t group_of(struct frames *frames, const struct trace_op *op)
{
	uint32_t *group = &frames->group_of[trace_group(frames->trace, op)];
	uint16_t name = op->type;

	if (*group != FRAME_NONE)
		return *group;
	if (op->type == TRACE_FORWARD_RECV)
		name = TRACE_FORWARD_SEND;
	if (op->type == TRACE_BACKWARD_RECV)
		name = TRACE_BACKWARD_SEND;
	*group = (uint32_t)frames->frame.groups++;
	frames->group[*group] = (struct frame_group){.comm = comm_of(frames->trace, op),
		.members = trace_members(frames->trace, op),
		.op = name,
		.p2p = trace_type_kind(op->type) == TRACE_KIND_P2P};
	return *group;
}

/* One rank's operations of the step, by start. */
static void add_rank(struct frames *frames, const struct trace_op *op, size_t ops, size_t step)
{
	uint32_t index = trace_worker(frames->trace, op);
	struct frame_rank *rank = &frames->rank[index];
	double begin_s = op[0].start_s, end_s = begin_s;

	for (size_t i = 0; i < ops; i++) {
		if (op[i].start_s + op[i].duration_s > end_s)
			end_s = op[i].start_s + op[i].duration_s;
		if (trace_members(frames->trace, &op[i]) < 2)
			continue;
		frames->op[frames->frame.ops++] = (struct frame_op){group_of(frames, &op[i]), index,
			(int64_t)(NS * (op[i].start_s - begin_s)), (uint64_t)(NS * op[i].duration_s)};
	}
	*rank = (struct frame_rank){.here = true, .step_ns = (uint64_t)(NS * (end_s - begin_s))};
	rank->activity_ns[ACTIVITY_OUTSIDE] = rank->step_ns; /* the traces lack stages */
	rank->end_ns = (step + 1) * STEP_GAP_NS;
	rank->host = frame_host_unknown();
}

const struct frame *frames_step(struct frames *frames, size_t step)
{
	const struct trace *trace = frames->trace;
	size_t end = trace->first[step + 1];

	frames->frame.step = step;
	frames->frame.groups = frames->frame.ops = 0;
	memset(frames->group_of, 0xff, trace_groups(trace) * sizeof(*frames->group_of));
	for (size_t i = 0; i < frames->frame.ranks; i++)
		frames->rank[i] = (struct frame_rank){0};
	for (size_t i = trace->first[step], next; i < end; i = next) {
		for (next = i; next < end; next++)
			if (trace_worker(trace, &trace->op[next]) != trace_worker(trace, &trace->op[i]))
				break;
		add_rank(frames, &trace->op[i], next - i, step);
	}
	return &frames->frame;
}
