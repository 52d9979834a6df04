/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes messages in protobuf's wire format: varints, doubles, fixed64, bytes and nested messages. The caller knows the
 * field numbers. One reused buffer; on overflow `failed` is set and the message must be discarded.
 */
#ifndef RANKTRACE_TIMELINE_PROTO_WRITER_H
#define RANKTRACE_TIMELINE_PROTO_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTO_BYTES_MAX 131072 /* of a message, so that lengths take at most 4 bytes */

struct proto_writer {
	uint8_t data[PROTO_BYTES_MAX];
	size_t size;
	bool failed;
};

void proto_reset(struct proto_writer *writer);
void proto_uint(struct proto_writer *writer, uint32_t field, uint64_t value);
/* int32 and int64: negative values take ten bytes. */
void proto_int(struct proto_writer *writer, uint32_t field, int64_t value);
void proto_double(struct proto_writer *writer, uint32_t field, double value);
void proto_fixed64(struct proto_writer *writer, uint32_t field, uint64_t value);
void proto_bytes(struct proto_writer *writer, uint32_t field, const void *data, size_t size);
void proto_text(struct proto_writer *writer, uint32_t field, const char *text);
/* A nested message: pass the result of begin to end. */
size_t proto_begin(struct proto_writer *writer, uint32_t field);
void proto_end(struct proto_writer *writer, size_t place);

#endif
