/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of many threads side by side: which are the same, who is where, and who is alone. Pure; the caller owns all
 * texts, which may hold anything printable.
 *
 * Frames are outermost first, innermost last. What compares is what people see: frames of Python's own code
 * ("interpreter") and of the kernel do not count.
 */
#ifndef RANKTRACE_BASE_STACK_H
#define RANKTRACE_BASE_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STACK_SENTENCE_BYTES 512u
#define STACK_PLACE_BYTES 192u
#define STACK_FRAMES_BYTES_MAX 60000u /* of stack_frames_text() */

struct stack_frame {
	const char *kind;	     /* "python", "native", "interpreter", "kernel" */
	const char *function, *file; /* "" if unknown */
	uint32_t line;		     /* 0: unknown */
	uint64_t address;	     /* of native frames without a function */
};

struct stack_thread {
	int32_t rank; /* of a child, that of its rank */
	uint32_t pid, thread_id;
	bool is_rank; /* not of a child, such as a data loader's worker */
	bool main, has_gil;
	const char *job, *name, *state, *wait; /* state: letter of /proc */
	size_t frames;
	const struct stack_frame *frame;
};

/* Threads with the same stack and part: main thread of a rank, other thread, child. */
struct stack_group {
	size_t first, count; /* in the order of struct stack_groups */
	bool alone;	     /* a rank whose main thread is where no other's is */
};

struct stack_groups {
	size_t *order; /* numbers of threads, group by group; ranks ascend within one */
	size_t threads;
	struct stack_group *group; /* main threads of ranks first, the lone one first of these */
	size_t groups;
};

/* False without memory. */
bool stack_groups_new(const struct stack_thread *threads, size_t count, struct stack_groups *ret);
void stack_groups_free(struct stack_groups *groups);

/* Does the frame count where stacks are compared and shown? */
bool stack_frame_shows(const struct stack_frame *frame);
bool stack_frame_is_python(const struct stack_frame *frame);
/* Native code of the C library, by the name of its file. */
bool stack_frame_is_c_library(const struct stack_frame *frame);
/* Python code that others wrote: the standard library and installed packages. */
bool stack_frame_is_library(const struct stack_frame *frame);
/* "burn (gpt.py:54)", "c10d::Work::wait (libtorch_cpu.so)"; with `full` the whole path and parameters. */
const char *stack_frame_text(const struct stack_frame *frame, bool full, char *ret, size_t size);
/* The innermost Python frame, of a library also who called it: "wait (threading.py:327) from load (gpt.py:31)". */
const char *stack_place(const struct stack_thread *thread, char ret[STACK_PLACE_BYTES]);
/* What it does: "runs", "is stopped", "waits: read 5 (pipe:[7])". */
const char *stack_doing(const struct stack_thread *thread, char *ret, size_t size);
/* In a communication library, waiting for other ranks or about to. */
bool stack_communicates(const struct stack_thread *thread);
/* For a lock, a condition or an event of its process. */
bool stack_waits_for_lock(const struct stack_thread *thread);

/*
 * One sentence about the main threads of ranks of one job: "rank 1 is alone in burn (gpt.py:54), which runs; 3 others
 * are in all_reduce (distributed_c10d.py:1700) from step (gpt.py:91)". "" where there is none.
 */
void stack_sentence(const struct stack_thread *threads, size_t count, char ret[STACK_SENTENCE_BYTES]);

/*
 * Frames as text, one a line, as the store keeps them: "python burn (/job/gpt.py:54)". Interpreter frames are left out;
 * outermost ones where the text would be longer than size.
 */
void stack_frames_text(const struct stack_thread *thread, char *ret, size_t size);
/* Reverses it: splits `text`, which it changes and the frames point into. Yields how many, at most `max`. */
size_t stack_frames_parse(char *text, struct stack_frame *ret, size_t max);
/* stack_place() of such a text. */
const char *stack_frames_place(const char *text, char ret[STACK_PLACE_BYTES]);

#endif
