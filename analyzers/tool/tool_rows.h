/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a store, as programs read them: a failure is a sentence and an exit code. A store may come from anybody. */
#ifndef RANKTRACE_TOOL_TOOL_ROWS_H
#define RANKTRACE_TOOL_TOOL_ROWS_H

#include "analyzers/store/reader.h"

/* Opens the store in that folder; NULL becomes tool_state_dir()'s. sort_on_disk: reader_options. 0, or the exit code
 * after a sentence. */
int tool_open(const char **state_dir, bool sort_on_disk, struct reader **ret);
/* Runs the SQL of sqlite3_mprintf(), which it frees: reader_each(). 0, or the exit code after a sentence. */
int tool_each(struct reader *reader, char *sql, int (*row)(void *arg, sqlite3_stmt *row), void *arg);
/* A text, printable, cut to size, of at least 8; "" for NULL. */
void tool_row_text(sqlite3_stmt *row, int column, char *ret, size_t size);
/* A count, a time or a duration; 0 for NULL, negative values and non-numbers. */
uint64_t tool_row_count(sqlite3_stmt *row, int column);

#endif
