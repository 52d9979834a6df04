/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the store as tracks, one row each. Large ones are scans (stream_scan), the others SQL. Cells of a row:
 * instance, start, end, thread, name, then the stream's own; cells from `args` on are arguments of the slice. The end
 * is INT64_MAX if open, NULL if unknown.
 */
#include "analyzers/timeline/timeline_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void cell_set_real(struct cell *cell, double value)
{
	int64_t nearest = value >= 0x1p63    ? INT64_MAX
			  : value <= -0x1p63 ? INT64_MIN
			  : value == value   ? (int64_t)value
					     : 0;

	*cell = (struct cell){.name = cell->name, .type = CELL_REAL, .integer = nearest, .real = value};
}

void row_of(sqlite3_stmt *statement, struct row *ret)
{
	int columns = sqlite3_column_count(statement);

	ret->count = columns < ROW_CELLS_MAX ? (size_t)columns : ROW_CELLS_MAX;
	for (int i = 0; i < (int)ret->count; i++) {
		struct cell *cell = &ret->cell[i];
		int type = sqlite3_column_type(statement, i);

		cell->name = sqlite3_column_name(statement, i);
		if (type == SQLITE_NULL)
			cell_clear(cell);
		else if (type == SQLITE_INTEGER)
			cell_set_int(cell, sqlite3_column_int64(statement, i));
		else if (type == SQLITE_FLOAT)
			cell_set_real(cell, sqlite3_column_double(statement, i));
		else
			cell_set_text(cell, (const char *)sqlite3_column_text(statement, i));
	}
}

#define HORIZON_NS 3600000000000LL /* an end that long after the window is open */

static void add_arg(const struct cell *cell, struct trace_event *event)
{
	struct trace_arg *arg = &event->arg[event->args];

	if (cell->type == CELL_NULL || event->args == TRACE_ARGS_MAX)
		return;
	arg->name = cell->name;
	if (cell->type == CELL_INT) {
		arg->type = TRACE_INT;
		arg->integer = cell->integer;
	} else if (cell->type == CELL_REAL) {
		arg->type = TRACE_REAL;
		arg->real = cell->real;
	} else {
		arg->type = TRACE_TEXT;
		arg->text = cell->text;
	}
	if (arg->name && (arg->type != TRACE_TEXT || (arg->text && *arg->text)))
		event->args++;
}

bool timeline_event(struct timeline *t, const struct stream *stream, const struct row *row, struct trace_event *ret)
{
	const char *name = row_text(row, COL_NAME);
	int64_t end_ns = row_int(row, COL_END);

	*ret = (struct trace_event){
		.category = stream->category,
		.name = *name ? name : "?",
		.start_ns = row_int(row, COL_START),
		.instant = !row_has(row, COL_END),
	};
	if (ret->start_ns <= 0 || !row_has(row, COL_START)) {
		t->counts.odd++;
		return false;
	}
	ret->end_ns = ret->instant || end_ns < ret->start_ns ? ret->start_ns : end_ns;
	if (ret->end_ns > t->options->until_ns && ret->end_ns - t->options->until_ns > HORIZON_NS)
		ret->end_ns = TRACE_OPEN;
	for (size_t i = stream->args; i < row->count; i++)
		add_arg(&row->cell[i], ret);
	return true;
}

/* A slice or an instant. */
static void rows_plain(
	struct timeline *t, const struct stream *stream, struct timeline_rank *rank, const struct row *row)
{
	struct trace_event event;

	if (timeline_event(t, stream, row, &event))
		(void)timeline_put(
			t, timeline_track(t, rank, stream->class, row_int(row, COL_THREAD), ""), &event, NULL);
}

#define OPEN_END "9223372036854775807"
#define BY_START " order by 2, 3 desc"

static void name_step(struct row *row)
{
	if (!row_has(row, COL_MORE))
		return;
	snprintf(row->name, sizeof(row->name), "step %" PRId64, row_int(row, COL_MORE));
	cell_set_text(&row->cell[COL_NAME], row->name);
}

static const struct stream_scan steps = {
	.scanning = {TABLE_STEPS, .columns = {"instance", "start_ns", "duration_ns", "", "", "step", "kind", "rank"}},
	.cells = 7,
	.before = true,
	.reaches = true,
	.finish = name_step,
};

static const struct stream_scan stages = {
	.scanning = {TABLE_STAGES, .columns = {"instance", "start_ns", "duration_ns", "thread_id", "stage", "name",
					   "step", "depth", "rank"}},
	.cells = 8,
	.before = true,
	.reaches = true,
	.order = COL_MORE + 2,
	.more = "select instance, start_ns, " OPEN_END ", thread_id, stage, name, step, depth from in_flight where "
		"start_ns < :until and RANKS",
};

