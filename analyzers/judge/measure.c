/* SPDX-License-Identifier: Apache-2.0 */
/* Measures of a frame: see measure.h. Waits are in measure_waits.c, classes in measure_class.c. */
#include "analyzers/base/robust.h"
#include "analyzers/judge/measure_internal.h"

#include <errno.h>
#include <string.h>

struct measure *measure_new(void)
{
	return calloc(1, sizeof(struct measure));
}

struct measure *measure_free(struct measure *measure)
{
	if (!measure)
		return NULL;
	measure_class_free(&measure->classes);
	free(measure->rank);
	free(measure->group);
	free(measure->own_shortest);
	free(measure->wild);
	free(measure->meeting);
	free(measure->walk);
	free(measure->class_ranks);
	free(measure->class_start);
	free(measure->by_class);
	free(measure->scratch);
	free(measure->spread);
	free(measure->here);
	free(measure->own_stop);
	free(measure->most);
	free(measure);
	return NULL;
}

/* Makes space for n elements of that size; drops the contents. */
static bool measure_renew(void *pointer, size_t n, size_t size)
{
	void **at = pointer;

	free(*at);
	*at = calloc(n, size);
	return *at;
}

static int measure_reserve(struct measure *measure, const struct frame *frame)
{
	size_t ranks = frame->ranks + frame->ranks / 4 + 1, groups = frame->groups + frame->groups / 4 + 1;

	if (frame->ranks > measure->rank_capacity || !measure->rank_capacity) {
		measure->rank_capacity = 0;
		if (!measure_renew(&measure->rank, ranks, sizeof(*measure->rank)) ||
			!measure_renew(&measure->walk, ranks, sizeof(*measure->walk)) ||
			!measure_renew(&measure->class_ranks, ranks, sizeof(*measure->class_ranks)) ||
			!measure_renew(&measure->class_start, ranks, sizeof(*measure->class_start)) ||
			!measure_renew(&measure->by_class, ranks, sizeof(*measure->by_class)) ||
			!measure_renew(&measure->scratch, ranks, sizeof(*measure->scratch)) ||
			!measure_renew(&measure->spread, ranks, sizeof(*measure->spread)) ||
			!measure_renew(&measure->here, ranks, sizeof(*measure->here)) ||
			!measure_renew(&measure->own_stop, ranks, sizeof(*measure->own_stop)))
			return -ENOMEM;
		measure->rank_capacity = ranks;
	}
	if (frame->groups > measure->group_capacity || !measure->group_capacity) {
		measure->group_capacity = 0;
		if (!measure_renew(&measure->group, groups, sizeof(*measure->group)) ||
			!measure_renew(&measure->meeting, groups, sizeof(*measure->meeting)))
			return -ENOMEM;
		free(measure->own_shortest);
		free(measure->wild);
		measure->own_shortest = NULL;
		measure->wild = NULL;
		measure->group_capacity = groups;
	}
	if (frame->comms > measure->comm_capacity || !measure->most) {
		measure->comm_capacity = 0;
		if (!measure_renew(&measure->most, frame->comms + 1, sizeof(*measure->most)))
			return -ENOMEM;
		measure->comm_capacity = frame->comms;
	}
	return 0;
}

static void reset_ranks(struct measure *measure, const struct frame *frame)
{
	size_t n = 0;

	measure->odd = false;
	for (size_t i = 0; i < frame->ranks; i++) {
		measure->rank[i] = (struct measure_rank){FRAME_UNKNOWN, 0, 0, FRAME_NONE, 1, 0};
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
	*ret = &measure->result;
	return 0;
}
