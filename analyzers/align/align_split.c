/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step to self times of activities on the step thread. Stages are kept as intervals of time, in whatever order they
 * come, until their step closes: then they are sorted, and at each time the innermost one counts. What lies past the
 * step's end is kept for the steps after it.
 *
 * Stages of a thread lie within each other or apart. Two cross where a forward is derived (steps.h) or a mark was lost:
 * then the later one counts, but a user's mark only from the end of the stage that it crosses on.
 *
 * Syncs, collections and user's marks may be many: beyond PARTS_SMALL_MAX their time counts to what encloses them.
 */
#include "analyzers/align/align_internal.h"

#include <stdlib.h>

#include "analyzers/base/array.h"
#include "analyzers/steps/steps.h"

#define PARTS_MAX 2048	     /* 24 bytes each: 48 KiB a process */
#define PARTS_SMALL_MAX 1536 /* more than a loop of .item() makes (1,000); leaves space for 512 stages of the loop */

struct align_split {
	struct align_part *part;
	uint32_t open; /* the first ones of part: a stack of those that are open */
	uint64_t at_ns, ns[ACTIVITY_MAX];
	uint64_t may_wait_from_ns, may_wait_until_ns; /* 0 and 0: none yet */
};

static bool align_split_is_small(enum activity activity)
{
	return activity == ACTIVITY_SYNC || activity == ACTIVITY_GC || activity == ACTIVITY_MARK;
}

/* Those of no step are most likely of none. */
static void align_split_drop_aside(struct align_process *process)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < process->parts.count; i++) {
		if (!process->parts.part[i].aside)
			process->parts.part[kept++] = process->parts.part[i];
	}
	process->parts.count = kept;
	process->parts.aside = 0;
}

static bool align_split_reserve(struct align_process *process, uint32_t max)
{
	size_t many = process->parts.capacity;

	if (process->parts.count >= max && process->parts.aside)
		align_split_drop_aside(process);
	if (!array_reserve((void **)&process->parts.part, &many, process->parts.count + (size_t)1,
		    sizeof(*process->parts.part), max))
		return false;
	process->parts.capacity = (uint32_t)many;
	return process->parts.count < max;
}

void align_split_add(struct align *align, struct align_process *process, const struct align_stage *stage)
{
	enum activity activity = activity_of_stage(stage->kind);
	bool aside = stage->step == STEPS_NONE;

	if (!align_split_reserve(process, align_split_is_small(activity) ? PARTS_SMALL_MAX : PARTS_MAX)) {
		align->counts.stages_left_out++;
		process->parts.syncs += activity == ACTIVITY_SYNC;
		return;
	}
	process->parts.part[process->parts.count++] = (struct align_part){.start_ns = stage->start_ns,
		.end_ns = stage->start_ns + stage->duration_ns,
		.activity = (uint8_t)activity,
		.depth = stage->depth < UINT8_MAX ? (uint8_t)stage->depth : UINT8_MAX,
		.aside = aside};
	process->parts.aside += aside;
}

/* The outer one first. */
static int align_split_compare(const void *a, const void *b)
{
	const struct align_part *x = a, *y = b;

	return ORDER(x->start_ns, y->start_ns) ?: ORDER(y->end_ns, x->end_ns) ?: ORDER(x->depth, y->depth);
}

static void align_split_sort(struct align_part *part, uint32_t parts)
{
	uint32_t sorted = 1;

	while (sorted < parts && align_split_compare(&part[sorted - 1], &part[sorted]) <= 0)
		sorted++;
	if (sorted < parts)
		qsort(part, parts, sizeof(*part), align_split_compare);
}

static void align_split_take(struct align_split *split, enum activity activity, uint64_t until_ns)
{
	if (until_ns <= split->at_ns)
		return;
	split->ns[activity] += until_ns - split->at_ns;
	if (activity_may_wait(activity, true)) {
		if (!split->may_wait_until_ns)
			split->may_wait_from_ns = split->at_ns;
		split->may_wait_until_ns = until_ns;
	}
	split->at_ns = until_ns;
}

static const struct align_part *align_split_innermost(const struct align_split *split)
{
	return split->open ? &split->part[split->open - 1] : NULL;
}

static void align_split_go(struct align_split *split, uint64_t until_ns)
{
	const struct align_part *part;

	while ((part = align_split_innermost(split)) && part->end_ns <= until_ns) {
		align_split_take(split, part->activity, part->end_ns);
		split->open--;
	}
	align_split_take(split, part ? part->activity : ACTIVITY_OUTSIDE, until_ns);
}

static bool align_split_crosses(const struct align_part *mark, const struct align_part *open)
{
	return open && mark->activity == ACTIVITY_MARK && open->activity != ACTIVITY_MARK &&
	       mark->end_ns > open->end_ns;
}

/* The first of the parts begins later, which changes its place among them. */
static void align_split_begin_at(struct align_part *part, uint32_t parts, uint64_t start_ns)
{
	struct align_part first = part[0];
	uint32_t at = 0;

	first.start_ns = start_ns;
	for (; at + 1 < parts && align_split_compare(&part[at + 1], &first) < 0; at++)
		part[at] = part[at + 1];
	part[at] = first;
}

/* What is not over at the step's end. Steps may close many at once; none waits longer than that. */
static void align_split_keep(struct align_process *process, uint32_t open, uint32_t next, uint64_t end_ns)
{
	uint32_t kept = 0;

	process->parts.aside = 0;
	for (uint32_t i = 0; i < process->parts.count; i++) {
		struct align_part part = process->parts.part[i];

		if ((i >= open && i < next) || part.end_ns <= end_ns || part.closes++ >= STEPS_ROUNDS_MAX)
			continue;
		process->parts.aside += part.aside;
		process->parts.part[kept++] = part;
	}
	process->parts.count = kept;
}

void align_split_close(struct align_process *process, const struct align_step *step, struct align_slot *slot)
{
	struct align_split split = {.part = process->parts.part, .at_ns = step->start_ns};
	uint64_t end_ns = step->start_ns + step->duration_ns;
	uint64_t syncs = process->parts.syncs;
	uint32_t next = 0;

	align_split_sort(process->parts.part, process->parts.count);
	while (next < process->parts.count && process->parts.part[next].start_ns < end_ns) {
		const struct align_part part = process->parts.part[next];

		align_split_go(&split, part.start_ns);
		if (align_split_crosses(&part, align_split_innermost(&split))) {
			align_split_begin_at(&process->parts.part[next], process->parts.count - next,
				align_split_innermost(&split)->end_ns);
			continue;
		}
		syncs += part.activity == ACTIVITY_SYNC && part.start_ns >= step->start_ns;
		split.part[split.open++] = part;
		next++;
	}
	align_split_go(&split, end_ns);
	align_split_keep(process, split.open, next, end_ns);
	process->parts.syncs = 0;
	if (!slot)
		return;
	slot->unsplit = step->unsplit;
	if (step->unsplit)
		return;
	memcpy(slot->activity_ns, split.ns, sizeof(slot->activity_ns));
	if (split.may_wait_until_ns) {
		slot->may_wait_from_ns = split.may_wait_from_ns - step->start_ns;
		slot->may_wait_until_ns = split.may_wait_until_ns - step->start_ns;
	}
	slot->syncs = syncs < UINT32_MAX ? (uint32_t)syncs : UINT32_MAX;
}
