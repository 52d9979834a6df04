/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table for people, that fits the terminal: columns are as wide as what stands in them; where the terminal is
 * narrower, optional columns go, columns with a minimum are cut ('~'), the last one is wrapped, or stands below its
 * row; on the narrowest terminals each row is a paragraph of names and values. A stream without a width gets all.
 */
#ifndef RANKTRACE_BASE_TERM_TABLE_H
#define RANKTRACE_BASE_TERM_TABLE_H

#include "analyzers/base/term.h"

#define TERM_TABLE_COLUMNS_MAX 16

struct term_column {
	const char *name;
	size_t min;    /* columns that it may be cut to, or wrapped in; 0: never */
	bool right;    /* numbers */
	bool optional; /* left out first, the last of them first */
	bool wraps;    /* only the last one */
};

struct term_table;

/* NULL without memory, which all others take. */
struct term_table *term_table_new(const struct term_column *column, size_t columns);
void term_table_free(struct term_table *table);
/* The next cell; a row is complete with its last one. Line breaks and control characters are made harmless. */
void term_table_cell(struct term_table *table, enum term_colour colour, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Another line in the cell before, of a column that wraps. */
void term_table_line(struct term_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
size_t term_table_rows(const struct term_table *table);
/* Decides how wide columns are, of out or, with width not 0, of that many columns; indent stands before every line. */
void term_table_fit(struct term_table *table, FILE *out, size_t indent, size_t width);
/* After term_table_fit(). */
void term_table_print_header(struct term_table *table, FILE *out);
void term_table_print_row(struct term_table *table, FILE *out, size_t row);
/* Fits, and prints the header, if its first name is not "", and all rows. */
void term_table_print(struct term_table *table, FILE *out, size_t indent);
/* Forgets the rows; columns do not become narrower than they were. */
void term_table_clear(struct term_table *table);

#endif
