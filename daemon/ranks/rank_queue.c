/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binary heap by due time, hash by pid, and list by age of droppable entries, over one array. Memory is reserved at
 * start and touched as the queue fills.
 */
#include "daemon/ranks/ranks_internal.h"

#define NONE UINT32_MAX

struct entry {
	struct rank_candidate candidate;
	uint32_t heap_at;
	uint32_t next_in_bucket; /* link of the free list while unused */
	uint32_t older, newer;	 /* among droppable entries */
	bool listed;
};

struct rank_queue {
	uint32_t entries_max;
	uint32_t count;
	uint32_t buckets; /* a power of two */
	uint32_t first_free;
	uint32_t fresh; /* entries from here on are unused */
	uint32_t oldest, newest;
	uint64_t dropped;
	struct entry *entry;
	uint32_t *heap;
	uint32_t *bucket; /* entry + 1: 0 is empty */
};

int rank_queue_new(uint32_t entries_max, struct rank_queue **ret)
{
	struct rank_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return -ENOMEM;
	queue->entries_max = entries_max;
	for (queue->buckets = 16; queue->buckets < entries_max; queue->buckets *= 2)
		;
	queue->first_free = queue->oldest = queue->newest = NONE;
	queue->entry = calloc(entries_max, sizeof(*queue->entry));
	queue->heap = calloc(entries_max, sizeof(*queue->heap));
	queue->bucket = calloc(queue->buckets, sizeof(*queue->bucket));
	if (!queue->entry || !queue->heap || !queue->bucket) {
		rank_queue_free(queue);
		return -ENOMEM;
	}
	*ret = queue;
	return 0;
}

struct rank_queue *rank_queue_free(struct rank_queue *queue)
{
	if (queue) {
		free(queue->entry);
		free(queue->heap);
		free(queue->bucket);
		free(queue);
	}
	return NULL;
}

static uint32_t *rank_queue_bucket_of(const struct rank_queue *queue, uint32_t pid)
{
	return &queue->bucket[(pid * 2654435761u) & (queue->buckets - 1)];
}

static uint32_t rank_queue_find(const struct rank_queue *queue, uint32_t pid)
{
	uint32_t i = *rank_queue_bucket_of(queue, pid) - 1;

	while (i != NONE && queue->entry[i].candidate.pid != pid)
		i = queue->entry[i].next_in_bucket;
	return i;
}

static void heap_set(struct rank_queue *queue, uint32_t at, uint32_t i)
{
	queue->heap[at] = i;
	queue->entry[i].heap_at = at;
}

static uint64_t rank_queue_due(const struct rank_queue *queue, uint32_t at)
{
	return queue->entry[queue->heap[at]].candidate.due_ns;
}

/* Restores the heap at this position. */
static void heap_settle(struct rank_queue *queue, uint32_t at)
{
	uint32_t i = queue->heap[at];
	uint64_t due_ns = queue->entry[i].candidate.due_ns;

	while (at > 0 && rank_queue_due(queue, (at - 1) / 2) > due_ns) {
		heap_set(queue, at, queue->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (uint32_t child = 2 * at + 1; child < queue->count; child = 2 * at + 1) {
		if (child + 1 < queue->count && rank_queue_due(queue, child + 1) < rank_queue_due(queue, child))
			child++;
		if (rank_queue_due(queue, child) >= due_ns)
			break;
		heap_set(queue, at, queue->heap[child]);
		at = child;
	}
	heap_set(queue, at, i);
}

static void list_remove(struct rank_queue *queue, uint32_t i)
{
	struct entry *entry = &queue->entry[i];

	if (!entry->listed)
		return;
	*(entry->older != NONE ? &queue->entry[entry->older].newer : &queue->oldest) = entry->newer;
	*(entry->newer != NONE ? &queue->entry[entry->newer].older : &queue->newest) = entry->older;
	entry->listed = false;
}

static void list_append(struct rank_queue *queue, uint32_t i)
{
	struct entry *entry = &queue->entry[i];

	entry->older = queue->newest;
	entry->newer = NONE;
	*(queue->newest != NONE ? &queue->entry[queue->newest].newer : &queue->oldest) = i;
	queue->newest = i;
	entry->listed = true;
}

static void remove_entry(struct rank_queue *queue, uint32_t i)
{
	struct entry *entry = &queue->entry[i];
	uint32_t *link = rank_queue_bucket_of(queue, entry->candidate.pid), at = entry->heap_at;

	if (*link - 1 == i) {
		*link = entry->next_in_bucket + 1;
	} else {
		uint32_t k = *link - 1;

		while (queue->entry[k].next_in_bucket != i)
			k = queue->entry[k].next_in_bucket;
		queue->entry[k].next_in_bucket = entry->next_in_bucket;
	}
	list_remove(queue, i);
	queue->count--;
	if (at < queue->count) {
		heap_set(queue, at, queue->heap[queue->count]);
		heap_settle(queue, at);
	}
	entry->next_in_bucket = queue->first_free;
	queue->first_free = i;
}

static uint32_t take_free(struct rank_queue *queue)
{
	uint32_t i = queue->first_free;

	if (i != NONE)
		queue->first_free = queue->entry[i].next_in_bucket;
	else if (queue->fresh < queue->entries_max)
		i = queue->fresh++;
	return i;
}

int rank_queue_put(struct rank_queue *queue, const struct rank_candidate *candidate)
{
	uint32_t i = rank_queue_find(queue, candidate->pid), *bucket;

	if (i != NONE) {
		queue->entry[i].candidate = *candidate;
		heap_settle(queue, queue->entry[i].heap_at);
		if (candidate->has_env)
			list_remove(queue, i);
		else if (!queue->entry[i].listed)
			list_append(queue, i);
		return 0;
	}
	if (queue->count == queue->entries_max) {
		if (queue->oldest == NONE)
			return -ENOSPC;
		queue->dropped += queue->entry[queue->oldest].candidate.due_ns != UINT64_MAX;
		remove_entry(queue, queue->oldest);
	}
	i = take_free(queue);
	queue->entry[i] = (struct entry){.candidate = *candidate};
	bucket = rank_queue_bucket_of(queue, candidate->pid);
	queue->entry[i].next_in_bucket = *bucket - 1;
	*bucket = i + 1;
	if (!candidate->has_env)
		list_append(queue, i);
	queue->heap[queue->count] = i;
	heap_settle(queue, queue->count++);
	return 0;
}

bool rank_queue_get(const struct rank_queue *queue, uint32_t pid, struct rank_candidate *ret)
{
	uint32_t i = rank_queue_find(queue, pid);

	if (i == NONE)
		return false;
	*ret = queue->entry[i].candidate;
	return true;
}

void rank_queue_remove(struct rank_queue *queue, uint32_t pid)
{
	uint32_t i = rank_queue_find(queue, pid);

	if (i != NONE)
		remove_entry(queue, i);
}

bool rank_queue_pop(struct rank_queue *queue, uint64_t now_ns, struct rank_candidate *ret)
{
	uint32_t i;

	if (queue->count == 0 || rank_queue_due(queue, 0) > now_ns || rank_queue_due(queue, 0) == UINT64_MAX)
		return false;
	i = queue->heap[0];
	*ret = queue->entry[i].candidate;
	remove_entry(queue, i);
	return true;
}

uint32_t rank_queue_count(const struct rank_queue *queue)
{
	return queue->count;
}

uint64_t rank_queue_dropped(const struct rank_queue *queue)
{
	return queue->dropped;
}
