/* SPDX-License-Identifier: Apache-2.0 */
/* See row.h. */
#include "analyzers/timeline/row.h"

void cell_set_real(struct cell *cell, double value)
{
	int64_t nearest = value >= 0x1p63    ? INT64_MAX
			  : value <= -0x1p63 ? INT64_MIN
			  : value == value   ? (int64_t)value
					     : 0;

	*cell = (struct cell){.name = cell->name, .type = CELL_REAL, .integer = nearest, .real = value};
}

void row_of(sqlite3_stmt *statement, struct row *ret)
{
	int columns = sqlite3_column_count(statement);

	ret->count = columns < ROW_CELLS_MAX ? (size_t)columns : ROW_CELLS_MAX;
	for (int i = 0; i < (int)ret->count; i++) {
		struct cell *cell = &ret->cell[i];
		int type = sqlite3_column_type(statement, i);

		cell->name = sqlite3_column_name(statement, i);
		if (type == SQLITE_NULL)
			cell_clear(cell);
		else if (type == SQLITE_INTEGER)
			cell_set_int(cell, sqlite3_column_int64(statement, i));
		else if (type == SQLITE_FLOAT)
			cell_set_real(cell, sqlite3_column_double(statement, i));
		else
			cell_set_text(cell, (const char *)sqlite3_column_text(statement, i));
	}
}
