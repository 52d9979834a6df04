/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages to sums of a step, and what class a step is. Of each kind the union of its stages counts: nested ones once.
 * Loop stages count on the step thread alone, which is the one that shows the stage that tells it best (stage_rank()).
 */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/steps.h"

#define CHECKPOINT_NS_MAX 86400000000000ULL

static struct align_interval *parts(struct align_union *set)
{
	return set->capacity ? set->part : &set->first;
}

/* Room for one more than there are; false: no. */
static bool align_stages_reserve(struct align_union *set)
{
	bool alone = !set->capacity;
	size_t capacity = set->capacity;

	if (!set->count)
		return true;
	if (!align_grow((void **)&set->part, &capacity, set->count + 1, sizeof(*set->part), ALIGN_INTERVALS_MAX))
		return false;
	if (alone)
		set->part[0] = set->first;
	set->capacity = (uint32_t)capacity;
	return true;
}

/* Stages come in the order of their ends, nearly: what they touch is at the end of the list. */
static void unite(struct align_union *set, uint64_t start_ns, uint64_t end_ns)
{
	struct align_interval *part = parts(set);
	uint32_t after = set->count, first;

	while (after > 0 && part[after - 1].start_ns > end_ns)
		after--;
	first = after;
	while (first > 0 && part[first - 1].end_ns >= start_ns) {
		first--;
		if (part[first].start_ns < start_ns)
			start_ns = part[first].start_ns;
		if (part[first].end_ns > end_ns)
			end_ns = part[first].end_ns;
	}
	if (first == after) {
		if (!align_stages_reserve(set))
			return;
		part = parts(set);
		if (set->count > first)
			memmove(&part[first + 1], &part[first], (set->count - first) * sizeof(*part));
		set->count++;
	} else if (after - first > 1) {
		memmove(&part[first + 1], &part[after], (set->count - after) * sizeof(*part));
		set->count -= after - first - 1;
	}
	part[first] = (struct align_interval){start_ns, end_ns};
}

static uint64_t length_within(const struct align_union *set, uint64_t start_ns, uint64_t end_ns)
{
	const struct align_interval *part = set->capacity ? set->part : &set->first;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < set->count; i++) {
		uint64_t from = part[i].start_ns > start_ns ? part[i].start_ns : start_ns;
		uint64_t to = part[i].end_ns < end_ns ? part[i].end_ns : end_ns;

		sum += to > from ? to - from : 0;
	}
	return sum;
}

/* Is it the step thread's? A thread that shows a better stage becomes it, and one that shows as good a one once the old
 * one has shown none for two steps. */
static bool on_step_thread(struct align_process *process, const struct align_stage *stage)
{
	unsigned rank = stage_rank(stage->kind);
	bool quiet = stage->step != STEPS_NONE && stage->step > process->thread_step + 2;

	if (stage->thread_id != process->thread_id && (rank > process->thread_rank || (quiet && rank))) {
		process->thread_id = stage->thread_id;
		process->thread_rank = rank;
		process->thread_step = stage->step;
	}
	if (stage->thread_id != process->thread_id)
		return false;
	if (rank > process->thread_rank)
		process->thread_rank = rank;
	if (stage->step > process->thread_step)
		process->thread_step = stage->step;
	return true;
}

/* Of no step: an evaluation, or a checkpoint, before the step that comes next. */
static void aside(struct align_process *process, const struct align_stage *stage)
{
	if (stage->kind == STAGE_CHECKPOINT)
		process->aside_checkpoint = true;
	else if ((stage->kind == STAGE_DATALOADER || stage->kind == STAGE_FORWARD) && stage->depth == 0)
		process->aside_ns += stage->duration_ns;
	if (process->aside_ns > ALIGN_TIME_MAX)
		process->aside_ns = ALIGN_TIME_MAX;
}

void align_stages_add(struct align *align, struct align_process *process, const struct align_stage *stage)
{
	struct align_job *job = align_job_of(align, process);
	struct align_slot *slot;

	process->loop_seen = process->loop_seen || stage_is_loop(stage->kind);
	if (stage->kind == STAGE_CHECKPOINT && stage->duration_ns > job->checkpoint_ns &&
		stage->duration_ns < CHECKPOINT_NS_MAX)
		job->checkpoint_ns = stage->duration_ns;
	if (stage->step == STEPS_NONE) {
		aside(process, stage);
		return;
	}
	if (process->newest != ALIGN_NO_STEP && stage->step <= process->newest)
		return; /* ends after its step, whose sums are final */
	if (stage_is_loop(stage->kind) && !on_step_thread(process, stage))
		return;
	slot = align_slot_get(align, process, stage->step);
	if (!slot || slot->closed)
		return;
	if (!slot->open)
		slot->open = align_open_get(process);
	if (slot->open)
		unite(&slot->open->kind[stage->kind], stage->start_ns, stage->start_ns + stage->duration_ns);
}

static enum frame_class align_stages_class_of(const struct align_process *process, const struct align_slot *slot, uint64_t gap_ns)
{
	uint64_t median;

	if (process->steps_seen < ALIGN_FIRST)
		return FRAME_FIRST;
	if (slot->stage_ns[STAGE_CHECKPOINT] || process->aside_checkpoint)
		return FRAME_CHECKPOINT;
	if (!process->aside_ns && !gap_ns)
		return FRAME_TRAIN;
	median = align_process_median(process);
	if (process->aside_ns > median)
		return FRAME_EVALUATION;
	return gap_ns / ALIGN_PAUSE > median ? FRAME_FIRST : FRAME_TRAIN;
}

void align_stages_close(struct align_process *process, struct align_slot *slot, uint64_t gap_ns)
{
	if (slot->open) {
		for (int kind = 0; kind < STAGE_KIND_MAX; kind++)
			slot->stage_ns[kind] =
				length_within(&slot->open->kind[kind], slot->start_ns, slot->start_ns + slot->step_ns);
		slot->open->next = process->unused;
		process->unused = slot->open;
		slot->open = NULL;
	}
	slot->class = (uint8_t)align_stages_class_of(process, slot, gap_ns);
	process->aside_ns = 0;
	process->aside_checkpoint = false;
}

void align_open_free(struct align_open *open)
{
	for (int kind = 0; kind < STAGE_KIND_MAX; kind++)
		free(open->kind[kind].part);
	free(open);
}
