/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by worker.c and worker_child.c: descriptor, arguments and messages of a worker. */
#ifndef RANKTRACE_DAEMON_WORKER_WORKER_WIRE_H
#define RANKTRACE_DAEMON_WORKER_WORKER_WIRE_H

#include <stdint.h>

#define WORKER_SOCKET 3		       /* its descriptor: SOCK_SEQPACKET */
#define WORKER_CHUNK_BYTES (32u << 10) /* of an answer in one message: several fit into a socket's buffer */

/* argv of the program after its name, in decimal. */
enum worker_argument { WORKER_ARGUMENT_PARENT = 1, WORKER_ARGUMENT_MEMORY, WORKER_ARGUMENT_CPU, WORKER_ARGUMENTS };

#define WORKER_INLINE_BYTES 4096 /* of a request in its message: most have some hundred, and a memfd costs more */

/* A request's message. Its descriptors: where the bytes are too many, a memfd with them; then those of the caller. */
struct worker_request_message {
	uint64_t size_bytes;
	uint8_t bytes[WORKER_INLINE_BYTES]; /* as many as there are, or none */
};

/* Head of each message of an answer; bytes follow. */
struct worker_reply_message {
	uint32_t is_last;
	uint32_t pad0;
};

#endif
