/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All threads of a process as one message (proto/control.proto: StackProcess): Python frames by stacks/python, native
 * ones by stacks/native, each stack one list with the Python frames in the place of the interpreter's calls, and the
 * kernel's function last. Frames of both kinds are of one moment: the thread has not run between.
 */
#ifndef RANKTRACE_STACKS_CAPTURE_CAPTURE_H
#define RANKTRACE_STACKS_CAPTURE_CAPTURE_H

#include "daemon/base/util.h"
#include "proto/control.pb-c.h"
#include "stacks/native/native.h"
#include "stacks/python/pystack.h"
#include "stacks/reply/reply.h"

#define CAPTURE_FRAMES_MAX 8192u    /* different ones of a process */
#define CAPTURE_TEXT_BYTES_MAX 512u /* of a name or path; longer ones end with "..." */

/*
 * A message for ranktrace__stack_process__free_unpacked(); NULL only without memory. `reason` says why there are no
 * threads. Threads that are not read at deadline_ns (CLOCK_MONOTONIC) are left out.
 */
Ranktrace__StackProcess *capture_process(const char *root, uint32_t pid, uint64_t deadline_ns);

/* Names for stacks that the kernel recorded as numbers (bpf/profile.h), while their process lives: sample.c. */

/* What the kernel needs to walk the Python frames of a process: `python.interps` is 0 without, and `reason` says
 * why. */
void sample_layout(uint32_t pid, struct reply_layout *ret);

/*
 * The frames of a stack as text (analyzers/base/stack.h); NULL: refused. native_cut: native callers are missing.
 * Negative errno ends sample_name().
 */
typedef int (*sample_named)(void *arg, const struct rt_profile_stack_event *stack, const char *frames, bool native_cut);

struct sample_request {
	const struct rt_profile_stack_event *const *stack;
	size_t stacks;
	const struct rt_profile_code_event **code; /* recorded; is sorted */
	size_t codes;
};

/*
 * Calls back for each stack, in their order. Code objects are compared with what was recorded of them after their names
 * were read. -ESRCH and so on: the process cannot be read.
 */
int sample_name(const char *root, uint32_t pid, const struct sample_request *request, sample_named named, void *arg);
/* As sample_name(), of a process that has ended, with the layout that it had, which may be anything. */
int sample_name_ended(
	const struct reply_layout *layout, const struct sample_request *request, sample_named named, void *arg);

/* For capture.c: frames of one thread in order, as numbers of frames of the process. */

struct capture_list {
	uint32_t *frame; /* capacity: native and Python frames together, and one of the kernel */
	size_t count;
};

/* Adds a frame to those of the process, once; false without memory or beyond CAPTURE_FRAMES_MAX. */
bool capture_add(Ranktrace__StackProcess *process, const Ranktrace__StackFrame *frame, struct capture_list *list);

/* Frees what capture_add() and capture_merge_frames() put into messages of the caller. */
void capture_forget(Ranktrace__StackProcess *process, Ranktrace__StackThread *thread);

struct capture_merge {
	const struct native_process *native;
	const struct native_thread *thread; /* NULL: none */
	const struct pystack_stack *python; /* NULL: none */
	int32_t interpreter;		    /* module with the interpreter; -1: unknown */
};

/* Outermost first. Writes thread->native_reason where native frames had to be left out. */
void capture_merge_frames(const struct capture_merge *merge, Ranktrace__StackProcess *process,
	Ranktrace__StackThread *thread, struct capture_list *list);

#endif
