/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of open marks. Rows and stacks are reused, never shrunk. */
#include "analyzers/steps/steps_internal.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/utf8.h"

bool steps_copy(char ret[STEPS_NAME_BYTES], const char *text)
{
	size_t n = strnlen(text, STEPS_NAME_BYTES);
	bool fits = n < STEPS_NAME_BYTES;

	if (!fits)
		n = utf8_cut(text, STEPS_NAME_BYTES - 1);
	memcpy(ret, text, n);
	ret[n] = 0;
	return fits;
}

void steps_threads_done(struct steps_threads *threads)
{
	for (size_t i = 0; i < threads->count; i++)
		free(threads->rows[i].entries);
	free(threads->rows);
	*threads = (struct steps_threads){0};
}

struct steps_thread *steps_threads_find(const struct steps_threads *threads, uint32_t id)
{
	for (size_t i = 0; i < threads->count; i++) {
		if (threads->rows[i].id == id)
			return &threads->rows[i];
	}
	return NULL;
}

/* Prefers an empty stack, then the oldest mark. */
static struct steps_thread *longest_idle(const struct steps_threads *threads, uint32_t keep)
{
	struct steps_thread *best = NULL;

	for (size_t i = 0; i < threads->count; i++) {
		struct steps_thread *row = &threads->rows[i];

		if (row->id == keep)
			continue;
		if (!best || (!row->depth && best->depth) ||
			(!row->depth == !best->depth && row->last_ns < best->last_ns))
			best = row;
	}
	return best;
}

struct steps_thread *steps_threads_get(struct steps_threads *threads, uint32_t id, uint32_t keep, uint64_t *lost)
{
	struct steps_thread *row = steps_threads_find(threads, id);

	if (row)
		return row;
	if (threads->count >= STEPS_THREADS_MAX) {
		row = longest_idle(threads, keep);
		*lost += row->depth;
		*row = (struct steps_thread){.id = id, .entries = row->entries, .capacity = row->capacity};
		return row;
	}
	if (!array_reserve(
		    (void **)&threads->rows, &threads->capacity, threads->count + 1, sizeof(*row), STEPS_THREADS_MAX))
		return NULL;
	row = &threads->rows[threads->count++];
	*row = (struct steps_thread){.id = id};
	return row;
}

struct steps_entry *steps_thread_push(struct steps_threads *threads, struct steps_thread *thread)
{
	size_t before = thread->capacity;
	struct steps_entry *entry;

	if (!array_reserve((void **)&thread->entries, &thread->capacity, thread->depth + 1, sizeof(*thread->entries),
		    STEPS_DEPTH_MAX))
		return NULL;
	threads->entries += thread->capacity - before;
	entry = &thread->entries[thread->depth++];
	memset(entry, 0, offsetof(struct steps_entry, stage));
	return entry;
}

int steps_thread_match(const struct steps_thread *thread, const char *stage)
{
	for (int i = (int)thread->depth - 1; i >= 0; i--) {
		const struct steps_entry *entry = &thread->entries[i];

		if (stage ? !entry->from_name && strncmp(entry->stage, stage, STEPS_NAME_BYTES - 1) == 0
			  : entry->from_name)
			return i;
	}
	return -1;
}

struct steps_entry *steps_thread_loop(const struct steps_thread *thread)
{
	for (size_t i = 0; i < thread->depth; i++) {
		if (stage_is_loop(thread->entries[i].kind))
			return &thread->entries[i];
	}
	return NULL;
}

void steps_threads_keep_backward(struct steps_threads *threads)
{
	for (size_t i = 0; i < threads->count; i++) {
		struct steps_thread *thread = &threads->rows[i];
		size_t kept = 0;

		for (size_t j = 0; j < thread->depth; j++)
			if (thread->entries[j].kind == STAGE_BACKWARD)
				thread->entries[kept++] = thread->entries[j];
		thread->depth = kept;
		thread->left_out = 0;
	}
}
