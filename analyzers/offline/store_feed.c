/* SPDX-License-Identifier: Apache-2.0 */
/* A table is a row of streams[]: how to ask for it, and what to do with a row. Column 0 is always its end, column 1 the
 * instance of its rank. */
#include "analyzers/offline/store_feed.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/offline/store_ranks.h"
#include "analyzers/steps.h"
#include "analyzers/store/reader.h"

#define SQL_BYTES 1024

struct stream {
	struct reader *reader;
	sqlite3_stmt *statement;
	uint64_t end_ns; /* of the row that it stands on, UINT64_MAX: over */
};

static uint64_t get_ns(sqlite3_stmt *statement, int column)
{
	int64_t value = sqlite3_column_int64(statement, column);

	return value > 0 ? (uint64_t)value : 0;
}

static uint64_t get_known(sqlite3_stmt *statement, int column)
{
	return sqlite3_column_type(statement, column) == SQLITE_NULL ? FRAME_UNKNOWN : get_ns(statement, column);
}

static const char *get_text(sqlite3_stmt *statement, int column)
{
	const unsigned char *text = sqlite3_column_text(statement, column);

	return text ? (const char *)text : "";
}

static int64_t get_step(sqlite3_stmt *statement, int column)
{
	int64_t step = sqlite3_column_int64(statement, column);

	return sqlite3_column_type(statement, column) == SQLITE_NULL || step < 0 ? STEPS_NONE : step;
}

static void feed_stage(sqlite3_stmt *s, struct store_rank *rank, struct framer *framer)
{
	const struct framer_stage stage = {
		.step = get_step(s, 2),
		.kind = stage_of_stage(get_text(s, 3)).kind,
		.start_ns = get_ns(s, 4),
		.duration_ns = get_ns(s, 5),
		.thread_id = (uint32_t)sqlite3_column_int64(s, 6),
		.depth = (uint32_t)sqlite3_column_int64(s, 7),
	};

	if (stage.depth == 0 && stage_is_loop(stage.kind) && stage.step != STEPS_NONE)
		rank->step_thread = stage.thread_id;
	framer_stage(framer, rank->process, &stage);
}

static void feed_step(sqlite3_stmt *s, struct store_rank *rank, struct framer *framer)
{
	framer_step(framer, rank->process, &(struct framer_step){get_step(s, 2), get_ns(s, 3), get_ns(s, 4)});
}

/* The SQL has left out what says nothing of who waits: operations that the host only queued. */
static void feed_op(sqlite3_stmt *s, struct store_rank *rank, struct framer *framer)
{
	bool device = sqlite3_column_int(s, 10) != 0;
	const char *communicator = get_text(s, 3);
	const struct framer_op op = {
		.communicator = communicator,
		.seq = get_ns(s, 4),
		.op = get_text(s, 5),
		.step = get_step(s, 2),
		.start_ns = get_ns(s, 6),
		.duration_ns = get_ns(s, 7),
		.bytes = get_ns(s, 8),
		.peer = sqlite3_column_type(s, 9) == SQLITE_NULL ? -1 : sqlite3_column_int(s, 9),
		.member = store_rank_member(rank, communicator),
		.tier = device ? FRAME_TIER_DEVICE : FRAME_TIER_HOST,
	};

	framer_op(framer, rank->process, &op);
}

static struct framer_host nothing_known(sqlite3_stmt *s)
{
	return (struct framer_host){
		.start_ns = get_ns(s, 2),
		.duration_ns = get_ns(s, 3),
		.cpu_ns = FRAME_UNKNOWN,
		.run_delay_ns = FRAME_UNKNOWN,
		.throttled_ns = FRAME_UNKNOWN,
		.major_faults = FRAME_UNKNOWN,
		.launch_gap_ns = FRAME_UNKNOWN,
		.hog_name = "",
	};
}

