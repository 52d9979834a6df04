/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing, linear probing, at most half full. See store_internal.h. */
#include "daemon/store/store_internal.h"

#define TEXTS_MAX 32768
#define TEXT_BYTES_MAX 1024 /* longer ones are queried each time */

struct text_entry {
	uint64_t hash;
	char *text;
	int64_t id;
};

static uint64_t hash_of(const char *text)
{
	uint64_t hash = fnv1a_text(FNV1A_START, text);

	return hash ^ (hash >> 29);
}

static struct text_entry *store_texts_place(const struct texts *texts, const char *text, uint64_t hash)
{
	size_t i = hash & (texts->capacity - 1);

	while (texts->entries[i].text && (texts->entries[i].hash != hash || !streq(texts->entries[i].text, text)))
		i = (i + 1) & (texts->capacity - 1);
	return &texts->entries[i];
}

bool texts_find(const struct texts *texts, const char *text, int64_t *ret)
{
	const struct text_entry *entry;

	if (!texts->capacity)
		return false;
	entry = store_texts_place(texts, text, hash_of(text));
	if (!entry->text)
		return false;
	*ret = entry->id;
	return true;
}

static bool store_texts_grow(struct texts *texts)
{
	struct texts larger = {.capacity = texts->capacity ? texts->capacity * 2 : 256};

	larger.entries = calloc(larger.capacity, sizeof(*larger.entries));
	if (!larger.entries)
		return false;
	for (size_t i = 0; i < texts->capacity; i++)
		if (texts->entries[i].text)
			*store_texts_place(&larger, texts->entries[i].text, texts->entries[i].hash) = texts->entries[i];
	larger.used = texts->used;
	free(texts->entries);
	*texts = larger;
	return true;
}

/* Forgetting to remember is no failure. */
void texts_add(struct texts *texts, const char *text, int64_t id)
{
	uint64_t hash = hash_of(text);
	struct text_entry *entry;
	char *copy;

	if (strnlen(text, TEXT_BYTES_MAX + 1) > TEXT_BYTES_MAX)
		return;
	if (texts->used >= TEXTS_MAX)
		texts_free(texts);
	if (2 * texts->used >= texts->capacity && !store_texts_grow(texts))
		return;
	entry = store_texts_place(texts, text, hash);
	if (entry->text)
		return;
	copy = strdup(text);
	if (!copy)
		return;
	*entry = (struct text_entry){hash, copy, id};
	texts->used++;
}

void texts_free(struct texts *texts)
{
	for (size_t i = 0; i < texts->capacity; i++)
		free(texts->entries[i].text);
	free(texts->entries);
	*texts = (struct texts){0};
}
