/* SPDX-License-Identifier: Apache-2.0 */
/* How the report writes times, counts and names. Buffers are of WORDS_BYTES and are returned. */
#ifndef RANKTRACE_REPORT_WORDS_H
#define RANKTRACE_REPORT_WORDS_H

#include "analyzers/report/report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Tables of text: columns as wide as their cells for a terminal or a mail, or Markdown's. Cells are copied. */

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

#define WORDS_BYTES 320

/* "Fri 20 Nov 21:14" of the local zone. */
const char *words_when(uint64_t ns, char *buffer);
/* "21:14", "21:14:05" where a minute is too coarse for the step. */
const char *words_clock(uint64_t ns, uint64_t step_ns, char *buffer);
/* "20 Nov" */
const char *words_day(uint64_t ns, char *buffer);
/* "2026-11-21 06:00:00" */
const char *words_stamp(uint64_t ns, char *buffer);
const char *words_zone(uint64_t ns, char *buffer);
/* "9 h 12 min" */
const char *words_length(uint64_t ns, char *buffer);
/* "24,576" */
const char *words_count(uint64_t count, char *buffer);
/* "0.034", "3.21", "41.2", "2,150" */
const char *words_hours(double card_hours, char *buffer);
/* "0.17 %", "12 %" */
const char *words_percent(double share, char *buffer);
/* By a unit of evidence or of a plot: "310 ms", "1.21 s"; "-" for NaN. */
const char *words_value(double value, const char *unit, char *buffer);
/* "card", "cards": with the count before it. */
const char *words_many(uint64_t count, const char *one, const char *many, char *buffer);

/* "card 3 of node017", "GPU-1a2b... of node017" */
const char *words_card(const struct report *report, uint32_t card, char *buffer);
/* "card 3 of node017 (rank 139 of llama)", "rank 3 of llama", "job llama" */
const char *words_whom(const struct report *report, const struct report_finding *finding, char *buffer);
const char *words_job(const struct report_job *job);
/* "since Fri 20 Nov 21:14, for 9 h 12 min so far" */
const char *words_since(const struct report *report, const struct report_finding *finding, char *buffer);
/* "node017, 3 of 8 ranks: 02:10 to 03:40 (1 h 30 min)" */
const char *words_gap(const struct report *report, const struct report_gap *gap, char *buffer);
/* "1,016 ranks of llama were on nodes that this report does not have"; "" for none. */
const char *words_elsewhere(const struct report_job *job, char *buffer);
/* "told by 3 nodes", "found across nodes: no node's own daemon told of it"; "" for what its one node told. */
const char *words_told(const struct report_finding *finding, char *buffer);
/* "2 slow jobs that single nodes told of are explained by what is found across nodes"; "" for none. */
const char *words_explained(const struct report *report, char *buffer);
const char *words_lost(const struct report *report, const struct report_lost *lost, char *buffer);

#endif
