/* SPDX-License-Identifier: Apache-2.0 */
/* The open steps of a process: a ring of slots by step number that grows as frames wait, up to the job's bound. */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>
#include <string.h>

#define PREFETCH_RANKS 8 /* a frame's ranks are looked for that far ahead */

bool align_grow(void **pointer, size_t *capacity, size_t need, size_t size, size_t max)
{
	size_t next = *capacity ? *capacity : 16;
	void *grown;

	if (need <= *capacity)
		return true;
	if (need > max)
		return false;
	while (next < need)
		next *= 2;
	grown = realloc(*pointer, next * size);
	if (!grown)
		return false;
	*pointer = grown;
	*capacity = next;
	return true;
}

static struct align_slot *align_slots_at(const struct align_process *process, int64_t step)
{
	return &process->slot[(uint64_t)step & (process->slots - 1)];
}

int64_t align_slots_max(const struct align *align, const struct align_process *process)
{
	const struct align_job *job = align_job_of(align, process);

	return process->align == ALIGN_UNPLACED || !job ? ALIGN_UNPLACED_MAX : (int64_t)align_wait_max(job);
}

static bool align_slots_grow(struct align_process *process, uint32_t need)
{
	uint32_t slots = process->slots ? process->slots : 2;
	struct align_slot *old = process->slot, *grown;
	uint32_t old_slots = process->slots;

	while (slots < need)
		slots *= 2;
	grown = calloc(slots, sizeof(*grown));
	if (!grown)
		return false;
	process->slot = grown;
	process->slots = slots;
	for (uint32_t i = 0; i < old_slots; i++) {
		if (old[i].used)
			*align_slots_at(process, old[i].step) = old[i];
	}
	free(old);
	return true;
}

void align_slot_spare_words(struct align_process *process, struct align_slot *slot)
{
	if (slot->words > process->spare_words) {
		free(process->spare_word);
		process->spare_word = slot->word;
		process->spare_words = slot->words;
	} else {
		free(slot->word);
	}
	slot->word = NULL;
	slot->words = 0;
}

void align_slot_release(struct align *align, struct align_process *process, struct align_slot *slot)
{
	struct align_job *job = align_job_of(align, process);

	if (job)
		job->records -= slot->records;
	if (slot->open) {
		slot->open->next = process->unused;
		process->unused = slot->open;
	}
	if (slot->plan) { /* the next ones need no room for full records */
		align_template_drop(job, &slot->plan);
		free(slot->record);
		slot->record = NULL;
		slot->capacity = 0;
	}
	align_slot_spare_words(process, slot);
	if (slot->capacity > process->spare_capacity) {
		free(process->spare);
		process->spare = slot->record;
		process->spare_capacity = slot->capacity;
	} else {
		free(slot->record);
	}
	slot->used = false; /* and no more of it counts */
}

void align_slots_drop(struct align *align, struct align_process *process, int64_t before)
{
	while (process->low <= process->high && process->low < before) {
		struct align_slot *slot = align_slot_find(process, process->low);

		if (slot)
			align_slot_release(align, process, slot);
		process->low++;
	}
}

static bool align_slots_reserve(struct align *align, struct align_process *process, int64_t step)
{
	int64_t max = align_slots_max(align, process), low, high;

	if (process->newest != ALIGN_NO_STEP && process->newest - step >= max)
		return false;
	if (process->high < process->low) {
		process->low = step;
		process->high = step - 1;
	}
	if (step - process->high > max || process->low - step >= max)
		return false;
	if (step < process->low && process->high - step >= max)
		return false;
	if (step - process->low >= max)
		align_slots_drop(align, process, step - max + 1);
	if (process->high < process->low) {
		process->low = step;
		process->high = step - 1;
	}
	low = step < process->low ? step : process->low;
	high = step > process->high ? step : process->high;
	if ((uint64_t)(high - low) + 1 > process->slots && !align_slots_grow(process, (uint32_t)(high - low) + 1))
		return false;
	process->low = low;
	process->high = high;
	return true;
}

struct align_slot *align_slot_get(struct align *align, struct align_process *process, int64_t step)
{
	struct align_slot *slot = align_slot_find(process, step);
	struct align_job *job = align_job_of(align, process);

	if (slot)
		return slot;
	if (!job || (process->align != ALIGN_UNPLACED && align_frame_of(process, step) < job->head))
		return NULL;
	if (!align_slots_reserve(align, process, step))
		return NULL;
	slot = align_slots_at(process, step);
	*slot = (struct align_slot){.step = step, .used = true};
	slot->record = process->spare;
	slot->capacity = process->spare_capacity;
	process->spare = NULL;
	process->spare_capacity = 0;
	return slot;
}

int64_t align_slot_at(const struct align_process *process, uint64_t time_ns)
{
	int64_t low = process->low > process->by_time_low ? process->low : process->by_time_low;
	/* Beyond what is open nothing can be found: numbers may be as far apart as they like. */
	int64_t high = process->newest < process->high ? process->newest : process->high;

	if (process->newest == ALIGN_NO_STEP)
		return ALIGN_NO_STEP;
	if (time_ns >= process->newest_end_ns)
		return process->newest + 1;
	/* The first step that ends after that time; those that are missing end with the next one. */
	while (low < high) {
		int64_t middle = low + (high - low) / 2, next = middle;
		const struct align_slot *slot = align_slot_find(process, next);

		while (next < high && !(slot && slot->closed))
			slot = align_slot_find(process, ++next);
		if (!slot || !slot->closed || slot->start_ns + slot->step_ns > time_ns)
			high = middle;
		else
			low = next + 1;
	}
	{
		const struct align_slot *slot = align_slot_find(process, low);

		return slot && slot->closed && slot->start_ns <= time_ns && time_ns - slot->start_ns < slot->step_ns
			       ? low
			       : ALIGN_NO_STEP;
	}
}

struct align_open *align_open_get(struct align_process *process)
{
	struct align_open *open = process->unused;

	if (!open)
		return calloc(1, sizeof(*open));
	process->unused = open->next;
	for (int kind = 0; kind < STAGE_KIND_MAX; kind++)
		open->kind[kind].count = 0;
	return open;
}

void align_process_free(struct align *align, struct align_process *process)
{
	if (!process)
		return;
	align_slots_drop(align, process, INT64_MAX);
	while (process->unused) {
		struct align_open *next = process->unused->next;

		align_open_free(process->unused);
		process->unused = next;
	}
	align_period_free(process->period);
	if (process->plan)
		align_template_drop(align_job_of(align, process), &process->plan);
	free(process->sample);
	free(process->spare_word);
	free(process->spare);
	free(process->slot);
	free(process);
}

void align_slot_prefetch(const struct align_job *job, size_t index)
{
	const struct align_process *process;

	if (index + 2 * PREFETCH_RANKS < job->ranks)
		align_prefetch(job->live[index + 2 * PREFETCH_RANKS], 128);
	if (index + PREFETCH_RANKS >= job->ranks)
		return;
	process = job->live[index + PREFETCH_RANKS];
	if (process->slots)
		align_prefetch(align_slots_at(process, job->head - process->offset), sizeof(struct align_slot));
}
