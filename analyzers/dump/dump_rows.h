/* SPDX-License-Identifier: Apache-2.0 */
/* Converts rows of the store to records in files: the table, columns and encoding of each kind. */
#ifndef RANKTRACE_DUMP_DUMP_ROWS_H
#define RANKTRACE_DUMP_DUMP_ROWS_H

#include "analyzers/tool/tool.h"
#include "analyzers/dump/dump_files.h"
#include "analyzers/dump/dump_state.h"
#include "analyzers/dump/dump_text.h"
#include "analyzers/store/reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Encoding of one record of sysTrace's files. Pure. Protobuf records are whole messages, so files may be appended to.
 */

/* Maximum of one record. */
#define DUMP_RECORD_BYTES 8192
/* The first line of an L1 file, with its newline. */
extern const char dump_csv_header[];

#define DUMP_UNKNOWN INT64_MIN

struct dump_stage {
	int64_t step; /* DUMP_UNKNOWN: none; so in all structs below */
	const char *stage, *name;
	int64_t start_ns, duration_ns;
};

struct dump_op {
	uint64_t id;
	const char *communicator, *op, *dtype; /* NULL: unknown */
	int64_t count;
	int64_t host_start_ns, host_duration_ns, device_start_ns, device_duration_ns;
	int64_t pid, thread_id, device;
};

struct dump_memory {
	const char *op, *stage;
	int64_t address, bytes, step;
	const char *frames; /* as in call_stacks; NULL: unknown */
};

struct dump_offcpu {
	int64_t rank, thread_id, start_ns, duration_ns, next_pid;
	uint64_t run_delay_ns; /* cumulative over the thread's rows in the file */
	const char *thread_name, *next_name;
};

/* Each returns the bytes written, at most DUMP_RECORD_BYTES. Negative numbers become 0. */
size_t dump_encode_timeline_head(int64_t rank, const char *job, uint8_t *ret);
size_t dump_encode_stage(const struct dump_stage *stage, uint8_t *ret);
size_t dump_encode_op(const struct dump_op *op, uint8_t *ret);
size_t dump_encode_memory_head(int64_t rank, uint8_t *ret);
size_t dump_encode_memory(const struct dump_memory *memory, uint8_t *ret);
size_t dump_encode_offcpu(const struct dump_offcpu *offcpu, uint8_t *ret);

/*
 * Numbers of operations in L1 files. sysTrace's readers need them unique in a rank's file, rising with time, and equal
 * on all ranks of the operation, whose marks they link. Ranks of a node get the same number for the same (communicator,
 * seq, operation). Pure; remembers the newest DUMP_IDS_MAX operations.
 */

#define DUMP_IDS_MAX 65536 /* a power of two */

struct dump_ids;

/* next: the first number, from 1. NULL: out of memory. */
struct dump_ids *dump_ids_new(uint64_t next);
struct dump_ids *dump_ids_free(struct dump_ids *ids);

struct dump_op_key {
	const char *communicator;
	const char *op;
	int64_t seq;
	int64_t peer; /* -1: none */
	bool joins;   /* the key is complete: other ranks may share the operation */
};
/* member: number of the rank's file. Calls with equal member and key get different numbers. */
uint64_t dump_ids_of(struct dump_ids *ids, const struct dump_op_key *key, uint64_t member);
uint64_t dump_ids_next(const struct dump_ids *ids);

/*
 * Stacks of allocations: at most DUMP_FRAMES_MAX frames, innermost first. A frame is an address in a library, of which
 * sysTrace's converter asks addr2line for the name; a function whose name is known has it in the place of the library,
 * with address 0, and the converter shows that.
 */

#define DUMP_FRAMES_MAX 32     /* theirs */
#define DUMP_LIBRARY_BYTES 160 /* all frames fit DUMP_RECORD_BYTES */

struct dump_frame {
	uint64_t address; /* 0: library is a name */
	char library[DUMP_LIBRARY_BYTES];
};

/* Frames of a text of call_stacks. Yields how many. Pure. */
size_t dump_frames(const char *text, struct dump_frame ret[DUMP_FRAMES_MAX]);

struct dump_stack {
	int64_t id;
	char *text; /* its innermost frames; owned */
};

struct dump_stacks {
	bool wanted, loaded;
	size_t count, capacity;
	struct dump_stack *stack; /* by id; owned */
};

/* Those of allocations since since_ns, that are stored by now. */
int dump_stacks_load(struct reader *reader, uint64_t since_ns, struct dump_stacks *ret, char *error, size_t error_size);
/* NULL: not there. */
const char *dump_stacks_find(const struct dump_stacks *stacks, int64_t id);
void dump_stacks_clear(struct dump_stacks *stacks);

/* A process of the store. */
struct dump_rank {
	int64_t instance, rank, local_rank, pid;
	char job[256], host[65];
};

struct dump_ranks {
	size_t count, capacity;
	struct dump_rank *rank; /* by instance; owned */
};
int dump_ranks_load(struct reader *reader, struct dump_ranks *ret, char *error, size_t error_size);
void dump_ranks_clear(struct dump_ranks *ranks);

struct dump_rows {
	enum dump_kind kind;
	const struct dump_ranks *ranks;
	const struct ranges *wanted;
	struct dump_files *files;
	struct dump_ids *ids;
	struct dump_state *state;
	struct dump_stacks *stacks;
	struct dump_of of; /* address, host of unknown ranks, and window */
	uint64_t rows, bytes, left_out, failed;
	int64_t asked; /* unknown process for which the ranks were loaded again; -1: none */
	int at[16];    /* columns, set by dump_rows_begin() */
};

/* Table of a kind. */
enum schema_id dump_rows_table(enum dump_kind kind);
void dump_rows_begin(struct dump_rows *rows, enum dump_kind kind);
/* For struct reader_following; arg: struct dump_rows. -EAGAIN: unknown process, or stacks that are not loaded; the
 * caller loads the ranks again, and the stacks, and retries; what is still unknown is written without them. */
int dump_rows_row(void *arg, sqlite3_stmt *columns);

#endif
