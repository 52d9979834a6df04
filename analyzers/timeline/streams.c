/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the store as tracks: one row each. The first five columns of a SELECT are instance, start, end, thread
 * and name, in that order; columns from `args` on are shown with the slice under their names. The end of what had not
 * ended is the largest integer, that of what has no known end is NULL.
 */
#include <string.h>

#include "analyzers/timeline/timeline_internal.h"

#define HORIZON_NS 3600000000000LL /* what ends that long after the window has not ended */

static void add_arg(sqlite3_stmt *s, int column, struct trace_event *event)
{
	struct trace_arg *arg = &event->arg[event->args];
	int type = sqlite3_column_type(s, column);

	if (type == SQLITE_NULL || event->args == TRACE_ARGS_MAX)
		return;
	arg->name = sqlite3_column_name(s, column);
	if (type == SQLITE_INTEGER) {
		arg->type = TRACE_INT;
		arg->integer = sqlite3_column_int64(s, column);
	} else if (type == SQLITE_FLOAT) {
		arg->type = TRACE_REAL;
		arg->real = sqlite3_column_double(s, column);
	} else {
		arg->type = TRACE_TEXT;
		arg->text = (const char *)sqlite3_column_text(s, column);
	}
	if (arg->name && (arg->type != TRACE_TEXT || (arg->text && *arg->text)))
		event->args++;
}

bool timeline_event(struct timeline *t, const struct stream *stream, sqlite3_stmt *s, struct trace_event *ret)
{
	const unsigned char *name = sqlite3_column_text(s, COL_NAME);
	int64_t end_ns = sqlite3_column_int64(s, COL_END);

	*ret = (struct trace_event){
		.category = stream->category,
		.name = name && *name ? (const char *)name : "?",
		.start_ns = sqlite3_column_int64(s, COL_START),
		.instant = sqlite3_column_type(s, COL_END) == SQLITE_NULL,
	};
	if (ret->start_ns <= 0 || sqlite3_column_type(s, COL_START) == SQLITE_NULL) {
		t->counts.odd++;
		return false;
	}
	ret->end_ns = ret->instant || end_ns < ret->start_ns ? ret->start_ns : end_ns;
	if (ret->end_ns > t->options->until_ns && ret->end_ns - t->options->until_ns > HORIZON_NS)
		ret->end_ns = TRACE_OPEN;
	for (int column = stream->args; column < sqlite3_column_count(s); column++)
		add_arg(s, column, ret);
	return true;
}

/* A slice, or an instant, with nothing to it but its columns. */
static void rows_plain(struct timeline *t, const struct stream *stream, struct timeline_rank *rank, sqlite3_stmt *s)
{
	int64_t thread = sqlite3_column_int64(s, COL_THREAD);
	struct timeline_track *track;
	struct trace_event event;

	if (!timeline_event(t, stream, s, &event))
		return;
	track = timeline_track(t, rank, stream->class, thread, "");
	if (track)
		(void)timeline_put(t, track, &event, NULL);
	else
		t->counts.crowded++;
}

#define OPEN_END "9223372036854775807"
#define SLICE_WINDOW \
	"start_ns >= :from and start_ns < :until and coalesce(start_ns + duration_ns, start_ns) >= :since and RANKS"
#define BY_START " order by 2, 3 desc"
#define OP_COLUMNS \
	"communicator_key, communicator, seq, seq_from, peer, tier, step, bytes, count, dtype, group_id, " \
	"nullif(captured, 0) as captured, nullif(result, 0) as result, family"

