/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a CPython made by hand: its file's symbols, types, runtime, one interpreter, thread states, frames,
 * code objects. Tests change what they like and read it through pymem_ops.
 */
#ifndef RANKTRACE_TESTS_STACKS_WORLD_H
#define RANKTRACE_TESTS_STACKS_WORLD_H

#include "stacks/python/pystack_internal.h"

#define WORLD_BASE 0x10000000ull
#define WORLD_BYTES (128u << 10)
#define WORLD_FRAMES 8u

struct world {
	const struct pylayout *layout;
	size_t used;
	uint64_t runtime, code_type, frame_type, text_type, bytes_type, members, table;
	uint64_t interp, gil, state[2], cframe;
	uint64_t frame[WORLD_FRAMES], code[WORLD_FRAMES]; /* of Python, outermost first */
	size_t frames;
	uint64_t top; /* the innermost frame, of whatever kind */
	unsigned reads;
	struct pystack *process; /* of world_read() */
	uint8_t data[WORLD_BYTES];
};

extern const struct pymem_ops world_ops;

/* Two threads; the first has the lock and no frames yet. The world is static: zero, or made before. */
void world_make(struct world *world, unsigned minor);
/* Calls a function from the frames so far: 100 instructions, each at its own line from `first_line` on. */
void world_call(struct world *world, const char *name, int32_t first_line, unsigned instruction);
/* C calls the eval loop: from 3.12 with a frame of its own, before it nothing. The first function is called so. */
void world_shim(struct world *world);
/* The same in 3.11, where the frame says that it was called so. */
void world_entry(struct world *world, size_t frame);
/* A str object. `width` 1, 2 or 4 bytes a character; ascii: without the larger header. */
uint64_t world_text(struct world *world, const void *text, size_t length, unsigned width, bool ascii);
void world_put(struct world *world, uint64_t address, const void *value, size_t size);
void world_u64(struct world *world, uint64_t address, uint64_t value);
/* Ends what world_read() keeps. */
void world_close(struct world *world);
int world_open(struct world *world, struct pystack **ret, enum pystack_refusal *ret_why);
/* The first thread's stack; its texts are valid until the next call. */
int world_read(struct world *world, struct pystack_stack *ret, enum pystack_refusal *ret_why);

#endif
