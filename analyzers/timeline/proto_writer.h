/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes messages in protobuf's wire format, as much of it as a trace needs: varints, doubles, fixed64, bytes and
 * messages within messages. The caller knows the field numbers. One buffer, reused; what does not fit any more sets
 * `failed`, and the message is then to be thrown away.
 */
#ifndef RANKTRACE_TIMELINE_PROTO_WRITER_H
#define RANKTRACE_TIMELINE_PROTO_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTO_BYTES_MAX 131072 /* of one message; its length takes 4 bytes at most */

struct proto_writer {
	uint8_t data[PROTO_BYTES_MAX];
	size_t size;
	bool failed;
};

void proto_reset(struct proto_writer *writer);
void proto_uint(struct proto_writer *writer, uint32_t field, uint64_t value);
/* int32 and int64 of the wire: negative values take ten bytes. */
void proto_int(struct proto_writer *writer, uint32_t field, int64_t value);
void proto_double(struct proto_writer *writer, uint32_t field, double value);
void proto_fixed64(struct proto_writer *writer, uint32_t field, uint64_t value);
void proto_bytes(struct proto_writer *writer, uint32_t field, const void *data, size_t size);
void proto_text(struct proto_writer *writer, uint32_t field, const char *text);
/* A message as a field: begin gives the place that end takes. They nest. */
size_t proto_begin(struct proto_writer *writer, uint32_t field);
void proto_end(struct proto_writer *writer, size_t place);

#endif
