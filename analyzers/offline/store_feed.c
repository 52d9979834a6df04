/* SPDX-License-Identifier: Apache-2.0 */
/* A table is a stream of rows, defined in store_rows.c. */
#include "analyzers/offline/store_feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzers/offline/store_rows.h"

#define TIME_MAX (1ULL << 62)
#define CONNECTIONS_OF_MANY 15 /* a stream each, and some to change segments */
#define CARDS_MAX 256	       /* of a node; more are left out */
#define SECOND_NS 1000000000ULL
#define TAIL_NS (4 * SECOND_NS)	   /* checked after its end, so that a hang is closed: HANG_SNAPSHOTS and one */
#define FRESH_NS (5 * SECOND_NS)   /* after progress: the daemon writes after 3 s, within another second */
#define ENDS_APART_NS 100000000ULL /* of checks because a rank ended: those of the daemon are no closer */
#define SAME_NS 1000000ULL	   /* times of one mark, by two offsets of a clock that is steered */

struct stream {
	const struct store_table *table;
	struct reader_scan *scan;
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

struct store_feed {
	struct store_feed_options options;
	struct reader *reader;
	struct store_ranks *ranks;
	struct hardware *hardware; /* of its node, from the first row on */
	size_t cards;
	struct hardware_card card[CARDS_MAX];
	uint64_t standings_until_ns; /* what was written of ranks without progress holds so long */
	uint64_t check_every_ns;     /* minimum distance of stall checks */
	struct stream stream[STORE_TABLES];
	uint64_t fed_ns; /* newest key that went in */
	struct store_feed_counts counts;
};

static struct store_row make_row(struct store_feed *feed, const struct stream *stream, struct align *align)
{
	const struct reader_row *row = reader_scan_row(stream->scan);

