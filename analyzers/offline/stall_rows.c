/* SPDX-License-Identifier: Apache-2.0 */
/* What a store says of times that lie close together. See stall.h. */
#include "analyzers/offline/stall_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/offline/store_rows.h"

/* Times no further apart are read together. Rows of other times are passed over inside SQLite, which costs a small
 * part of what it costs to read them. */
#define CLOSE_NS (120 * STALL_NS)
#define PARTS_MAX 8192
#define STAGE_BEFORE_NS (60 * STALL_NS)
#define SAMPLE_BEFORE_NS (90 * STALL_NS)
#define SAMPLE_AFTER_NS (5 * STALL_NS)
#define COLL_BEFORE_NS (20 * STALL_NS) /* and some steps */
#define COLL_BEFORE_MAX_NS (120 * STALL_NS)

/* Columns 0 to 2 are the instance, when it begins and how long it lasts. */
enum { STAGE_STAGE = 3, STAGE_THREAD };
enum { SAMPLE_STATE = 3, SAMPLE_CPU };
enum {
	OP_COMMUNICATOR = 3,
	OP_SEQ,
	OP_OP,
	OP_DTYPE,
	OP_COUNT,
	OP_BYTES,
	OP_SEQ_FROM,
	OP_DEVICE_START,
	OP_DEVICE_DURATION,
	OP_TIER,
	OP_FAMILY,
	OP_PEER,
	OP_CAPTURED
};
enum { WORD_DEVICE, WORD_GLOO };

static const struct reader_scanning scannings[STALL_TABLES] = {
	[STALL_STAGES] = {.table = TABLE_STAGES,
		.columns = {"instance", "start_ns",
			"duration_ns", [STAGE_STAGE] = "stage", [STAGE_THREAD] = "thread_id"}},
	[STALL_CUT] = {.table = TABLE_CUT_STAGES,
		.columns = {"instance", "start_ns",
			"duration_ns", [STAGE_STAGE] = "stage", [STAGE_THREAD] = "thread_id"}},
	[STALL_SAMPLES] = {.table = TABLE_HOST_SAMPLES,
		.columns = {"instance", "start_ns", "duration_ns", [SAMPLE_STATE] = "state", [SAMPLE_CPU] = "cpu_ns"}},
	[STALL_OPS] = {.table = TABLE_COLLECTIVES,
		.columns = {"instance", "host_start_ns",
			"host_duration_ns", [OP_COMMUNICATOR] = "communicator", [OP_SEQ] = "seq", [OP_OP] = "op",
			[OP_DTYPE] = "dtype", [OP_COUNT] = "count", [OP_BYTES] = "bytes", [OP_SEQ_FROM] = "seq_from",
			[OP_DEVICE_START] = "device_start_ns", [OP_DEVICE_DURATION] = "device_duration_ns",
			[OP_TIER] = "tier", [OP_FAMILY] = "family", [OP_PEER] = "peer", [OP_CAPTURED] = "captured"},
		.words = {[WORD_DEVICE] = "device", [WORD_GLOO] = "gloo"}},
};

static const char flight[] = "select instance, start_ns, stage, thread_id from in_flight"
			     " where start_ns >= ?1 and start_ns < ?2";

int stall_rows_open(struct stall *stall, char *error, size_t error_size)
{
	for (size_t i = 0; i < STALL_TABLES; i++) {
		if (reader_scan_open(stall->reader, &scannings[i], &stall->scan[i]) < 0) {
			snprintf(error, error_size, "out of memory");
			return -ENOMEM;
		}
	}
	return reader_prepare(stall->reader, flight, &stall->flight, error, error_size);
}

void stall_rows_close(struct stall *stall)
{
	for (size_t i = 0; i < STALL_TABLES; i++)
		reader_scan_close(stall->scan[i]);
	sqlite3_finalize(stall->flight);
	free(stall->spans.row);
	free(stall->samples.row);
	free(stall->ops.row);
	free(stall->run);
	free(stall->run_of);
}

