/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a CPython keeps what is read: offsets in bytes within its structures, by version (versions.def) and, from 3.13,
 * by the interpreter's own table. Verified against its memory before use.
 */
#ifndef RANKTRACE_STACKS_PYTHON_LAYOUT_H
#define RANKTRACE_STACKS_PYTHON_LAYOUT_H

#include "stacks/python/image.h"
#include "stacks/python/memory.h"
#include "stacks/python/pystack.h"

#define PYLAYOUT_OWNER_SHIM 3 /* smallest owner of a frame that runs no Python code, from 3.12 */

#define PYLAYOUT_TRACEABLE_BACK 16 /* _co_firsttraceable lies before the instructions, 3.11 to 3.14 */

/*
 * The instruction of a frame as an offset in bytes from the first one. `word`: 8 bytes at frame_instruction; `code`:
 * address of the first instruction.
 */
typedef int64_t (*pylayout_instruction)(uint64_t word, uint64_t code);

/*
 * Line tables of code objects: co_lnotab to 3.9, co_linetable in the form of 3.10 and in that of 3.11. Pure; any bytes
 * are safe. The result is the line of the instruction at this offset in bytes, negative before the first one; 0: it has
 * none.
 */
typedef uint32_t (*pylines_find)(const uint8_t *table, size_t size, int64_t offset, int32_t first_line);

uint32_t pylines_lnotab(const uint8_t *table, size_t size, int64_t offset, int32_t first_line);
uint32_t pylines_ranges(const uint8_t *table, size_t size, int64_t offset, int32_t first_line);
uint32_t pylines_locations(const uint8_t *table, size_t size, int64_t offset, int32_t first_line);

struct pylayout {
	unsigned minor;
	bool cframe; /* thread_frame leads to a structure that leads to the frame */
	pylayout_instruction instruction;
	pylines_find line;
	/* 0: not in this version, where 0 is no valid offset. */
	uint64_t runtime_interps, runtime_gil, gil_holder, gil_locked;
	uint64_t interp_next, interp_id, interp_threads, interp_gil;
	uint64_t thread_prev, thread_next, thread_interp, thread_pthread, thread_native, thread_frame;
	uint64_t cframe_frame, cframe_previous;
	uint64_t frame_previous, frame_code, frame_instruction, frame_owner, frame_entry;
	uint64_t code_file, code_name, code_qualname, code_first_line, code_lines, code_bytes, code_adaptive;
	uint64_t code_traceable; /* from 3.11: index of the first instruction after the function's prologue */
	uint64_t object_type, object_size, type_name, type_members;
	uint64_t text_length, text_state, text_ascii, text_compact, bytes_size, bytes_data;
};

/* What versions.def says of a version. NULL: not supported. */
const struct pylayout *pylayout_row(unsigned minor);
/*
 * The verified layout of an interpreter. -ENOTSUP: *ret_why says why. Other errors are those of pymem_read().
 */
int pylayout_find(
	struct pymem *memory, const struct pyimage *image, struct pylayout *ret, enum pystack_refusal *ret_why);

#endif