	return (struct store_row){
		.scan = stream->scan,
		.options = &feed->options,
		.ranks = feed->ranks,
		.rank = stream->table->of_none ? NULL
			: stream->table->of_ended
				? store_ranks_find_ended(feed->ranks, row->value[STORE_INSTANCE], align)
				: store_ranks_find(feed->ranks, row->value[STORE_INSTANCE], align),
		.align = align,
		.hardware = feed->hardware,
		.time_ns = stream->row_ns,
	};
}

static int store_feed_advance(struct store_feed *feed, struct stream *stream, char *error, size_t error_size)
{
	const struct store_feed_options *options = &feed->options;
	const struct store_table *table = stream->table;
	int r;

	while ((r = reader_scan_next(stream->scan)) > 0) {
		if (table->accepts && !table->accepts(stream->scan))
			continue;
		stream->row_ns = store_feed_time(options, table->time_ns(stream->scan));
		if (stream->row_ns &&
			(!options->until_ns || stream->row_ns < options->until_ns + STORE_FEED_LONGEST_NS))
			break;
		feed->counts.dropped++;
	}
	if (r <= 0)
		stream->row_ns = UINT64_MAX;
	if (stream->row_ns > stream->key_ns)
		stream->key_ns = stream->row_ns;
	if (r < 0)
		reader_scan_error(stream->scan, error, error_size);
	return r < 0 ? r : 0;
}

static uint64_t sample_end(const struct stream *stream)
{
	int64_t duration_ns = reader_scan_row(stream->scan)->value[STORE_DURATION];

	return duration_ns > 0 && (uint64_t)duration_ns < STORE_FEED_LONGEST_NS ? stream->row_ns + (uint64_t)duration_ns
										: stream->row_ns;
}

/* Before a sample goes in, what L3 saw in its time; it is only evidence: without it, the rest goes on. */
static void read_waits(struct store_feed *feed, uint64_t until_ns, struct align *align)
{
	char error[256];

	for (size_t i = STORE_WAITS; i < STORE_TABLES; i++) {
		struct stream *stream = &feed->stream[i];

		while (stream->key_ns <= until_ns && stream->key_ns != UINT64_MAX) {
			const struct store_row row = make_row(feed, stream, align);

			if (row.rank)
				stream->table->feed(&row);
			(void)store_feed_advance(feed, stream, error, sizeof(error));
		}
	}
}

/* The reverse of store_feed_time(); INT64_MAX where that is beyond all. */
static int64_t store_feed_before(const struct store_feed_options *options, uint64_t time_ns)
{
	int64_t ret;

	return time_ns > INT64_MAX || __builtin_sub_overflow((int64_t)time_ns, options->offset_ns, &ret) ? INT64_MAX
													 : ret;
}

int store_feed_begin(struct reader_scan *scan, const struct store_feed_options *options, char *error, size_t error_size)
{
	return reader_scan_begin(scan, options->since_ns ? store_feed_before(options, options->since_ns) : INT64_MIN,
		options->until_ns ? store_feed_before(options, options->until_ns) : INT64_MAX, error, error_size);
}

static int open_stream(struct store_feed *feed, size_t i, char *error, size_t error_size)
{
	struct stream *stream = &feed->stream[i];
	int r;

	stream->table = &store_tables[i];
	r = reader_scan_open(feed->reader, &stream->table->scanning, &stream->scan);
	if (r < 0) {
		snprintf(error, error_size, "out of memory");
		return r;
	}
	r = store_feed_begin(stream->scan, &feed->options, error, error_size);
	return r < 0 ? r : store_feed_advance(feed, stream, error, error_size);
}

static int open_streams(struct store_feed *feed, char *error, size_t error_size)
{
	int r = 0;

	for (size_t i = 0; i < STORE_TABLES && r == 0; i++)
		r = open_stream(feed, i, error, error_size);
	return r;
}

static int store_feed_add_card(void *arg, sqlite3_stmt *s)
{
	struct store_feed *feed = arg;
	struct hardware_card *card = &feed->card[feed->cards];
	const unsigned char *object = sqlite3_column_text(s, 0), *pci = sqlite3_column_text(s, 1);

	snprintf(card->object, sizeof(card->object), "%s", object ? (const char *)object : "");
	snprintf(card->pci, sizeof(card->pci), "%s", pci ? (const char *)pci : "");
	card->minor = sqlite3_column_type(s, 2) == SQLITE_NULL ? -1 : sqlite3_column_int(s, 2);
	return ++feed->cards == CARDS_MAX;
}

/* The node is that of its ranks. */
static void store_feed_begin_hardware(struct store_feed *feed, struct detect *detect)
{
	const struct store_rank *rank = store_ranks_at(feed->ranks, 0);

	feed->hardware = detect_hardware(detect, rank ? rank->host : "");
	for (size_t i = 0; feed->hardware && i < feed->cards; i++)
		hardware_card(feed->hardware, &feed->card[i]);
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
		r = reader_each(feed->reader, "select object, pci, minor from cards", store_feed_add_card, feed, error,
			error_size);
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
	for (size_t i = 0; i < STORE_TABLES; i++)
		reader_scan_close(feed->stream[i].scan);
	store_ranks_close(feed->ranks);
	reader_close(feed->reader);
	free(feed);
	return NULL;
}

/* Its rank ends after it. */
static uint64_t store_feed_order(const struct stream *stream, uint64_t rank_ns)
{
	uint64_t ret = stream->key_ns + stream->table->after_ns;

	if (ret < stream->key_ns)
		return UINT64_MAX;
	return stream->key_ns < rank_ns && ret > rank_ns ? rank_ns : ret;
}

/* Of streams at the same place, the one whose row is older: after a clock was set back, they are all there. */
static size_t store_feed_oldest(const struct store_feed *feed)
{
	uint64_t rank_ns = store_ranks_next(feed->ranks), best_ns = store_feed_order(&feed->stream[0], rank_ns);
	size_t ret = 0;

	for (size_t i = 1; i < STORE_WAITS; i++) {
		const struct stream *stream = &feed->stream[i], *best = &feed->stream[ret];
		uint64_t order_ns = store_feed_order(stream, rank_ns);

		if (order_ns < best_ns || (order_ns == best_ns && stream->row_ns < best->row_ns)) {
			ret = i;
			best_ns = order_ns;
		}
	}
	return ret;
}

static uint64_t store_feed_next(const void *arg)
{
	const struct store_feed *feed = arg;
	uint64_t row_ns = feed->stream[store_feed_oldest(feed)].key_ns, rank_ns = store_ranks_next(feed->ranks);

	if (row_ns < feed->fed_ns)
		row_ns = feed->fed_ns;
	/* Also ends ranks without further rows; those that begin later have none. */
	return row_ns < rank_ns ? row_ns : rank_ns;
}

static void store_feed_count(struct store_feed *feed, uint64_t row_ns, struct store_rank *rank)
{
	feed->counts.rows++;
	if (!feed->counts.first_ns)
		feed->counts.first_ns = row_ns;
	if (row_ns > feed->counts.last_ns)
		feed->counts.last_ns = row_ns;
	if (rank && row_ns > rank->row_ns)
		rank->row_ns = row_ns;
}

static int feed_row(void *arg, const struct source_sink *sink, char *error, size_t error_size)
{
	struct store_feed *feed = arg;
	struct align *align = sink->align;
	size_t i = store_feed_oldest(feed);
	struct stream *stream = &feed->stream[i];
	uint64_t row_ns = stream->row_ns;
	struct store_row row;
	int r;

	if (!feed->hardware && sink->detect)
		store_feed_begin_hardware(feed, sink->detect);
	if (store_ranks_next(feed->ranks) <= stream->key_ns) {
		store_ranks_step(feed->ranks, align);
		return 0;
	}
	if (stream->key_ns > feed->fed_ns && stream->key_ns != UINT64_MAX)
		feed->fed_ns = stream->key_ns;
	row = make_row(feed, stream, align);
	if (row.rank && stream->table->with_waits)
		read_waits(feed, sample_end(stream), align);
	if (row.rank || stream->table->of_none) {
		stream->table->feed(&row);
		if (!stream->table->of_node)
			store_feed_count(feed, row_ns, row.rank);
	}
	r = store_feed_advance(feed, stream, error, error_size);
	if (stream->table->in_windows && stream->row_ns != row_ns)
		store_rows_launches_over(feed->ranks, align);
	return r;
}

/*
 * Where ranks stand while they show no progress, for hangs: what the daemon wrote of them (tables standings and
 * standing_calls), which store_rows.c keeps in each rank. Stores of versions before 4 lack it: their hangs are not
 * judged again. A rank has no standing at a time of which the daemon wrote none, unless it has just made progress.
 */

static uint64_t store_feed_second_after(uint64_t time_ns)
{
	return time_ns - time_ns % SECOND_NS + SECOND_NS;
}

static uint64_t store_feed_check(void *arg, uint64_t after_ns)
{
	const struct store_feed *feed = arg;
	const struct stream *stream = &feed->stream[STORE_STANDINGS];
	bool row = stream->row_ns != UINT64_MAX, is_end = row && !reader_scan_row(stream->scan)->value[STORE_DURATION];
	uint64_t tail_ns = after_ns + SECOND_NS, end_ns = feed->standings_until_ns + TAIL_NS, check_ns = UINT64_MAX;
	uint64_t least_ns = after_ns + (is_end ? ENDS_APART_NS : feed->check_every_ns);

	if (tail_ns <= feed->standings_until_ns)
		tail_ns = feed->standings_until_ns + 1;
	if (tail_ns <= end_ns && end_ns < stream->key_ns)
		return tail_ns;
	if (row)
		check_ns = is_end ? stream->key_ns + 1 : store_feed_second_after(stream->key_ns);
	return check_ns > least_ns ? check_ns : least_ns;
}

static uint64_t store_feed_known(const void *arg, uint64_t *ret_end_ns)
{
	return store_ranks_known(((const struct store_feed *)arg)->ranks, ret_end_ns);
}

/* What was written of it holds: since then it did nothing. */
static bool store_feed_is_silent(const struct store_rank *of, uint64_t now_ns)
{
	return of->standing_ns && now_ns <= of->standing_until_ns &&
	       of->progress_ns <= of->standing.progress_ns + SAME_NS;
}

static bool store_feed_stand_rank(const struct store_rank *of, uint64_t now_ns, struct standing *ret)
{
	if (store_feed_is_silent(of, now_ns))
		*ret = of->standing;
	else if (of->process >= 0 && now_ns < of->progress_ns + FRESH_NS)
		*ret = (struct standing){
			.progress_ns = of->progress_ns,
			.step_end_ns = of->step_end_ns,
			.steps = of->steps,
			.stage = STAGE_USER,
			.cpu_ns = FRAME_UNKNOWN,
		};
	else
		return false;
	ret->rank = (uint32_t)of->number;
	return true;
}

static bool store_feed_recall(const void *arg, uint64_t seq, struct coll_point *ret)
{
	const struct store_calls *calls = arg;

	for (size_t i = calls->count; i-- > 0;)
		if (calls->call[i].seq == seq) {
			*ret = calls->call[i];
			return seq;
		}
	return false;
}

static void store_feed_add_members(const struct store_rank *of, struct stall_check *checks)
{
	for (size_t i = 0; i < of->places; i++) {
		const struct store_place *place = &of->place[i];
		const struct store_calls *calls = place->calls;
		struct stall_check_member member = {
			.job = of->job,
			.uid = of->uid,
			.process = (uint32_t)of->number,
			.judged = {.rank = of->rank, .pid = of->pid, .recall = store_feed_recall, .recall_arg = calls},
		};
		struct coll_standing *standing = &member.judged.standing;

		if (!calls || !calls->count || calls->time_ns + SAME_NS < of->standing.progress_ns)
			continue;
		snprintf(standing->communicator, sizeof(standing->communicator), "%s", place->communicator);
		standing->members = place->members;
		standing->seq_from = calls->seq_from;
		standing->entered = calls->call[calls->count - 1];
		standing->completion_known = calls->completion_known;
		standing->completed.seq = calls->completed_seq;
		stall_check_add_member(checks, &member);
	}
}

static void store_feed_stand(void *arg, uint64_t now_ns, struct stall_check *checks)
{
	struct store_feed *feed = arg;
	struct store_rank *of;

	feed->check_every_ns = SECOND_NS * (stall_check_members_before(checks) / STALL_CHECK_MEMBERS_OFTEN);
	for (size_t i = 0; (of = store_ranks_at(feed->ranks, i)); i++) {
		struct standing standing;

		if (of->standing_until_ns > feed->standings_until_ns)
			feed->standings_until_ns = of->standing_until_ns;
		if (of->number < 0 || !store_feed_stand_rank(of, now_ns, &standing))
			continue;
		stall_check_add_standing(checks, &standing);
		if (store_feed_is_silent(of, now_ns))
			store_feed_add_members(of, checks);
	}
}

const struct source_ops store_feed_source = {.next = store_feed_next,
	.feed = feed_row,
	.snapshot = store_feed_check,
	.known = store_feed_known,
	.stand = store_feed_stand};

void store_feed_counts(const struct store_feed *feed, struct store_feed_counts *ret)
{
	*ret = feed->counts;
	ret->has_standings = feed->standings_until_ns > 0;
	store_ranks_counts(feed->ranks, &ret->ranks, &ret->ranks_left_out);
}