static void *stall_rows_grow(struct stall_part *part, size_t size)
{
	if (part->count == part->capacity) {
		size_t capacity = part->capacity ? 2 * part->capacity : 256;
		void *more = capacity <= STALL_ROWS_MAX ? realloc(part->row, capacity * size) : NULL;

		if (!more)
			return NULL;
		part->row = more;
		part->capacity = capacity;
	}
	return (char *)part->row + part->count++ * size;
}

/* Whether any time in memory, made longer by that on both sides, has something of it. */
static bool is_near(
	const struct stall *stall, uint64_t start_ns, uint64_t end_ns, uint64_t before_ns, uint64_t after_ns)
{
	size_t low = stall->part_at, high = stall->part_end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (stall->all.interval[middle].to_ns + after_ns < start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < stall->part_end && stall->all.interval[low].from_ns <= end_ns + before_ns;
}

static uint64_t stall_rows_time_of(const struct stall *stall, const struct reader_row *row)
{
	return store_feed_time(stall->options, row->value[STORE_START]);
}

/* STOOD_NEVER where the length is not known. */
static uint64_t stall_rows_end_of(const struct reader_row *row, uint64_t start_ns)
{
	int64_t length = row->value[STORE_DURATION];

	if (!reader_row_has(row, STORE_DURATION))
		return STALL_NEVER;
	return length > 0 && (uint64_t)length < STORE_FEED_LONGEST_NS ? start_ns + (uint64_t)length : start_ns;
}

static const char *stall_rows_text_of(struct reader_scan *scan, size_t column)
{
	const char *text = reader_scan_text(scan, column);

	return text ? text : "";
}

static void add_span(struct stall *stall, const struct stall_span *span)
{
	struct stall_span *place = stall_rows_grow(&stall->spans, sizeof(*span));

	if (place)
		*place = *span;
}

static void on_span(struct stall *stall, struct reader_scan *scan, uint32_t rank)
{
	const struct reader_row *row = reader_scan_row(scan);
	uint64_t start_ns = stall_rows_time_of(stall, row), end_ns = stall_rows_end_of(row, start_ns);

	if (start_ns && is_near(stall, start_ns, end_ns == STALL_NEVER ? start_ns : end_ns, 0,
				end_ns == STALL_NEVER ? STAGE_BEFORE_NS : 0))
		add_span(stall, &(struct stall_span){
					.rank = rank,
					.thread_id = (uint32_t)row->value[STAGE_THREAD],
					.kind = stage_of_stage(stall_rows_text_of(scan, STAGE_STAGE)).kind,
					.start_ns = start_ns,
					.end_ns = end_ns,
				});
}

static void on_flight(struct stall *stall, sqlite3_stmt *s)
{
	uint64_t start_ns = store_feed_time(stall->options, sqlite3_column_int64(s, 1));
	const unsigned char *stage = sqlite3_column_text(s, 2);
	uint32_t rank;

	if (start_ns && stall_wants(stall, sqlite3_column_int64(s, 0), &rank))
		add_span(stall, &(struct stall_span){
					.rank = rank,
					.thread_id = (uint32_t)sqlite3_column_int64(s, 3),
					.kind = stage_of_stage(stage ? (const char *)stage : "").kind,
					.start_ns = start_ns,
					.end_ns = STALL_NEVER,
				});
}

static void stall_rows_on_sample(struct stall *stall, struct reader_scan *scan, uint32_t rank)
{
	const struct reader_row *row = reader_scan_row(scan);
	uint64_t start_ns = stall_rows_time_of(stall, row), end_ns = stall_rows_end_of(row, start_ns);
	struct stall_sample *sample;

	if (!start_ns || end_ns == STALL_NEVER || !is_near(stall, start_ns, end_ns, SAMPLE_BEFORE_NS, SAMPLE_AFTER_NS))
		return;
	sample = stall_rows_grow(&stall->samples, sizeof(*sample));
	if (sample)
		*sample = (struct stall_sample){
			.rank = rank,
			.state = stall_rows_text_of(scan, SAMPLE_STATE)[0],
			.start_ns = start_ns,
			.end_ns = end_ns,
			.cpu_ns = !reader_row_has(row, SAMPLE_CPU) || row->value[SAMPLE_CPU] < 0
					  ? FRAME_UNKNOWN
					  : (uint64_t)row->value[SAMPLE_CPU],
		};
}

/* The last one is for what is too many, or too long. */
static uint16_t word_of(struct stall *stall, const char *text)
{
	size_t i = 0;

	while (i < stall->words && strcmp(stall->word[i], text) != 0)
		i++;
	if (i == stall->words && i < STALL_WORDS_MAX - 1 && strlen(text) < sizeof(stall->word[0]))
		(void)snprintf(stall->word[stall->words++], sizeof(stall->word[0]), "%s", text);
	return i < stall->words ? (uint16_t)i : STALL_WORDS_MAX - 1;
}

static uint8_t seq_from_of(const char *word)
{
	static const char *const words[] = {
		[COLL_SEQ_INIT] = "init",
		[COLL_SEQ_LIBRARY] = "library",
		[COLL_SEQ_MARKER] = "marker",
		[COLL_SEQ_GROUP] = "group",
	};

	for (uint8_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i], word) == 0)
			return i;
	return COLL_SEQ_ATTACH;
}

