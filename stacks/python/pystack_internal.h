/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share of a process, and the doors for tests that bring their own memory. */
#ifndef RANKTRACE_STACKS_PYTHON_PYSTACK_INTERNAL_H
#define RANKTRACE_STACKS_PYTHON_PYSTACK_INTERNAL_H

#include "stacks/python/image.h"
#include "stacks/python/layout.h"
#include "stacks/python/memory.h"
#include "stacks/python/pystack.h"
#include "stacks/still/still.h"

#define PYSTACK_PROC "/proc"

/* Python strings as UTF-8, each text kept once. */
#define PYTEXT_CHARACTERS_MAX 1024u /* of a string; the rest is cut */

struct pytexts;

struct pytexts *pytexts_new(void);
void pytexts_free(struct pytexts *texts);
/*
 * The str object at this address. -EBADMSG: it is none. -ENOMEM: also if all texts are too large. Else errors of
 * pymem_read(). The text belongs to `texts`.
 */
int pytexts_read(struct pytexts *texts, struct pymem *memory, const struct pylayout *layout, uint64_t type,
	uint64_t address, const char **ret);

/* A frame as found in memory, innermost first. */
struct pyframe {
	uint64_t code;
	uint64_t instruction; /* word at frame_instruction */
	bool entry;
	bool complete; /* a generator's frame always runs its function */
};

struct pystack {
	pid_t pid; /* 0: memory of a test, with neither threads nor proofs */
	struct pymem *memory;
	struct pyimage image;
	struct pylayout layout;
	struct pytexts *texts;
	struct still still;
	struct pystack_version version;
	struct pystack_counts counts;
	const struct rt_profile_code_event **code; /* by rt_profile_code_order() */
	size_t codes;
	bool lineless; /* of the code object that is being named, the table of lines is not recorded */
	struct pyframe frame[PYSTACK_FRAMES_MAX];
	uint64_t address[4 * PYSTACK_FRAMES_MAX]; /* to prefetch */
};

/* Without image and layout. arg NULL: the process's id, once it is set. NULL: out of memory. */
struct pystack *pystack_new(const struct pymem_ops *ops, void *arg);
/* With the memory of `ops` and no process: still.h is not asked, and thread ids are those of the thread states. */
int pystack_open_memory(const struct pymem_ops *ops, void *arg, uint64_t base, const char *path, struct pystack **ret,
	enum pystack_refusal *ret_why);

/*
 * The frames of a thread state as the memory shows them now; the caller proves that the thread did not run. -ENOTSUP:
 * *ret_why. Else errors of pymem_read().
 */
int pyframes_read(struct pystack *stack, const struct pystack_thread *thread, struct pystack_stack *ret,
	enum pystack_refusal *ret_why);
/* 1: the frame counts; 0: its function has not begun, as Python's own walks leave it out. */
int pyframes_resolve(struct pystack *stack, const struct pyframe *frame, struct pystack_frame *ret);
/* Errors of the process itself are no refusal. */
int pyframes_refuse(int r, enum pystack_refusal why, enum pystack_refusal *ret_why);
/* Whether the thread state holds the lock of its interpreter, at most one of which is locked by it. */
int pythreads_has_gil(struct pystack *stack, uint64_t interp, uint64_t state, bool *ret);

#endif
