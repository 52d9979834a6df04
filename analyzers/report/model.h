/* SPDX-License-Identifier: Apache-2.0 */
/* The report's parts while it is read: found or made by what names them, within the bounds of report.h. Shared by the
 * read_*.c, across.c and merge.c; nobody else needs it. */
#ifndef RANKTRACE_REPORT_MODEL_H
#define RANKTRACE_REPORT_MODEL_H

#include <sqlite3.h>

#include "analyzers/report/report.h"
#include "analyzers/store/reader.h"

#define REPORT_DAY_NS 86400000000000ULL
#define REPORT_ROWS_MAX 200000000ULL /* of one table, all stores together; more are not read, and that is said */

struct report *report_new(const struct report_options *options);
/* An index, REPORT_NONE where there is no room or memory (which is noted). */
uint32_t report_node_of(struct report *report, const char *name);
uint32_t report_card_of(struct report *report, uint32_t node, const char *card, int32_t local, int32_t rank);
uint32_t report_job_of(struct report *report, const char *name);
/* For processes of one store, which are sorted by instance and lie together. NULL: not known, or not wanted. */
struct report_rank *report_rank_of(struct report *report, uint32_t store, int64_t instance);
/* Marks [since, until) as seen. */
void report_rank_saw(const struct report *report, struct report_rank *rank, uint64_t since_ns, uint64_t until_ns);
bool report_rank_seen(const struct report_rank *rank, uint32_t slot);
/* The slot of a time, which must be in the period; the last one for its end. */
uint32_t report_slot(const struct report *report, uint64_t time_ns);
/* Of the day that ended d days before the period's end; -1: older. */
int report_day(const struct report *report, uint64_t time_ns);

/* A text of a row, printable, cut to size; "" for NULL. */
void report_text(sqlite3_stmt *statement, int column, char *ret, size_t size);
void report_name(const char *text, char *ret, size_t size);
/* A count or time of a row: 0 for NULL, negative and what is no number. */
uint64_t report_ns(sqlite3_stmt *statement, int column);

/* Rows of a statement to a function. rows counts up, and stops it at REPORT_ROWS_MAX. */
struct report_source {
	struct report *report;
	struct reader *reader;
	uint32_t store;
	void *arg;
};
typedef int (*report_row)(struct report_source *source, sqlite3_stmt *statement);
int report_each(
	struct report_source *source, const char *sql, report_row row, uint64_t *rows, char *error, size_t error_size);

int report_read_ranks(struct report_source *source, char *error, size_t error_size);
int report_read_findings(struct report_source *source, char *error, size_t error_size);
/* Steps, samples and losses; plots get theirs on the way. */
struct plots;
int report_read_rows(struct report_source *source, struct plots *plots, char *error, size_t error_size);

/* After all rows: which processes lived in the period; jobs, cards and stores get theirs. */
int report_settle(struct report *report);
/* Adds one of a store, across: that the comparison of nodes made. 0 or -ENOMEM. */
int report_add_finding(struct report *report, uint32_t store, const struct finding *finding, bool across);
/* Its card was slow on the days that it lasted. */
void report_note_past(struct report *report, const struct finding *finding, uint32_t card);
/* After all stores' findings were read: judges the ranks of jobs that several stores have a part of. 0 or -ENOMEM. */
int report_across(struct report *report, const struct report_options *options);
/* After that: those that several tell are one, and cards know of theirs. */
void report_merge(struct report *report);
/* After all rows: what was not seen. */
void report_watch(struct report *report);

#endif