static uint64_t stall_rows_known_of(const struct reader_row *row, size_t column)
{
	return !reader_row_has(row, column) || row->value[column] < 0 ? COLL_UNKNOWN : (uint64_t)row->value[column];
}

static uint64_t coll_before(const struct stall *stall)
{
	uint64_t before_ns = COLL_BEFORE_NS + (stall->step_ns < COLL_BEFORE_MAX_NS ? 4 * stall->step_ns : 0);

	return before_ns < COLL_BEFORE_MAX_NS ? before_ns : COLL_BEFORE_MAX_NS;
}

/* What was only recorded into a graph was not called. */
static bool is_called(struct reader_scan *scan)
{
	const struct reader_row *row = reader_scan_row(scan);

	return !reader_row_has(row, OP_PEER) && row->value[OP_SEQ] > 0 && !row->value[OP_CAPTURED] &&
	       reader_row_has(row, OP_SEQ_FROM);
}

/* 0: not known. By the store's clock. */
static int64_t completed_of(struct reader_scan *scan)
{
	const struct reader_row *row = reader_scan_row(scan);
	bool device = reader_scan_is(scan, OP_TIER, WORD_DEVICE);
	size_t start = device ? OP_DEVICE_START : STORE_START, length = device ? OP_DEVICE_DURATION : STORE_DURATION;
	int64_t ret;

	if ((!device && !reader_scan_is(scan, OP_FAMILY, WORD_GLOO)) || !reader_row_has(row, start) ||
		!reader_row_has(row, length) || __builtin_add_overflow(row->value[start], row->value[length], &ret))
		return 0;
	return ret;
}

/* Operations with numbers that may not be compared take at most half of the rows: then only the newest of each second
 * is kept, which shows that a rank called something. */
static void stall_rows_add_op(struct stall *stall, struct store_place *place, const struct stall_op *op)
{
	bool unsure = op->seq_from == COLL_SEQ_ATTACH;
	struct stall_op *to;

	if (unsure && stall->ops.count > STALL_ROWS_MAX / 2 && place->unsure < stall->ops.count) {
		to = (struct stall_op *)stall->ops.row + place->unsure;
		if (to->rank == op->rank && to->place == op->place && to->seq_from == COLL_SEQ_ATTACH &&
			to->start_ns / STALL_NS == op->start_ns / STALL_NS) {
			*to = op->start_ns > to->start_ns ? *op : *to;
			return;
		}
	}
	to = stall_rows_grow(&stall->ops, sizeof(*to));
	if (!to) {
		stall->coll_overflow = true;
		return;
	}
	*to = *op;
	if (unsure)
		place->unsure = stall->ops.count - 1;
}

