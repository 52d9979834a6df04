/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/timeline/timeline_internal.h"

#define SQL_BYTES 2048
#define RANKS_BYTES 1024
#define RANKS_WORD "RANKS"
#define PROGRESS_ROWS 4096

/* "(rank between 0 and 3 or ...)" */
static void timeline_write_ranks(const struct ranges *ranks, char ret[RANKS_BYTES])
{
	size_t used = (size_t)snprintf(ret, RANKS_BYTES, "(%s", ranks->count ? "0" : "1");

	for (size_t i = 0; i < ranks->count && used < RANKS_BYTES; i++)
		used += (size_t)snprintf(ret + used, RANKS_BYTES - used, " or rank between %lld and %lld",
			(long long)ranks->range[i].first, (long long)ranks->range[i].last);
	snprintf(ret + (used < RANKS_BYTES ? used : RANKS_BYTES - 2), 2, ")");
}

static int write_sql(const struct timeline *t, const char *sql, char ret[SQL_BYTES])
{
	char ranks[RANKS_BYTES];
	size_t used = 0;

	timeline_write_ranks(&t->options->ranks, ranks);
	while (*sql && used + 1 < SQL_BYTES) {
		if (strncmp(sql, RANKS_WORD, strlen(RANKS_WORD)) == 0) {
			used += (size_t)snprintf(ret + used, SQL_BYTES - used, "%s", ranks);
			sql += strlen(RANKS_WORD);
		} else {
			ret[used++] = *sql++;
		}
	}
	if (used + 1 >= SQL_BYTES)
		return -ENOBUFS;
	ret[used] = 0;
	return 0;
}

int64_t timeline_before(const struct timeline *t)
{
	return t->options->since_ns > TIMELINE_LOOKBACK_NS ? t->options->since_ns - TIMELINE_LOOKBACK_NS : 0;
}

static void timeline_bind(const struct timeline *t, sqlite3_stmt *s)
{
	const struct {
		const char *name;
		int64_t value;
	} values[] = {
		{":from", timeline_before(t)},
		{":since", t->options->since_ns},
		{":until", t->options->until_ns},
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		int at = sqlite3_bind_parameter_index(s, values[i].name);

		if (at > 0)
			sqlite3_bind_int64(s, at, values[i].value);
	}
}

int timeline_prepare(struct timeline *t, const char *template, sqlite3_stmt **ret)
{
	char sql[SQL_BYTES];
	int r = write_sql(t, template, sql);

	if (r < 0) {
		snprintf(t->error, t->error_size, "%s", strerror(-r));
		return r;
	}
	r = reader_prepare(t->reader, sql, ret, t->error, t->error_size);
	if (r == 0)
		timeline_bind(t, *ret);
	return r;
}

int timeline_step(struct timeline *t, sqlite3_stmt *s)
{
	int rc = sqlite3_step(s);

	if (rc == SQLITE_ROW || rc == SQLITE_DONE)
		return rc == SQLITE_ROW;
	reader_error(t->reader, t->error, t->error_size);
	return -EIO;
}

int timeline_each(struct timeline *t, const char *template,
	int (*row)(struct timeline *timeline, void *arg, sqlite3_stmt *s), void *arg)
{
	sqlite3_stmt *s = NULL;
	int more = 0, r = timeline_prepare(t, template, &s);

	while (r == 0 && (more = timeline_step(t, s)) > 0) {
		r = row(t, arg, s);
		if (r < 0)
			snprintf(t->error, t->error_size, "%s", strerror(-r));
	}
	sqlite3_finalize(s);
	return r < 0 ? r : more;
}

static int open_node(struct timeline *t, size_t node)
{
	const struct reader_options options = {
		.warning = t->options->warning,
		.arg = t->options->arg,
		.sort_on_disk = true,
		.is_db = t->options->store[node].is_db,
	};

	t->node = node;
	return reader_open(t->options->store[node].path, &options, &t->reader, t->error, t->error_size);
}

static void close_node(struct timeline *t)
{
	reader_close(t->reader);
	t->reader = NULL;
}

static void timeline_progress(const struct timeline *t, const struct stream *stream, bool begun, int64_t start_ns)
{
	double window = (double)(t->options->until_ns - t->options->since_ns);
	double done = begun && window > 0 ? (double)(start_ns - t->options->since_ns) / window : 0;

	if (t->options->progress)
		t->options->progress(t->options->arg, stream->what, done < 0 ? 0 : done > 1 ? 1 : done);
}

int timeline_row(struct timeline *t, const struct stream *stream, const struct row *row)
{
	struct timeline_rank *rank = NULL;

	if (t->counts.rows++ % PROGRESS_ROWS == 0)
		timeline_progress(t, stream, true, row_int(row, COL_START));
	if (!stream->of_node) {
		rank = timeline_rank_find(t, t->node, row_int(row, COL_INSTANCE));
		if (!rank) {
			t->counts.unknown++;
			return 0;
		}
		if (!rank->wanted)
			return 0;
	}
	stream->row(t, stream, rank, row);
	return t->trace->error;
}

static int timeline_on_row(struct timeline *t, void *arg, sqlite3_stmt *s)
{
	struct row row;

	row_of(s, &row);
	return timeline_row(t, arg, &row);
}

/* Rows of a node are skipped if ranks are selected and it has none of them. */
static bool is_idle(const struct timeline *t, const struct stream *stream)
{
	bool chosen = t->options->ranks.count || t->options->job;

	return stream->of_node && stream->class != TRACK_FINDINGS && chosen && t->counts.ranks == 0;
}

static int run_stream(struct timeline *t, const struct stream *stream)
{
	if (is_idle(t, stream))
		return 0;
	t->clock_offset_ns = t->clock_monotonic_ns = 0;
	timeline_progress(t, stream, false, 0);
	if (stream->scan)
		return timeline_scan(t, stream);
	return timeline_each(t, stream->sql, timeline_on_row, (void *)(uintptr_t)stream);
}

static int load_ranks(struct timeline *t)
{
	int r = 0;

	for (size_t node = 0; node < t->options->stores && r == 0; node++) {
		r = open_node(t, node);
		if (r == 0)
			r = timeline_ranks_load(t);
		close_node(t);
	}
	if (r == 0 && (r = timeline_ranks_sort(t)) < 0)
		snprintf(t->error, t->error_size, "out of memory");
	return r;
}

static int timeline_run(struct timeline *t)
{
	int r = load_ranks(t);

	for (size_t node = 0; node < t->options->stores && r == 0; node++) {
		r = open_node(t, node);
		if (r == 0)
			r = timeline_comms_load(t);
		if (r == 0)
			r = rows_memory_before(t);
		for (size_t i = 0; i < timeline_streams_count && r == 0; i++)
			r = run_stream(t, &timeline_streams[i]);
		close_node(t);
	}
	return r;
}

int timeline_write(const struct timeline_options *options, struct trace *trace, struct timeline_counts *ret,
	char *error, size_t error_size)
{
	struct timeline t = {.options = options, .trace = trace, .error = error, .error_size = error_size};
	int r = tracks_new(&t.tracks);

	if (r == 0 && !(t.flows = flows_new(options->stores)))
		r = -ENOMEM;
	if (r < 0)
		snprintf(error, error_size, "out of memory");
	if (r == 0)
		r = timeline_run(&t);
	*ret = t.counts;
	flows_free(t.flows);
	tracks_free(t.tracks);
	free(t.rank);
	free(t.comm);
	return r;
}
