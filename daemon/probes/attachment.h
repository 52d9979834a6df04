/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes of one library file: the rows of the tables found in it, their sites, and the links that hold them while
 * their level is on. Specifications are in the engine's map, under numbers assigned by the engine.
 */
#ifndef RANKTRACE_DAEMON_PROBES_ATTACHMENT_H
#define RANKTRACE_DAEMON_PROBES_ATTACHMENT_H

#include "daemon/core/level.h"
#include "daemon/probes/elf_file.h"
#include "daemon/probes/libraries.h"
#include "daemon/probes/table.h"

/*
 * Where a function returns. A uretprobe replaces the return address with a trampoline that the C++ unwinder cannot
 * pass: an exception through such a function ends the process (observed: "terminate called after throwing ..."). So
 * functions that may throw are probed on their return instructions, found by disassembling the whole function with
 * capstone. A function left by an exception reaches none of them: consumers must expect a missing end.
 */

#define RETURNS_MAX 32
#define RETURNS_FUNCTION_BYTES_MAX (64u << 10)

/*
 * Offsets of the return instructions from the function's first byte, ascending. Returns their number, at most max;
 * -ENOENT: none (the function ends in jumps); -EILSEQ: undecodable (unsafe to probe); -E2BIG: more than max, or
 * function too long.
 */
int returns_find(enum elf_machine machine, const uint8_t *code, size_t size_bytes, uint32_t *ret, size_t max);

/* Kinds of breakpoints at a site. */
/* Sites of one part have one program. */
enum attach_part {
	ATTACH_ENTRY,
	ATTACH_MEMORY, /* entries of the edges that collectors serve (kernel_edge_program()) */
	ATTACH_MEMORY_FAILED,
	ATTACH_EXCEPTION,
	ATTACH_RETURN_INSN,
	ATTACH_RETURN_PROBE,
	ATTACH_PARTS
};

/* Engine operations for attachments (call_engine.h). */
struct site;
struct uprobe_job;
struct uprobe_target;
struct attach_engine {
	const struct probe_table *table;
	bool mixes_specs; /* sites of several specifications may be attached together */
	/* Assigns a number to the specification and puts it into the kernel's map. */
	int (*spec_new)(void *arg, const struct site *site, const struct rt_call_spec *spec, uint32_t *ret);
	void (*spec_free)(void *arg, uint32_t spec);
	/* Orders all sites of the target attached, or none (uprobe.h); cookies are numbers of specifications. */
	int (*attach)(void *arg, enum attach_part part, const struct uprobe_target *target, struct uprobe_job **ret);
	bool (*is_paused)(void *arg, enum attach_part part); /* the part is not attached meanwhile; NULL: none is */
	void *arg;
};

/* One probed site: a function, or one site of a USDT probe. */
struct site {
	const struct probe *probe;
	uint32_t spec;
	uint64_t entry_offset;	  /* of the breakpoint in the file; 0: no entry probe */
	uint64_t function_offset; /* of the function's first byte in the file */
	uint64_t semaphore_offset;
	uint32_t returns;
	uint64_t return_offset[RETURNS_MAX];
	bool return_probe; /* uretprobe instead of return_offset[] */
	bool emulated;	   /* entry instruction is emulated, not single-stepped */
};

struct attachment;

/*
 * Resolves every row in the library; uses none until attachment_choose(). Unresolved rows are no error (coverage.h).
 */
int attachment_new(const struct attach_engine *engine, const struct library *library, struct attachment **ret);
/* Detaches and releases the specifications. */
struct attachment *attachment_free(struct attachment *attachment);

/* By row: found in this library. */
const bool *attachment_found(const struct attachment *attachment);
/*
 * Selects the rows to use, of those found here, for the library's group: all libraries that ranks map together with
 * it. group_found, by row: found in any of them. Levels that are on are reattached if the selection changed.
 * coverage.h reports what is then not probed.
 */
void attachment_choose(struct attachment *attachment, const bool *group_found);

/* Orders the level's sites attached or detached. One that cannot be attached leaves the others. */
void attachment_level(struct attachment *attachment, enum level level, bool on);
/* Of L0: between its windows only boundaries (probe_is_boundary()) are attached: also of rows that are chosen later. */
void attachment_reduce(struct attachment *attachment, bool reduced);
/* The engine has paused the part, or goes on with it: orders its sites detached or attached. */
void attachment_pause(struct attachment *attachment, enum attach_part part);
/*
 * Takes what was attached meanwhile, and waits for the rest until then (CLOCK_MONOTONIC). False: some is left, since
 * the kernel has not done it; the next call goes on.
 */
bool attachment_settle(struct attachment *attachment, uint64_t until_ns);

/* Breakpoints in the kernel now: of all levels, of one. */
unsigned attachment_attached(const struct attachment *attachment);
unsigned attachment_attached_level(const struct attachment *attachment, enum level level);
const struct probe_table *attachment_table(const struct attachment *attachment);
/*
 * Per row: names this library; found here and selected in its set; reason why it is unusable although the function
 * exists (an accessor without answer), or NULL.
 */
bool attachment_names(const struct attachment *attachment, size_t row);
/* Adds the rows that name the library, and those that are in use in it. */
void attachment_rows(const struct attachment *attachment, bool *named, bool *used);
const char *attachment_reason(const struct attachment *attachment, size_t row);
/* Rows of this level that failed to attach, with their error; i from 0, NULL past the last. */
const char *attachment_refused(const struct attachment *attachment, enum level level, unsigned i, int *ret_error);
bool attachment_has_set(const struct attachment *attachment, const char *set);

#endif
