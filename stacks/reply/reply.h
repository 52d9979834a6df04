/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon and its worker `stack` say to each other. A request is an array of struct reply_pid; the answer is,
 * for each in order, a length (u32, little endian) and a StackProcess of that many bytes. The worker has read memory of
 * processes that are not trusted, so that its answer is not trusted either.
 */
#ifndef RANKTRACE_STACKS_CAPTURE_REPLY_H
#define RANKTRACE_STACKS_CAPTURE_REPLY_H

#include <stddef.h>
#include <stdint.h>

#include "proto/control.pb-c.h"

#define REPLY_PIDS_MAX 64u			/* of a request: a rank and its children */
#define REPLY_BYTES_MAX (1u << 20)		/* of an answer */
#define REPLY_PROCESS_NS 2000000000ULL	/* for one process; a rank takes 10 to 100 ms */
#define REPLY_THREADS_MAX 512u
#define REPLY_THREAD_FRAMES_MAX 2048u
#define REPLY_FRAMES_MAX 8192u
#define REPLY_TEXT_BYTES_MAX 640u

struct reply_pid {
	uint32_t pid;
	uint32_t pad0;
	uint64_t start_time_ns; /* as in struct rank: another process of this pid is not read */
};

/*
 * Takes the next process out of an answer: 1, a message for ranktrace__stack_process__free_unpacked() whose numbers are
 * within their bounds and whose texts are printable; 0: no more; -EBADMSG: broken, nothing more can be read.
 */
int reply_next(const uint8_t **data, size_t *size_bytes, Ranktrace__StackProcess **ret);

#endif
