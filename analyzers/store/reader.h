/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a store: one read-only SQL connection over all segments of STATE_DIR/db, whether or not a daemon writes them.
 *
 * Each public view is a table of that connection. Rows come segment by segment, oldest first; comparisons with
 * constants run inside the segments, and segments outside the compared times are skipped. A segment is left out with a
 * warning where it is damaged, holds what the daemon does not write, or takes too long; silently where retention has
 * removed it meanwhile. No SQL of a segment is run, so it may come from anybody. State tables (ranks) have the newest
 * row of each key, tables of the present (in_flight) the rows of the newest segment; both are read once a statement.
 * Only SELECT is allowed. Errors are one sentence.
 */
#ifndef RANKTRACE_STORE_READER_H
#define RANKTRACE_STORE_READER_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/store/schema.h"

struct reader;

struct reader_options {
	void (*warning)(void *arg, const char *sentence); /* may be NULL */
	void *arg;
	uint64_t timeout_ns;	  /* of each statement; 0: none */
	bool is_db;		  /* the folder holds the segments itself */
	unsigned connections_max; /* connections to segments, with little cache each, for many stores; 0: default */
	bool sort_on_disk;	  /* ORDER BY beyond a few MB uses temporary files */
};

/* 0; -ENOENT: no store; or another negative errno; with the sentence. */
int reader_open(const char *state_dir, const struct reader_options *options, struct reader **ret, char *error,
	size_t error_size);
/* Finalize statements first. */
struct reader *reader_close(struct reader *reader);

/* Lists the folder again and prepares one statement. 0 or -EINVAL with the sentence. Step, read and finalize it with
 * SQLite's functions; after a failed step reader_error() has the sentence. One statement at a time. */
int reader_prepare(struct reader *reader, const char *sql, sqlite3_stmt **ret, char *error, size_t error_size);
void reader_error(struct reader *reader, char *error, size_t error_size);
/* Passes the rows of one statement to `row` until it returns nonzero. 0; below 0: what `row` returned, with the
 * sentence "out of memory", or another negative errno, with the sentence. */
int reader_each(struct reader *reader, const char *sql, int (*row)(void *arg, sqlite3_stmt *statement), void *arg,
	char *error, size_t error_size);

/* Following a log table: rows in write order from a position on, each once, whatever their times. */
struct reader_place {
	uint64_t segment; /* number of the file; 0: start */
	int64_t row;	  /* last row read of it */
};

#define READER_FOLLOW_FIRST 2

struct reader_following {
	enum schema_id table; /* a SCHEMA_LOG one */
	uint64_t since_ns;    /* skips rows with an earlier time (the table's first time column); 0: none */
	uint64_t rows_max;    /* read or skipped in one call, at least 1 */
	/* Columns of the table start at READER_FOLLOW_FIRST, NULL where the file lacks one. Below 0: stops before this
	 * row. */
	int (*row)(void *arg, sqlite3_stmt *columns);
	void *arg;
};

/*
 * Reads rows after *place and advances it. Holds no segment after the call. Skips unreadable segments with a warning.
 * Restarts on a recreated store, with lower numbers. 0: end; 1: rows_max reached; a negative result of `row`; or a
 * negative errno with the sentence.
 */
int reader_follow(struct reader *reader, const struct reader_following *following, struct reader_place *place,
	char *error, size_t error_size);

#endif
