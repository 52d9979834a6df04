/* SPDX-License-Identifier: Apache-2.0 */
/* See tool_rows.h. */
#include "analyzers/tool/tool_rows.h"

#include <errno.h>

#include "analyzers/base/text.h"
#include "analyzers/tool/tool.h"

int tool_open(const char **state_dir, bool sort_on_disk, struct reader **ret)
{
	const struct reader_options options = {.warning = tool_warn, .sort_on_disk = sort_on_disk};
	char error[1024] = "";
	int code = tool_state_dir(*state_dir, state_dir);

	if (code)
		return code;
	return reader_open(*state_dir, &options, ret, error, sizeof(error)) < 0 ? tool_fail(1, "%s", error) : 0;
}

int tool_each(struct reader *reader, char *sql, int (*row)(void *arg, sqlite3_stmt *row), void *arg)
{
	char error[1024] = "out of memory";
	int r = sql ? reader_each(reader, sql, row, arg, error, sizeof(error)) : -ENOMEM;

	sqlite3_free(sql);
	return r < 0 ? tool_fail(1, "%s", error) : 0;
}

void tool_row_text(sqlite3_stmt *row, int column, char *ret, size_t size)
{
	const char *name = (const char *)sqlite3_column_text(row, column);
	struct text text;

	text_begin(&text, ret, size);
	text_name(&text, name ? name : "", size - 4);
}

uint64_t tool_row_count(sqlite3_stmt *row, int column)
{
	int64_t value = sqlite3_column_type(row, column) == SQLITE_INTEGER ? sqlite3_column_int64(row, column) : 0;

	return value > 0 ? (uint64_t)value : 0;
}