/* Only of the step thread, which is the main thread as long as nothing tells. */
static void feed_wait(sqlite3_stmt *s, struct store_rank *rank, struct framer *framer)
{
	struct framer_host host = nothing_known(s);

	if ((uint32_t)sqlite3_column_int64(s, 4) != (rank->step_thread ? rank->step_thread : rank->pid))
		return;
	rank->waits_until_ns = host.start_ns + host.duration_ns + STORE_WAITS_NS;
	host.run_delay_ns = get_ns(s, 5);
	host.hog_pid = (uint32_t)sqlite3_column_int64(s, 6);
	host.hog_name = get_text(s, 7);
	framer_host(framer, rank->process, &host);
}

/* Where L3 told of its waits, and by whom, a sample would count them twice. */
static void feed_sample(sqlite3_stmt *s, struct store_rank *rank, struct framer *framer)
{
	struct framer_host host = nothing_known(s);

	host.cpu_ns = get_known(s, 4);
	host.run_delay_ns = host.start_ns < rank->waits_until_ns ? FRAME_UNKNOWN : get_known(s, 5);
	host.throttled_ns = get_known(s, 6);
	host.major_faults = get_known(s, 7);
	framer_host(framer, rank->process, &host);
}

static void feed_launches(sqlite3_stmt *s, struct store_rank *rank, struct framer *framer)
{
	struct framer_host host = nothing_known(s);

	host.launch_gap_ns = get_ns(s, 4);
	framer_host(framer, rank->process, &host);
}

static const struct stream_row {
	const char *select; /* and "where 1": conditions follow */
	const char *time;   /* the column that the store is cut by */
	void (*feed)(sqlite3_stmt *statement, struct store_rank *rank, struct framer *framer);
} streams[] = {
	{"select start_ns + duration_ns, instance, step, stage, start_ns, duration_ns, thread_id, depth from stages "
	 "where 1",
		"start_ns", feed_stage},
	{"select start_ns + duration_ns, instance, step, start_ns, duration_ns from steps where 1", "start_ns",
		feed_step},
	{"select host_start_ns + coalesce(host_duration_ns, 0), instance, step, communicator, seq, op,"
	 " case when tier = 'device' then device_start_ns else host_start_ns end,"
	 " case when tier = 'device' then device_duration_ns else host_duration_ns end, bytes, peer, tier = 'device'"
	 " from collectives where communicator is not null and seq > 0 and seq_from <> 'attach' and coalesce(captured, "
	 "0) = 0"
	 " and coalesce(result, 0) = 0 and ((tier = 'device' and device_start_ns is not null and device_duration_ns is "
	 "not null)"
	 " or (family = 'gloo' and host_duration_ns is not null))",
		"host_start_ns", feed_op},
	{"select start_ns + duration_ns, instance, start_ns, duration_ns, thread_id, run_delay_ns,"
	 " coalesce(nullif(previous_pid, 0), next_pid), coalesce(nullif(previous_name, ''), next_name)"
	 " from offcpu where run_delay_ns > 0",
		"start_ns", feed_wait},
	{"select start_ns + duration_ns, instance, start_ns, duration_ns, thread_id, run_delay_ns, 0, ''"
	 " from offcpu_sums where run_delay_ns > 0",
		"start_ns", feed_wait},
	{"select start_ns + duration_ns, instance, start_ns, duration_ns, cpu_ns, run_delay_ns, throttled_ns, "
	 "major_faults"
	 " from host_samples where 1",
		"start_ns", feed_sample},
	{"select start_ns + duration_ns, instance, start_ns, duration_ns, longest_gap_ns from launches where 1",
		"start_ns", feed_launches},
};
#define STREAMS (sizeof(streams) / sizeof(streams[0]))

struct store_feed {
	struct store_ranks *ranks;
	struct stream stream[STREAMS];
	struct store_feed_counts counts;
};

