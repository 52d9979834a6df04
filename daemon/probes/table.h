/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probe tables: which functions of which libraries mean what. Files probes.d/NAME.conf, read with ini.h; one section a
 * probe, so that a new probed function is a section in a .conf and nothing else.
 *
 *   [probe "backward"]
 *   level   = L0                                   L0..L3, or a switch (L1.launches): see proto/levels.def
 *   library = libtorch_cpu.so*                     shell pattern on the file's base name; several by blanks
 *   symbol  = _ZN5torch8autograd6Engine7executeE*  exact, or a shell pattern; several by blanks, first that is found wins
 *   symbols_all = yes                              every function that any of the patterns matches is probed: overloads,
 *                                                  constructors. One may call another: nesting is the reader's to undo
 *   usdt    = python:gc__start                     instead of symbol: provider:name in .note.stapsdt (all its places)
 *   edge    = span                                 call, entry, begin, end, span, mark, stash, open, close (bpf/call.h)
 *   at      = return                               edge end: the record is sent when the function returns; default entry
 *   return  = probe                                how a return is seen: insn (default), at the function's return
 *                                                  instructions; probe, by a return probe, which is cheaper and for
 *                                                  functions that let no exception out: one that passes it ends the process
 *   stage   = backward                             stage of begin/end/span edges; absent: from the text
 *   event   = op                                   what the record is, for edges call, entry and close: enum ops_kind in
 *                                                  analyzers/coll/coll.h (op, p2p, group, comm, ...), or alloc, free, launch
 *   family  = nccl                                 of an event: the library's family (numbers of its data types)
 *   op      = AllReduce                            of an event: NCCL's word for the operation, or the function's name
 *   arch    = x86_64                               the row is for this machine only (x86_64, aarch64); absent: all. On any
 *                                                  other the row is checked and then forgotten
 *   member  = yes                                  a call (call, entry) that counts as one of the group open on its thread
 *   args    = reg(1) deref(2,8,4) cstring(3)       readers in order, no blanks inside; N is an argument register from 1, or
 *                                                  past the registers of the calling convention an argument on the stack
 *                                                  (up to 8), or `stack`: the address of the first argument there, which
 *                                                  is where a structure lies that is passed by value:
 *               reg(N) u32(N) s32(N)               the argument itself, 64 or 32 bits
 *               deref(N,OFFSET,SIZE)               SIZE bytes at N + OFFSET
 *               path(N,OFF,OFF[,OFF],SIZE)         pointers followed: SIZE bytes at *(N + OFF) + OFF
 *               out(N,SIZE)                        edge call: SIZE bytes where N points to, read at the return
 *               hash(N,BYTES) digest(N,BYTES)      of up to 128 bytes at N (RT_READ_HASH, RT_READ_DIGEST in bpf/call.h)
 *               member(N,FUNCTION,SIZE[,PLUS])     SIZE bytes at N + offset + PLUS, where offset is the one that the
 *                                                  library's own accessor FUNCTION uses (a name or a pattern; its code is
 *                                                  read, see accessor.h): the row is unusable where that is unclear
 *               member(N,OFF[,OFF],FUNCTION,...)   the same, pointers followed: of what *(N + OFF) points to
 *               part(N,...)                        as member, where FUNCTION hands out a member of what a member of
 *                                                  its object points to: the former's offset
 *               cstring(N[,OFF[,OFF[,OFF]]])       a text, at N, at N + OFF, at *(N + OFF) + OFF, ...
 *               stdstring(N) pystring(N) pytuple(N) texts. Of texts one, and as the last
 *               usdt(N)                            operand N of the USDT probe, from 1
 *             count:reg(3) comm:reg(6)             of an event, each may have a name: a field of analyzers/coll/coll_fields.def
 *   symbol_reg = 3                                 edge mark: register of the c10::Symbol
 *   set     = record_function/1                    SET/VARIANT, variants 1 to 16. Of a set's variants only the lowest one is
 *                                                  used of which all rows are found in the libraries that a rank maps. So
 *                                                  a variant may have several rows, in several libraries
 *   result  = yes                                  keep the return value (edge call)
 *   optional = yes                                 not every version of the library has it: that it is not there is nothing
 *                                                  to tell. Of a set, all rows must say so
 *   help    = one line
 * Unknown key, bad value, missing library/symbol, a text reader that is not the last or comes twice, a key that the edge
 * has no use for, a name twice in one file: refused with "FILE:LINE: sentence". Limits: PROBES_MAX rows, RT_CALL_ARGS_MAX
 * readers, 4 patterns and 4 accessors each.
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
	char file[64];               /* base name of the table it came from */
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
	char event[32];              /* "" if the row is a mark of a stage, or opens a group */
	char family[8];
	char op[32];
	enum coll_field field[RT_CALL_ARGS_MAX]; /* name of arg[i]; OP_FIELD_MAX: none, also of those past the last */
	char accessor[PROBE_ACCESSORS_MAX][PROBE_ACCESSOR_BYTES];
	bool accessor_is_part[PROBE_ACCESSORS_MAX];
	unsigned accessors;
	uint8_t accessor_of[RT_CALL_ARGS_MAX]; /* which of them arg[i] needs, from 1; 0: none. Its offset is added to arg[i]'s last */
	bool optional;               /* nobody is told where no library has it */
	bool foreign;                /* for another machine than this one; never in a table */
	char set[32];                /* "" if none */
	uint8_t variant;             /* of the set, from 1 */
	bool symbols_all;            /* probe every function that matches, not the first pattern's */
	bool at_return;              /* edge end is sent at the return */
	bool return_probe;           /* the return is caught by a uretprobe, not at the return instructions */
	char help[128];
	uint8_t usdt_operand[RT_CALL_ARGS_MAX]; /* operand number of arg[i], from 1; 0: spec.arg[i] is complete */
	struct rt_call_spec spec;    /* arg readers, flags: ready but for USDT operands and accessors. flags has
					RT_CALL_RESULT if the return value is kept */
};

struct probe_table {
	struct probe *probe;
	size_t count;
};

/* Adds the rows of one text, or of every *.conf of a folder in name order (a missing folder is an empty one). A later row
 * with the name of an earlier one replaces it, in the earlier one's place. On failure the table is as before. */
int probe_table_parse(struct probe_table *table, const char *path, const char *text, size_t size_bytes,
		      char *error, size_t error_size);
int probe_table_load_dir(struct probe_table *table, const char *dir, char *error, size_t error_size);
void probe_table_free(struct probe_table *table);
/* Forgets rows of other levels than these LEVEL_BIT()s: what another collector attaches. */
void probe_table_keep_levels(struct probe_table *table, uint32_t levels);
/* The tables of several folders, one after the other, and of them what a collector of these levels keeps. */
int probe_table_load_dirs(struct probe_table *table, const char *const *dirs, size_t count, uint32_t levels, char *error,
			  size_t error_size);

/*
 * Which rows to use for a group of libraries that are mapped together: found[i] says whether row i's library, and its
 * symbol or USDT probe, are among them. Pure. ret_use has table->count places too.
 */
void probe_table_choose(const struct probe_table *table, const bool *found, bool *ret_use);

/* The library patterns of all rows, each once: they are compared with every mapping of every rank again and again. ret has
 * room for count * PROBE_PATTERNS_MAX; returns how many. */
size_t probe_table_libraries(const struct probe_table *table, const char **ret);
bool probe_matches_library(const struct probe *probe, const char *base_name);

#endif
