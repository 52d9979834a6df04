/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/python/pystack_internal.h"

#include "analyzers/base/fnv1a.h"
#include "analyzers/base/hash.h"
#include "daemon/base/util.h"

#define TEXTS_BYTES_MAX (16u << 20) /* of all texts of a process */
#define BUCKETS 512u
#define UTF8_BYTES_MAX 4    /* of a character */
#define REPLACEMENT 0xfffdu /* of what is no character: lone surrogates of undecodable file names */
#define WIDTH_MAX 4
/* Bits of PyASCIIObject.state in a 32-bit word, in all versions: 2 of interned, then these. */
#define STATE_KIND(state) ((state) >> 2 & 7)
#define STATE_COMPACT(state) ((state) >> 5 & 1)
#define STATE_ASCII(state) ((state) >> 6 & 1)

struct pytext {
	struct hash_node node;
	char text[];
};

struct pytexts {
	struct hash_table table;
	size_t bytes;
};

struct pytexts *pytexts_new(void)
{
	struct pytexts *texts = calloc(1, sizeof(*texts));

	if (texts && hash_table_init(&texts->table, BUCKETS) < 0) {
		free(texts);
		return NULL;
	}
	return texts;
}

void pytexts_free(struct pytexts *texts)
{
	if (!texts)
		return;
	for (size_t i = 0; i <= texts->table.mask; i++)
		LIST_EACH (link, &texts->table.bucket[i])
			free(CONTAINER_OF(link, struct pytext, node.link));
	free(texts->table.bucket);
	free(texts);
}

static int pytexts_intern(struct pytexts *texts, const char *text, size_t size, const char **ret)
{
	uint64_t key = fnv1a_bytes(FNV1A_START, text, size);
	struct pytext *item;

	LIST_EACH (link, hash_table_bucket(&texts->table, key)) {
		item = CONTAINER_OF(link, struct pytext, node.link);
		if (item->node.key == key && strcmp(item->text, text) == 0) {
			*ret = item->text;
			return 0;
		}
	}
	if (texts->bytes + size > TEXTS_BYTES_MAX)
		return -ENOMEM;
	item = malloc(sizeof(*item) + size + 1);
	if (!item)
		return -ENOMEM;
	memcpy(item->text, text, size + 1);
	hash_table_put(&texts->table, &item->node, key);
	texts->bytes += size;
	*ret = item->text;
	return 0;
}

static size_t pytexts_encode(uint32_t character, char *ret)
{
	if (!character || character > 0x10ffff || (character >= 0xd800 && character <= 0xdfff))
		character = REPLACEMENT;
	if (character < 0x80) {
		ret[0] = (char)character;
		return 1;
	}
	if (character < 0x800) {
		ret[0] = (char)(0xc0 | character >> 6);
		ret[1] = (char)(0x80 | (character & 0x3f));
		return 2;
	}
	if (character < 0x10000) {
		ret[0] = (char)(0xe0 | character >> 12);
		ret[1] = (char)(0x80 | (character >> 6 & 0x3f));
		ret[2] = (char)(0x80 | (character & 0x3f));
		return 3;
	}
	ret[0] = (char)(0xf0 | character >> 18);
	ret[1] = (char)(0x80 | (character >> 12 & 0x3f));
	ret[2] = (char)(0x80 | (character >> 6 & 0x3f));
	ret[3] = (char)(0x80 | (character & 0x3f));
	return 4;
}

int pytexts_read(struct pytexts *texts, struct pymem *memory, const struct pylayout *layout, uint64_t type,
	uint64_t address, const char **ret)
{
	uint8_t data[PYTEXT_CHARACTERS_MAX * WIDTH_MAX];
	char text[PYTEXT_CHARACTERS_MAX * UTF8_BYTES_MAX + 1];
	uint64_t object_type, length;
	uint32_t state, width;
	size_t size = 0;
	int r = pymem_u64(memory, address + layout->object_type, &object_type);

	if (r == 0)
		r = pymem_u64(memory, address + layout->text_length, &length);
	if (r == 0)
		r = pymem_read(memory, address + layout->text_state, &state, sizeof(state));
	if (r < 0)
		return r;
	width = STATE_KIND(state);
	/* Names of code are made by the compiler: never a subclass, never without their characters. */
	if (object_type != type || !STATE_COMPACT(state) || (width != 1 && width != 2 && width != WIDTH_MAX) ||
		(STATE_ASCII(state) && width != 1) || length > INT32_MAX)
		return -EBADMSG;
	if (length > PYTEXT_CHARACTERS_MAX)
		length = PYTEXT_CHARACTERS_MAX;
	r = pymem_read(memory, address + (STATE_ASCII(state) ? layout->text_ascii : layout->text_compact), data,
		length * width);
	if (r < 0)
		return r;
	for (size_t i = 0; i < length; i++) {
		uint32_t character = 0;

		memcpy(&character, data + i * width, width); /* little-endian, as both machine architectures */
		size += pytexts_encode(character, text + size);
	}
	text[size] = 0;
	return pytexts_intern(texts, text, size, ret);
}