static void leave_out_zeros(struct row *row)
{
	for (size_t i = COL_MORE; i < row->count; i++)
		if (strcmp(row->cell[i].name, "captured") == 0 || strcmp(row->cell[i].name, "result") == 0)
			if (row_int(row, i) == 0)
				cell_clear(&row->cell[i]);
}

/* Host and device slices in one stream: flows.c needs them close together. */
static const struct stream_scan collectives = {
	.scanning = {TABLE_COLLECTIVES,
		.columns = {"instance", "host_start_ns", "host_duration_ns", "thread_id", "op", "", "communicator_key",
			"communicator", "seq", "seq_from", "peer", "tier", "step", "bytes", "count", "dtype",
			"group_id", "captured", "result", "family", "rank", "device_start_ns", "device_duration_ns"}},
	.cells = 20,
	.before = true,
	.reaches = true,
	.order = COL_MORE,
	.other = 21,
	.finish = leave_out_zeros,
};

static const struct stream_scan allocations = {
	.scanning = {TABLE_ALLOCATIONS, .columns = {"instance", "start_ns", "duration_ns", "thread_id", "op", "bytes",
						"device", "result", "step", "stage", "address", "rank"}},
	.cells = 11,
	.before = true,
};

enum { OFFCPU_DELAY = COL_MORE, OFFCPU_PREVIOUS_PID, OFFCPU_PREVIOUS_NAME };

static void name_offcpu(struct row *row)
{
	int64_t length_ns = row_int(row, COL_END) - row_int(row, COL_START), twice_ns;
	const char *previous = row_text(row, OFFCPU_PREVIOUS_NAME);
	bool known = row_has(row, OFFCPU_DELAY) && row_has(row, COL_END);

	if (__builtin_mul_overflow(row_int(row, OFFCPU_DELAY), 2, &twice_ns))
		twice_ns = row_int(row, OFFCPU_DELAY);
	if (known && twice_ns <= length_ns)
		snprintf(row->name, sizeof(row->name), "sleeps");
	else if (!*previous || (row_has(row, OFFCPU_PREVIOUS_PID) && row_int(row, OFFCPU_PREVIOUS_PID) == 0))
		snprintf(row->name, sizeof(row->name), "waits for the CPU");
	else
		snprintf(row->name, sizeof(row->name), "waits for the CPU: %s", previous);
	cell_set_text(&row->cell[COL_NAME], row->name);
}

static const struct stream_scan intervals = {
	.scanning = {TABLE_OFFCPU,
		.columns = {"instance", "start_ns", "duration_ns", "thread_id", "", "run_delay_ns", "previous_pid",
			"previous_name", "next_pid", "next_name", "thread_name", "rank"}},
	.cells = 11,
	.before = true,
	.reaches = true,
	.finish = name_offcpu,
};

static const struct stream_scan offcpu_sums = {
	.scanning = {TABLE_OFFCPU_SUM, .columns = {"instance", "start_ns", "", "thread_id", "thread_name",
					       "duration_ns", "run_delay_ns", "count", "rank"}},
	.cells = 8,
	.names = {[COL_MORE] = "off-CPU time, short intervals|ns",
		"run delay, short intervals|ns",
		"short off-CPU intervals|times"},
};

enum { LAUNCHES_RATE = COL_MORE, LAUNCHES_GAP, LAUNCHES_COUNT, LAUNCHES_LENGTH };

static void rate_launches(struct row *row)
{
	double length_ns = row_real(row, LAUNCHES_LENGTH);

	if (row_has(row, LAUNCHES_COUNT) && length_ns != 0)
		cell_set_real(&row->cell[LAUNCHES_RATE], row_real(row, LAUNCHES_COUNT) * 1e9 / length_ns);
}

static const struct stream_scan launches = {
	.scanning = {TABLE_LAUNCHES, .columns = {"instance", "start_ns", "", "thread_id", "api", "", "longest_gap_ns",
					     "count", "duration_ns", "rank"}},
	.cells = 9,
	.finish = rate_launches,
};

enum { SAMPLE_CPU = COL_MORE, SAMPLE_RUN_DELAY, SAMPLE_THROTTLED, SAMPLE_MEMORY_STALL, SAMPLE_SHARES };

