/* SPDX-License-Identifier: Apache-2.0 */
/* Equal stacks as one. Frames of the interpreter's own code do not come (stack_frames_text()). */
#include "analyzers/profile/profile_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct profile_fold_item {
	uint32_t stack, thread; /* thread: of its rank */
	const struct profile_rank *rank;
	const char *stage, *thread_name;
	bool off_cpu, steps_here;
	uint64_t samples, weight_ns;
};

struct profile_fold_order {
	const struct profile *profile;
	const struct profile_folding *how;
};

static int profile_fold_compare_text(const char *a, const char *b)
{
	return a == b ? 0 : strcmp(a, b);
}

static int profile_fold_compare_frames(
	const struct profile *profile, const struct profile_fold_item *x, const struct profile_fold_item *y)
{
	const struct profile_stack *a = &profile->stack[x->stack], *b = &profile->stack[y->stack];
	uint32_t common = a->lines < b->lines ? a->lines : b->lines;

	if (x->stack == y->stack)
		return 0;
	for (uint32_t i = 0; i < common; i++)
		if (a->line[i] != b->line[i])
			return a->line[i] < b->line[i] ? -1 : 1;
	if (a->lines != b->lines)
		return a->lines < b->lines ? -1 : 1;
	return (int)(a->cut & PROFILE_CUT_PYTHON) - (int)(b->cut & PROFILE_CUT_PYTHON);
}

static int profile_fold_compare(const void *a, const void *b, void *arg)
{
	const struct profile_fold_order *order = arg;
	const struct profile_folding *how = order->how;
	const struct profile_fold_item *x = a, *y = b;
	int r = 0;

	if (how->by_rank)
		r = (x->rank->rank > y->rank->rank) - (x->rank->rank < y->rank->rank);
	if (!r && how->by_thread)
		r = y->steps_here - x->steps_here;
	if (!r && how->by_thread)
		r = profile_fold_compare_text(x->thread_name, y->thread_name);
	if (!r && how->by_stage)
		r = profile_fold_compare_text(x->stage, y->stage);
	if (!r && how->by_cpu)
		r = x->off_cpu - y->off_cpu;
	return r ? r : profile_fold_compare_frames(order->profile, x, y);
}

static bool profile_fold_wants_rank(const struct profile_folding *how, int64_t rank)
{
	for (size_t i = 0; i < how->ranks_count; i++)
		if (how->ranks[i] == rank)
			return true;
	return how->ranks_count == 0;
}

static size_t profile_fold_collect(
	struct profile *profile, const struct profile_folding *how, struct profile_fold_item *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < profile->ranks; i++) {
		struct profile_rank *rank = &profile->rank[i];

		if (!profile_fold_wants_rank(how, rank->rank))
			continue;
		profile_parts_sort(rank);
		for (size_t j = 0; j < rank->samples; j++) {
			const struct profile_taken *taken = &rank->sample[j];
			const struct profile_stage *stage = NULL;

			if (how->cpu && !(how->cpu & (taken->off_cpu ? PROFILE_OFF_CPU : PROFILE_ON_CPU)))
				continue;
			if (how->by_stage && profile_parts_steps_here(rank, taken->thread))
				stage = profile_parts_stage(rank, taken->start_ns);
			ret[count++] = (struct profile_fold_item){taken->stack, taken->thread, rank,
				stage ? stage->name : "", rank->thread[taken->thread].name, taken->off_cpu,
				profile_parts_steps_here(rank, taken->thread), 1, (uint64_t)taken->weight_ns};
		}
	}
	return count;
}

static int profile_fold_pass(const struct profile *profile, const struct profile_folding *how,
	const struct profile_fold_item *item, int (*row)(void *arg, const struct profile_folded *folded), void *arg)
{
	const struct profile_stack *stack = &profile->stack[item->stack];
	struct profile_folded folded = {
		.frame = stack->line,
		.frames = stack->lines,
		.rank = how->by_rank ? item->rank->rank : -1,
		.stage = how->by_stage ? item->stage : "",
		.thread = how->by_thread ? item->thread_name : "",
		.steps_here = how->by_thread && item->steps_here,
		.off_cpu = how->by_cpu && item->off_cpu,
		.cut = stack->cut & PROFILE_CUT_PYTHON,
		.samples = item->samples,
		.weight_ns = item->weight_ns,
	};

	return row(arg, &folded);
}

int profile_fold(struct profile *profile, const struct profile_folding *folding,
	int (*row)(void *arg, const struct profile_folded *folded), void *arg)
{
	struct profile_fold_order order = {profile, folding};
	struct profile_fold_item *item = calloc(profile->totals.samples + 1, sizeof(*item));
	size_t count, last = 0;
	int r = 0;

	if (!item)
		return -ENOMEM;
	count = profile_fold_collect(profile, folding, item);
	qsort_r(item, count, sizeof(*item), profile_fold_compare, &order);
	for (size_t i = 1; i <= count && r == 0; i++) {
		if (i < count && profile_fold_compare(&item[last], &item[i], &order) == 0) {
			item[last].samples += item[i].samples;
			item[last].weight_ns += item[i].weight_ns;
			continue;
		}
		r = profile_fold_pass(profile, folding, &item[last], row, arg);
		last = i;
	}
	free(item);
	return r;
}
