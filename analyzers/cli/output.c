/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/cli/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/term.h"
#include "analyzers/base/text.h"
#include "analyzers/base/utf8.h"

#define MEASURED_ROWS 1000
#define MEASURED_BYTES (4UL << 20)
#define WIDTH_MAX 120 /* wider values are printed whole and shift only their row */

struct cell {
	char *text; /* NULL for NULL */
	size_t width;
	bool number;
};

/* A valid UTF-8 copy; for people, what is not printable becomes "?". */
static int make_cell(sqlite3_stmt *statement, int column, bool people, struct cell *ret)
{
	int type = sqlite3_column_type(statement, column);
	const unsigned char *text = sqlite3_column_text(statement, column);
	size_t left = (size_t)sqlite3_column_bytes(statement, column), used = 0;
	struct cell cell = {.number = type == SQLITE_INTEGER || type == SQLITE_FLOAT};

	if (type == SQLITE_NULL || !text) {
		*ret = cell;
		return type == SQLITE_NULL || type == SQLITE_BLOB ? 0 : -1;
	}
	cell.text = malloc(3 * left + 1);
	if (!cell.text)
		return -1;
	while (left) {
		size_t n = utf8_character(text, left), step = n ? n : 1;

		if (!n) {
			memcpy(cell.text + used, "\xef\xbf\xbd", 3);
			used += 3;
		} else if (people && !text_printable((const char *)text)) {
			cell.text[used++] = '?';
		} else {
			memcpy(cell.text + used, text, n);
			used += n;
		}
		cell.width++;
		text += step;
		left -= step;
	}
	cell.text[used] = 0;
	*ret = cell;
	return 0;
}

static void output_pad(FILE *out, size_t n)
{
	while (n--)
		fputc(' ', out);
}

static void put_cell(FILE *out, const char *text, size_t width, size_t capacity, bool right, bool last)
{
	size_t blanks = width < capacity ? capacity - width : 0;

	if (right)
		output_pad(out, blanks);
	fputs(text ? text : "", out);
	if (!right && !last)
		output_pad(out, blanks);
	fputs(last ? "\n" : "  ", out);
}

struct table {
	int columns;
	size_t *widths;
	bool *numbers;
	struct cell *cells;
	size_t rows;
	size_t bytes;
};

static void table_print(FILE *out, struct table *table)
{
	for (size_t row = 0; row < table->rows; row++)
		for (int i = 0; i < table->columns; i++) {
			struct cell *cell = &table->cells[row * (size_t)table->columns + (size_t)i];

			put_cell(out, cell->text, cell->width, table->widths[i], table->numbers[i],
				i + 1 == table->columns);
			free(cell->text);
			cell->text = NULL;
		}
	table->rows = 0;
	table->bytes = 0;
}

static void table_header(FILE *out, sqlite3_stmt *statement, struct table *table)
{
	for (int i = 0; i < table->columns; i++) {
		const char *name = sqlite3_column_name(statement, i);
		size_t width = name ? strlen(name) : 0;
		bool some = false, number = true;

		table->widths[i] = width;
		for (size_t row = 0; row < table->rows; row++) {
			const struct cell *cell = &table->cells[row * (size_t)table->columns + (size_t)i];

			some |= cell->text != NULL;
			number &= !cell->text || cell->number;
			if (cell->width > table->widths[i])
				table->widths[i] = cell->width < WIDTH_MAX ? cell->width : WIDTH_MAX;
		}
		table->numbers[i] = some && number;
		put_cell(out, name, width, table->widths[i], table->numbers[i], i + 1 == table->columns);
	}
}

static int table_fill(FILE *out, sqlite3_stmt *statement, struct table *table)
{
	bool started = false;
	int rc;

	while ((rc = sqlite3_step(statement)) == SQLITE_ROW && !ferror(out)) {
		struct cell *row = &table->cells[table->rows * (size_t)table->columns];

		for (int i = 0; i < table->columns; i++) {
			if (make_cell(statement, i, true, &row[i]) < 0)
				return SQLITE_NOMEM;
			table->bytes += row[i].text ? strlen(row[i].text) : 0;
		}
		table->rows++;
		if (!started && table->rows < MEASURED_ROWS && table->bytes < MEASURED_BYTES)
			continue;
		if (!started)
			table_header(out, statement, table);
		started = true;
		table_print(out, table);
	}
	if (!started)
		table_header(out, statement, table);
	table_print(out, table);
	return rc;
}

