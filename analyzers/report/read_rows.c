/* SPDX-License-Identifier: Apache-2.0 */
/* Steps, host samples, memory of devices and losses of a store. */
#include "analyzers/report/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/report/plots.h"
#include "analyzers/store/reader_scan.h"
#include "analyzers/tool/tool_rows.h"

struct rows {
	struct plots *plots;
	struct splits *splits;
	struct report_rank *last; /* cache: rows of a process are often adjacent */
};

/* Columns common to all scans, then specific ones. */
enum { INSTANCE, START, DURATION, OWN };
enum { SAMPLE_CPU = OWN, SAMPLE_RUN_DELAY, SAMPLE_THROTTLED, SAMPLE_FAULTS, SAMPLE_MEMORY_STALL };
enum { STEP_STEP = OWN };
enum { STAGE_STAGE = OWN, STAGE_STEP, STAGE_THREAD };
enum { OP_DEVICE_DURATION = OWN, OP_COMMUNICATOR };
/* These have no duration. */
enum { MEMORY_KIND = DURATION, MEMORY_DEVICE, MEMORY_ALLOCATED, MEMORY_RESERVED };
enum { CALL_OP = DURATION };

/* 0: used; -ENODATA: not counted; or another negative errno. */
typedef int (*scan_row)(struct report_source *source, struct reader_scan *scan);

/* A count or time: 0 for NULL and negative. */
static uint64_t report_read_rows_number(struct reader_scan *scan, size_t column)
{
	int64_t value = reader_scan_row(scan)->value[column];

	return value > 0 ? (uint64_t)value : 0;
}

static struct report_rank *report_read_rows_rank_of(struct report_source *source, struct reader_scan *scan)
{
	struct rows *rows = source->arg;
	int64_t instance = reader_scan_row(scan)->value[INSTANCE];

	if (!rows->last || rows->last->instance != instance || rows->last->store != source->store)
		rows->last = report_rank_of(source->report, source->store, instance);
	return rows->last;
}

