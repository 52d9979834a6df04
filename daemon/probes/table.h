/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probe tables: the meaning of functions of libraries. Files probes.d/NAME.conf, read with ini.h, one section per
 * probe: to add a probed function, add a section.
 *
 *   [probe "backward"]
 *   level   = L0                       L0..L3, or a switch (L1.launches): see proto/levels.def
 *   library = libtorch_cpu.so*         shell pattern on the file's base name; several by blanks
 *   symbol  = _ZN5torch8auto*          exact, or a shell pattern; several by blanks, the first match wins; absent: the
 *                                      probe's name
 *   symbols_all = yes                  probe every function that matches any pattern: overloads, constructors. They
 *                                      may nest: the consumer must resolve that
 *   usdt    = python:gc__start         instead of symbol: provider:name in .note.stapsdt (all sites)
 *   edge    = span                     call, entry, begin, end, span, mark, stash, open, close, memory, memory_failed,
 *                                      exception (bpf/call.h)
 *   at      = return                   edge end: the record is sent when the function returns; default: entry
 *   return  = probe                    how a return is caught: insn (default), at the function's return instructions;
 *                                      probe, by a uretprobe: cheaper, only for functions that never throw: an
 *                                      exception through it ends the process
 *   stage   = backward                 stage of begin/end/span edges; absent: from the text
 *   event   = op                       kind of record, for edges call, entry and close: enum coll_kind in
 *                                      analyzers/coll/coll.h (op, p2p, group, comm, ...), or alloc, free, copy,
 *                                      copy_async (summed: their first two arguments are bytes and direction), launch
 *   family  = nccl                     of an event: the library's family (numbers of its data types)
 *   op      = AllReduce                of an event: NCCL's name of the operation, or the function's name
 *   arch    = x86_64                   for this machine only (x86_64, aarch64); absent: all. Elsewhere the row is
 *                                      checked, then dropped
 *   member  = yes                      a call (call, entry) is a member of the group open on its thread
 *   args    = reg(1) cstring(3)        readers in order, no blanks inside, see below
 *   symbol_reg = 3                     edge mark: register of the c10::Symbol
 *   set     = record_function/1        SET/VARIANT, variants 1 to 16. The lowest variant with all rows found in the
 *                                      libraries that a rank maps is used. A variant may have several rows, in several
 *                                      libraries
 *   result  = yes                      keep the return value (edge call)
 *   optional = yes                     some versions of the library lack it: absence is not reported. In a set, all
 *                                      rows must have it
 *   help    = one line
 *
 * Keys in a section [defaults] are those of all following probes of the file, up to the next such section; a probe may
 * set them again. All keys but symbol, usdt, op, args, symbol_reg, set and help can be there.
 *
 * Readers. N is an argument register from 1, or past the registers of the calling convention an argument on the stack
 * (up to 8), or `stack`: the address of the first argument there, which is a structure passed by value.
 *   reg(N) u32(N) s32(N)               the argument itself, 64 or 32 bits
 *   const(N)                           the number N itself, up to 8
 *   deref(N,OFFSET,SIZE)               SIZE bytes at N + OFFSET
 *   path(N,OFF,OFF[,OFF],SIZE)         pointers followed: SIZE bytes at *(N + OFF) + OFF
 *   out(N,SIZE)                        edge call: SIZE bytes at N, read at the return
 *   hash(N,BYTES) digest(N,BYTES)      of up to 128 bytes at N (RT_READ_HASH, RT_READ_DIGEST in bpf/call.h)
 *   member(N,FUNCTION,SIZE[,PLUS])     SIZE bytes at N + offset + PLUS, offset is taken from the library's accessor
 *                                      FUNCTION (a name or pattern; its code is analyzed, see accessor.h): without an
 *                                      answer the row is unusable
 *   member(N,OFF[,OFF],FUNCTION,...)   the same, pointers followed: of what *(N + OFF) points to
 *   part(N,...)                        as member, but FUNCTION returns a member of an object that a member points to:
 *                                      the offset in that object
 *   cstring(N[,OFF[,OFF[,OFF]]])       a text, at N, at N + OFF, at *(N + OFF) + OFF, ...
 *   stdstring(N) pystring(N) pytuple(N) texts. One text reader per row, as the last
 *   usdt(N)                            operand N of the USDT probe, from 1
 *   count:reg(3) comm:reg(6)           of an event, each may have a name: a field of analyzers/coll/coll_fields.def
 *
 * Unknown key, bad value, missing library, a text reader that is not the last or repeated, a key useless for the edge,
 * a repeated name in a file: refused with "FILE:LINE: sentence". Limits: PROBES_MAX rows, RT_CALL_ARGS_MAX readers,
 * 4 patterns and 4 accessors each.
 */
