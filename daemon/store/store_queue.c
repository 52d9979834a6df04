/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows waiting for the next flush, packed one after the other: table, count of values, then each value as a type byte
 * and 8 bytes, or a type byte, a 4-byte length and the text with its terminator.
 */
#include "daemon/store/store_internal.h"

#include "analyzers/base/array.h"

#define QUEUE_KEEP_BYTES (4UL << 20)

static size_t value_bytes(const struct store_value *value, size_t *ret_text)
{
	if (value->type != STORE_TEXT || !value->text)
		return 1 + sizeof(int64_t);
	*ret_text = strnlen(value->text, STORE_TEXT_BYTES_MAX);
	return 1 + sizeof(uint32_t) + *ret_text + 1;
}

static int queue_reserve(struct queue *queue, size_t need)
{
	if (queue->rows >= QUEUE_ROWS_MAX || queue->used + need > QUEUE_BYTES_MAX)
		return -ENOBUFS;
	return array_reserve((void **)&queue->data, &queue->capacity, queue->used + need, 1, QUEUE_BYTES_MAX) ? 0 : -ENOMEM;
}

int queue_put(struct queue *queue, enum schema_id table, const struct store_value *values, size_t count)
{
	size_t need = 2, texts[SCHEMA_COLUMNS_MAX] = {0};
	uint8_t *p;
	int r;

	if (count > SCHEMA_COLUMNS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < count; i++)
		need += value_bytes(&values[i], &texts[i]);
	r = queue_reserve(queue, need);
	if (r < 0)
		return r;
	p = queue->data + queue->used;
	*p++ = (uint8_t)table;
	*p++ = (uint8_t)count;
	for (size_t i = 0; i < count; i++) {
		bool text = values[i].type == STORE_TEXT && values[i].text;

		*p++ = values[i].type == STORE_TEXT && !text ? STORE_NULL : (uint8_t)values[i].type;
		if (text) {
			uint32_t length = (uint32_t)texts[i];

			memcpy(p, &length, sizeof(length));
			memcpy(p + sizeof(length), values[i].text, length);
			p[sizeof(length) + length] = 0;
			p += sizeof(length) + length + 1;
		} else {
			memcpy(p, &values[i].integer, sizeof(int64_t));
			p += sizeof(int64_t);
		}
	}
	queue->used += need;
	queue->rows++;
	return 0;
}

bool queue_next(const struct queue *queue, size_t *offset, enum schema_id *ret_table,
	struct store_value values[static SCHEMA_COLUMNS_MAX], size_t *ret_count)
{
	const uint8_t *p;

	if (*offset >= queue->used)
		return false;
	p = queue->data + *offset;
	*ret_table = (enum schema_id) * p++;
	*ret_count = *p++;
	for (size_t i = 0; i < *ret_count; i++) {
		values[i].type = *p++;
		if (values[i].type == STORE_TEXT) {
			uint32_t length;

			memcpy(&length, p, sizeof(length));
			values[i].text = (const char *)p + sizeof(length);
			p += sizeof(length) + length + 1;
		} else {
			memcpy(&values[i].integer, p, sizeof(int64_t));
			p += sizeof(int64_t);
		}
	}
	*offset = (size_t)(p - queue->data);
	return true;
}

void queue_clear(struct queue *queue)
{
	if (queue->capacity > QUEUE_KEEP_BYTES) {
		queue_free(queue);
		return;
	}
	queue->used = 0;
	queue->rows = 0;
}

void queue_free(struct queue *queue)
{
	free(queue->data);
	*queue = (struct queue){0};
}
