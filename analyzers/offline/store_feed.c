/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table is a row of streams[]: how to ask for it, and what to do with a row. Column 0 is always the time at which the
 * row goes in, column 1 the instance of its rank; of the waits that L3 saw, which go in with samples, likewise.
 */
#include "analyzers/offline/store_feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzers/offline/stood.h"
#include "analyzers/offline/store_rows.h"

#define SQL_BYTES 1280
#define TIME_MAX (1ULL << 62)
#define CONNECTIONS_OF_MANY 13 /* a stream each, and some to change segments */

struct stream {
	sqlite3_stmt *statement;
	uint64_t row_ns; /* of the row that it stands on; UINT64_MAX: over */
	uint64_t key_ns; /* the same, but it never goes back */
};

uint64_t store_feed_time(const struct store_feed_options *options, int64_t time_ns)
{
	int64_t ret;

	if (time_ns <= 0 || __builtin_add_overflow(time_ns, options->offset_ns, &ret))
		return 0;
	return ret > 0 && (uint64_t)ret < TIME_MAX ? (uint64_t)ret : 0;
}

struct stream_row {
	const char *select; /* ends where conditions follow */
	const char *time;   /* the column that the store is cut by */
	void (*feed)(const struct store_row *row);
	bool of_none;	 /* rows are of no rank */
	bool with_waits; /* column 3 is how long it lasts from the time at which it goes in */
	bool in_windows; /* rows of one time belong together */
};

/* At the same time, in this order: stages come before the step that ends with them. */
static const struct stream_row streams[] = {
	{.select = "select start_ns + duration_ns, instance, step, stage, start_ns, duration_ns, thread_id, depth"
		   " from stages where 1",
		.time = "start_ns",
		.feed = store_row_stage},
	{.select = "select " STORE_OP_END ", instance, step, communicator, seq, op,"
		   " case when tier = 'device' then device_start_ns else host_start_ns end,"
		   " case when tier = 'device' then device_duration_ns else host_duration_ns end,"
		   " bytes, peer, tier = 'device'" STORE_OPS_THAT_TELL,
		.time = "host_start_ns",
		.feed = store_row_op},
	{.select = "select start_ns + duration_ns, instance, step, start_ns, duration_ns from steps where 1",
		.time = "start_ns",
		.feed = store_row_step},
	{.select = "select start_ns, instance, start_ns, duration_ns, cpu_ns, run_delay_ns, throttled_ns, "
		   "major_faults from host_samples where 1",
		.time = "start_ns",
		.feed = store_row_sample,
		.with_waits = true},
	{.select = "select start_ns + duration_ns, instance, start_ns, duration_ns, longest_gap_ns, thread_id"
		   " from launches where 1",
		.time = "start_ns",
		.feed = store_row_launches,
		.in_windows = true},
	{.select = "select start_ns, 0, count from drops where source in ('call', 'kernel')"
		   " and reason = 'lost in the kernel'",
		.time = "start_ns",
		.feed = store_row_lost,
		.of_none = true},
};
#define STREAMS (sizeof(streams) / sizeof(streams[0]))

/* End, instance, thread, run delay, who had the CPU. */
static const struct stream_row waits[] = {
	{.select = "select start_ns + duration_ns, instance, thread_id, run_delay_ns, previous_pid, previous_name"
		   " from offcpu where run_delay_ns > 0",
		.time = "start_ns"},
	{.select = "select start_ns + duration_ns, instance, thread_id, run_delay_ns, 0, '' from offcpu_sums where 1",
		.time = "start_ns"},
};
#define WAITS (sizeof(waits) / sizeof(waits[0]))

struct store_feed {
	struct store_feed_options options;
	struct reader *reader;
	struct store_ranks *ranks;
	struct stood *stood;
	struct stream stream[STREAMS];
	struct stream waits[WAITS];
	struct store_feed_counts counts;
};

