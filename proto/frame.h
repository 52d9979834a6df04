/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on the control socket: a 12 byte header and a protobuf message. Pure functions over bytes, shared by the
 * daemon, tracectl and the fuzzer; nothing here reads, allocates or knows what a message says.
 *
 *   0  "RTCT"
 *   4  u16 version, little endian     the header itself never changes between versions
 *   6  u16 type: 1 request, 2 response
 *   8  u32 length of the message that follows
 */
#ifndef RANKTRACE_FRAME_H
#define RANKTRACE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define FRAME_VERSION 1u
#define FRAME_HEADER_BYTES 12u
#define FRAME_BYTES_MAX (1u << 20)	    /* of a message */
#define FRAME_REQUEST_BYTES_MAX (64u << 10) /* a request is small: 64 clients may hold this much each */
#define FRAME_ERROR_BYTES 160u

enum frame_type { FRAME_REQUEST = 1, FRAME_RESPONSE = 2 };

enum frame_result {
	FRAME_NEED_MORE, /* good so far: call again with more bytes; ret->size_bytes is how many, if known, else 0 */
	FRAME_MESSAGE,	 /* ret is complete */
	FRAME_OTHER_VERSION, /* a good header of another version: only ret->version is set, and error holds the sentence
			      */
	FRAME_ERROR	     /* not ours, or beyond a limit: error holds the sentence */
};

struct frame {
	uint16_t version;
	const uint8_t *body; /* within data */
	size_t body_bytes;
	size_t size_bytes; /* header and body */
};

/* Parses the first frame in data; refuses it at its first wrong byte. want: the expected type. */
enum frame_result frame_parse(
	const uint8_t *data, size_t size_bytes, enum frame_type want, struct frame *ret, char error[FRAME_ERROR_BYTES]);

/* The longest message of a type. */
size_t frame_limit(enum frame_type type);

/* body_bytes is at most frame_limit(type). */
void frame_header(uint8_t header[FRAME_HEADER_BYTES], enum frame_type type, size_t body_bytes);

#endif
