/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines of sysTrace, by the wire format of protobuf: a key (number of the field, type), then a varint, eight or
 * four bytes, or a length and as many bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/offline/systrace/systrace_files.h"

#define US_MAX (UINT64_MAX / 2000)

enum wire { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_GROUP, WIRE_GROUP_END, WIRE_FIXED32 };

struct key {
	uint64_t field;
	enum wire wire;
};

/* Bytes of a stage, as far as they were read. */
struct bytes {
	const uint8_t *at, *end;
};

static bool take_varint(struct bytes *bytes, uint64_t *ret)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && bytes->at < bytes->end; shift += 7) {
		uint8_t byte = *bytes->at++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

static bool systrace_timeline_take(struct bytes *bytes, uint64_t count, struct bytes *ret)
{
	if (count > (uint64_t)(bytes->end - bytes->at))
		return false;
	*ret = (struct bytes){bytes->at, bytes->at + count};
	bytes->at += count;
	return true;
}

/* The value, or where the bytes are. */
static bool systrace_timeline_take_field(struct bytes *bytes, struct key *key, uint64_t *value, struct bytes *text)
{
	uint64_t head;

	if (!take_varint(bytes, &head))
		return false;
	*key = (struct key){head >> 3, (enum wire)(head & 7)};
	switch (key->wire) {
	case WIRE_VARINT:
		return take_varint(bytes, value);
	case WIRE_FIXED64:
		return systrace_timeline_take(bytes, 8, text);
	case WIRE_BYTES:
		return take_varint(bytes, value) && systrace_timeline_take(bytes, *value, text);
	case WIRE_FIXED32:
		return systrace_timeline_take(bytes, 4, text);
	default:
		return false; /* groups are of no such file */
	}
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

	*ret = (struct systrace_stage){.number = 0};
	while (bytes.at < bytes.end) {
		struct bytes text = {NULL, NULL};
		uint64_t value = 0;
		struct key key;

		if (!systrace_timeline_take_field(&bytes, &key, &value, &text))
			return false;
		if (key.field == 1 && key.wire == WIRE_VARINT)
			ret->number = value;
		else if (key.field == 2 && key.wire == WIRE_BYTES)
			systrace_timeline_copy_text(ret->name, sizeof(ret->name), text);
		else if (key.field == 3 && key.wire == WIRE_VARINT)
			start_us = value;
		else if (key.field == 4 && key.wire == WIRE_VARINT)
			end_us = value;
	}
	ret->start_ns = start_us * 1000;
	ret->end_ns = end_us * 1000;
	return start_us && start_us < US_MAX && end_us < US_MAX && end_us >= start_us;
}

/* Of the file itself. 1: there; 0: it ends before the first byte; negative errno. */
static int read_varint(FILE *file, uint64_t *ret)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		int byte = getc(file);

		if (byte == EOF)
			return ferror(file) ? -EIO : shift ? -ENODATA : 0;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = value;
			return 1;
		}
	}
	return -EBADMSG;
}

static int systrace_timeline_pass_over(FILE *file, uint64_t count)
{
	char buffer[4096];

	while (count) {
		size_t part = count < sizeof(buffer) ? (size_t)count : sizeof(buffer);

		if (fread(buffer, 1, part, file) != part)
			return ferror(file) ? -EIO : -ENODATA;
		count -= part;
	}
	return 0;
}

struct reading {
	FILE *file;
	const struct systrace_sink *sink;
	struct systrace_said *said;
	uint8_t *record;
};

/* The bytes of a field of the file's message, of which we want stages and the job. */
static int read_bytes(struct reading *reading, uint64_t field)
{
	struct systrace_said *said = reading->said;
	struct systrace_stage stage;
	struct bytes bytes;
	uint64_t size = 0;
	int r = read_varint(reading->file, &size);

	if (r <= 0)
		return r < 0 ? r : -ENODATA;
	if ((field != 1 && field != 4) || size > SYSTRACE_RECORD_BYTES) {
		said->dropped += field == 1;
		return systrace_timeline_pass_over(reading->file, size);
	}
	if (fread(reading->record, 1, size, reading->file) != size)
		return ferror(reading->file) ? -EIO : -ENODATA;
	bytes = (struct bytes){reading->record, reading->record + size};
	if (field == 4) {
		systrace_timeline_copy_text(said->job, sizeof(said->job), bytes);
		if (strcmp(said->job, "NONE") == 0)
			said->job[0] = 0;
		return 0;
	}
	said->records++;
	if (!parse_stage(bytes, &stage)) {
		said->dropped++;
		return 0;
	}
	return reading->sink->stage ? reading->sink->stage(reading->sink->arg, &stage) : 0;
}

static int read_field(struct reading *reading, uint64_t head)
{
	uint64_t value = 0;
	int r;

	switch ((enum wire)(head & 7)) {
	case WIRE_VARINT:
		r = read_varint(reading->file, &value);
		if (r > 0 && head >> 3 == 2)
			reading->said->rank = value <= INT32_MAX ? (int64_t)value : -1;
		return r > 0 ? 0 : r < 0 ? r : -ENODATA;
	case WIRE_FIXED64:
		return systrace_timeline_pass_over(reading->file, 8);
	case WIRE_BYTES:
		return head >> 3 ? read_bytes(reading, head >> 3) : -EBADMSG;
	case WIRE_FIXED32:
		return systrace_timeline_pass_over(reading->file, 4);
	default:
		return -EBADMSG;
	}
}

int systrace_timeline_read(FILE *file, const struct systrace_sink *sink, struct systrace_said *said)
{
	struct reading reading = {file, sink, said, malloc(SYSTRACE_RECORD_BYTES)};
	uint64_t head = 0;
	int r;

	*said = (struct systrace_said){.rank = -1};
	if (!reading.record)
		return -ENOMEM;
	while ((r = read_varint(file, &head)) > 0) {
		r = read_field(&reading, head);
		if (r < 0)
			break;
	}
	free(reading.record);
	if (r != -ENODATA)
		return r;
	said->cut = true;
	return 0;
}
