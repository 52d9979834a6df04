/* SPDX-License-Identifier: Apache-2.0 */
/* A row as it is shown, wherever it was read: cells with names. */
#ifndef RANKTRACE_TIMELINE_ROW_H
#define RANKTRACE_TIMELINE_ROW_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROW_CELLS_MAX 32
#define ROW_NAME_BYTES 320 /* of a name that is made of several */

enum cell_type { CELL_NULL, CELL_INT, CELL_REAL, CELL_TEXT };

struct cell {
	const char *name;
	enum cell_type type;
	int64_t integer; /* of a CELL_REAL: what is nearest */
	double real;	 /* of a CELL_INT, too */
	const char *text;
};

/* Texts are valid as long as the row is shown. */
struct row {
	size_t count;
	struct cell cell[ROW_CELLS_MAX];
	char name[ROW_NAME_BYTES]; /* room for one */
};

/* Of a statement that stands on a row; columns beyond ROW_CELLS_MAX are left out. */
void row_of(sqlite3_stmt *statement, struct row *ret);

/* Cells keep their names. */
static inline void cell_clear(struct cell *cell)
{
	*cell = (struct cell){.name = cell->name};
}

static inline void cell_set_int(struct cell *cell, int64_t value)
{
	*cell = (struct cell){.name = cell->name, .type = CELL_INT, .integer = value, .real = (double)value};
}

void cell_set_real(struct cell *cell, double value);

/* NULL makes it CELL_NULL. */
static inline void cell_set_text(struct cell *cell, const char *text)
{
	*cell = (struct cell){.name = cell->name, .type = text ? CELL_TEXT : CELL_NULL, .text = text};
}

static inline bool row_has(const struct row *row, size_t cell)
{
	return row->cell[cell].type != CELL_NULL;
}

/* 0 for what is no number. */
static inline int64_t row_int(const struct row *row, size_t cell)
{
	return row->cell[cell].integer;
}

static inline double row_real(const struct row *row, size_t cell)
{
	return row->cell[cell].real;
}

/* "" for what is no text. */
static inline const char *row_text(const struct row *row, size_t cell)
{
	return row->cell[cell].text ? row->cell[cell].text : "";
}

#endif
