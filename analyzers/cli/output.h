/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a statement as text for people (table), spreadsheets (CSV, RFC 4180) or programs (JSON, an array of objects).
 * Streams: a table measures its columns on the first rows and keeps those widths. What it prints is valid UTF-8 and,
 * in a table, free of control characters, whatever the rows hold.
 */
#ifndef RANKTRACE_CLI_OUTPUT_H
#define RANKTRACE_CLI_OUTPUT_H

#include <sqlite3.h>
#include <stdio.h>

enum output_format { OUTPUT_TABLE, OUTPUT_CSV, OUTPUT_JSON };

/* Steps the statement to its end. Returns SQLITE_DONE, SQLite's error, or SQLITE_IOERR where out takes no more. */
int output_rows(FILE *out, sqlite3_stmt *statement, enum output_format format);

#endif
