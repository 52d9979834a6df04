/* SPDX-License-Identifier: Apache-2.0 */
/* See table.h. */
#include "analyzers/report/table.h"

#include <stdlib.h>
#include <string.h>

struct table {
	bool markdown;
	size_t columns, cells;
	const char *const *headers;
	char *cell[TABLE_ROWS_MAX * TABLE_COLUMNS_MAX];
};

struct table *table_new(const char *const *headers, bool markdown)
{
	struct table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->markdown = markdown;
	table->headers = headers;
	while (table->columns < TABLE_COLUMNS_MAX && headers[table->columns])
		table->columns++;
	return table;
}

void table_add(struct table *table, const char *text)
{
	if (table && table->cells < TABLE_ROWS_MAX * table->columns)
		table->cell[table->cells++] = strdup(text);
}

void markdown_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		const char *entity = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : NULL;

		if (strchr("\\`*_[]|#~!", *text))
			fputc('\\', out);
		if (entity)
			fputs(entity, out);
		else
			fputc(*text, out);
	}
}

/* Characters, not bytes: what goes on belongs to the one before. */
static size_t width_of(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

static const char *header(const struct table *table, size_t column)
{
	return table->headers[column] + (table->headers[column][0] == '>');
}

static const char *text_at(const struct table *table, size_t at)
{
	return at < table->cells && table->cell[at] ? table->cell[at] : "";
}

static void report_table_pad(FILE *out, size_t n)
{
	while (n--)
		fputc(' ', out);
}

static void report_table_put_row(const struct table *table, FILE *out, const char *indent, const size_t *widths, size_t row)
{
	fputs(indent, out);
	for (size_t i = 0; i < table->columns; i++) {
		const char *text = row ? text_at(table, (row - 1) * table->columns + i) : header(table, i);
		size_t blanks = widths[i] - width_of(text);

		if (table->headers[i][0] == '>')
			report_table_pad(out, blanks);
		fputs(text, out);
		if (i + 1 == table->columns)
			break;
		if (table->headers[i][0] != '>')
			report_table_pad(out, blanks);
		report_table_pad(out, 2);
	}
	fputc('\n', out);
}

static void put_markdown(const struct table *table, FILE *out)
{
	for (size_t i = 0; i < table->columns; i++)
		fprintf(out, "| %s ", header(table, i));
	fputs("|\n", out);
	for (size_t i = 0; i < table->columns; i++)
		fputs(table->headers[i][0] == '>' ? "|---:" : "|---", out);
	fputs("|\n", out);
	for (size_t at = 0; at < table->cells; at++) {
		fputs("| ", out);
		markdown_text(out, text_at(table, at));
		fputs((at + 1) % table->columns ? " " : " |\n", out);
	}
}

void table_end(struct table *table, FILE *out, const char *indent)
{
	size_t widths[TABLE_COLUMNS_MAX] = {0}, rows;

	if (!table)
		return;
	rows = table->cells / table->columns;
	for (size_t i = 0; i < table->columns; i++)
		widths[i] = width_of(header(table, i));
	for (size_t at = 0; at < table->cells; at++)
		if (width_of(text_at(table, at)) > widths[at % table->columns])
			widths[at % table->columns] = width_of(text_at(table, at));
	if (table->markdown)
		put_markdown(table, out);
	for (size_t row = 0; !table->markdown && row <= rows; row++)
		report_table_put_row(table, out, indent, widths, row);
	for (size_t at = 0; at < table->cells; at++)
		free(table->cell[at]);
	free(table);
}
