/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probes of one library file: which rows of the tables were found in it, where each goes, and the links that hold
 * them while their level is on. Specifications sit in the engine's map under numbers that the engine gives out.
 */
#ifndef RANKTRACE_DAEMON_PROBES_ATTACHMENT_H
#define RANKTRACE_DAEMON_PROBES_ATTACHMENT_H

#include "daemon/core/level.h"
#include "daemon/probes/elf_file.h"
#include "daemon/probes/libraries.h"
#include "daemon/probes/table.h"

/*
 * Where a function returns. A return probe (uretprobe) puts a trampoline in place of the return address, and the C++
 * unwinder does not know the way through it: an exception that passes a function with a return probe ends the process
 * (seen: "terminate called after throwing ..."). So a function that exceptions may pass is probed on its return
 * instructions instead, found by disassembling it from its first byte to its last with capstone. A function left by an
 * exception reaches none of them: its end is missing, which readers must expect.
 */

#define RETURNS_MAX 32
#define RETURNS_FUNCTION_BYTES_MAX (64u << 10)

/*
 * Offsets of the return instructions from the function's first byte, rising. Returns how many, at most max; -ENOENT where
 * there is none (the function ends in jumps), -EILSEQ where a byte is no instruction (then nothing of it is safe to
 * probe), -E2BIG where there are more than max or the function is too long.
 */
int returns_find(enum elf_machine machine, const uint8_t *code, size_t size_bytes, uint32_t *ret, size_t max);

/* The kinds of breakpoint that a place may need. */
enum attach_part { ATTACH_ENTRY, ATTACH_RETURN_INSN, ATTACH_RETURN_PROBE, ATTACH_PARTS };

/* What the attachments need of the engine (call_engine.h). */
struct place;
struct uprobe_link;
struct uprobe_target;
struct attach_engine {
	const struct probe_table *table;
	bool mixes_specs; /* places of several specifications may be attached at once */
	/* Gives out a number for the specification and puts it into the kernel's map. */
	int (*spec_new)(void *arg, const struct place *place, const struct rt_call_spec *spec, uint32_t *ret);
	void (*spec_free)(void *arg, uint32_t spec);
	/* All places of the target or none; their cookies are numbers of specifications. */
	int (*attach)(void *arg, enum attach_part part, const struct uprobe_target *target, struct uprobe_link **ret);
	void *arg;
};

/* One probed place: a function, or one site of a USDT probe. */
struct place {
	const struct probe *probe;
	uint32_t spec;
	uint64_t entry_offset;    /* in the file, where the breakpoint goes; 0: no entry probe */
	uint64_t function_offset; /* in the file, the function's first byte */
	uint64_t semaphore_offset;
	uint32_t returns;
	uint64_t return_offset[RETURNS_MAX];
	bool return_probe;        /* uretprobe instead of return_offset[] */
	bool emulated;            /* the kernel need not single-step at the entry */
};

struct attachment;

/* Finds every row's place in the library, and uses none until attachment_choose(). Never fails for a row that is missing:
 * that is what missing() tells. */
int attachment_new(const struct attach_engine *engine, const struct library *library, struct attachment **ret);
/* Detaches and gives the specifications back. */
struct attachment *attachment_free(struct attachment *attachment);

/* By row of the table: what this library has. */
const bool *attachment_found(const struct attachment *attachment);
/*
 * Of the rows that this library has, uses those that are right in its group: the libraries that ranks map together with
 * it. group_found, by row, is what all of them have. A level that is on is attached anew if the choice changed. What is
 * then not seen, unresolved.h tells.
 */
void attachment_choose(struct attachment *attachment, const bool *group_found);

/* Attaches or detaches the level's places. Returns 0 or the error of the first place that could not be attached; the
 * others are attached all the same. */
int attachment_level(struct attachment *attachment, enum level level, bool on);

/* Breakpoints in the kernel now: of all levels, of one. */
unsigned attachment_attached(const struct attachment *attachment);
unsigned attachment_attached_level(const struct attachment *attachment, enum level level);
const struct probe_table *attachment_table(const struct attachment *attachment);
/* Of a row of the table: whether it names this library; whether it was found here and is the right one of its set; why it
 * cannot be used though its function is here, in words (an accessor that says nothing), or NULL. */
bool attachment_names(const struct attachment *attachment, size_t row);
bool attachment_uses(const struct attachment *attachment, size_t row);
const char *attachment_trouble(const struct attachment *attachment, size_t row);
/* Rows of this level that were found but could not be attached, with the error; i from 0, NULL past the last. */
const char *attachment_refused(const struct attachment *attachment, enum level level, unsigned i, int *ret_error);
bool attachment_has_set(const struct attachment *attachment, const char *set);

#endif
