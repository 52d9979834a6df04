/* SPDX-License-Identifier: Apache-2.0 */
/* Frames on the control socket: see frame.h. */
#include <stdio.h>
#include <string.h>
#include "proto/frame.h"

static const uint8_t magic[4] = {'R', 'T', 'C', 'T'};

static uint16_t frame_get_u16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t frame_get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

size_t frame_limit(enum frame_type type)
{
	return type == FRAME_REQUEST ? FRAME_REQUEST_BYTES_MAX : FRAME_BYTES_MAX;
}

enum frame_result frame_parse(
	const uint8_t *data, size_t size_bytes, enum frame_type want, struct frame *ret, char error[FRAME_ERROR_BYTES])
{
	size_t known = size_bytes < sizeof(magic) ? size_bytes : sizeof(magic);
	uint16_t version, type;
	uint32_t length;

	*ret = (struct frame){0};
	if (known && memcmp(data, magic, known) != 0) {
		snprintf(error, FRAME_ERROR_BYTES, "what was sent is not a ranktrace control message");
		return FRAME_ERROR;
	}
	if (size_bytes < FRAME_HEADER_BYTES)
		return FRAME_NEED_MORE;
	version = frame_get_u16(data + 4);
	type = frame_get_u16(data + 6);
	length = frame_get_u32(data + 8);
	if (version != FRAME_VERSION) {
		ret->version = version;
		snprintf(error, FRAME_ERROR_BYTES, "one side speaks control version %u, the other %u", FRAME_VERSION,
			version);
		return FRAME_OTHER_VERSION;
	}
	if (type != want) {
		snprintf(error, FRAME_ERROR_BYTES, "a message of type %u came where type %u belongs", type, want);
		return FRAME_ERROR;
	}
	if (length > frame_limit(want)) {
		snprintf(error, FRAME_ERROR_BYTES, "a message of %u bytes is longer than the %zu allowed", length,
			frame_limit(want));
		return FRAME_ERROR;
	}
	ret->version = version;
	ret->size_bytes = FRAME_HEADER_BYTES + (size_t)length;
	if (size_bytes < ret->size_bytes)
		return FRAME_NEED_MORE;
	ret->body = data + FRAME_HEADER_BYTES;
	ret->body_bytes = length;
	return FRAME_MESSAGE;
}

void frame_header(uint8_t header[FRAME_HEADER_BYTES], enum frame_type type, size_t body_bytes)
{
	memcpy(header, magic, sizeof(magic));
	header[4] = FRAME_VERSION & 0xff;
	header[5] = FRAME_VERSION >> 8;
	header[6] = (uint8_t)type;
	header[7] = 0;
	for (unsigned i = 0; i < 4; i++)
		header[8 + i] = (uint8_t)(body_bytes >> (8 * i));
}
