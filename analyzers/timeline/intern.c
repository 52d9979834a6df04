/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing in twice the bound of slots; texts are stored contiguously. */
#include "analyzers/timeline/trace.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/fnv1a.h"

#define SLOTS (2 * INTERN_TEXTS_MAX)

struct slot {
	uint32_t hash;
	uint32_t place;	 /* of the text in bytes[] */
	uint32_t number; /* 0: free */
	uint32_t kind;
};

struct intern {
	size_t texts, bytes_used;
	uint32_t numbers[INTERN_KINDS];
	struct slot slot[SLOTS];
	char bytes[INTERN_BYTES_MAX];
};

struct intern *intern_new(void)
{
	return calloc(1, sizeof(struct intern));
}

struct intern *intern_free(struct intern *intern)
{
	free(intern);
	return NULL;
}

bool intern_fits(const struct intern *intern, size_t texts, size_t bytes)
{
	return texts <= INTERN_TEXTS_MAX - intern->texts && bytes <= INTERN_BYTES_MAX - intern->bytes_used;
}

void intern_clear(struct intern *intern)
{
	intern->texts = intern->bytes_used = 0;
	memset(intern->numbers, 0, sizeof(intern->numbers));
	memset(intern->slot, 0, sizeof(intern->slot));
}

uint64_t intern_number(struct intern *intern, enum intern_kind kind, const char *text, bool *ret_new)
{
	uint32_t hash = (uint32_t)fnv1a_text(FNV1A_START ^ (uint64_t)kind, text);
	size_t size = strlen(text) + 1, at = hash % SLOTS;
	struct slot *slot;

	for (; (slot = &intern->slot[at])->number; at = (at + 1) % SLOTS)
		if (slot->hash == hash && slot->kind == (uint32_t)kind &&
			strcmp(intern->bytes + slot->place, text) == 0) {
			*ret_new = false;
			return slot->number;
		}
	assert(intern_fits(intern, 1, size));
	memcpy(intern->bytes + intern->bytes_used, text, size);
	*slot = (struct slot){hash, (uint32_t)intern->bytes_used, ++intern->numbers[kind], (uint32_t)kind};
	intern->bytes_used += size;
	intern->texts++;
	*ret_new = true;
	return slot->number;
}
