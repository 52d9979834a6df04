/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/array.h"
#include "analyzers/base/term_table.h"
#include "analyzers/base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define TERM_TABLE_GAP 2
#define TERM_TABLE_BELOW 4 /* indent of what stands below its row */

struct term_cell {
	char *text;
	enum term_colour colour;
};

/* How rows are laid out. */
enum term_table_shape {
	TERM_TABLE_LINES,  /* all columns beside each other, the last one perhaps wrapped */
	TERM_TABLE_BELOWS, /* the last one below */
	TERM_TABLE_PARAGRAPHS,
};

struct term_table {
	size_t columns;
	struct term_column column[TERM_TABLE_COLUMNS_MAX];
	size_t natural[TERM_TABLE_COLUMNS_MAX]; /* widest text so far */
	size_t width[TERM_TABLE_COLUMNS_MAX];	/* as fitted */
	bool left_out[TERM_TABLE_COLUMNS_MAX];
	enum term_table_shape shape;
	size_t indent, terminal;
	struct term_cell *cell;
	size_t cells, cells_max;
};

struct term_table *term_table_new(const struct term_column *column, size_t columns)
{
	struct term_table *table = columns <= TERM_TABLE_COLUMNS_MAX ? calloc(1, sizeof(*table)) : NULL;

	if (!table)
		return NULL;
	table->columns = columns;
	memcpy(table->column, column, columns * sizeof(*column));
	for (size_t i = 0; i < columns; i++)
		table->natural[i] = table->width[i] = term_columns(column[i].name);
	return table;
}

void term_table_clear(struct term_table *table)
{
	for (size_t i = 0; table && i < table->cells; i++)
		free(table->cell[i].text);
	if (table)
		table->cells = 0;
}

void term_table_free(struct term_table *table)
{
	if (!table)
		return;
	term_table_clear(table);
	free(table->cell);
	free(table);
}

size_t term_table_rows(const struct term_table *table)
{
	return table ? table->cells / table->columns : 0;
}

static __attribute__((format(printf, 1, 0))) char *term_table_text(const char *format, va_list args)
{
	char *text = NULL;

	return vasprintf(&text, format, args) < 0 ? NULL : text_clean(text);
}

static void term_table_measure(struct term_table *table, size_t column, const char *text)
{
	size_t columns = text ? term_columns(text) : 0;

	if (columns > table->natural[column])
		table->natural[column] = columns;
}

void term_table_cell(struct term_table *table, enum term_colour colour, const char *format, ...)
{
	va_list args;
	char *text;

	if (!table || !array_reserve((void **)&table->cell, &table->cells_max, table->cells + 1, sizeof(*table->cell),
			      SIZE_MAX))
		return;
	va_start(args, format);
	text = term_table_text(format, args);
	va_end(args);
	term_table_measure(table, table->cells % table->columns, text);
	table->cell[table->cells++] = (struct term_cell){text, colour};
}

void term_table_line(struct term_table *table, const char *format, ...)
{
	char *text, *both = NULL, **cell;
	va_list args;

	if (!table || !table->cells)
		return;
	va_start(args, format);
	text = term_table_text(format, args);
	va_end(args);
	cell = &table->cell[table->cells - 1].text;
	term_table_measure(table, (table->cells - 1) % table->columns, text);
	if (text && *cell && asprintf(&both, "%s\n%s", *cell, text) >= 0) {
		free(*cell);
		*cell = both;
	}
	free(text);
}

/* Of columns up to and without the end, each with what it can be cut to. */
static size_t term_table_least(const struct term_table *table, size_t end)
{
	size_t sum = table->indent, shown = 0;

	for (size_t i = 0; i < end; i++) {
		size_t min = table->column[i].min, natural = table->natural[i];

		if (!table->left_out[i])
			sum += (shown++ ? TERM_TABLE_GAP : 0) + (min && min < natural ? min : natural);
	}
	return sum;
}

/* Columns that can be cut take what is left, from the left to the right. */
static void term_table_share(struct term_table *table, size_t end)
{
	size_t spare = table->terminal - term_table_least(table, end);

	for (size_t i = 0; i < end; i++) {
		size_t min = table->column[i].min, natural = table->natural[i], more;

		table->width[i] = min && min < natural ? min : natural;
		if (table->left_out[i])
			continue;
		more = natural - table->width[i] < spare ? natural - table->width[i] : spare;
		table->width[i] += more;
		spare -= more;
	}
}

void term_table_fit(struct term_table *table, FILE *out, size_t indent, size_t width)
{
	size_t last;

	if (!table)
		return;
	last = table->columns - 1;
	table->indent = indent;
	table->terminal = width ? width : term_width(out);
	table->shape = TERM_TABLE_LINES;
	memset(table->left_out, 0, sizeof(table->left_out));
	memcpy(table->width, table->natural, sizeof(table->width));
	if (!table->terminal)
		return;
	for (size_t i = table->columns; i-- > 0 && term_table_least(table, table->columns) > table->terminal;)
		table->left_out[i] = table->column[i].optional;
	if (term_table_least(table, table->columns) <= table->terminal) {
		term_table_share(table, table->columns);
	} else if (table->column[last].wraps && term_table_least(table, last) <= table->terminal) {
		table->shape = TERM_TABLE_BELOWS;
		term_table_share(table, last);
	} else {
		table->shape = TERM_TABLE_PARAGRAPHS;
		memset(table->left_out, 0, sizeof(table->left_out));
	}
}

