/* SPDX-License-Identifier: Apache-2.0 */
/* Cache of a segment's texts by number: a hash table with open addressing. */
#include <stdlib.h>
#include <string.h>

#include "analyzers/store/reader_internal.h"
#include "analyzers/store/reader_scan.h"

#define TEXTS_MAX 16384
#define SLOTS_MIN 64 /* a power of two */

struct slot {
	int64_t id;
	char *text; /* NULL: free */
};

struct reader_texts {
	struct reader_connection *connection;
	sqlite3_stmt *find;
	size_t count, slots;
	struct slot *slot;
};

static struct slot *reader_texts_slot_of(struct slot *slot, size_t slots, int64_t id)
{
	size_t at = (size_t)((uint64_t)id * 0x9e3779b97f4a7c15ULL >> 32) & (slots - 1);

	while (slot[at].text && slot[at].id != id)
		at = (at + 1) & (slots - 1);
	return &slot[at];
}

static bool reader_texts_grow(struct reader_texts *texts)
{
	size_t slots = texts->slots ? 2 * texts->slots : SLOTS_MIN;
	struct slot *slot;

	if (2 * (texts->count + 1) <= texts->slots)
		return true;
	slot = calloc(slots, sizeof(*slot));
	if (!slot)
		return false;
	for (size_t i = 0; i < texts->slots; i++)
		if (texts->slot[i].text)
			*reader_texts_slot_of(slot, slots, texts->slot[i].id) = texts->slot[i];
	free(texts->slot);
	texts->slot = slot;
	texts->slots = slots;
	return true;
}

static void reader_texts_clear(struct reader_texts *texts)
{
	for (size_t i = 0; i < texts->slots; i++)
		free(texts->slot[i].text);
	free(texts->slot);
	texts->slot = NULL;
	texts->slots = texts->count = 0;
}

int reader_texts_open(struct reader_connection *connection)
{
	struct reader_texts *texts;
	int rc;

	if (connection->texts)
		return SQLITE_OK;
	texts = calloc(1, sizeof(*texts));
	if (!texts)
		return SQLITE_NOMEM;
	rc = sqlite3_prepare_v2(connection->db, "SELECT text FROM texts WHERE id=?1", -1, &texts->find, NULL);
	if (rc != SQLITE_OK) {
		free(texts);
		return rc;
	}
	texts->connection = connection;
	connection->texts = texts;
	return SQLITE_OK;
}

struct reader_texts *reader_texts_close(struct reader_texts *texts)
{
	if (!texts)
		return NULL;
	sqlite3_finalize(texts->find);
	reader_texts_clear(texts);
	free(texts);
	return NULL;
}

void reader_texts_tidy(struct reader_texts *texts)
{
	if (texts->count >= TEXTS_MAX)
		reader_texts_clear(texts);
}

static int reader_texts_read_text(struct reader_texts *texts, int64_t id, char **ret)
{
	const char *text;
	int rc;

	*ret = NULL;
	sqlite3_bind_int64(texts->find, 1, id);
	rc = reader_guard_step(texts->connection, &texts->connection->others, texts->find);
	if (rc == SQLITE_ROW && sqlite3_column_type(texts->find, 0) != SQLITE_NULL) {
		text = (const char *)sqlite3_column_text(texts->find, 0);
		*ret = text ? strndup(text, READER_SCAN_TEXT_BYTES - 1) : NULL;
		rc = *ret ? SQLITE_OK : SQLITE_NOMEM;
	} else if (rc == SQLITE_ROW || rc == SQLITE_DONE) {
		rc = SQLITE_OK;
	}
	sqlite3_reset(texts->find);
	return rc;
}

int reader_texts_find(struct reader_texts *texts, int64_t id, const char **ret)
{
	struct slot *slot;
	int rc;

	if (texts->slots) {
		slot = reader_texts_slot_of(texts->slot, texts->slots, id);
		*ret = slot->text;
		if (slot->text)
			return SQLITE_OK;
	}
	*ret = NULL;
	if (!reader_texts_grow(texts))
		return SQLITE_NOMEM;
	slot = reader_texts_slot_of(texts->slot, texts->slots, id);
	rc = reader_texts_read_text(texts, id, &slot->text);
	if (!slot->text)
		return rc;
	slot->id = id;
	texts->count++;
	*ret = slot->text;
	return SQLITE_OK;
}
