/* SPDX-License-Identifier: Apache-2.0 */
/* Formats of times, counts and names in reports, and text tables. Buffers have WORDS_BYTES and are returned. */
#ifndef RANKTRACE_REPORT_WORDS_H
#define RANKTRACE_REPORT_WORDS_H

#include "analyzers/report/report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Tables: aligned text, or Markdown. Cells are copied. */

#define TABLE_COLUMNS_MAX 10
#define TABLE_ROWS_MAX 256 /* further ones are left out */

struct table;

/* Headers end with NULL; ">" marks a column of numbers. NULL: out of memory. */
struct table *table_new(const char *const *headers, bool markdown);
/* Cells in row order. Ignores a NULL table. */
void table_add(struct table *table, const char *text);
/* Prints and frees. */
void table_end(struct table *table, FILE *out, const char *indent);

#define WORDS_BYTES 320

/* "Fri 20 Nov 21:14", local time. */
const char *words_when(uint64_t ns, char *buffer);
/* "21:14"; "21:14:05" for a step below a minute. */
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
/* In a unit of evidence or of a plot: "310 ms", "1.21 s"; "-" for NaN. */
const char *words_value(double value, const char *unit, char *buffer);
/* "1 card", "2 cards" */
const char *words_many(uint64_t count, const char *one, const char *many, char *buffer);

/* "card 3 of node017", "GPU-1a2b... of node017" */
/* "card " or "", before its name. */
const char *words_card_kind(const struct report_card *card);
const char *words_card(const struct report *report, uint32_t card, char *buffer);
/* "card 3 of node017 (rank 139 of llama)", "rank 3 of llama", "job llama" */
const char *words_subject(const struct report *report, const struct report_finding *finding, char *buffer);
const char *words_job(const struct report_job *job);
/* "since Fri 20 Nov 21:14, for 9 h 12 min so far" */
const char *words_since(const struct report *report, const struct report_finding *finding, char *buffer);
/* Of a group: as words_since() for one episode; else "14:02 to 14:40, 5 times, 3 min 10 s in all; closed". */
const char *words_group_since(const struct report *report, const struct report_group *group, char *buffer);
/* "recurred 4 times since Fri 20 Nov 14:02, ..."; "" for one episode. */
const char *words_recurred(const struct report_group *group, char *buffer);
/* What a rank does that is slow: "data loading", "slow network"; of a hang what it hangs in. */
const char *words_why(const struct finding *finding, char *buffer);
/* "rank 3 of llama: 14 short slow-downs (12 a day), 31 s in all, 0.02 card-hours" */
const char *words_brief(const struct report *report, const struct report_brief *brief, char *buffer);
/* tracectl timeline of an episode, with a margin. */
const char *words_timeline(const struct report *report, const struct report_finding *finding, char *buffer);
/* "ranks 0,3-7 only"; "" for all. */
const char *words_chosen(const struct report *report, char *buffer);
/* "of these 0.02 in short slow-downs, 3.1 without a single card; not counted: 0.5 of uneven work" with card-hours;
 * "". */
const char *words_totals(const struct report *report, char *buffer);
/* "node017, 3 of 8 ranks: 02:10 to 03:40 (1 h 30 min)" */
const char *words_gap(const struct report *report, const struct report_gap *gap, char *buffer);
/* "1,016 ranks of llama not seen: ..."; "" for none. */
const char *words_elsewhere(const struct report_job *job, char *buffer);
/* "reported by 3 nodes", "found by comparing nodes; ..."; "" for one node. */
const char *words_reported_by(const struct report_finding *finding, char *buffer);
/* "cuda:0" */
const char *words_memory_device(const struct report_memory *memory, char *buffer);
/* "card 3 of node017 (rank 139 of llama)" */
const char *words_memory_subject(const struct report *report, const struct report_memory *memory, char *buffer);
/* A peak; "-" for 0, which is none. */
const char *words_memory_bytes(uint64_t bytes, char *buffer);
/* "360 MiB an hour, keep (model.py:63)"; "" without a leak. */
const char *words_memory_leak(const struct report *report, const struct report_memory *memory, char *buffer);
/* "2 slow jobs reported by single nodes are explained by findings across nodes"; "" for none. */
const char *words_explained(const struct report *report, char *buffer);
const char *words_lost(const struct report *report, const struct report_lost *lost, char *buffer);

#endif