static int output_table(FILE *out, sqlite3_stmt *statement)
{
	struct table table = {.columns = sqlite3_column_count(statement)};
	size_t columns = (size_t)table.columns;
	int rc = SQLITE_NOMEM;

	table.widths = calloc(columns + 1, sizeof(*table.widths));
	table.numbers = calloc(columns + 1, sizeof(*table.numbers));
	table.cells = calloc(MEASURED_ROWS * columns + 1, sizeof(*table.cells));
	if (table.widths && table.numbers && table.cells)
		rc = table_fill(out, statement, &table);
	for (size_t i = 0; table.cells && i < MEASURED_ROWS * columns; i++)
		free(table.cells[i].text);
	free(table.widths);
	free(table.numbers);
	free(table.cells);
	return rc;
}

void output_csv_text(FILE *out, const char *text)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static int output_csv(FILE *out, sqlite3_stmt *statement)
{
	int columns = sqlite3_column_count(statement), rc;
	bool people = term_width(out) > 0;

	for (int i = 0; i < columns; i++) {
		fputs(i ? "," : "", out);
		output_csv_text(out, sqlite3_column_name(statement, i) ? sqlite3_column_name(statement, i) : "");
	}
	fputs("\r\n", out);
	while ((rc = sqlite3_step(statement)) == SQLITE_ROW && !ferror(out)) {
		for (int i = 0; i < columns; i++) {
			struct cell cell;

			if (make_cell(statement, i, people, &cell) < 0)
				return SQLITE_NOMEM;
			fputs(i ? "," : "", out);
			if (cell.text)
				output_csv_text(out, cell.text);
			free(cell.text);
		}
		fputs("\r\n", out);
	}
	return rc;
}

static void output_json_escape(FILE *out, uint32_t code)
{
	if (code > 0xffff) {
		output_json_escape(out, 0xd800 + ((code - 0x10000) >> 10));
		code = 0xdc00 + ((code - 0x10000) & 0x3ff);
	}
	fprintf(out, "\\u%04" PRIx32, code);
}

/* Valid UTF-8. What is not printable is escaped: the same value, harmless on a terminal. */
static void output_json_text(FILE *out, const char *text)
{
	fputc('"', out);
	while (*text) {
		const unsigned char *p = (const unsigned char *)text;
		size_t n = text_printable(text), whole = n ? n : utf8_character(p, strnlen(text, 4));

		if (*p == '"' || *p == '\\')
			fputc('\\', out);
		if (n)
			fwrite(text, 1, n, out);
		else
			output_json_escape(out, whole ? utf8_decode(p, whole) : 0xfffd);
		text += whole ? whole : 1;
	}
	fputc('"', out);
}

static int json_value(FILE *out, sqlite3_stmt *statement, int column)
{
	struct cell cell;
	double real;

	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_NULL:
		fputs("null", out);
		return 0;
	case SQLITE_INTEGER:
		fprintf(out, "%lld", sqlite3_column_int64(statement, column));
		return 0;
	case SQLITE_FLOAT:
		real = sqlite3_column_double(statement, column);
		if (isfinite(real))
			fprintf(out, "%.17g", real);
		else
			fputs("null", out);
		return 0;
	}
	if (make_cell(statement, column, false, &cell) < 0)
		return -1;
	output_json_text(out, cell.text ? cell.text : "");
	free(cell.text);
	return 0;
}

static int output_json(FILE *out, sqlite3_stmt *statement)
{
	int columns = sqlite3_column_count(statement), rc;
	bool first = true;

	fputs("[", out);
	while ((rc = sqlite3_step(statement)) == SQLITE_ROW && !ferror(out)) {
		fputs(first ? "\n{" : ",\n{", out);
		first = false;
		for (int i = 0; i < columns; i++) {
			fputs(i ? ", " : "", out);
			output_json_text(
				out, sqlite3_column_name(statement, i) ? sqlite3_column_name(statement, i) : "");
			fputs(": ", out);
			if (json_value(out, statement, i) < 0)
				return SQLITE_NOMEM;
		}
		fputs("}", out);
	}
	if (rc == SQLITE_DONE)
		fputs("\n]\n", out);
	return rc;
}

int output_rows(FILE *out, sqlite3_stmt *statement, enum output_format format)
{
	static int (*const writers[])(FILE *, sqlite3_stmt *) = {
		[OUTPUT_TABLE] = output_table,
		[OUTPUT_CSV] = output_csv,
		[OUTPUT_JSON] = output_json,
	};
	int rc = writers[format](out, statement);

	if (fflush(out) != 0 || ferror(out))
		return SQLITE_IOERR;
	return rc;
}
