/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of text: columns as wide as their cells for a terminal or a mail, or Markdown's. Cells are copied. */
#ifndef RANKTRACE_REPORT_TABLE_H
#define RANKTRACE_REPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 10
#define TABLE_ROWS_MAX 256 /* more are left out */

struct table;

/* Headers end with NULL; one that begins with ">" is of a column of numbers. NULL: out of memory. */
struct table *table_new(const char *const *headers, bool markdown);
/* Cell by cell, row by row. A NULL table takes none. */
void table_add(struct table *table, const char *text);
/* Prints and frees. */
void table_end(struct table *table, FILE *out, const char *indent);

/* A text from outside, so that Markdown shows it as it is. */
void markdown_text(FILE *out, const char *text);

#endif