void report_job_span(const struct report *report, uint32_t job, uint64_t *ret_since_ns, uint64_t *ret_until_ns)
{
	uint64_t since_ns = report->until_ns, until_ns = report->since_ns;

	for (size_t i = 0; i < report->ranks; i++) {
		const struct report_rank *rank = &report->rank[i];

		if (rank->job != job)
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
	*ret_since_ns = since_ns;
	*ret_until_ns = until_ns;
}

static struct series *series_of(const struct report *report, struct report_job *job)
{
	report_job_span(report, (uint32_t)(job - report->job), &job->drawn_since_ns, &job->drawn_until_ns);
	return plot_series_new(job->drawn_since_ns, job->drawn_until_ns);
}

static int step_row(struct report_source *source, struct reader_scan *scan)
{
	struct rows *rows = source->arg;
	struct report_rank *rank = report_read_rows_rank_of(source, scan);
	uint64_t start_ns = report_read_rows_number(scan, START), duration_ns = report_read_rows_number(scan, DURATION);
	struct report_job *job;

	if (!rank)
		return 0;
	job = &source->report->job[rank->job];
	if (job->is_drawn && !job->series && !(job->series = series_of(source->report, job)))
		return -ENOMEM;
	if (job->series)
		plot_series_add(job->series, start_ns, duration_ns);
	rank->steps++;
	report_rank_saw(source->report, rank, start_ns, start_ns + duration_ns);
	plots_step(rows->plots, rank, start_ns, duration_ns);
	return splits_step(rows->splits, rank, start_ns, duration_ns, reader_scan_row(scan)->value[STEP_STEP]);
}

static int sample_row(struct report_source *source, struct reader_scan *scan)
{
	struct rows *rows = source->arg;
	struct report_rank *rank = report_read_rows_rank_of(source, scan);
	const struct plots_sample sample = {
		.start_ns = report_read_rows_number(scan, START),
		.duration_ns = report_read_rows_number(scan, DURATION),
		.value = {[PLOT_CPU] = report_read_rows_number(scan, SAMPLE_CPU),
			[PLOT_RUN_DELAY] = report_read_rows_number(scan, SAMPLE_RUN_DELAY),
			[PLOT_THROTTLED] = report_read_rows_number(scan, SAMPLE_THROTTLED),
			[PLOT_FAULTS] = report_read_rows_number(scan, SAMPLE_FAULTS),
			[PLOT_MEMORY_STALL] = report_read_rows_number(scan, SAMPLE_MEMORY_STALL)},
	};

	if (!rank)
		return 0;
	rank->samples++;
	report_rank_saw(source->report, rank, sample.start_ns, sample.start_ns + sample.duration_ns);
	plots_host(rows->plots, rank, &sample);
	return 0;
}

static int report_read_rows_stage_row(struct report_source *source, struct reader_scan *scan)
{
	struct rows *rows = source->arg;
	struct report_rank *rank = report_read_rows_rank_of(source, scan);
	const struct reader_row *row = reader_scan_row(scan);
	const struct split_stage stage = {
		.thread = row->value[STAGE_THREAD],
		.step = reader_row_has(row, STAGE_STEP) ? row->value[STAGE_STEP] : -1,
		.stage = reader_scan_text(scan, STAGE_STAGE),
		.start_ns = report_read_rows_number(scan, START),
		.duration_ns = report_read_rows_number(scan, DURATION),
	};

	return rank && stage.stage ? splits_stage(rows->splits, rank, &stage) : 0;
}

static int operation_row(struct report_source *source, struct reader_scan *scan)
{
	struct rows *rows = source->arg;
	bool device = reader_row_has(reader_scan_row(scan), OP_DEVICE_DURATION);
	uint64_t duration_ns = report_read_rows_number(scan, device ? OP_DEVICE_DURATION : DURATION);
	const char *communicator = reader_scan_text(scan, OP_COMMUNICATOR);
	struct report_rank *rank;

	if (!communicator || !plots_want_communicator(rows->plots, source->store, communicator))
		return -ENODATA;
	rank = report_read_rows_rank_of(source, scan);
	if (rank && duration_ns)
		plots_operation(rows->plots, rank, communicator, report_read_rows_number(scan, START), duration_ns);
	return 0;
}

static int report_read_rows_memory(struct report_source *source, struct reader_scan *scan, uint64_t failed)
{
	struct report_rank *rank = report_read_rows_rank_of(source, scan);
	const struct reader_row *row = reader_scan_row(scan);
	int64_t device = row->value[MEMORY_DEVICE];
	bool has_device = reader_row_has(row, MEMORY_DEVICE) && device >= 0 && device <= INT32_MAX;
	const char *kind = reader_scan_text(scan, MEMORY_KIND);
	struct report_memory seen = {
		.device = has_device ? (int32_t)device : -1,
		.allocated_bytes = report_read_rows_number(scan, MEMORY_ALLOCATED),
		.reserved_bytes = report_read_rows_number(scan, MEMORY_RESERVED),
		.failed = failed,
	};

	if (!rank || !rank->chosen)
		return 0;
	report_name(kind ? kind : "", seen.kind, sizeof(seen.kind));
	report_memory_add(source->report, rank, &seen);
	return 0;
}

static int report_read_rows_curve(struct report_source *source, struct reader_scan *scan)
{
	return report_read_rows_memory(source, scan, 0);
}

static int report_read_rows_failure(struct report_source *source, struct reader_scan *scan)
{
	return report_read_rows_memory(source, scan, 1);
}

/* A row without a function is the stack of another row's call. */
static int report_read_rows_call(struct report_source *source, struct reader_scan *scan)
{
	struct report_rank *rank = report_read_rows_rank_of(source, scan);

	if (rank)
		rank->calls_failed += reader_row_has(reader_scan_row(scan), CALL_OP);
	return 0;
}

static int lost_row(struct report_source *source, sqlite3_stmt *s)
{
	struct report *report = source->report;
	struct report_lost lost = {
		.store = source->store, .first_ns = tool_row_count(s, 0), .count = tool_row_count(s, 3)};
	size_t i = 0;

	tool_row_text(s, 1, lost.source, sizeof(lost.source));
	tool_row_text(s, 2, lost.reason, sizeof(lost.reason));
	while (i < report->lost &&
		(report->lose[i].store != lost.store || strcmp(report->lose[i].source, lost.source) != 0 ||
			strcmp(report->lose[i].reason, lost.reason) != 0))
		i++;
	if (i == REPORT_LOST_MAX) {
		report_note(report, "more kinds of losses than listed here: see tracectl query 'select * from drops'");
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

static int read_lost(struct report_source *source, char *error, size_t error_size)
{
	struct report *report = source->report;
	char sql[160];

	snprintf(sql, sizeof(sql),
		"SELECT start_ns, source, reason, count FROM drops WHERE start_ns >= %" PRIu64
		" AND start_ns < %" PRIu64,
		report->since_ns, report->until_ns);
	return report_each(source, sql, lost_row, &report->rows, error, error_size);
}

static const struct reader_scanning steps = {TABLE_STEPS, .columns = {"instance", "start_ns", "duration_ns", "step"}};
static const struct reader_scanning samples = {
	TABLE_HOST_SAMPLES, .columns = {"instance", "start_ns", "duration_ns", "cpu_ns", "run_delay_ns", "throttled_ns",
				    "major_faults", "memory_stall_ns"}};
static const struct reader_scanning stages = {
	TABLE_STAGES, .columns = {"instance", "start_ns", "duration_ns", "stage", "step", "thread_id"}};
static const struct reader_scanning operations = {TABLE_COLLECTIVES,
	.columns = {"instance", "host_start_ns", "host_duration_ns", "device_duration_ns", "communicator"}};

static const struct reader_scanning curves = {TABLE_MEMORY_CURVE,
	.columns = {"instance", "start_ns", "kind", "device", "allocated_max_bytes", "reserved_max_bytes"}};
static const struct reader_scanning failures = {TABLE_MEMORY_FAILURES,
	.columns = {"instance", "start_ns", "kind", "device", "allocated_bytes", "reserved_bytes"}};
static const struct reader_scanning calls = {TABLE_API_ERRORS, .columns = {"instance", "start_ns", "op"}};

/* Read over the whole period. */
static const struct {
	const struct reader_scanning *scanning;
	scan_row row;
} wholes[] = {
	{&steps, step_row},
	{&samples, sample_row},
	{&curves, report_read_rows_curve},
	{&failures, report_read_rows_failure},
	{&calls, report_read_rows_call},
};

/* Rows of a span of time. */
struct span {
	uint64_t since_ns, until_ns;
};

static int64_t read_rows_clamp(uint64_t time_ns)
{
	return time_ns < INT64_MAX ? (int64_t)time_ns : INT64_MAX;
}

/* 0, or negative errno of the scan or of a row. */
static int each_row(struct report_source *source, struct reader_scan *scan, const struct span *span, scan_row row)
{
	struct report *report = source->report;
	int r = 1;

	while (r > 0 && report->rows < REPORT_ROWS_MAX && (r = reader_scan_next(scan)) > 0) {
		uint64_t start_ns = report_read_rows_number(scan, START);
		int taken;

		/* A file's span may be wrong. */
		if (start_ns < span->since_ns || start_ns >= span->until_ns)
			continue;
		taken = row(source, scan);
		if (taken < 0 && taken != -ENODATA)
			return taken;
		report->rows += taken == 0;
	}
	if (report->rows >= REPORT_ROWS_MAX)
		report_note(report, "too many rows: not all of them were read");
	return r < 0 ? r : 0;
}

static int read_scan(struct report_source *source, const struct reader_scanning *scanning, const struct span *span,
	scan_row row, char *error, size_t error_size)
{
	struct reader_scan *scan = NULL;
	int r = reader_scan_open(source->reader, scanning, &scan);

	snprintf(error, error_size, "out of memory");
	if (r == 0)
		r = reader_scan_begin(
			scan, read_rows_clamp(span->since_ns), read_rows_clamp(span->until_ns), error, error_size);
	if (r == 0) {
		r = each_row(source, scan, span, row);
		if (r < 0 && r != -ENOMEM)
			reader_scan_error(scan, error, error_size);
	}
	reader_scan_close(scan);
	return r;
}

int report_read_rows(
	struct report_source *source, struct plots *plots, struct splits *splits, char *error, size_t error_size)
{
	const struct report *report = source->report;
	const struct span whole = {report->since_ns, report->until_ns};
	struct rows rows = {.plots = plots, .splits = splits};
	struct span span;
	int r = 0;

	source->arg = &rows;
	for (size_t i = 0; r == 0 && i < sizeof(wholes) / sizeof(wholes[0]); i++)
		r = read_scan(source, wholes[i].scanning, &whole, wholes[i].row, error, error_size);
	if (r == 0)
		r = read_lost(source, error, error_size);
	if (r == 0 && splits_want(splits, source->store, &span.since_ns, &span.until_ns))
		r = read_scan(source, &stages, &span, report_read_rows_stage_row, error, error_size);
	if (r == 0 && plots_want_operations(plots, source->store, &span.since_ns, &span.until_ns))
		r = read_scan(source, &operations, &span, operation_row, error, error_size);
	return r;
}
