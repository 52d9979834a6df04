/* SPDX-License-Identifier: Apache-2.0 */
/* Texts are stored contiguously, found by a hash table with open addressing. */
#include "analyzers/base/text_pool.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/fnv1a.h"

#define PLACES_MIN 256 /* a power of two, as TEXT_POOL_MAX is */

struct slot {
	uint32_t hash, number; /* 0: free */
};

struct text_pool {
	size_t count, places; /* slots: twice as many */
	struct slot *slot;
	uint32_t *place; /* of text n - 1 in bytes[] */
	size_t bytes_used, bytes_capacity;
	char *bytes;
};

struct text_pool *text_pool_new(void)
{
	return calloc(1, sizeof(struct text_pool));
}

struct text_pool *text_pool_free(struct text_pool *texts)
{
	if (!texts)
		return NULL;
	free(texts->slot);
	free(texts->place);
	free(texts->bytes);
	free(texts);
	return NULL;
}

/* Matching or free slot. */
static struct slot *text_pool_slot_of(const struct text_pool *texts, uint32_t hash, const char *text)
{
	size_t slots = 2 * texts->places, at = hash & (slots - 1);

	while (texts->slot[at].number &&
		(texts->slot[at].hash != hash || strcmp(text_pool_text(texts, texts->slot[at].number), text) != 0))
		at = (at + 1) & (slots - 1);
	return &texts->slot[at];
}

static bool text_pool_grow_places(struct text_pool *texts)
{
	size_t places = texts->places ? 2 * texts->places : PLACES_MIN;
	struct slot *slot;
	uint32_t *place;

	if (texts->count < texts->places)
		return true;
	if (places > TEXT_POOL_MAX)
		return false;
	place = realloc(texts->place, places * sizeof(*place));
	if (!place)
		return false;
	texts->place = place;
	slot = calloc(2 * places, sizeof(*slot));
	if (!slot)
		return false;
	for (size_t i = 0; i < 2 * texts->places; i++) {
		size_t at = texts->slot[i].hash & (2 * places - 1);

		while (texts->slot[i].number && slot[at].number)
			at = (at + 1) & (2 * places - 1);
		if (texts->slot[i].number)
			slot[at] = texts->slot[i];
	}
	free(texts->slot);
	texts->slot = slot;
	texts->places = places;
	return true;
}

uint32_t text_pool_number(struct text_pool *texts, const char *text)
{
	uint32_t hash = (uint32_t)fnv1a_text(FNV1A_START, text);
	size_t size = strlen(text) + 1;
	struct slot *slot = texts->places ? text_pool_slot_of(texts, hash, text) : NULL;

	if (slot && slot->number)
		return slot->number;
	if (!text_pool_grow_places(texts) || !array_reserve((void **)&texts->bytes, &texts->bytes_capacity,
						     texts->bytes_used + size, 1, TEXT_POOL_BYTES_MAX))
		return 0;
	slot = text_pool_slot_of(texts, hash, text);
	texts->place[texts->count] = (uint32_t)texts->bytes_used;
	memcpy(texts->bytes + texts->bytes_used, text, size);
	texts->bytes_used += size;
	*slot = (struct slot){hash, (uint32_t)++texts->count};
	return slot->number;
}

const char *text_pool_text(const struct text_pool *texts, uint32_t number)
{
	return number && number <= texts->count ? texts->bytes + texts->place[number - 1] : NULL;
}
