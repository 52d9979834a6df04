/* SPDX-License-Identifier: Apache-2.0 */
/* The open steps of a process: a ring of slots by step number that grows as frames wait, up to the job's bound. */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>
#include <string.h>

#define PREFETCH_RANKS 8 /* a frame's ranks are looked for that far ahead */

bool framer_grow(void **pointer, size_t *capacity, size_t need, size_t size, size_t max)
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

static struct framer_slot *align_slots_at(const struct framer_process *process, int64_t step)
{
	return &process->slot[(uint64_t)step & (process->slots - 1)];
}

int64_t framer_slots_max(const struct framer *framer, const struct framer_process *process)
{
	const struct framer_room *job = framer_room_of(framer, process);

	return process->align == FRAMER_UNPLACED || !job ? FRAMER_UNPLACED_MAX : (int64_t)framer_wait_max(job);
}

static bool align_slots_grow(struct framer_process *process, uint32_t need)
{
	uint32_t slots = process->slots ? process->slots : 2;
	struct framer_slot *old = process->slot, *grown;
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

void framer_slot_spare_words(struct framer_process *process, struct framer_slot *slot)
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

void framer_slot_release(struct framer *framer, struct framer_process *process, struct framer_slot *slot)
{
	struct framer_room *job = framer_room_of(framer, process);

	if (job)
		job->records -= slot->records;
	if (slot->open) {
		slot->open->next = process->unused;
		process->unused = slot->open;
	}
	if (slot->plan) { /* the next ones need no room for full records */
		framer_plan_drop(job, &slot->plan);
		free(slot->record);
		slot->record = NULL;
		slot->capacity = 0;
	}
	framer_slot_spare_words(process, slot);
	if (slot->capacity > process->spare_room) {
		free(process->spare);
		process->spare = slot->record;
		process->spare_room = slot->capacity;
	} else {
		free(slot->record);
	}
	slot->used = false; /* and no more of it counts */
}

void framer_slots_drop(struct framer *framer, struct framer_process *process, int64_t before)
{
	while (process->low <= process->high && process->low < before) {
		struct framer_slot *slot = framer_slot_find(process, process->low);

		if (slot)
			framer_slot_release(framer, process, slot);
		process->low++;
	}
}

static bool align_slots_reserve(struct framer *framer, struct framer_process *process, int64_t step)
{
	int64_t max = framer_slots_max(framer, process), low, high;

	if (process->newest != FRAMER_NO_STEP && process->newest - step >= max)
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
		framer_slots_drop(framer, process, step - max + 1);
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

struct framer_slot *framer_slot_get(struct framer *framer, struct framer_process *process, int64_t step)
{
	struct framer_slot *slot = framer_slot_find(process, step);
	struct framer_room *job = framer_room_of(framer, process);

	if (slot)
		return slot;
	if (!job || (process->align != FRAMER_UNPLACED && framer_frame_of(process, step) < job->head))
		return NULL;
	if (!align_slots_reserve(framer, process, step))
		return NULL;
	slot = align_slots_at(process, step);
	*slot = (struct framer_slot){.step = step, .used = true};
	slot->record = process->spare;
	slot->capacity = process->spare_room;
	process->spare = NULL;
	process->spare_room = 0;
	return slot;
}

int64_t framer_slot_at(const struct framer_process *process, uint64_t time_ns)
{
	int64_t low = process->low > process->by_time_low ? process->low : process->by_time_low;
	/* Beyond what is open nothing can be found: numbers may be as far apart as they like. */
	int64_t high = process->newest < process->high ? process->newest : process->high;

	if (process->newest == FRAMER_NO_STEP)
		return FRAMER_NO_STEP;
	if (time_ns >= process->newest_end_ns)
		return process->newest + 1;
	/* The first step that ends after that time; those that are missing end with the next one. */
	while (low < high) {
		int64_t middle = low + (high - low) / 2, next = middle;
		const struct framer_slot *slot = framer_slot_find(process, next);

		while (next < high && !(slot && slot->closed))
			slot = framer_slot_find(process, ++next);
		if (!slot || !slot->closed || slot->start_ns + slot->step_ns > time_ns)
			high = middle;
		else
			low = next + 1;
	}
	{
		const struct framer_slot *slot = framer_slot_find(process, low);

		return slot && slot->closed && slot->start_ns <= time_ns && time_ns - slot->start_ns < slot->step_ns
			       ? low
			       : FRAMER_NO_STEP;
	}
}

struct framer_open *framer_open_get(struct framer_process *process)
{
	struct framer_open *open = process->unused;

	if (!open)
		return calloc(1, sizeof(*open));
	process->unused = open->next;
	for (int kind = 0; kind < STAGE_KIND_MAX; kind++)
		open->kind[kind].count = 0;
	return open;
}

void framer_process_free(struct framer *framer, struct framer_process *process)
{
	if (!process)
		return;
	framer_slots_drop(framer, process, INT64_MAX);
	while (process->unused) {
		struct framer_open *next = process->unused->next;

		framer_open_free(process->unused);
		process->unused = next;
	}
	framer_period_free(process->period);
	if (process->plan)
		framer_plan_drop(framer_room_of(framer, process), &process->plan);
	free(process->sample);
	free(process->spare_word);
	free(process->spare);
	free(process->slot);
	free(process);
}

void framer_slot_prefetch(const struct framer_room *job, size_t index)
{
	const struct framer_process *process;

	if (index + 2 * PREFETCH_RANKS < job->ranks)
		framer_prefetch(job->live[index + 2 * PREFETCH_RANKS], 128);
	if (index + PREFETCH_RANKS >= job->ranks)
		return;
	process = job->live[index + PREFETCH_RANKS];
	if (process->slots)
		framer_prefetch(align_slots_at(process, job->head - process->offset), sizeof(struct framer_slot));
}
