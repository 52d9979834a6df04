/* SPDX-License-Identifier: Apache-2.0 */
/* The wire format of protobuf.dev, "Encoding". */
#include "analyzers/timeline/trace.h"

#include <string.h>

#define LENGTH_BYTES 4 /* reserved for a length: varints may be padded */

enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

void proto_reset(struct proto_writer *writer)
{
	writer->size = 0;
	writer->failed = false;
}

static bool timeline_proto_writer_fits(struct proto_writer *writer, size_t size)
{
	if (size > PROTO_BYTES_MAX - writer->size)
		writer->failed = true;
	return !writer->failed;
}

static void timeline_proto_writer_put_varint(struct proto_writer *writer, uint64_t value)
{
	if (!timeline_proto_writer_fits(writer, PROTO_VARINT_BYTES))
		return;
	writer->size += proto_varint(writer->data + writer->size, value);
}

static void put_tag(struct proto_writer *writer, uint32_t field, enum wire wire)
{
	timeline_proto_writer_put_varint(writer, (uint64_t)field << 3 | (uint64_t)wire);
}

void proto_uint(struct proto_writer *writer, uint32_t field, uint64_t value)
{
	put_tag(writer, field, WIRE_VARINT);
	timeline_proto_writer_put_varint(writer, value);
}

void proto_int(struct proto_writer *writer, uint32_t field, int64_t value)
{
	proto_uint(writer, field, (uint64_t)value);
}

void proto_fixed64(struct proto_writer *writer, uint32_t field, uint64_t value)
{
	put_tag(writer, field, WIRE_FIXED64);
	if (!timeline_proto_writer_fits(writer, sizeof(value)))
		return;
	for (size_t i = 0; i < sizeof(value); i++)
		writer->data[writer->size++] = (uint8_t)(value >> 8 * i);
}

void proto_double(struct proto_writer *writer, uint32_t field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	proto_fixed64(writer, field, bits);
}

void proto_bytes(struct proto_writer *writer, uint32_t field, const void *data, size_t size)
{
	put_tag(writer, field, WIRE_BYTES);
	timeline_proto_writer_put_varint(writer, size);
	if (!timeline_proto_writer_fits(writer, size))
		return;
	memcpy(writer->data + writer->size, data, size);
	writer->size += size;
}

void proto_text(struct proto_writer *writer, uint32_t field, const char *text)
{
	proto_bytes(writer, field, text, strlen(text));
}

size_t proto_begin(struct proto_writer *writer, uint32_t field)
{
	put_tag(writer, field, WIRE_BYTES);
	if (timeline_proto_writer_fits(writer, LENGTH_BYTES))
		writer->size += LENGTH_BYTES;
	return writer->size;
}

void proto_end(struct proto_writer *writer, size_t place)
{
	size_t size = writer->size - place;

	if (writer->failed)
		return;
	for (size_t i = 0; i < LENGTH_BYTES; i++)
		writer->data[place - LENGTH_BYTES + i] =
			(uint8_t)((size >> 7 * i & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}