const struct stream timeline_streams[] = {
	{
		.what = "steps",
		.sql = "select instance, start_ns, start_ns + duration_ns, 0, 'step ' || step, step, kind from steps "
		       "where " SLICE_WINDOW BY_START,
		.class = TRACK_STEPS,
		.category = "step",
		.args = COL_MORE,
		.row = rows_plain,
	},
	{
		.what = "stages",
		.sql = "select instance, start_ns, start_ns + duration_ns, thread_id, stage, name, step, depth from "
		       "stages "
		       "where " SLICE_WINDOW " union all select instance, start_ns, " OPEN_END
		       ", thread_id, stage, name, step, depth from in_flight where start_ns < :until and RANKS" BY_START
		       ", 8",
		.class = TRACK_THREAD,
		.category = "stage",
		.args = COL_MORE,
		.row = rows_plain,
	},
	{
		/* Both in one, so that what belongs together comes close together: see flows.c. */
		.what = "collectives",
		.sql = "select instance, host_start_ns, host_start_ns + host_duration_ns, thread_id, op, 0, " OP_COLUMNS
		       " from collectives where host_start_ns >= :from and host_start_ns < :until and "
		       "coalesce(host_start_ns + host_duration_ns, host_start_ns) >= :since and RANKS union all select "
		       "instance, device_start_ns, device_start_ns + device_duration_ns, thread_id, op, 1, " OP_COLUMNS
		       " from collectives where host_start_ns >= :from and host_start_ns < :until and "
		       "device_start_ns is not null and "
		       "coalesce(device_start_ns + device_duration_ns, device_start_ns) >= :since and RANKS" BY_START,
		.class = TRACK_COLLECTIVES,
		.category = "collective",
		.args = COL_MORE + 2,
		.row = rows_collective,
	},
	{
		.what = "memory calls",
		.sql = "select instance, start_ns, start_ns + duration_ns, thread_id, op, bytes, device, result, step, "
		       "stage, "
		       "address from allocations where start_ns >= :from and start_ns < :until and RANKS" BY_START,
		.class = TRACK_MEMORY,
		.category = "memory",
		.args = COL_MORE,
		.row = rows_allocation,
	},
	{
		.what = "times off the CPU",
		.sql = "select instance, start_ns, start_ns + duration_ns, thread_id, "
		       "case when run_delay_ns * 2 <= duration_ns then 'sleeps' "
		       "when coalesce(previous_name, '') = '' or previous_pid = 0 then 'waits for the CPU' "
		       "else 'waits for the CPU: ' || previous_name end, run_delay_ns, previous_pid, previous_name, "
		       "next_pid, "
		       "next_name, thread_name from offcpu where " SLICE_WINDOW BY_START,
		.class = TRACK_OFFCPU,
		.category = "offcpu",
		.args = COL_MORE,
		.row = rows_offcpu,
	},
	{
		.what = "short times off the CPU",
		.sql = "select instance, start_ns, null, thread_id, thread_name, duration_ns as \"time off the CPU in "
		       "short stays|ns\", "
		       "run_delay_ns as \"run delay of short stays|ns\", count as \"short stays off the CPU|times\" "
		       "from "
		       "offcpu_sums "
		       "where start_ns >= :since and start_ns < :until and RANKS" BY_START,
		.class = TRACK_COUNTER,
		.row = rows_values,
	},
	{
		.what = "launches",
		.sql = "select instance, start_ns, null, thread_id, api, count * 1e9 / nullif(duration_ns, 0), "
		       "longest_gap_ns, "
		       "count from launches where start_ns >= :since and start_ns < :until and RANKS" BY_START,
		.class = TRACK_COUNTER,
		.row = rows_launches,
	},
	{
		.what = "samples",
		.sql = "select instance, start_ns, start_ns + duration_ns, 0, state, "
		       "cpu_ns * 1.0 / nullif(duration_ns, 0) as \"CPU of the process|cores\", "
		       "run_delay_ns * 100.0 / nullif(duration_ns, 0) as \"run delay|%\", "
		       "throttled_ns * 100.0 / nullif(duration_ns, 0) as \"throttled|%\", "
		       "major_faults as \"major page faults|faults\", resident_bytes as \"memory of the "
		       "process|bytes\" "
		       "from host_samples where start_ns >= :since and start_ns < :until and RANKS" BY_START,
		.class = TRACK_COUNTER,
		.category = "sample",
		.row = rows_sample,
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
		.what = "steps of the clock",
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