static void stall_rows_on_op(struct stall *stall, struct reader_scan *scan, uint32_t rank)
{
	const struct store_rank *of = store_ranks_at(stall->ranks, rank);
	const struct reader_row *row = reader_scan_row(scan);
	uint64_t start_ns = stall_rows_time_of(stall, row), end_ns;
	const struct store_place *place;

	if (!start_ns || !is_called(scan) || !is_near(stall, start_ns, start_ns, coll_before(stall), 0))
		return;
	place = store_rank_place(of, stall_rows_text_of(scan, OP_COMMUNICATOR));
	if (!place)
		return;
	end_ns = store_feed_time(stall->options, completed_of(scan));
	stall_rows_add_op(stall, &of->place[place - of->place],
		&(struct stall_op){
			.rank = rank,
			.place = (uint32_t)(place - of->place),
			.seq = (uint64_t)row->value[OP_SEQ],
			.start_ns = start_ns,
			.end_ns = end_ns ? end_ns : STALL_NEVER,
			.count = stall_rows_known_of(row, OP_COUNT),
			.bytes = stall_rows_known_of(row, OP_BYTES),
			.op = word_of(stall, stall_rows_text_of(scan, OP_OP)),
			.dtype = word_of(stall, stall_rows_text_of(scan, OP_DTYPE)),
			.seq_from = seq_from_of(stall_rows_text_of(scan, OP_SEQ_FROM)),
			.is_complete_end = reader_scan_is(scan, OP_TIER, WORD_DEVICE) ||
					   reader_scan_is(scan, OP_FAMILY, WORD_GLOO),
		});
}

static void (*const take[STALL_TABLES])(struct stall *stall, struct reader_scan *scan, uint32_t rank) = {
	[STALL_STAGES] = on_span,
	[STALL_CUT] = on_span,
	[STALL_SAMPLES] = stall_rows_on_sample,
	[STALL_OPS] = stall_rows_on_op,
};

static int stall_rows_order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int by_span(const void *a, const void *b)
{
	const struct stall_span *x = a, *y = b;
	int r = stall_rows_order(x->rank, y->rank);

	return r ? r : stall_rows_order(x->start_ns, y->start_ns);
}

static int by_sample(const void *a, const void *b)
{
	const struct stall_sample *x = a, *y = b;
	int r = stall_rows_order(x->rank, y->rank);

	return r ? r : stall_rows_order(x->start_ns, y->start_ns);
}

static int by_op(const void *a, const void *b)
{
	const struct stall_op *x = a, *y = b;
	int r = stall_rows_order(x->rank, y->rank);

	r = r ? r : stall_rows_order(x->place, y->place);
	r = r ? r : stall_rows_order(x->seq_from == COLL_SEQ_ATTACH, y->seq_from == COLL_SEQ_ATTACH);
	r = r || x->seq_from == COLL_SEQ_ATTACH ? r : stall_rows_order(x->seq, y->seq);
	return r ? r : stall_rows_order(x->start_ns, y->start_ns);
}

static void stall_rows_add_up(struct stall *stall)
{
	struct stall_sample *sample = stall->samples.row;

	for (size_t i = 1; i < stall->samples.count; i++) {
		const struct stall_sample *before = &sample[i - 1];

		if (before->rank == sample[i].rank)
			sample[i].before_ns =
				before->before_ns + (before->cpu_ns == FRAME_UNKNOWN ? 0 : before->cpu_ns);
	}
}

static bool is_new_run(const struct stall_op *op, size_t i)
{
	return i == 0 || op[i - 1].rank != op[i].rank || op[i - 1].place != op[i].place;
}

static void make_runs(struct stall *stall)
{
	const struct stall_op *op = stall->ops.row;
	size_t ranks = 0, at = 0;

	stall->runs = 0;
	free(stall->run);
	free(stall->run_of);
	while (store_ranks_at(stall->ranks, ranks))
		ranks++;
	for (size_t i = 0; i < stall->ops.count; i++)
		stall->runs += is_new_run(op, i);
	stall->run = calloc(stall->runs + 1, sizeof(*stall->run));
	stall->run_of = calloc(ranks + 2, sizeof(*stall->run_of));
	if (!stall->run || !stall->run_of) {
		stall->runs = 0;
		stall->coll_overflow = true;
		return;
	}
	for (size_t i = 0; i < stall->ops.count; i++) {
		if (is_new_run(op, i))
			stall->run[at++] = (struct stall_run){.stall = stall, .first = i};
		stall->run[at - 1].count += op[i].seq_from != COLL_SEQ_ATTACH;
		stall->run[at - 1].unsure += op[i].seq_from == COLL_SEQ_ATTACH;
		stall->run[at - 1].completion_known |= op[i].is_complete_end;
	}
	at = 0;
	for (size_t rank = 0; rank <= ranks; rank++) {
		while (at < stall->runs && op[stall->run[at].first].rank < rank)
			at++;
		stall->run_of[rank] = at;
	}
}