static struct store_row make_row(struct store_feed *feed, const struct stream *stream, struct framer *framer)
{
	return (struct store_row){
		.statement = stream->statement,
		.options = &feed->options,
		.ranks = feed->ranks,
		.rank = store_ranks_find(feed->ranks, sqlite3_column_int64(stream->statement, 1), framer),
		.framer = framer,
	};
}

static int advance(struct store_feed *feed, struct stream *stream, char *error, size_t error_size)
{
	const struct store_feed_options *options = &feed->options;
	int rc;

	while ((rc = sqlite3_step(stream->statement)) == SQLITE_ROW) {
		stream->row_ns = store_feed_time(options, sqlite3_column_int64(stream->statement, 0));
		if (stream->row_ns &&
			(!options->until_ns || stream->row_ns < options->until_ns + STORE_FEED_LONGEST_NS))
			break;
		feed->counts.dropped++;
	}
	if (rc != SQLITE_ROW)
		stream->row_ns = UINT64_MAX;
	if (stream->row_ns > stream->key_ns)
		stream->key_ns = stream->row_ns;
	if (rc == SQLITE_ROW || rc == SQLITE_DONE)
		return 0;
	reader_error(feed->reader, error, error_size);
	return -EIO;
}

static uint64_t sample_end(const struct stream *stream)
{
	int64_t duration_ns = sqlite3_column_int64(stream->statement, 3);

	return duration_ns > 0 && (uint64_t)duration_ns < STORE_FEED_LONGEST_NS ? stream->row_ns + (uint64_t)duration_ns
										: stream->row_ns;
}

/* Before a sample goes in, what L3 saw in its time; it is only evidence: without it, the rest goes on. */
static void read_waits(struct store_feed *feed, uint64_t until_ns, struct framer *framer)
{
	char error[256];

	for (size_t i = 0; i < WAITS; i++) {
		struct stream *stream = &feed->waits[i];

		while (stream->key_ns <= until_ns && stream->key_ns != UINT64_MAX) {
			const struct store_row row = make_row(feed, stream, framer);

			if (row.rank)
				store_row_wait(&row);
			(void)advance(feed, stream, error, sizeof(error));
		}
	}
}

int64_t store_feed_before(const struct store_feed_options *options, uint64_t time_ns)
{
	int64_t ret;

	return time_ns > INT64_MAX || __builtin_sub_overflow((int64_t)time_ns, options->offset_ns, &ret) ? INT64_MAX
													 : ret;
}

static int prepare(
	struct store_feed *feed, struct stream *stream, const struct stream_row *row, char *error, size_t error_size)
{
	const struct store_feed_options *options = &feed->options;
	char sql[SQL_BYTES], since[64] = "", until[64] = "";

	if (options->since_ns)
		snprintf(since, sizeof(since), " and %s >= %lld", row->time,
			(long long)store_feed_before(options, options->since_ns));
	if (options->until_ns)
		snprintf(until, sizeof(until), " and %s < %lld", row->time,
			(long long)store_feed_before(options, options->until_ns));
	snprintf(sql, sizeof(sql), "%s%s%s", row->select, since, until);
	return reader_prepare(feed->reader, sql, &stream->statement, error, error_size);
}

/* All are prepared before the first is stepped. */
static int open_streams(struct store_feed *feed, char *error, size_t error_size)
{
	int r = 0;

	for (size_t i = 0; i < STREAMS && r == 0; i++)
		r = prepare(feed, &feed->stream[i], &streams[i], error, error_size);
	for (size_t i = 0; i < WAITS && r == 0; i++)
		r = prepare(feed, &feed->waits[i], &waits[i], error, error_size);
	for (size_t i = 0; i < STREAMS && r == 0; i++)
		r = advance(feed, &feed->stream[i], error, error_size);
	for (size_t i = 0; i < WAITS && r == 0; i++)
		r = advance(feed, &feed->waits[i], error, error_size);
	return r;
}

