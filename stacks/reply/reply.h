/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon and its worker `stack` say to each other. A request is a struct reply_request and what it counts; the
 * worker has read memory of processes that are not trusted, so that its answer is not trusted either.
 *
 *	REPLY_THREADS	struct reply_pid each. Answer: for each in order, a length (u32, little endian) and a StackProcess of
 *			that many bytes.
 *	REPLY_LAYOUT	one struct reply_pid. Answer: one struct reply_layout.
 *	REPLY_ENDED	one struct reply_layout, as answered when the process lived, and the rest as REPLY_NAMES, which see. All
 *			code objects are recorded ones; there are no native frames.
 *	REPLY_NAMES	one struct reply_pid and struct rt_profile_stack_event each, then any number of struct
 *			rt_profile_code_event, each of event.size_bytes. Answer: for each stack in order, a struct reply_stack
 *			and its text.
 */
#ifndef RANKTRACE_STACKS_CAPTURE_REPLY_H
#define RANKTRACE_STACKS_CAPTURE_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/profile.h"
#include "proto/control.pb-c.h"
#include "stacks/python/pystack.h"

#define REPLY_PIDS_MAX 64u	       /* of a request: a rank and its children */
#define REPLY_BYTES_MAX (1u << 20)     /* of an answer */
#define REPLY_PROCESS_NS 2000000000ULL /* for one process; a rank takes 10 to 100 ms */
#define REPLY_THREADS_MAX 512u
#define REPLY_THREAD_FRAMES_MAX 2048u
#define REPLY_FRAMES_MAX 8192u
#define REPLY_TEXT_BYTES_MAX 640u

enum reply_what { REPLY_THREADS, REPLY_LAYOUT, REPLY_NAMES, REPLY_ENDED, REPLY_WHATS };

struct reply_request {
	uint32_t what;
	uint32_t count; /* of processes, or of stacks */
};

struct reply_pid {
	uint32_t pid;
	uint32_t pad0;
	uint64_t start_time_ns; /* as in struct rank: another process of this pid is not read */
};

#define REPLY_REASON_BYTES 128u

struct reply_layout {
	struct rt_profile_python python;
	struct pystack_image image;
	char reason[REPLY_REASON_BYTES]; /* why python.interps is 0 */
};

#define REPLY_STACKS_MAX 256u	     /* of a request */
#define REPLY_CODES_MAX 4096u	     /* of a request; the rest is read in memory */
#define REPLY_STACK_BYTES_MAX 16384u /* of the text of a stack; outer frames are left out beyond */

struct reply_stack {
	uint64_t stack; /* rt_profile_stack_event.stack */
	uint32_t bytes; /* of text, which follows */
	uint32_t flags; /* REPLY_STACK_* */
};

#define REPLY_STACK_REFUSED 1u
#define REPLY_STACK_NATIVE_CUT 2u /* native callers are missing: of a function without frame pointers, for example */

/* A record of the ring, or a part of a request: its numbers are those of its size. */
bool reply_stack_event_valid(const struct rt_profile_stack_event *stack, size_t size_bytes);
bool reply_code_event_valid(const struct rt_profile_code_event *code, size_t size_bytes);

/* Checks and copies a layout: offsets within what is read, texts printable. -EBADMSG: broken. */
int reply_layout_read(const uint8_t *data, size_t size_bytes, struct reply_layout *ret);
/*
 * Takes the next stack out of an answer: 1, with its text, printable and to be freed, NULL if refused; 0: no more;
 * -EBADMSG: broken. -ENOMEM.
 */
int reply_next_stack(const uint8_t **data, size_t *size_bytes, struct reply_stack *ret, char **ret_text);

/*
 * Takes the next process out of an answer: 1, a message for ranktrace__stack_process__free_unpacked() whose numbers are
 * within their bounds and whose texts are printable; 0: no more; -EBADMSG: broken, nothing more can be read.
 */
int reply_next(const uint8_t **data, size_t *size_bytes, Ranktrace__StackProcess **ret);

#endif
