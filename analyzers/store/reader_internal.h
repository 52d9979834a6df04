/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the reader.
 *
 *  reader.c         opening, the list of files, authorization
 *  reader_file.c    connections to single segments, few at once
 *  reader_guard.c   what a segment may make SQLite do
 *  reader_cache.c   state tables in memory
 *  reader_follow.c  rows after a position, in write order
 *  reader_scan.c    bulk scans of log tables (reader_scan.h)
 *  reader_texts.c   texts of a segment by number, for reader_scan.c
 *  segment_table.c  the virtual table: a view over all segments
 */
#ifndef RANKTRACE_STORE_READER_INTERNAL_H
#define RANKTRACE_STORE_READER_INTERNAL_H

#include <limits.h>
#include <stdbool.h>

#include "analyzers/store/reader.h"
#include "analyzers/store/schema_sql.h"

#define READER_CONNECTIONS_MAX 32
#define READER_FILES_MAX 65536

struct reader_file {
	struct segment_name name;
	bool warned;
	bool left_out; /* holds what is not ours, or takes too long: not opened again */
};

/* One pass over a file, by one statement or some short ones. */
struct reader_pass {
	uint64_t spent_ns; /* within SQLite: who consumes the rows may take longer */
	uint64_t ops;	   /* steps of SQLite's machine */
};

/* A connection to one segment; statements of several cursors may share it. */
struct reader_connection {
	sqlite3 *db; /* NULL: free */
	struct reader *reader;
	uint64_t number;
	uint64_t pass_ns, ops_max; /* a pass takes no longer */
	uint64_t end_ns;	   /* of the present one */
	struct reader_pass *pass;
	struct reader_pass others; /* statements besides the scans, since the last acquisition */
	unsigned users;
	uint64_t used_at;
	struct reader_texts *texts;   /* cache; NULL: not opened */
	bool takes;		      /* take_row() of reader_scan.c is registered */
	struct reader_scan *scanning; /* scan of the present step */
};

/* Times of a file's rows relative to a range. */
enum reader_span { READER_SPAN_UNKNOWN, READER_SPAN_OUTSIDE, READER_SPAN_ACROSS, READER_SPAN_WITHIN };

struct reader_table { /* client data of a virtual table */
	struct reader *reader;
	const struct schema_table *schema;
	uint64_t loaded; /* generation of the cached rows */
};

struct reader {
	struct reader_options options;
	sqlite3 *db;
	sqlite3 *cache; /* in-memory state tables and tables of the present */
	char dir[PATH_MAX - SEGMENT_NAME_BYTES];
	struct reader_file *files; /* by number; rebuilt by reader_prepare() */
	size_t files_count;
	struct reader_connection connections[READER_CONNECTIONS_MAX];
	uint64_t uses;
	uint64_t generation;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: none */
	bool late;
	bool denied;
	struct reader_table tables[TABLE_MAX];
};

/* Acquires a connection to a file: SQLITE_OK, SQLITE_INTERRUPT, SQLITE_NOMEM, or SQLITE_EMPTY for a file to skip, after
 * a warning if needed. */
int reader_file_acquire(struct reader *reader, struct reader_file *file, struct reader_connection **ret);
void reader_file_release(struct reader_connection *connection);
void reader_files_close(struct reader *reader);
/* False: the error ends the statement (its deadline, or no memory). True: it is of the file, whose rows are left out,
 * with a warning, once a file and not for removed ones. */
bool reader_file_leave_out(struct reader *reader, struct reader_file *file, int rc);
/* SELECT of the wanted columns of a table, as the file's view would show them; NULL for others and missing ones. where
 * may be "". SQLITE_EMPTY: no such table. */
int reader_file_select(
	sqlite3 *db, const struct schema_table *table, uint64_t wanted, const char *where, sqlite3_stmt **ret);
/* Columns of the schema in this file's raw table, a bit each; SQLITE_EMPTY: no such table. */
int reader_file_columns(sqlite3 *db, const struct schema_table *table, uint64_t *ret);
/* Adds the expression that is a column of the view, of the raw table r; NULL where the file has none. */
void reader_file_add_column(
	sqlite3_str *sql, const struct schema_table *table, uint64_t there, size_t i, int64_t base_ns);
/* First time column; the number of columns if none. */
size_t reader_time_column(const struct schema_table *table);
/* Relative to low_ns..high_ns. Outside: none in it, high_ns included; within: all in it, below high_ns. */
enum reader_span reader_file_span(sqlite3 *db, const struct schema_table *table, int64_t low_ns, int64_t high_ns);
/* Base of the times in the file's raw tables. SQLITE_CORRUPT: missing. */
int reader_file_base(sqlite3 *db, int64_t *ret);
/* Sets up a connection that has read nothing yet; arms the deadline of the first pass. */
int reader_guard_open(struct reader_connection *connection, sqlite3 *db, const char *path);
/* From here on SQL reads our tables and nothing else. SQLITE_AUTH: one of them is no plain table. */
int reader_guard_close_off(sqlite3 *db);
/* Passes the names of a table's columns. SQLITE_EMPTY: there is none; SQLITE_AUTH: it is no plain table. */
int reader_guard_table(sqlite3 *db, const char *name, void (*column)(void *arg, const char *name), void *arg);
/* A pass begins, for statements that are stepped without reader_guard_step(). */
void reader_guard_restart(struct reader_connection *connection);
/* sqlite3_step(). SQLITE_INTERRUPT: too late for the pass, or for the reader's statement (reader.late). */
int reader_guard_step(struct reader_connection *connection, struct reader_pass *pass, sqlite3_stmt *statement);
/* Lists the folder again. */
int reader_list(struct reader *reader);
/* Starts the time limit of a statement. */
void reader_start_clock(struct reader *reader);
/* Stops statements at the deadline. */
int reader_progress(void *arg);

/* Before the first text; an SQLite error is of the file. */
int reader_texts_open(struct reader_connection *connection);
struct reader_texts *reader_texts_close(struct reader_texts *texts);
/* Empties a large cache: earlier texts become invalid. */
void reader_texts_tidy(struct reader_texts *texts);
/* SQLITE_OK, *ret NULL if there is none; or SQLite's error. */
int reader_texts_find(struct reader_texts *texts, int64_t id, const char **ret);

/* Caches a state table or a table of the present. */
int reader_cache_load(struct reader_table *table);
/* SELECT of the wanted columns of a cached table, NULL for others. */
int reader_cache_select(const struct reader_table *table, uint64_t wanted, const char *where, sqlite3_stmt **ret);

extern const sqlite3_module segment_table_module;

#endif