int store_feed_open(const char *state_dir, const struct store_feed_options *options, struct store_feed **ret,
	char *error, size_t error_size)
{
	const struct reader_options reader = {
		.warning = options->warning,
		.arg = options->arg,
		.is_db = options->is_db,
		.connections_max = options->many ? CONNECTIONS_OF_MANY : 0,
	};
	struct store_feed *feed = calloc(1, sizeof(*feed));
	int r;

	if (!feed) {
		snprintf(error, error_size, "out of memory");
		return -ENOMEM;
	}
	feed->options = *options;
	r = reader_open(state_dir, &reader, &feed->reader, error, error_size);
	if (r == 0)
		r = store_ranks_open(feed->reader, options, &feed->ranks, error, error_size);
	if (r == 0)
		r = stood_open(feed->reader, feed->ranks, &feed->options, &feed->stood, error, error_size);
	if (r == 0)
		r = open_streams(feed, error, error_size);
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
	for (size_t i = 0; i < STREAMS; i++)
		sqlite3_finalize(feed->stream[i].statement);
	for (size_t i = 0; i < WAITS; i++)
		sqlite3_finalize(feed->waits[i].statement);
	stood_close(feed->stood);
	store_ranks_close(feed->ranks);
	reader_close(feed->reader);
	free(feed);
	return NULL;
}

/* Of streams at the same place, the one whose row is older: after a clock was set back, they are all there. */
static size_t oldest(const struct store_feed *feed)
{
	size_t ret = 0;

	for (size_t i = 1; i < STREAMS; i++) {
		const struct stream *stream = &feed->stream[i], *best = &feed->stream[ret];

		if (stream->key_ns < best->key_ns || (stream->key_ns == best->key_ns && stream->row_ns < best->row_ns))
			ret = i;
	}
	return ret;
}

static uint64_t next(const void *arg)
{
	const struct store_feed *feed = arg;
	uint64_t row_ns = feed->stream[oldest(feed)].key_ns, rank_ns = store_ranks_next(feed->ranks);

	/* Ends of ranks that have no more rows are told, too; those that begin later have nothing to tell. */
	return row_ns < rank_ns ? row_ns : rank_ns;
}

static void count(struct store_feed *feed, uint64_t row_ns, struct store_rank *rank)
{
	feed->counts.rows++;
	if (!feed->counts.first_ns)
		feed->counts.first_ns = row_ns;
	if (row_ns > feed->counts.last_ns)
		feed->counts.last_ns = row_ns;
	if (rank && row_ns > rank->row_ns)
		rank->row_ns = row_ns;
}

static int feed_row(void *arg, struct framer *framer, char *error, size_t error_size)
{
	struct store_feed *feed = arg;
	size_t i = oldest(feed);
	struct stream *stream = &feed->stream[i];
	uint64_t row_ns = stream->row_ns;
	struct store_row row;
	int r;

	if (store_ranks_next(feed->ranks) <= stream->key_ns) {
		store_ranks_step(feed->ranks, framer);
		return 0;
	}
	row = make_row(feed, stream, framer);
	if (row.rank && streams[i].with_waits)
		read_waits(feed, sample_end(stream), framer);
	if (row.rank || streams[i].of_none) {
		streams[i].feed(&row);
		count(feed, row_ns, row.rank);
	}
	r = advance(feed, stream, error, error_size);
	if (streams[i].in_windows && stream->row_ns != row_ns)
		store_rows_launches_over(feed->ranks, framer);
	return r;
}

static uint64_t look(void *arg, uint64_t after_ns)
{
	return stood_look(((struct store_feed *)arg)->stood, after_ns);
}

static uint64_t known(const void *arg, uint64_t *ret_end_ns)
{
	return stood_known(((const struct store_feed *)arg)->stood, ret_end_ns);
}

static void stand(void *arg, uint64_t now_ns, struct looks *looks)
{
	stood_stand(((struct store_feed *)arg)->stood, now_ns, looks);
}

const struct source_ops store_feed_source = {
	.next = next, .feed = feed_row, .look = look, .known = known, .stand = stand};

void store_feed_counts(const struct store_feed *feed, struct store_feed_counts *ret)
{
	*ret = feed->counts;
	store_ranks_counts(feed->ranks, &ret->ranks, &ret->ranks_left_out);
}