/* is_last: of its line. */
static void term_table_print_padded(
	const struct term_table *table, FILE *out, size_t column, const struct term_cell *cell, bool is_last)
{
	size_t width = table->width[column], columns;
	char *text = cell->text;

	if (table->terminal && table->column[column].min)
		term_cut(text, width);
	columns = term_columns(text);
	if (table->column[column].right && columns < width)
		fprintf(out, "%*s", (int)(width - columns), "");
	fprintf(out, "%s%s%s", term_start(out, cell->colour), text, term_end(out, cell->colour));
	if (!table->column[column].right && columns < width && !is_last)
		fprintf(out, "%*s", (int)(width - columns), "");
}

/* Where a column begins. */
static size_t term_table_left(const struct term_table *table, size_t column)
{
	size_t at = table->indent;

	for (size_t i = 0; i < column; i++)
		if (!table->left_out[i])
			at += table->width[i] + TERM_TABLE_GAP;
	return at;
}

static void term_table_print_cells(const struct term_table *table, FILE *out, const struct term_cell *cells)
{
	size_t last = table->columns - 1, end = table->shape == TERM_TABLE_BELOWS ? last : table->columns;
	size_t blanks = table->indent, shown = end;

	while (shown && table->left_out[shown - 1])
		shown--;
	for (size_t i = 0; i < shown; i++) {
		const struct term_cell *cell = &cells[i];

		if (table->left_out[i])
			continue;
		fprintf(out, "%*s", (int)blanks, "");
		blanks = TERM_TABLE_GAP;
		if (i == last && table->column[i].wraps) {
			fputs(term_start(out, cell->colour), out);
			term_wrap(
				out, cell->text, term_table_left(table, i), term_table_left(table, i), table->terminal);
			fputs(term_end(out, cell->colour), out);
		} else {
			term_table_print_padded(table, out, i, cell, i + 1 == shown);
		}
	}
	fputc('\n', out);
	if (table->shape != TERM_TABLE_BELOWS)
		return;
	fprintf(out, "%*s%s", (int)table->indent + TERM_TABLE_BELOW, "", term_start(out, cells[last].colour));
	term_wrap(out, cells[last].text, table->indent + TERM_TABLE_BELOW, table->indent + TERM_TABLE_BELOW,
		table->terminal);
	fprintf(out, "%s\n", term_end(out, cells[last].colour));
}

/* "RANK 3/8  PID 4711  STATE running", the first line out of the others. */
static void term_table_print_paragraph(const struct term_table *table, FILE *out, const struct term_cell *cells)
{
	size_t column = table->indent, indent = table->indent + TERM_TABLE_GAP;

	fprintf(out, "%*s", (int)table->indent, "");
	for (size_t i = 0; i < table->columns; i++) {
		const char *name = table->column[i].name;
		size_t needs = term_columns(name) + 1 + term_columns(cells[i].text);

		if (i && column + TERM_TABLE_GAP + needs > table->terminal) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (i) {
			fprintf(out, "%*s", TERM_TABLE_GAP, "");
			column += TERM_TABLE_GAP;
		}
		fprintf(out, "%s %s", name, term_start(out, cells[i].colour));
		term_wrap(out, cells[i].text, column + term_columns(name) + 1, indent, table->terminal);
		fputs(term_end(out, cells[i].colour), out);
		column += needs;
	}
	fputc('\n', out);
}

void term_table_print_header(struct term_table *table, FILE *out)
{
	struct term_cell names[TERM_TABLE_COLUMNS_MAX] = {0};
	char text[TERM_TABLE_COLUMNS_MAX][64];

	if (!table || table->shape == TERM_TABLE_PARAGRAPHS)
		return;
	for (size_t i = 0; i < table->columns; i++) {
		snprintf(text[i], sizeof(text[i]), "%s", table->column[i].name);
		names[i].text = text[i];
	}
	term_table_print_cells(table, out, names);
}

void term_table_print_row(struct term_table *table, FILE *out, size_t row)
{
	struct term_cell cells[TERM_TABLE_COLUMNS_MAX];
	char none[1] = ""; /* a cell for which there was no memory */

	if (!table)
		return;
	for (size_t i = 0; i < table->columns; i++) {
		cells[i] = table->cell[row * table->columns + i];
		if (!cells[i].text)
			cells[i].text = none;
	}
	if (table->shape == TERM_TABLE_PARAGRAPHS)
		term_table_print_paragraph(table, out, cells);
	else
		term_table_print_cells(table, out, cells);
}

void term_table_print(struct term_table *table, FILE *out, size_t indent)
{
	term_table_fit(table, out, indent, 0);
	if (table && *table->column[0].name)
		term_table_print_header(table, out);
	for (size_t i = 0; i < term_table_rows(table); i++)
		term_table_print_row(table, out, i);
}