static int advance(struct stream *stream, char *error, size_t error_size)
{
	int rc = sqlite3_step(stream->statement);

	stream->end_ns = rc == SQLITE_ROW ? get_ns(stream->statement, 0) : UINT64_MAX;
	if (rc == SQLITE_ROW || rc == SQLITE_DONE)
		return 0;
	reader_error(stream->reader, error, error_size);
	return -EIO;
}

static int open_stream(struct stream *stream, const struct stream_row *row, const char *state_dir,
	const struct store_feed_options *options, char *error, size_t error_size)
{
	struct reader_options reader = {.warning = options->warning, .arg = options->arg};
	char sql[SQL_BYTES], since[64] = "", until[64] = "";
	int r;

	if (options->since_ns)
		snprintf(since, sizeof(since), " and %s >= %llu", row->time, (unsigned long long)options->since_ns);
	if (options->until_ns)
		snprintf(until, sizeof(until), " and %s < %llu", row->time, (unsigned long long)options->until_ns);
	snprintf(sql, sizeof(sql), "%s%s%s", row->select, since, until);
	r = reader_open(state_dir, &reader, &stream->reader, error, error_size);
	if (r == 0)
		r = reader_prepare(stream->reader, sql, &stream->statement, error, error_size);
	return r < 0 ? r : advance(stream, error, error_size);
}

int store_feed_open(const char *state_dir, const struct store_feed_options *options, struct store_feed **ret,
	char *error, size_t error_size)
{
	struct store_feed *feed = calloc(1, sizeof(*feed));
	int r;

	if (!feed) {
		snprintf(error, error_size, "out of memory");
		return -ENOMEM;
	}
	for (size_t i = 0; i < STREAMS; i++)
		feed->stream[i].end_ns = UINT64_MAX;
	r = store_ranks_open(state_dir, options, &feed->ranks, error, error_size);
	for (size_t i = 0; i < STREAMS && r == 0; i++) {
		struct store_feed_options quiet = *options;

		if (i > 0)
			quiet.warning = NULL; /* each connection would say the same of a damaged file */
		r = open_stream(&feed->stream[i], &streams[i], state_dir, &quiet, error, error_size);
	}
	if (r < 0) {
		store_feed_close(feed);
		return r;
	}
	*ret = feed;
	return 0;
}

struct store_feed *store_feed_close(struct store_feed *feed)
{
	if (!feed)
		return NULL;
	for (size_t i = 0; i < STREAMS; i++) {
		sqlite3_finalize(feed->stream[i].statement);
		if (feed->stream[i].reader)
			reader_close(feed->stream[i].reader);
	}
	store_ranks_close(feed->ranks);
	free(feed);
	return NULL;
}

static const struct stream *oldest(const struct store_feed *feed)
{
	const struct stream *ret = &feed->stream[0];

	for (size_t i = 1; i < STREAMS; i++)
		if (feed->stream[i].end_ns < ret->end_ns)
			ret = &feed->stream[i];
	return ret;
}

uint64_t store_feed_next(const struct store_feed *feed)
{
	return oldest(feed)->end_ns;
}

int store_feed_row(struct store_feed *feed, struct framer *framer, char *error, size_t error_size)
{
	size_t i = (size_t)(oldest(feed) - feed->stream);
	struct stream *stream = &feed->stream[i];
	struct store_rank *rank;

	if (stream->end_ns == UINT64_MAX)
		return 0;
	store_ranks_until(feed->ranks, stream->end_ns, framer);
	rank = store_ranks_find(feed->ranks, sqlite3_column_int64(stream->statement, 1), framer);
	if (rank) {
		streams[i].feed(stream->statement, rank, framer);
		feed->counts.rows++;
		if (!feed->counts.first_ns)
			feed->counts.first_ns = stream->end_ns;
		feed->counts.last_ns = stream->end_ns;
	}
	return advance(stream, error, error_size);
}

void store_feed_counts(const struct store_feed *feed, struct store_feed_counts *ret)
{
	*ret = feed->counts;
	store_ranks_counts(feed->ranks, &ret->ranks, &ret->ranks_left_out);
}
