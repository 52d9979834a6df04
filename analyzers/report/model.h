/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report while it is read: its parts are found or added by name, within the bounds of report.h. For read*.c,
 * across.c and merge.c.
 */
#ifndef RANKTRACE_REPORT_MODEL_H
#define RANKTRACE_REPORT_MODEL_H

#include <sqlite3.h>

#include "analyzers/report/report.h"
#include "analyzers/store/reader.h"

#define REPORT_DAY_NS 86400000000000ULL
#define REPORT_ROWS_MAX 200000000ULL /* of all stores; further ones are not read, with a note */

struct report *report_new(const struct report_options *options);
/* An index; REPORT_NONE beyond the bounds, with a note. */
uint32_t report_node_of(struct report *report, const char *name);
uint32_t report_card_of(struct report *report, uint32_t node, const char *card, int32_t local, int32_t rank);
/* Jobs of two users are two, whatever their name. uid -1: unknown, which fits any. report_job_find() adds none. */
uint32_t report_job_of(struct report *report, const char *name, int64_t uid);
uint32_t report_job_find(const struct report *report, const char *name, int64_t uid);
/* Nothing ran: findings of a node have it, too, and no name. */
bool report_job_is_none(const struct report_job *job);
/* Processes are sorted by store and instance. NULL: unknown, or not selected. */
struct report_rank *report_rank_of(struct report *report, uint32_t store, int64_t instance);
/* Marks [since, until) as seen. */
void report_rank_saw(const struct report *report, struct report_rank *rank, uint64_t since_ns, uint64_t until_ns);
bool report_rank_seen(const struct report_rank *rank, uint32_t slot);
/* Slot of a time within the period; the last one for its end. */
uint32_t report_slot(const struct report *report, uint64_t time_ns);
/* d for the day that ended d days before the period's end; -1: older. */
int report_day(const struct report *report, uint64_t time_ns);

/* Printable, cut to size. */
void report_name(const char *text, char *ret, size_t size);

/* Passes rows of a statement to a function; *rows counts them, up to REPORT_ROWS_MAX. */
struct report_source {
	struct report *report;
	struct reader *reader;
	uint32_t store;
	void *arg;
};
typedef int (*report_row)(struct report_source *source, sqlite3_stmt *statement);
int report_each(
	struct report_source *source, const char *sql, report_row row, uint64_t *rows, char *error, size_t error_size);

/* A process of the source: 0 or -ENOMEM. arg: struct report_source. */
struct rank_row;
int report_add_rank(void *arg, const struct rank_row *row);
int report_read_ranks(struct report_source *source, char *error, size_t error_size);
/* All of it from the fleet's metrics: ranks, findings, what jobs did. Each node is a store. */
int report_read_fleet(struct report *report, const struct report_fleet *fleet, char *error, size_t error_size);
int report_read_findings(struct report_source *source, char *error, size_t error_size);
/* Steps, samples and losses, also for plots. */
struct plots;
struct splits;
int report_read_rows(
	struct report_source *source, struct plots *plots, struct splits *splits, char *error, size_t error_size);

/* After all rows: selects processes of the period and updates jobs, cards and stores. */
int report_settle(struct report *report);
/* Adds a finding of a store; across: of the comparison of nodes. 0 or -ENOMEM. */
int report_add_finding(struct report *report, uint32_t store, const struct finding *finding, bool across);
/* Sorts findings into groups; may be called again. 0 or -ENOMEM. */
int report_group(struct report *report);
/* Adds the short slow-downs of a rank. Those of a job as a whole come from each of its nodes: the most count. */
void report_add_brief(struct report *report, uint32_t job, int32_t rank, const struct report_brief *brief);
/* Of the ranks that --rank chose, or concerning them. */
bool report_wants_rank(const struct report *report, int32_t rank, const char *others);
/* Windows of the heat maps, one a job; then the maps from what was read. 0 or -ENOMEM. */
int report_heat_want(struct report *report, struct splits *splits, int window[REPORT_JOBS_MAX]);
int report_heat_make(struct report *report, struct splits *splits, const int window[REPORT_JOBS_MAX]);
struct report_heat *report_heat_free(struct report_heat *heat);
/* The longest round step of which at most `most` fit into length_ns: 1, 2, 5, 10, 15, 30 s or min, 1, 2, 3, 6, 12 h,
 * days. The first multiple of it at or after a time is in the local zone. */
uint64_t report_round_step(uint64_t length_ns, unsigned most);
uint64_t report_round_time(uint64_t time_ns, uint64_t step_ns);
/* Time that a plot of the job covers: its life if that is less than half of the period, else the period. */
void report_job_span(const struct report *report, uint32_t job, uint64_t *ret_since_ns, uint64_t *ret_until_ns);
/* Marks the days of the finding as slow days of its card. */
void report_note_past(struct report *report, const struct finding *finding, uint32_t card);
/* After all findings were read: compares ranks of jobs that several stores have. 0 or -ENOMEM. */
int report_across(struct report *report, const struct report_options *options);
/* After that: merges findings that several nodes report. */
void report_merge(struct report *report);
/* What a row says of the memory of a device of the process. */
void report_memory_add(struct report *report, struct report_rank *rank, const struct report_memory *seen);
/* After all rows, and the last change of findings: one for each rank and device, those with failed requests and leaks
 * first. */
void report_memory_make(struct report *report);
/* After all rows: gaps. */
void report_watch(struct report *report);

#endif
