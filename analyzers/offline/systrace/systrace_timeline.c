/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines of sysTrace, by the wire format of protobuf: a key (number of the field, type), then a varint, eight or
 * four bytes, or a length and as many bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/offline/systrace/systrace_files.h"

#define US_MAX (UINT64_MAX / 2000)

enum wire { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_GROUP, WIRE_GROUP_END, WIRE_FIXED32 };

struct bytes {
	const uint8_t *at, *end;
};

struct wire_field {
	uint64_t number, value; /* value: of a varint */
	enum wire wire;
	struct bytes bytes; /* of all others */
};

/* 0, -ENODATA: they end within it, -EBADMSG. */
static int take_varint(struct bytes *bytes, uint64_t *ret)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (bytes->at == bytes->end)
			return -ENODATA;
		value |= (uint64_t)(*bytes->at & 0x7f) << shift;
		if (!(*bytes->at++ & 0x80)) {
			*ret = value;
			return 0;
		}
	}
	return -EBADMSG;
}

static int take_field(struct bytes *bytes, struct wire_field *ret)
{
	static const uint8_t sizes[] = {[WIRE_FIXED64] = 8, [WIRE_FIXED32] = 4};
	uint64_t head = 0, size;
	int r = take_varint(bytes, &head);

	if (r < 0)
		return r;
	*ret = (struct wire_field){.number = head >> 3, .wire = (enum wire)(head & 7)};
	if (ret->wire == WIRE_VARINT)
		return take_varint(bytes, &ret->value);
	/* Groups are of no such file. */
	if ((ret->wire != WIRE_BYTES && (ret->wire > WIRE_FIXED32 || !sizes[ret->wire])) || !ret->number)
		return -EBADMSG;
	size = sizes[ret->wire];
	if (ret->wire == WIRE_BYTES)
		r = take_varint(bytes, &size);
	if (r < 0 || size > (uint64_t)(bytes->end - bytes->at))
		return r < 0 ? r : -ENODATA;
	ret->bytes = (struct bytes){bytes->at, bytes->at + size};
	bytes->at += size;
	return 0;
}

static void systrace_timeline_copy_text(char *to, size_t size, struct bytes from)
{
	size_t count = (size_t)(from.end - from.at);

	if (count >= size)
		count = size - 1;
	memcpy(to, from.at, count);
	to[count] = 0;
	for (char *p = to; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
}

static bool parse_stage(struct bytes bytes, struct systrace_stage *ret)
{
	uint64_t start_us = 0, end_us = 0;
	struct wire_field field;

	*ret = (struct systrace_stage){.number = 0};
	while (bytes.at < bytes.end) {
		if (take_field(&bytes, &field) < 0)
			return false;
		if (field.number == 1 && field.wire == WIRE_VARINT)
			ret->number = field.value;
		else if (field.number == 2 && field.wire == WIRE_BYTES)
			systrace_timeline_copy_text(ret->name, sizeof(ret->name), field.bytes);
		else if (field.number == 3 && field.wire == WIRE_VARINT)
			start_us = field.value;
		else if (field.number == 4 && field.wire == WIRE_VARINT)
			end_us = field.value;
	}
	ret->start_ns = start_us * 1000;
	ret->end_ns = end_us * 1000;
	return start_us && start_us < US_MAX && end_us < US_MAX && end_us >= start_us;
}

static int on_record(struct bytes bytes, const struct systrace_sink *sink, struct systrace_said *said)
{
	struct systrace_stage stage;
	bool fits = bytes.end - bytes.at <= SYSTRACE_RECORD_BYTES;

	said->records += fits;
	if (!fits || !parse_stage(bytes, &stage)) {
		said->dropped++;
		return 0;
	}
	return sink->stage ? sink->stage(sink->arg, &stage) : 0;
}

/* Of the file's message. */
static int on_field(const struct wire_field *field, const struct systrace_sink *sink, struct systrace_said *said)
{
	if (field->number == 1 && field->wire == WIRE_BYTES)
		return on_record(field->bytes, sink, said);
	if (field->number == 2 && field->wire == WIRE_VARINT)
		said->rank = field->value <= INT32_MAX ? (int64_t)field->value : -1;
	if (field->number != 4 || field->wire != WIRE_BYTES)
		return 0;
	systrace_timeline_copy_text(said->job, sizeof(said->job), field->bytes);
	if (strcmp(said->job, "NONE") == 0)
		said->job[0] = 0;
	return 0;
}

static int read_file(FILE *file, uint8_t **ret, size_t *ret_size_bytes, bool *ret_cut)
{
	size_t capacity = 0, size = 0, n;

	do {
		if (!array_reserve(
			    (void **)ret, &capacity, size + SYSTRACE_RECORD_BYTES, 1, SYSTRACE_TIMELINE_BYTES_MAX)) {
			*ret_cut = size + SYSTRACE_RECORD_BYTES > SYSTRACE_TIMELINE_BYTES_MAX;
			*ret_size_bytes = size;
			return *ret_cut ? 0 : -ENOMEM;
		}
		n = fread(*ret + size, 1, capacity - size, file);
		size += n;
	} while (n);
	*ret_size_bytes = size;
	return ferror(file) ? -EIO : 0;
}

int systrace_timeline_read(FILE *file, const struct systrace_sink *sink, struct systrace_said *said)
{
	uint8_t *data = NULL;
	struct bytes bytes;
	struct wire_field field;
	size_t size = 0;
	int r;

	*said = (struct systrace_said){.rank = -1};
	r = read_file(file, &data, &size, &said->cut);
	bytes = (struct bytes){data, data + size};
	while (r == 0 && bytes.at < bytes.end) {
		r = take_field(&bytes, &field);
		if (r == -ENODATA) {
			said->cut = true;
			r = 0;
			break;
		}
		if (r == 0)
			r = on_field(&field, sink, said);
	}
	free(data);
	return r;
}