#ifndef RANKTRACE_DAEMON_PROBES_TABLE_H
#define RANKTRACE_DAEMON_PROBES_TABLE_H

#include "analyzers/coll/coll.h"
#include "bpf/call.h"
#include "daemon/core/level.h"
#include "daemon/base/util.h"

#define PROBES_MAX 512
#define PROBE_PATTERNS_MAX 4
#define PROBE_NAME_BYTES 64
#define PROBE_PATTERN_BYTES 512 /* mangled names are long */
#define PROBE_ACCESSORS_MAX 4
#define PROBE_ACCESSOR_BYTES 192

struct probe {
	char name[PROBE_NAME_BYTES];
	char file[64]; /* base name of its table */
	unsigned line;
	enum level level;
	char library[PROBE_PATTERNS_MAX][128];
	unsigned libraries;
	char symbol[PROBE_PATTERNS_MAX][PROBE_PATTERN_BYTES];
	unsigned symbols;
	char usdt_provider[32];      /* "" if the row has symbols */
	char usdt_name[32];
	enum rt_edge edge;
	char stage[32];              /* "" if taken from the text */
	char event[32];		     /* "" for stage marks and group opens */
	char family[8];
	char op[32];
	enum coll_field field[RT_CALL_ARGS_MAX]; /* name of arg[i]; OP_FIELD_MAX: none, also of those past the last */
	char accessor[PROBE_ACCESSORS_MAX][PROBE_ACCESSOR_BYTES];
	bool accessor_is_part[PROBE_ACCESSORS_MAX];
	unsigned accessors;
	uint8_t accessor_of[RT_CALL_ARGS_MAX]; /* accessor of arg[i], from 1; 0: none */
	bool optional;			       /* not reported if no library has it */
	bool foreign;			       /* for another machine; never in a table */
	char set[32];                /* "" if none */
	uint8_t variant;             /* of the set, from 1 */
	bool symbols_all;	     /* probe every match, not only the first pattern's */
	bool at_return;              /* edge end is sent at the return */
	bool return_probe;	     /* return caught by a uretprobe, not at return instructions */
	char help[128];
	uint8_t usdt_operand[RT_CALL_ARGS_MAX]; /* operand number of arg[i], from 1; 0: spec.arg[i] is complete */
	/* complete but for USDT operands and accessors; RT_CALL_RESULT in flags keeps the return value */
	struct rt_call_spec spec;
};

struct probe_table {
	struct probe *probe;
	size_t count;
};

/*
 * Adds the rows of one text, or of every *.conf of a folder in name order (none if the folder is missing). A row
 * replaces an earlier one of its name, at that index. On failure the table is unchanged.
 */
int probe_table_parse(struct probe_table *table, const char *path, const char *text, size_t size_bytes,
		      char *error, size_t error_size);
int probe_table_load_dir(struct probe_table *table, const char *dir, char *error, size_t error_size);
void probe_table_free(struct probe_table *table);
/* Removes rows of levels outside these LEVEL_BIT()s: other collectors attach them. */
void probe_table_keep_levels(struct probe_table *table, uint32_t levels);
/* Tables of several folders in order, reduced to these levels. */
int probe_table_load_dirs(struct probe_table *table, const char *const *dirs, size_t count, uint32_t levels, char *error,
			  size_t error_size);

/*
 * Rows to use for libraries mapped together: found[i] says whether row i's library and its symbol or USDT probe are
 * among them. Pure. ret_use has table->count elements.
 */
void probe_table_choose(const struct probe_table *table, const bool *found, bool *ret_use);

/*
 * Distinct library patterns of all rows, matched against every mapping of every rank. ret has space for count *
 * PROBE_PATTERNS_MAX; returns the number.
 */
size_t probe_table_libraries(const struct probe_table *table, const char **ret);
bool probe_matches_library(const struct probe *probe, const char *base_name);
/* Its marks alone count steps (analyzers/steps/steps.h, "Sampling"): attached while its level is sampled, in and between windows. */
bool probe_is_boundary(const struct probe *probe);

#endif
