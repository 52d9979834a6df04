/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers of workers as bytes, little endian. What is taken is checked: one bad field spoils the rest. */
#ifndef RANKTRACE_DAEMON_WORKER_WIRE_H
#define RANKTRACE_DAEMON_WORKER_WIRE_H

#include "analyzers/base/array.h"
#include "daemon/base/util.h"

struct wire_writer {
	uint8_t *data; /* free() */
	size_t size_bytes, capacity;
	bool failed; /* out of memory */
};

struct wire_reader {
	const uint8_t *data;
	size_t left;
	bool is_bad;
};

static inline void wire_put_bytes(struct wire_writer *writer, const void *data, size_t size_bytes)
{
	writer->failed |=
		!array_reserve((void **)&writer->data, &writer->capacity, writer->size_bytes + size_bytes, 1, SIZE_MAX);
	if (writer->failed)
		return;
	if (size_bytes)
		memcpy(writer->data + writer->size_bytes, data, size_bytes);
	writer->size_bytes += size_bytes;
}

static inline void wire_put(struct wire_writer *writer, uint64_t value, unsigned bytes)
{
	uint8_t data[8];

	for (unsigned i = 0; i < bytes; i++)
		data[i] = (uint8_t)(value >> (8 * i));
	wire_put_bytes(writer, data, bytes);
}

static inline void wire_free(struct wire_writer *writer)
{
	free(writer->data);
	*writer = (struct wire_writer){0};
}

/* NULL: fewer are left. */
static inline const uint8_t *wire_take_bytes(struct wire_reader *reader, size_t size_bytes)
{
	const uint8_t *data = reader->data;

	if (reader->is_bad || reader->left < size_bytes) {
		reader->is_bad = true;
		return NULL;
	}
	reader->data += size_bytes;
	reader->left -= size_bytes;
	return data;
}

static inline uint64_t wire_number(const uint8_t *data, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; data && i < bytes; i++)
		value |= (uint64_t)data[i] << (8 * i);
	return value;
}

static inline uint64_t wire_take(struct wire_reader *reader, unsigned bytes)
{
	return wire_number(wire_take_bytes(reader, bytes), bytes);
}

/* Bad above max. */
static inline uint64_t wire_take_up_to(struct wire_reader *reader, unsigned bytes, uint64_t max)
{
	uint64_t value = wire_take(reader, bytes);

	reader->is_bad |= value > max;
	return reader->is_bad ? 0 : value;
}

/* A negative errno, or a number up to max. */
static inline int32_t wire_take_result(struct wire_reader *reader, int32_t max)
{
	int32_t value = (int32_t)wire_take(reader, 4);

	reader->is_bad |= value < -4095 || value > max;
	return reader->is_bad ? 0 : value;
}

#endif
