/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waited, who came last: see measure.h. Two passes over the records, none over pairs of them; each record is
 * touched with its group and its rank alone.
 */
#include <errno.h>
#include <string.h>

#include "analyzers/detect/measure_internal.h"
#include "analyzers/detect/overlap.h"

static int64_t clamp_time(int64_t time_ns)
{
	if (time_ns > MEASURE_TIME_MAX)
		return MEASURE_TIME_MAX;
	return time_ns < -MEASURE_TIME_MAX ? -MEASURE_TIME_MAX : time_ns;
}

static int64_t clamp_length(uint64_t length_ns)
{
	return length_ns > (uint64_t)MEASURE_TIME_MAX ? MEASURE_TIME_MAX : (int64_t)length_ns;
}

static int find_shortest(struct measure *measure, const struct frame *frame)
{
	for (size_t i = 0; i < frame->groups; i++) {
		if (frame->group[i].comm >= frame->comms)
			return -EINVAL;
		measure->shortest[i] = (struct measure_shortest){UINT64_MAX, UINT64_MAX, FRAME_NONE, FRAME_NONE, 0};
	}
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];
		struct measure_shortest *group;

		if (op->group >= frame->groups || op->rank >= frame->ranks)
			return -EINVAL;
		if (!measure->here[op->rank])
			continue;
		group = &measure->shortest[op->group];
		group->records++;
		if (op->duration_ns < group->first_ns) {
			group->second_ns = group->first_ns;
			group->second = group->first;
			group->first_ns = op->duration_ns;
			group->first = op->rank;
		} else if (op->duration_ns < group->second_ns) {
			group->second_ns = op->duration_ns;
			group->second = op->rank;
		}
	}
	return 0;
}

/* Enough of its members have a record for the shortest to be that of the last one to come. */
static bool tells(const struct frame_group *group, const struct measure_shortest *shortest)
{
	uint64_t members = group->p2p ? 2 : group->members;

	return shortest->records >= 2 && 2 * (uint64_t)shortest->records >= members &&
	       shortest->second != shortest->first;
}

static void tell_groups(struct measure *measure, const struct frame *frame)
{
	measure->told.left_out = 0;
	for (size_t i = 0; i < frame->groups; i++) {
		const struct measure_shortest *shortest = &measure->shortest[i];
		bool told = tells(&frame->group[i], shortest);

		measure->group[i] = told ? (struct measure_group){shortest->first_ns, shortest->first, shortest->second}
					 : (struct measure_group){FRAME_UNKNOWN, FRAME_NONE, FRAME_NONE};
		measure->told.left_out += !told;
	}
}

/* A sign of life at `now`: it was blocked by what ended before it, and not by what has not. */
static void land(struct measure_walk *walk, int64_t now)
{
	int64_t blocked_until = walk->start;
	uint32_t left = 0;

	for (uint32_t i = 0; i < walk->flights; i++) {
		if (walk->flight[i].end > now)
			walk->flight[left++] = walk->flight[i];
		else if (walk->flight[i].wait_end > blocked_until)
			blocked_until = walk->flight[i].wait_end;
	}
	walk->flights = left;
	walk->wait_ns += (uint64_t)(blocked_until - walk->start);
}

static void take_off(struct measure_walk *walk, int64_t wait_end, int64_t end)
{
	uint32_t at = walk->flights;

	if (at == MEASURE_PENDING) {
		at = 0;
		for (uint32_t i = 1; i < MEASURE_PENDING; i++) {
			if (walk->flight[i].wait_end < walk->flight[at].wait_end)
				at = i;
		}
		if (walk->flight[at].wait_end >= wait_end)
			return;
	} else {
		walk->flights++;
	}
	walk->flight[at] = (struct measure_flight){wait_end, end};
}

/* For so long others waited for it; as long as it waited itself before, it only passes on. */
static void blame(struct measure_walk *walk, uint64_t kept_ns)
{
	uint64_t pass = walk->wait_ns - walk->passed_ns;

	if (pass > kept_ns)
		pass = kept_ns;
	walk->passed_ns += pass;
	walk->last_ns += kept_ns - pass;
}

static void walk_op(struct measure *measure, const struct frame_op *op)
{
	struct measure_walk *walk = &measure->walk[op->rank];
	const struct measure_group *group = &measure->group[op->group];
	int64_t start = clamp_time(op->start_ns);

	if (walk->begun && start < walk->start)
		start = walk->start;
	if (walk->flights)
		land(walk, start);
	walk->start = start;
	walk->begun = true;
	if (group->transfer_ns == FRAME_UNKNOWN)
		return;
	if (group->last == op->rank) {
		const struct measure_shortest *shortest = &measure->shortest[op->group];

		blame(walk, (uint64_t)clamp_length(shortest->second_ns - shortest->first_ns));
	}
	if (op->duration_ns > group->transfer_ns)
		take_off(walk, start + clamp_length(op->duration_ns - group->transfer_ns),
			start + clamp_length(op->duration_ns) - overlap_slack_ns(op->duration_ns));
}

int measure_waits(struct measure *measure, const struct frame *frame)
{
	int r = find_shortest(measure, frame);

	if (r < 0)
		return r;
	tell_groups(measure, frame);
	memset(measure->walk, 0, frame->ranks * sizeof(*measure->walk));
	for (size_t i = 0; i < frame->ops; i++) {
		if (measure->here[frame->op[i].rank])
			walk_op(measure, &frame->op[i]);
	}
	for (size_t i = 0; i < frame->ranks; i++) {
		struct measure_walk *walk = &measure->walk[i];
		struct measure_rank *rank = &measure->rank[i];
		uint64_t step_ns = frame->rank[i].step_ns;

		if (!measure->here[i])
			continue;
		land(walk, INT64_MAX);
		rank->wait_ns = walk->wait_ns < step_ns ? walk->wait_ns : step_ns;
		rank->self_ns = step_ns - rank->wait_ns;
		rank->last_ns = walk->last_ns;
	}
	return 0;
}