static void share_sample(struct row *row)
{
	double length_ns = (double)(row_int(row, COL_END) - row_int(row, COL_START));

	for (size_t i = SAMPLE_CPU; i < SAMPLE_SHARES; i++) {
		double share = row_real(row, i) * (i == SAMPLE_CPU ? 1 : 100);

		if (!row_has(row, COL_END) || length_ns == 0)
			cell_clear(&row->cell[i]);
		else if (row_has(row, i))
			cell_set_real(&row->cell[i], share / length_ns);
	}
}

static const struct stream_scan samples = {
	.scanning = {TABLE_HOST_SAMPLES,
		.columns = {"instance", "start_ns", "duration_ns", "", "state", "cpu_ns", "run_delay_ns",
			"throttled_ns", "memory_stall_ns", "major_faults", "resident_bytes", "rank"}},
	.cells = 11,
	.names = {[SAMPLE_CPU] = "CPU of the process|cores",
		"run delay|%",
		"throttled|%",
		"waits for memory|%",
		"major page faults|faults",
		"memory of the process|bytes"},
	.finish = share_sample,
};

const struct stream timeline_streams[] = {
	{
		.what = "steps",
		.scan = &steps,
		.class = TRACK_STEPS,
		.category = "step",
		.args = COL_MORE,
		.row = rows_plain,
	},
	{
		.what = "stages",
		.scan = &stages,
		.class = TRACK_THREAD,
		.category = "stage",
		.args = COL_MORE,
		.row = rows_plain,
	},
	{
		.what = "collectives",
		.scan = &collectives,
		.class = TRACK_COLLECTIVES,
		.category = "collective",
		.args = COL_MORE + 2,
		.row = rows_collective,
	},
	{
		.what = "memory calls",
		.scan = &allocations,
		.class = TRACK_MEMORY,
		.category = "memory",
		.args = COL_MORE,
		.row = rows_allocation,
	},
	{
		.what = "off-CPU intervals",
		.scan = &intervals,
		.class = TRACK_OFFCPU,
		.category = "offcpu",
		.args = COL_MORE,
		.row = rows_offcpu,
	},
	{
		.what = "short off-CPU intervals",
		.scan = &offcpu_sums,
		.class = TRACK_COUNTER,
		.row = rows_values,
	},
	{
		.what = "launches",
		.scan = &launches,
		.class = TRACK_COUNTER,
		.row = rows_launches,
	},
	{
		.what = "samples",
		.scan = &samples,
		.class = TRACK_COUNTER,
		.category = "sample",
		.row = rows_sample,
	},
	{
		.what = "stacks",
		.sql = "with c as materialized (select id as number, max(frames) as text from call_stacks group by id) "
		       "select instance, start_ns, case when kind = 'off_cpu' then start_ns + coalesce(duration_ns, "
		       "weight_ns) end, thread_id, '', stack, text, thread_name, weight_ns, profile from samples left "
		       "join c on number = stack where start_ns >= :from and start_ns < :until and RANKS and start_ns "
		       "+ "
		       "coalesce(duration_ns, 0) >= :since" BY_START,
		.class = TRACK_WAITS,
		.category = "stack",
		.args = COL_MORE + 3,
		.row = rows_stack,
	},
	{
		.what = "findings",
		.sql = "select 0, since_ns, coalesce(until_ns, " OPEN_END
		       "), 0, kind || ': ' || cause, rank, job, host, "
		       "noticed_ns, sentence, state, severity, confidence, tier, card, communicator, since_ns, "
		       "until_ns, "
		       "since_step, until_step, slowdown, cost_card_hours, others, evidence, finding from findings "
		       "where "
		       "since_ns < :until and coalesce(until_ns, " OPEN_END ") >= :since and "
		       "state in ('open', 'closed')" BY_START,
		.class = TRACK_FINDINGS,
		.category = "finding",
		.args = COL_MORE,
		.of_node = true,
		.row = rows_finding,
	},
	{
		.what = "lost records",
		.sql = "select 0, start_ns, null, 0, source || ': ' || reason, count from drops where start_ns >= "
		       ":since and "
		       "start_ns < :until" BY_START,
		.class = TRACK_DROPS,
		.category = "lost",
		.args = COL_MORE,
		.of_node = true,
		.row = rows_plain,
	},
	{
		.what = "clock steps",
		.sql = "select 0, utc_ns, null, 0, 'clock', monotonic_ns from clock where utc_ns >= :from and utc_ns < "
		       ":until",
		.class = TRACK_CLOCK,
		.category = "clock",
		.args = COL_MORE + 1,
		.of_node = true,
		.row = rows_clock,
	},
};
const size_t timeline_streams_count = sizeof(timeline_streams) / sizeof(timeline_streams[0]);