static void sort(struct stall *stall)
{
	if (stall->spans.count)
		qsort(stall->spans.row, stall->spans.count, sizeof(struct stall_span), by_span);
	if (stall->samples.count)
		qsort(stall->samples.row, stall->samples.count, sizeof(struct stall_sample), by_sample);
	if (stall->ops.count)
		qsort(stall->ops.row, stall->ops.count, sizeof(struct stall_op), by_op);
	stall_rows_add_up(stall);
	make_runs(stall);
	if (stall->coll_overflow)
		stall_warn(stall, "too many operations at a time to be judged");
}

static void read_flight(struct stall *stall, int64_t since_ns, int64_t until_ns)
{
	char error[256];
	int rc;

	sqlite3_bind_int64(stall->flight, 1, since_ns);
	sqlite3_bind_int64(stall->flight, 2, until_ns);
	while ((rc = sqlite3_step(stall->flight)) == SQLITE_ROW)
		on_flight(stall, stall->flight);
	if (rc != SQLITE_DONE) {
		reader_error(stall->reader, error, sizeof(error));
		stall_warn(stall, error);
	}
	sqlite3_reset(stall->flight);
}

static void read_part(struct stall *stall)
{
	const struct store_feed_options *options = stall->options;
	const uint64_t before_ns[STALL_TABLES] = {
		[STALL_STAGES] = STAGE_BEFORE_NS,
		[STALL_CUT] = STAGE_BEFORE_NS,
		[STALL_SAMPLES] = SAMPLE_BEFORE_NS,
		[STALL_OPS] = coll_before(stall),
	};
	uint64_t from_ns = stall->all.interval[stall->part_at].from_ns, to_ns = stall->all.interval[stall->part_end - 1].to_ns,
		 flight_ns = from_ns > STORE_FEED_LONGEST_NS ? from_ns - STORE_FEED_LONGEST_NS : 0;
	int64_t until_ns = store_feed_before(options, to_ns + SAMPLE_AFTER_NS);
	char error[256];
	uint32_t rank;

	stall->spans.count = stall->samples.count = stall->ops.count = 0;
	stall->coll_overflow = false;
	for (size_t i = 0; i < STALL_TABLES; i++) {
		int64_t since_ns = store_feed_before(options, from_ns > before_ns[i] ? from_ns - before_ns[i] : 0);

		if (reader_scan_begin(stall->scan[i], since_ns, until_ns, error, sizeof(error)) < 0) {
			stall_warn(stall, error);
			continue;
		}
		while (stall_next(stall, stall->scan[i], &rank))
			take[i](stall, stall->scan[i], rank);
	}
	read_flight(stall, store_feed_before(options, flight_ns), until_ns);
	sort(stall);
}

static uint64_t close_ns(const struct stall_intervals *all)
{
	uint64_t apart_ns = (all->interval[all->count - 1].from_ns - all->interval[0].from_ns) / PARTS_MAX;

	return apart_ns > CLOSE_NS ? apart_ns : CLOSE_NS;
}

void stall_rows_load(struct stall *stall, uint64_t now_ns)
{
	const struct stall_intervals *all = &stall->all;
	size_t at = stall->part_end;

	if (stall->part_end > stall->part_at && now_ns <= all->interval[stall->part_end - 1].to_ns + STALL_TAIL_NS)
		return;
	while (at < all->count && all->interval[at].to_ns + STALL_TAIL_NS < now_ns)
		at++;
	if (at == all->count || all->interval[at].from_ns > now_ns)
		return; /* another store's time */
	stall->part_at = at;
	while (at + 1 < all->count && all->interval[at + 1].from_ns <= all->interval[at].to_ns + close_ns(all))
		at++;
	stall->part_end = at + 1;
	read_part(stall);
}
