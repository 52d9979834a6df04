/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of the reader; nobody else includes it.
 *
 *  reader.c         opening, the list of files, what SQL may do
 *  reader_file.c    connections to single segments, few at once
 *  reader_follow.c  rows after a place, in the order in which they were written
 *  reader_scan.c    rows of a log table as numbers, for who reads very many (reader_scan.h)
 *  reader_texts.c   texts of a segment by their numbers, for reader_scan.c
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
};

/* A connection to one segment; statements of several cursors may share it. */
struct reader_connection {
	sqlite3 *db; /* NULL: free */
	uint64_t number;
	unsigned users;
	uint64_t used_at;
	struct reader_texts *texts; /* those that were wanted; NULL: none so far */
	bool takes;		      /* the function of reader_scan.c is there */
	struct reader_scan *scanning; /* the one whose statement is stepped */
};

/* Where the times of a file's rows lie, by what the file says of them. */
enum reader_span { READER_SPAN_UNKNOWN, READER_SPAN_OUTSIDE, READER_SPAN_ACROSS, READER_SPAN_WITHIN };

struct reader_table { /* what a virtual table's module gets */
	struct reader *reader;
	const struct schema_table *schema;
	uint64_t loaded; /* generation for which the cache holds its rows */
};

struct reader {
	struct reader_options options;
	sqlite3 *db;
	sqlite3 *cache; /* state tables and what is true now, in memory */
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

/* Lends a connection to a file; SQLITE_OK, SQLITE_INTERRUPT, SQLITE_NOMEM, or SQLITE_EMPTY for one to leave out, which
 * has been warned about where that is due. */
int reader_file_lend(struct reader *reader, struct reader_file *file, struct reader_connection **ret);
void reader_file_give_back(struct reader_connection *connection);
void reader_files_close(struct reader *reader);
/* One warning a file and statement. Says nothing about files that are gone. */
void reader_file_warn(struct reader *reader, struct reader_file *file, const char *why);
/* SELECT of the wanted columns of a view, NULL in place of others and of those that this file lacks. where may be "".
 * SQLITE_EMPTY: the file has no such view. */
int reader_file_select(
	sqlite3 *db, const struct schema_table *table, uint64_t wanted, const char *where, sqlite3_stmt **ret);
/* Which of the schema's columns this file's view has, a bit each; SQLITE_EMPTY: it has no such view. */
int reader_file_columns(sqlite3 *db, const struct schema_table *table, uint64_t *ret);
/* Its first column of times; the number of columns where it has none. */
size_t reader_time_column(const struct schema_table *table);
/* Of the table, to times from low_ns on. Outside: none is high_ns or below it; within: all are below it. */
enum reader_span reader_file_span(sqlite3 *db, const struct schema_table *table, int64_t low_ns, int64_t high_ns);
/* What is added to the times of the file's raw tables. SQLITE_CORRUPT: it does not say. */
int reader_file_base(sqlite3 *db, int64_t *ret);
/* Reads the folder again. */
int reader_list(struct reader *reader);
/* From now on, statements have the time that the options give them. */
void reader_start_clock(struct reader *reader);
/* Stops statements at the deadline. */
int reader_progress(void *arg);

/* Before the first text is looked for; SQLite's error is the file's. */
int reader_texts_open(struct reader_connection *connection);
struct reader_texts *reader_texts_close(struct reader_texts *texts);
/* Where they are too many, forgets them: texts that were found are valid no longer. */
void reader_texts_tidy(struct reader_texts *texts);
/* SQLITE_OK, with NULL where there is none; or SQLite's error. */
int reader_texts_find(struct reader_texts *texts, int64_t id, const char **ret);

/* Fills the cache with a state table or one of what is true now. */
int reader_cache_load(struct reader_table *table);

extern const sqlite3_module segment_table_module;

#endif
