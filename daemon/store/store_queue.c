/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows waiting for the next flush, packed one after the other: table, count of values, then each value. A value is a
 * byte that has its type (low half) and the bytes of its number (high half), then that number, its lowest byte first:
 * an integer zigzag-coded, so that small ones of either sign are short, the bits of a real, or the length of a text,
 * which follows with its terminator. An absent value is that one byte.
 */
#include "daemon/store/store_internal.h"

#include "analyzers/base/array.h"

#define QUEUE_KEEP_BYTES (4UL << 20)

#define VALUE_BYTES_MAX (1 + sizeof(uint64_t)) /* without a text */
#define TYPE_BITS 4

struct packed {
	uint8_t head[VALUE_BYTES_MAX];
	unsigned head_bytes;
	const char *text;
	size_t text_bytes; /* without its terminator */
};

static void value_pack(const struct store_value *value, struct packed *ret)
{
	bool text = value->type == STORE_TEXT && value->text;
	unsigned type = value->type == STORE_TEXT && !text ? STORE_NULL : value->type, bytes = 0;
	uint64_t number = 0;

	*ret = (struct packed){0};
	if (text) {
		ret->text = value->text;
		number = ret->text_bytes = strnlen(value->text, STORE_TEXT_BYTES_MAX);
	} else if (type == STORE_INT) {
		number = (uint64_t)value->integer << 1 ^ (uint64_t)(value->integer >> 63);
	} else if (type == STORE_REAL) {
		memcpy(&number, &value->real, sizeof(number));
	}
	for (; number; number >>= 8)
		ret->head[1 + bytes++] = (uint8_t)number;
	ret->head[0] = (uint8_t)(type | bytes << TYPE_BITS);
	ret->head_bytes = 1 + bytes;
}

/* Where the next value begins. */
static const uint8_t *value_unpack(const uint8_t *p, struct store_value *ret)
{
	unsigned bytes = *p >> TYPE_BITS;
	uint64_t number = 0;

	ret->type = *p++ & ((1U << TYPE_BITS) - 1);
	for (unsigned i = 0; i < bytes; i++)
		number |= (uint64_t)*p++ << (8 * i);
	if (ret->type == STORE_TEXT) {
		ret->text = (const char *)p;
		return p + number + 1;
	}
	if (ret->type == STORE_REAL)
		memcpy(&ret->real, &number, sizeof(number));
	else
		ret->integer = (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
	return p;
}

static int queue_reserve(struct queue *queue, size_t need)
{
	if (queue->rows >= QUEUE_ROWS_MAX || queue->used + need > QUEUE_BYTES_MAX)
		return -ENOBUFS;
	return array_reserve((void **)&queue->data, &queue->capacity, queue->used + need, 1, QUEUE_BYTES_MAX) ? 0
													      : -ENOMEM;
}

int queue_put(struct queue *queue, enum schema_id table, const struct store_value *values, size_t count)
{
	struct packed packed[SCHEMA_COLUMNS_MAX];
	size_t need = 2;
	uint8_t *p;
	int r;

	if (count > SCHEMA_COLUMNS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		value_pack(&values[i], &packed[i]);
		need += packed[i].head_bytes + (packed[i].text ? packed[i].text_bytes + 1 : 0);
	}
	r = queue_reserve(queue, need);
	if (r < 0)
		return r;
	p = queue->data + queue->used;
	*p++ = (uint8_t)table;
	*p++ = (uint8_t)count;
	for (size_t i = 0; i < count; i++) {
		p = mempcpy(p, packed[i].head, packed[i].head_bytes);
		if (packed[i].text) {
			p = mempcpy(p, packed[i].text, packed[i].text_bytes);
			*p++ = 0;
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
	for (size_t i = 0; i < *ret_count; i++)
		p = value_unpack(p, &values[i]);
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
