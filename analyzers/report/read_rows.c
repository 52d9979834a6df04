/* SPDX-License-Identifier: Apache-2.0 */
/* Steps, samples of the host, and what was lost, of one store. See model.h. */
#include "analyzers/report/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/report/plots.h"

struct rows {
	struct plots *plots;
	struct report_rank *last; /* rows of one process often lie together */
	size_t plot;		  /* that operations are read for */
};

static struct report_rank *rank_of(struct report_source *source, sqlite3_stmt *s)
{
	struct rows *rows = source->arg;
	int64_t instance = sqlite3_column_int64(s, 0);

	if (!rows->last || rows->last->instance != instance || rows->last->store != source->store)
		rows->last = report_rank_of(source->report, source->store, instance);
	return rows->last;
}

/* Of the time of its ranks, where that is a small part of the report's, else of all of it. */
static struct series *series_of(const struct report *report, struct report_job *job)
{
	uint64_t since_ns = report->until_ns, until_ns = report->since_ns;

	for (size_t i = 0; i < report->ranks; i++) {
		const struct report_rank *rank = &report->rank[i];

		if (&report->job[rank->job] != job)
			continue;
		since_ns = rank->first_ns < since_ns ? rank->first_ns : since_ns;
		until_ns = rank->last_ns > until_ns ? rank->last_ns : until_ns;
	}
	since_ns = since_ns > report->since_ns ? since_ns : report->since_ns;
	until_ns = until_ns < report->until_ns ? until_ns : report->until_ns;
	if (until_ns <= since_ns || until_ns - since_ns > (report->until_ns - report->since_ns) / 2) {
		since_ns = report->since_ns;
		until_ns = report->until_ns;
	}
	job->drawn_since_ns = since_ns;
	job->drawn_until_ns = until_ns;
	return plot_series_new(since_ns, until_ns);
}

static int step_row(struct report_source *source, sqlite3_stmt *s)
{
	struct rows *rows = source->arg;
	struct report_rank *rank = rank_of(source, s);
	uint64_t start_ns = report_ns(s, 1), duration_ns = report_ns(s, 2);
	struct report_job *job;

	if (!rank)
		return 0;
	job = &source->report->job[rank->job];
	if (!job->series)
		job->series = series_of(source->report, job);
	if (!job->series)
		return -ENOMEM;
	plot_series_add(job->series, start_ns, duration_ns);
	rank->steps++;
	report_rank_saw(source->report, rank, start_ns, start_ns + duration_ns);
	plots_step(rows->plots, rank, start_ns, duration_ns);
	return 0;
}

static int sample_row(struct report_source *source, sqlite3_stmt *s)
{
	struct rows *rows = source->arg;
	struct report_rank *rank = rank_of(source, s);
	const struct plots_sample sample = {
		.start_ns = report_ns(s, 1),
		.duration_ns = report_ns(s, 2),
		.value = {[PLOT_CPU] = report_ns(s, 3),
			[PLOT_RUN_DELAY] = report_ns(s, 4),
			[PLOT_THROTTLED] = report_ns(s, 5),
			[PLOT_FAULTS] = report_ns(s, 6)},
	};

	if (!rank)
		return 0;
	rank->samples++;
	report_rank_saw(source->report, rank, sample.start_ns, sample.start_ns + sample.duration_ns);
	plots_host(rows->plots, rank, &sample);
	return 0;
}

static int stage_row(struct report_source *source, sqlite3_stmt *s)
{
	struct rows *rows = source->arg;
	struct report_rank *rank = rank_of(source, s);
	const char *stage = (const char *)sqlite3_column_text(s, 3);

	if (rank && stage)
		plots_stage(rows->plots, rank, stage, report_ns(s, 1), report_ns(s, 2));
	return 0;
}

static int operation_row(struct report_source *source, sqlite3_stmt *s)
{
	struct rows *rows = source->arg;
	struct report_rank *rank = rank_of(source, s);

	if (rank && report_ns(s, 2))
		plots_operation(rows->plots, rank, rows->plot, report_ns(s, 1), report_ns(s, 2));
	return 0;
}

static int lost_row(struct report_source *source, sqlite3_stmt *s)
{
	struct report *report = source->report;
	struct report_lost lost = {.store = source->store, .first_ns = report_ns(s, 0), .count = report_ns(s, 3)};
	size_t i = 0;

	report_text(s, 1, lost.source, sizeof(lost.source));
	report_text(s, 2, lost.reason, sizeof(lost.reason));
	while (i < report->lost &&
		(report->lose[i].store != lost.store || strcmp(report->lose[i].source, lost.source) != 0 ||
			strcmp(report->lose[i].reason, lost.reason) != 0))
		i++;
	if (i == REPORT_LOST_MAX) {
		report_note(
			report, "more kinds of losses than have room here: see tracectl query 'select * from drops'");
		return 0;
	}
	if (i == report->lost) {
		report->lose[report->lost++] = lost;
	} else {
		report->lose[i].count += lost.count;
		if (lost.first_ns < report->lose[i].first_ns)
			report->lose[i].first_ns = lost.first_ns;
	}
	if (lost.first_ns > report->lose[i].last_ns)
		report->lose[i].last_ns = lost.first_ns;
	return 0;
}

static int read_one(struct report_source *source, const char *columns, const char *table, uint64_t since_ns,
	uint64_t until_ns, report_row row, char *error, size_t error_size)
{
	char sql[320];

	snprintf(sql, sizeof(sql), "SELECT %s FROM %s WHERE start_ns >= %" PRIu64 " AND start_ns < %" PRIu64, columns,
		table, since_ns, until_ns);
	return report_each(source, sql, row, &source->report->rows, error, error_size);
}

/* Communicators are named by 16 hexadecimal digits; another name is a stranger's, and is not asked for. */
static int read_operations(struct report_source *source, struct rows *rows, char *error, size_t error_size)
{
	uint64_t since = 0, until = 0;
	const char *name = plots_want_operations(rows->plots, source->store, rows->plot, &since, &until);
	char sql[512];

	if (!name[0] || name[strspn(name, "0123456789abcdef")])
		return 0;
	snprintf(sql, sizeof(sql),
		"SELECT instance, host_start_ns, coalesce(device_duration_ns, host_duration_ns) FROM collectives"
		" WHERE host_start_ns >= %" PRIu64 " AND host_start_ns < %" PRIu64 " AND communicator = '%s'",
		since, until, name);
	return report_each(source, sql, operation_row, &source->report->rows, error, error_size);
}

int report_read_rows(struct report_source *source, struct plots *plots, char *error, size_t error_size)
{
	const struct report *report = source->report;
	struct rows rows = {.plots = plots};
	uint64_t since = report->since_ns, until = report->until_ns;
	int r;

	source->arg = &rows;
	r = read_one(source, "instance, start_ns, duration_ns", "steps", since, until, step_row, error, error_size);
	if (r == 0)
		r = read_one(source,
			"instance, start_ns, duration_ns, cpu_ns, run_delay_ns, throttled_ns, major_faults",
			"host_samples", since, until, sample_row, error, error_size);
	if (r == 0)
		r = read_one(
			source, "start_ns, source, reason, count", "drops", since, until, lost_row, error, error_size);
	if (r == 0 && plots_want_stages(plots, source->store, &since, &until))
		r = read_one(source, "instance, start_ns, duration_ns, stage", "stages", since, until, stage_row, error,
			error_size);
	for (rows.plot = 0; r == 0 && rows.plot < REPORT_PLOTS_MAX; rows.plot++)
		r = read_operations(source, &rows, error, error_size);
	return r;
}
