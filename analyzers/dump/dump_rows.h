/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the store to records in files: which table a kind comes from, which columns, and what becomes of each row. */
#ifndef RANKTRACE_DUMP_DUMP_ROWS_H
#define RANKTRACE_DUMP_DUMP_ROWS_H

#include "analyzers/cli/tool.h"
#include "analyzers/dump/dump_files.h"
#include "analyzers/dump/dump_state.h"
#include "analyzers/dump/dump_text.h"
#include "analyzers/store/reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One row of the store to the bytes of one record of sysTrace's files. Pure. The bytes of a protobuf file are whole
 * messages, so that they may be appended to what is there.
 */

/* Bytes that one record takes at most. */
#define DUMP_RECORD_BYTES 8192
/* The first line of an L1 file, with its newline. */
extern const char dump_csv_header[];

#define DUMP_UNKNOWN INT64_MIN

struct dump_stage {
	int64_t step; /* DUMP_UNKNOWN: none, as in all of these */
	const char *stage, *name;
	int64_t start_ns, duration_ns;
};

struct dump_op {
	uint64_t id;
	const char *communicator, *op, *dtype; /* NULL if not known */
	int64_t count;
	int64_t host_start_ns, host_duration_ns, device_start_ns, device_duration_ns;
	int64_t pid, thread_id, device;
};

struct dump_memory {
	const char *op, *stage;
	int64_t address, bytes, step;
};

struct dump_offcpu {
	int64_t rank, thread_id, start_ns, duration_ns, next_pid;
	uint64_t run_delay_ns; /* of the thread, so far in the file */
	const char *thread_name, *next_name;
};

/* Each returns the bytes written into ret, at most DUMP_RECORD_BYTES. What a number cannot be (below 0) becomes 0. */
size_t dump_encode_timeline_head(int64_t rank, const char *job, uint8_t *ret);
size_t dump_encode_stage(const struct dump_stage *stage, uint8_t *ret);
size_t dump_encode_op(const struct dump_op *op, uint8_t *ret);
size_t dump_encode_memory_head(int64_t rank, uint8_t *ret);
size_t dump_encode_memory(const struct dump_memory *memory, uint8_t *ret);
size_t dump_encode_offcpu(const struct dump_offcpu *offcpu, uint8_t *ret);

/*
 * The number that the marks of one operation share in an L1 file. sysTrace's readers want it unique in a rank's file,
 * rising with time, and equal on all ranks that take part in the operation, whose marks they then link. Here ranks of
 * one node are given the same number where (communicator, number, operation) is the same; pure, of bounded memory: the
 * newest DUMP_IDS_MAX operations are remembered.
 */

#define DUMP_IDS_MAX 65536 /* a power of two */

struct dump_ids;

/* next: the first number to give, from 1. NULL: no memory. */
struct dump_ids *dump_ids_new(uint64_t next);
struct dump_ids *dump_ids_free(struct dump_ids *ids);

struct dump_op_key {
	const char *communicator;
	const char *op;
	int64_t seq;
	int64_t peer; /* -1: none */
	bool joins;   /* whether all of it is known, so that it may be another rank's operation, too */
};
/* member: a number of the rank's file; no two calls with one member and one key get the same number. */
uint64_t dump_ids_of(struct dump_ids *ids, const struct dump_op_key *key, uint64_t member);
uint64_t dump_ids_next(const struct dump_ids *ids);

/* A process that is a rank, as the store knows it. */
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
	const struct tool_ranks *wanted;
	struct dump_files *files;
	struct dump_ids *ids;
	struct dump_state *state;
	struct dump_of of; /* address, host of ranks that the store does not know, and the window */
	uint64_t rows, bytes, left_out, failed;
	int64_t asked; /* process that the store was asked for again; -1: none */
	int at[16];    /* columns, by dump_rows_begin() */
};

/* The table that a kind is read from. */
enum schema_id dump_rows_table(enum dump_kind kind);
void dump_rows_begin(struct dump_rows *rows, enum dump_kind kind);
/* For struct reader_following: arg is a struct dump_rows. -EAGAIN: the row is of a process that is not among the ranks;
 * once they are loaded again, or for the same process, it is taken as it is. */
int dump_rows_row(void *arg, sqlite3_stmt *columns);

#endif
