/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a statement as a table, CSV (RFC 4180) or JSON (an array of objects). Streams: a table sets its column widths
 * by the first rows. Output is valid UTF-8 and, in a table, in JSON, and as CSV on a terminal, printable
 * (text_clean()); JSON escapes what is not, CSV in files and pipes has it as it is.
 */
#ifndef RANKTRACE_CLI_OUTPUT_H
#define RANKTRACE_CLI_OUTPUT_H

#include <sqlite3.h>
#include <stdio.h>

enum output_format { OUTPUT_TABLE, OUTPUT_CSV, OUTPUT_JSON };

/* Steps the statement to its end. SQLITE_DONE, SQLite's error, or SQLITE_IOERR on a write error. */
int output_rows(FILE *out, sqlite3_stmt *statement, enum output_format format);

/* A value of CSV, in quotes where it needs them. */
void output_csv_text(FILE *out, const char *text);

#endif
