/* SPDX-License-Identifier: Apache-2.0 */
/* Steps and stages: which part of its rank's time a sample is in. */
#include "analyzers/profile/profile_internal.h"
#include "analyzers/base/array.h"

#include <stdlib.h>

#define PARTS_NESTED_MAX 64 /* stages that began before a sample and are searched for it */

static int profile_parts_step_order(const void *a, const void *b)
{
	const struct profile_step *x = a, *y = b;

	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static int profile_parts_stage_order(const void *a, const void *b)
{
	const struct profile_stage *x = a, *y = b;
	int r = (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);

	/* The outer one first. */
	return r ? r : (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

static int profile_parts_sample_order(const void *a, const void *b)
{
	const struct profile_taken *x = a, *y = b;

	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

void profile_parts_sort(struct profile_rank *rank)
{
	if (rank->sorted)
		return;
	if (rank->steps)
		qsort(rank->step, rank->steps, sizeof(*rank->step), profile_parts_step_order);
	if (rank->stages)
		qsort(rank->stage, rank->stages, sizeof(*rank->stage), profile_parts_stage_order);
	if (rank->samples)
		qsort(rank->sample, rank->samples, sizeof(*rank->sample), profile_parts_sample_order);
	rank->sorted = true;
}

const struct profile_stage *profile_parts_stage(const struct profile_rank *rank, int64_t time_ns)
{
	size_t low = array_first_not(i, rank->stages, rank->stage[i].start_ns <= time_ns);

	/* The latest that began is the innermost. */
	for (size_t i = low; i-- > 0 && low - i <= PARTS_NESTED_MAX;)
		if (rank->stage[i].end_ns > time_ns)
			return &rank->stage[i];
	return NULL;
}

bool profile_parts_steps_here(const struct profile_rank *rank, uint32_t thread)
{
	const struct profile_thread *of = &rank->thread[thread];

	return rank->step_thread < 0 ? of->main : of->thread_id == rank->step_thread;
}
