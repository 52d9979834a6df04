/* SPDX-License-Identifier: Apache-2.0 */
/* Measures of a frame: see measure.h. Waits are in measure_waits.c, classes in measure_class.c. */
#include "analyzers/base/robust.h"
#include "analyzers/judge/measure_internal.h"

#include <errno.h>
#include <string.h>

struct measure *measure_new(void)
{
	struct measure *measure = calloc(1, sizeof(*measure));

	if (!measure)
		return NULL;
	measure->by_rank =
		COLUMNS_OF(COLUMN_OF(measure->rank), COLUMN_OF(measure->walk), COLUMN_OF(measure->class_ranks),
			COLUMN_OF(measure->class_start), COLUMN_OF(measure->by_class), COLUMN_OF(measure->scratch),
			COLUMN_OF(measure->spread), COLUMN_OF(measure->here), COLUMN_OF(measure->own_stop));
	measure->by_group = COLUMNS_OF(COLUMN_OF(measure->group), COLUMN_OF(measure->meeting));
	measure->by_comm = COLUMNS_OF(COLUMN_OF(measure->most));
	return measure;
}

struct measure *measure_free(struct measure *measure)
{
	if (!measure)
		return NULL;
	measure_class_free(&measure->classes);
	columns_free(&measure->by_rank);
	columns_free(&measure->by_group);
	columns_free(&measure->by_comm);
	free(measure->own_shortest);
	free(measure->wild);
	free(measure);
	return NULL;
}

static int measure_reserve(struct measure *measure, const struct frame *frame)
{
	size_t ranks = frame->ranks, groups = frame->groups, group_capacity = measure->by_group.capacity;

	/* Frames vary: a quarter more than needed. */
	if (ranks >= measure->by_rank.capacity && !columns_renew(&measure->by_rank, ranks + ranks / 4 + 1))
		return -ENOMEM;
	if (groups >= measure->by_group.capacity && !columns_renew(&measure->by_group, groups + groups / 4 + 1))
		return -ENOMEM;
	if (measure->by_group.capacity != group_capacity) {
		free(measure->own_shortest);
		free(measure->wild);
		measure->own_shortest = NULL;
		measure->wild = NULL;
	}
	return columns_renew(&measure->by_comm, frame->comms + 1) ? 0 : -ENOMEM;
}

static void reset_ranks(struct measure *measure, const struct frame *frame)
{
	size_t n = 0;

	measure->odd = false;
	for (size_t i = 0; i < frame->ranks; i++) {
		measure->rank[i] = (struct measure_rank){.wait_ns = FRAME_UNKNOWN, .class = FRAME_NONE, .ratio = 1};
		measure->here[i] = frame->rank[i].here && frame->rank[i].step_ns &&
				   frame->rank[i].step_ns < (uint64_t)MEASURE_TIME_MAX;
		measure->odd |= measure->here[i] != frame->rank[i].here;
		if (measure->here[i])
			measure->scratch[n++] = (double)frame->rank[i].step_ns;
	}
	measure->result.step_ns = (uint64_t)robust_median(measure->scratch, n);
}

int measure_frame(struct measure *measure, const struct frame *frame, const struct measures **ret)
{
	bool stages = frame->tier == FRAME_TIER_STAGES;
	int r;

	if (frame->ranks >= FRAME_NONE || frame->groups >= FRAME_NONE)
		return -EINVAL;
	r = measure_reserve(measure, frame);
	if (r < 0)
		return r;
	reset_ranks(measure, frame);
	r = measure_waits(measure, frame);
	if (r < 0)
		return r;
	r = measure_classify(measure, frame);
	if (r < 0)
		return r;
	measure_by_class(measure, frame);
	for (size_t i = 0; stages && i < frame->ranks; i++) {
		measure->rank[i].wait_ns = 0;
		measure->rank[i].self_ns = measure->here[i] ? frame->rank[i].step_ns : 0;
	}
	measure_compare(measure, measure->rank);
	measure->result.ranks = frame->ranks;
	measure->result.groups = frame->groups;
	measure->result.rank = measure->rank;
	measure->result.group = measure->group;
	measure->result.class_ranks = measure->class_ranks;
	measure->result.class_start = measure->class_start;
	measure->result.member = measure->by_class;
	*ret = &measure->result;
	return 0;
}
