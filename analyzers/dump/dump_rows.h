/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the store to records in files: which table a kind comes from, which columns, and what becomes of each row. */
#ifndef RANKTRACE_DUMP_ROWS_H
#define RANKTRACE_DUMP_ROWS_H

#include "analyzers/dump/dump_encode.h"
#include "analyzers/dump/dump_files.h"
#include "analyzers/dump/dump_ids.h"
#include "analyzers/dump/dump_state.h"
#include "analyzers/store/reader.h"
#include "analyzers/tool/tool.h"

/* A process that is a rank, as the store knows it. */
struct dump_rank {
	int64_t instance, rank, local_rank, pid;
	char job[256], host[65];
};

struct dump_ranks {
	size_t count;
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
