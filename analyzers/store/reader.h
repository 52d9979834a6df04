/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a store: one read-only SQL connection over all segments of STATE_DIR/db, whether a daemon writes them or not.
 *
 * Each public view is a table of that connection. Rows come segment by segment, oldest first; comparisons with
 * constants are answered inside the segments, and a segment whose times cannot match is not scanned. A damaged segment
 * is left out with a warning, one that retention has removed meanwhile is left out silently. State tables (ranks) show
 * the newest row of each key, tables of what is true now (in_flight) the newest segment's rows; both are read once a
 * statement. Only SELECT is allowed. Errors are one sentence.
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
	bool is_db;		  /* the folder given holds the segments itself, not the folder db */
	unsigned connections_max; /* to segments, and little cache each: for who opens many stores; 0: the default */
	bool sort_on_disk;	  /* what ORDER BY cannot hold in a few MB goes to a temporary file */
};

/* Returns 0; -ENOENT: there is no store; or another negative errno. error holds the sentence. */
int reader_open(const char *state_dir, const struct reader_options *options, struct reader **ret, char *error,
	size_t error_size);
/* Finalise the statements first. */
struct reader *reader_close(struct reader *reader);

/* Looks at the folder again and prepares one statement. Returns 0 or -EINVAL with the sentence. Step, read and finalise
 * it with SQLite's own functions; after a failed step reader_error() has the sentence. One statement at a time. */
int reader_prepare(struct reader *reader, const char *sql, sqlite3_stmt **ret, char *error, size_t error_size);
void reader_error(struct reader *reader, char *error, size_t error_size);
/* Passes the rows of one statement to `row` until it returns nonzero. 0; below 0: what `row` returned, with the sentence
 * "out of memory", or another negative errno, with the sentence. */
int reader_each(struct reader *reader, const char *sql, int (*row)(void *arg, sqlite3_stmt *statement), void *arg,
	char *error, size_t error_size);

/*
 * Following a log table: rows in the order in which they were written, from a place on, so that each row is met once
 * whatever its times say and however late it was written.
 */
struct reader_place {
	uint64_t segment; /* number of the file; 0: from the beginning */
	int64_t row;      /* of it, the last one that was met */
};

#define READER_FOLLOW_FIRST 2

struct reader_following {
	enum schema_id table; /* a SCHEMA_LOG one */
	uint64_t since_ns;    /* rows whose time (the table's first column of times) is earlier are passed over; 0: none */
	uint64_t rows_max;    /* that are met or passed over in one call, at least one */
	/* The table's columns in their order are columns READER_FOLLOW_FIRST and on, NULL where the file lacks one. Below 0:
	 * stop, this row was not met. */
	int (*row)(void *arg, sqlite3_stmt *columns);
	void *arg;
};

/*
 * Meets rows after *place and moves it. Holds no segment longer than the call lasts. A segment that cannot be read is
 * warned about and passed over. Where the store was begun anew, with lower numbers, so does the following. Returns 0: at
 * the end; 1: rows_max rows were met, there may be more; what row returned below 0; or a negative errno, with the sentence.
 */
int reader_follow(struct reader *reader, const struct reader_following *following, struct reader_place *place, char *error,
	size_t error_size);

#endif
