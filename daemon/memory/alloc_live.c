/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing; freed entries remain until the table grows, is full, or their address is reused. */
#include "daemon/memory/allocs.h"

#include <stdlib.h>

#define CAPACITY_MIN 64

void alloc_live_init(struct alloc_live *live, size_t max)
{
	*live = (struct alloc_live){.max = max};
}

void alloc_live_clear(struct alloc_live *live)
{
	free(live->entry);
	alloc_live_init(live, live->max);
}

/* Entry of the address, or the free one for it. The table is never full. */
static struct alloc_live_entry *alloc_live_place(const struct alloc_live *live, uint64_t address)
{
	size_t i = (size_t)((address >> 8 ^ address) * 0x9e3779b97f4a7c15ULL >> 20) & (live->capacity - 1);

	while (live->entry[i].address && live->entry[i].address != address)
		i = (i + 1) & (live->capacity - 1);
	return &live->entry[i];
}

/* Copies live entries only. */
static bool alloc_live_rebuild(struct alloc_live *live, size_t capacity)
{
	struct alloc_live grown = {.capacity = capacity, .max = live->max};

	grown.entry = calloc(capacity, sizeof(*grown.entry));
	if (!grown.entry)
		return false;
	for (size_t i = 0; i < live->capacity; i++) {
		const struct alloc_live_entry *old = &live->entry[i];

		if (!old->address || old->freed_ns)
			continue;
		*alloc_live_place(&grown, old->address) = *old;
		grown.used++;
		grown.lives++;
	}
	free(live->entry);
	*live = grown;
	return true;
}

/* Space for one more at a load of three quarters. */
static bool alloc_live_reserve(struct alloc_live *live)
{
	if (live->lives >= live->max)
		return false;
	if ((live->used + 1) * 4 <= live->capacity * 3)
		return true;
	if (!live->capacity)
		return alloc_live_rebuild(live, CAPACITY_MIN);
	return alloc_live_rebuild(live, (live->lives + 1) * 2 > live->capacity ? live->capacity * 2 : live->capacity);
}

bool alloc_live_add(struct alloc_live *live, uint64_t address, uint64_t bytes, enum alloc_kind kind)
{
	struct alloc_live_entry *entry = live->capacity ? alloc_live_place(live, address) : NULL;

	if (!address)
		return false;
	if (!entry || !entry->address) {
		if (!alloc_live_reserve(live))
			return false;
		entry = alloc_live_place(live, address);
		live->used++;
		live->lives++;
	} else if (entry->freed_ns) {
		if (live->lives >= live->max)
			return false;
		live->lives++;
	}
	*entry = (struct alloc_live_entry){.address = address, .bytes = bytes, .kind = (uint8_t)kind};
	return true;
}

bool alloc_live_drop(struct alloc_live *live, uint64_t address, uint64_t start_ns, uint64_t *ret_bytes)
{
	struct alloc_live_entry *entry = live->capacity && address ? alloc_live_place(live, address) : NULL;

	if (!entry || !entry->address || (entry->freed_ns && start_ns > entry->freed_ns))
		return false;
	if (!entry->freed_ns)
		live->lives--;
	entry->freed_ns = start_ns ? start_ns : 1;
	*ret_bytes = entry->bytes;
	return true;
}
