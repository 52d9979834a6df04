/* SPDX-License-Identifier: Apache-2.0 */
/* What a store says of times that lie close together. See stood.h. */
#include "analyzers/offline/stood_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/offline/store_rows.h"

/* Times no further apart are read together. Rows of other times are passed over inside SQLite, which costs a small
 * part of what it costs to read them. */
#define CLOSE_NS (120 * STOOD_NS)
#define PARTS_MAX 8192
#define STAGE_BEFORE_NS (60 * STOOD_NS)
#define SAMPLE_BEFORE_NS (90 * STOOD_NS)
#define SAMPLE_AFTER_NS (5 * STOOD_NS)
#define OPS_BEFORE_NS (20 * STOOD_NS) /* and some steps */
#define OPS_BEFORE_MAX_NS (120 * STOOD_NS)

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

static const struct reader_scanning scannings[STOOD_TABLES] = {
	[STOOD_STAGES] = {.table = TABLE_STAGES,
		.columns = {"instance", "start_ns",
			"duration_ns", [STAGE_STAGE] = "stage", [STAGE_THREAD] = "thread_id"}},
	[STOOD_CUT] = {.table = TABLE_CUT_STAGES,
		.columns = {"instance", "start_ns",
			"duration_ns", [STAGE_STAGE] = "stage", [STAGE_THREAD] = "thread_id"}},
	[STOOD_SAMPLES] = {.table = TABLE_HOST_SAMPLES,
		.columns = {"instance", "start_ns", "duration_ns", [SAMPLE_STATE] = "state", [SAMPLE_CPU] = "cpu_ns"}},
	[STOOD_OPS] = {.table = TABLE_COLLECTIVES,
		.columns = {"instance", "host_start_ns",
			"host_duration_ns", [OP_COMMUNICATOR] = "communicator", [OP_SEQ] = "seq", [OP_OP] = "op",
			[OP_DTYPE] = "dtype", [OP_COUNT] = "count", [OP_BYTES] = "bytes", [OP_SEQ_FROM] = "seq_from",
			[OP_DEVICE_START] = "device_start_ns", [OP_DEVICE_DURATION] = "device_duration_ns",
			[OP_TIER] = "tier", [OP_FAMILY] = "family", [OP_PEER] = "peer", [OP_CAPTURED] = "captured"},
		.words = {[WORD_DEVICE] = "device", [WORD_GLOO] = "gloo"}},
};

static const char flight[] = "select instance, start_ns, stage, thread_id from in_flight"
			     " where start_ns >= ?1 and start_ns < ?2";

int stood_rows_open(struct stood *stood, char *error, size_t error_size)
{
	for (size_t i = 0; i < STOOD_TABLES; i++) {
		if (reader_scan_open(stood->reader, &scannings[i], &stood->scan[i]) < 0) {
			snprintf(error, error_size, "out of memory");
			return -ENOMEM;
		}
	}
	return reader_prepare(stood->reader, flight, &stood->flight, error, error_size);
}

void stood_rows_close(struct stood *stood)
{
	for (size_t i = 0; i < STOOD_TABLES; i++)
		reader_scan_close(stood->scan[i]);
	sqlite3_finalize(stood->flight);
	free(stood->spans.row);
	free(stood->samples.row);
	free(stood->ops.row);
	free(stood->run);
	free(stood->run_of);
}

static void *stall_rows_grow(struct stood_part *part, size_t size)
{
	if (part->count == part->capacity) {
		size_t capacity = part->capacity ? 2 * part->capacity : 256;
		void *more = capacity <= STOOD_ROWS_MAX ? realloc(part->row, capacity * size) : NULL;

		if (!more)
			return NULL;
		part->row = more;
		part->capacity = capacity;
	}
	return (char *)part->row + part->count++ * size;
}

/* Whether any time in memory, made longer by that on both sides, has something of it. */
static bool is_near(
	const struct stood *stood, uint64_t start_ns, uint64_t end_ns, uint64_t before_ns, uint64_t after_ns)
{
	size_t low = stood->part_at, high = stood->part_end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (stood->all.spot[middle].to_ns + after_ns < start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < stood->part_end && stood->all.spot[low].from_ns <= end_ns + before_ns;
}

static uint64_t stall_rows_time_of(const struct stood *stood, const struct reader_row *row)
{
	return store_feed_time(stood->options, row->value[STORE_START]);
}

/* STOOD_NEVER where the length is not known. */
static uint64_t stall_rows_end_of(const struct reader_row *row, uint64_t start_ns)
{
	int64_t length = row->value[STORE_DURATION];

	if (!reader_row_has(row, STORE_DURATION))
		return STOOD_NEVER;
	return length > 0 && (uint64_t)length < STORE_FEED_LONGEST_NS ? start_ns + (uint64_t)length : start_ns;
}

static const char *stall_rows_text_of(struct reader_scan *scan, size_t column)
{
	const char *text = reader_scan_text(scan, column);

	return text ? text : "";
}

static void add_span(struct stood *stood, const struct stood_span *span)
{
	struct stood_span *place = stall_rows_grow(&stood->spans, sizeof(*span));

	if (place)
		*place = *span;
}

static void on_span(struct stood *stood, struct reader_scan *scan, uint32_t rank)
{
	const struct reader_row *row = reader_scan_row(scan);
	uint64_t start_ns = stall_rows_time_of(stood, row), end_ns = stall_rows_end_of(row, start_ns);

	if (start_ns && is_near(stood, start_ns, end_ns == STOOD_NEVER ? start_ns : end_ns, 0,
				end_ns == STOOD_NEVER ? STAGE_BEFORE_NS : 0))
		add_span(stood, &(struct stood_span){
					.rank = rank,
					.thread_id = (uint32_t)row->value[STAGE_THREAD],
					.kind = stage_of_stage(stall_rows_text_of(scan, STAGE_STAGE)).kind,
					.start_ns = start_ns,
					.end_ns = end_ns,
				});
}

static void on_flight(struct stood *stood, sqlite3_stmt *s)
{
	uint64_t start_ns = store_feed_time(stood->options, sqlite3_column_int64(s, 1));
	const unsigned char *stage = sqlite3_column_text(s, 2);
	uint32_t rank;

	if (start_ns && stood_wants(stood, sqlite3_column_int64(s, 0), &rank))
		add_span(stood, &(struct stood_span){
					.rank = rank,
					.thread_id = (uint32_t)sqlite3_column_int64(s, 3),
					.kind = stage_of_stage(stage ? (const char *)stage : "").kind,
					.start_ns = start_ns,
					.end_ns = STOOD_NEVER,
				});
}

static void stall_rows_on_sample(struct stood *stood, struct reader_scan *scan, uint32_t rank)
{
	const struct reader_row *row = reader_scan_row(scan);
	uint64_t start_ns = stall_rows_time_of(stood, row), end_ns = stall_rows_end_of(row, start_ns);
	struct stood_sample *sample;

	if (!start_ns || end_ns == STOOD_NEVER || !is_near(stood, start_ns, end_ns, SAMPLE_BEFORE_NS, SAMPLE_AFTER_NS))
		return;
	sample = stall_rows_grow(&stood->samples, sizeof(*sample));
	if (sample)
		*sample = (struct stood_sample){
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
static uint16_t word_of(struct stood *stood, const char *text)
{
	size_t i = 0;

	while (i < stood->words && strcmp(stood->word[i], text) != 0)
		i++;
	if (i == stood->words && i < STOOD_WORDS_MAX - 1 && strlen(text) < sizeof(stood->word[0]))
		(void)snprintf(stood->word[stood->words++], sizeof(stood->word[0]), "%s", text);
	return i < stood->words ? (uint16_t)i : STOOD_WORDS_MAX - 1;
}

static uint8_t seq_from_of(const char *word)
{
	static const char *const words[] = {
		[OPS_SEQ_INIT] = "init",
		[OPS_SEQ_LIBRARY] = "library",
		[OPS_SEQ_MARKER] = "marker",
		[OPS_SEQ_GROUP] = "group",
	};

	for (uint8_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i], word) == 0)
			return i;
	return OPS_SEQ_ATTACH;
}

static uint64_t stall_rows_known_of(const struct reader_row *row, size_t column)
{
	return !reader_row_has(row, column) || row->value[column] < 0 ? OPS_UNKNOWN : (uint64_t)row->value[column];
}

static uint64_t ops_before(const struct stood *stood)
{
	uint64_t before_ns = OPS_BEFORE_NS + (stood->step_ns < OPS_BEFORE_MAX_NS ? 4 * stood->step_ns : 0);

	return before_ns < OPS_BEFORE_MAX_NS ? before_ns : OPS_BEFORE_MAX_NS;
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

/* Those whose number may not be compared do not take the room of the others: where it is half full, only the newest of
 * each second stays, which is enough to tell that a rank called something. */
static void stall_rows_add_op(struct stood *stood, struct store_place *place, const struct stood_op *op)
{
	bool unsure = op->seq_from == OPS_SEQ_ATTACH;
	struct stood_op *to;

	if (unsure && stood->ops.count > STOOD_ROWS_MAX / 2 && place->unsure < stood->ops.count) {
		to = (struct stood_op *)stood->ops.row + place->unsure;
		if (to->rank == op->rank && to->place == op->place && to->seq_from == OPS_SEQ_ATTACH &&
			to->start_ns / STOOD_NS == op->start_ns / STOOD_NS) {
			*to = op->start_ns > to->start_ns ? *op : *to;
			return;
		}
	}
	to = stall_rows_grow(&stood->ops, sizeof(*to));
	if (!to) {
		stood->ops_overflow = true;
		return;
	}
	*to = *op;
	if (unsure)
		place->unsure = stood->ops.count - 1;
}

static void stall_rows_on_op(struct stood *stood, struct reader_scan *scan, uint32_t rank)
{
	const struct store_rank *of = store_ranks_at(stood->ranks, rank);
	const struct reader_row *row = reader_scan_row(scan);
	uint64_t start_ns = stall_rows_time_of(stood, row), end_ns;
	const struct store_place *place;

	if (!start_ns || !is_called(scan) || !is_near(stood, start_ns, start_ns, ops_before(stood), 0))
		return;
	place = store_rank_place(of, stall_rows_text_of(scan, OP_COMMUNICATOR));
	if (!place)
		return;
	end_ns = store_feed_time(stood->options, completed_of(scan));
	stall_rows_add_op(stood, &of->place[place - of->place],
		&(struct stood_op){
			.rank = rank,
			.place = (uint32_t)(place - of->place),
			.seq = (uint64_t)row->value[OP_SEQ],
			.start_ns = start_ns,
			.end_ns = end_ns ? end_ns : STOOD_NEVER,
			.count = stall_rows_known_of(row, OP_COUNT),
			.bytes = stall_rows_known_of(row, OP_BYTES),
			.op = word_of(stood, stall_rows_text_of(scan, OP_OP)),
			.dtype = word_of(stood, stall_rows_text_of(scan, OP_DTYPE)),
			.seq_from = seq_from_of(stall_rows_text_of(scan, OP_SEQ_FROM)),
			.tells = reader_scan_is(scan, OP_TIER, WORD_DEVICE) ||
				 reader_scan_is(scan, OP_FAMILY, WORD_GLOO),
		});
}

static void (*const take[STOOD_TABLES])(struct stood *stood, struct reader_scan *scan, uint32_t rank) = {
	[STOOD_STAGES] = on_span,
	[STOOD_CUT] = on_span,
	[STOOD_SAMPLES] = stall_rows_on_sample,
	[STOOD_OPS] = stall_rows_on_op,
};

static int stall_rows_order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int by_span(const void *a, const void *b)
{
	const struct stood_span *x = a, *y = b;
	int r = stall_rows_order(x->rank, y->rank);

	return r ? r : stall_rows_order(x->start_ns, y->start_ns);
}

static int by_sample(const void *a, const void *b)
{
	const struct stood_sample *x = a, *y = b;
	int r = stall_rows_order(x->rank, y->rank);

	return r ? r : stall_rows_order(x->start_ns, y->start_ns);
}

static int by_op(const void *a, const void *b)
{
	const struct stood_op *x = a, *y = b;
	int r = stall_rows_order(x->rank, y->rank);

	r = r ? r : stall_rows_order(x->place, y->place);
	r = r ? r : stall_rows_order(x->seq_from == OPS_SEQ_ATTACH, y->seq_from == OPS_SEQ_ATTACH);
	r = r || x->seq_from == OPS_SEQ_ATTACH ? r : stall_rows_order(x->seq, y->seq);
	return r ? r : stall_rows_order(x->start_ns, y->start_ns);
}

static void stall_rows_add_up(struct stood *stood)
{
	struct stood_sample *sample = stood->samples.row;

	for (size_t i = 1; i < stood->samples.count; i++) {
		const struct stood_sample *before = &sample[i - 1];

		if (before->rank == sample[i].rank)
			sample[i].before_ns =
				before->before_ns + (before->cpu_ns == FRAME_UNKNOWN ? 0 : before->cpu_ns);
	}
}

static bool is_new_run(const struct stood_op *op, size_t i)
{
	return i == 0 || op[i - 1].rank != op[i].rank || op[i - 1].place != op[i].place;
}

static void make_runs(struct stood *stood)
{
	const struct stood_op *op = stood->ops.row;
	size_t ranks = 0, at = 0;

	stood->runs = 0;
	free(stood->run);
	free(stood->run_of);
	while (store_ranks_at(stood->ranks, ranks))
		ranks++;
	for (size_t i = 0; i < stood->ops.count; i++)
		stood->runs += is_new_run(op, i);
	stood->run = calloc(stood->runs + 1, sizeof(*stood->run));
	stood->run_of = calloc(ranks + 2, sizeof(*stood->run_of));
	if (!stood->run || !stood->run_of) {
		stood->runs = 0;
		stood->ops_overflow = true;
		return;
	}
	for (size_t i = 0; i < stood->ops.count; i++) {
		if (is_new_run(op, i))
			stood->run[at++] = (struct stood_run){.stood = stood, .first = i};
		stood->run[at - 1].count += op[i].seq_from != OPS_SEQ_ATTACH;
		stood->run[at - 1].unsure += op[i].seq_from == OPS_SEQ_ATTACH;
		stood->run[at - 1].tells |= op[i].tells;
	}
	at = 0;
	for (size_t rank = 0; rank <= ranks; rank++) {
		while (at < stood->runs && op[stood->run[at].first].rank < rank)
			at++;
		stood->run_of[rank] = at;
	}
}

static void sort(struct stood *stood)
{
	if (stood->spans.count)
		qsort(stood->spans.row, stood->spans.count, sizeof(struct stood_span), by_span);
	if (stood->samples.count)
		qsort(stood->samples.row, stood->samples.count, sizeof(struct stood_sample), by_sample);
	if (stood->ops.count)
		qsort(stood->ops.row, stood->ops.count, sizeof(struct stood_op), by_op);
	stall_rows_add_up(stood);
	make_runs(stood);
	if (stood->ops_overflow)
		stood_warn(stood, "operations that lie close together are too many to be judged");
}

static void read_flight(struct stood *stood, int64_t since_ns, int64_t until_ns)
{
	char error[256];
	int rc;

	sqlite3_bind_int64(stood->flight, 1, since_ns);
	sqlite3_bind_int64(stood->flight, 2, until_ns);
	while ((rc = sqlite3_step(stood->flight)) == SQLITE_ROW)
		on_flight(stood, stood->flight);
	if (rc != SQLITE_DONE) {
		reader_error(stood->reader, error, sizeof(error));
		stood_warn(stood, error);
	}
	sqlite3_reset(stood->flight);
}

static void read_part(struct stood *stood)
{
	const struct store_feed_options *options = stood->options;
	const uint64_t before_ns[STOOD_TABLES] = {
		[STOOD_STAGES] = STAGE_BEFORE_NS,
		[STOOD_CUT] = STAGE_BEFORE_NS,
		[STOOD_SAMPLES] = SAMPLE_BEFORE_NS,
		[STOOD_OPS] = ops_before(stood),
	};
	uint64_t from_ns = stood->all.spot[stood->part_at].from_ns, to_ns = stood->all.spot[stood->part_end - 1].to_ns,
		 flight_ns = from_ns > STORE_FEED_LONGEST_NS ? from_ns - STORE_FEED_LONGEST_NS : 0;
	int64_t until_ns = store_feed_before(options, to_ns + SAMPLE_AFTER_NS);
	char error[256];
	uint32_t rank;

	stood->spans.count = stood->samples.count = stood->ops.count = 0;
	stood->ops_overflow = false;
	for (size_t i = 0; i < STOOD_TABLES; i++) {
		int64_t since_ns = store_feed_before(options, from_ns > before_ns[i] ? from_ns - before_ns[i] : 0);

		if (reader_scan_begin(stood->scan[i], since_ns, until_ns, error, sizeof(error)) < 0) {
			stood_warn(stood, error);
			continue;
		}
		while (stood_next(stood, stood->scan[i], &rank))
			take[i](stood, stood->scan[i], rank);
	}
	read_flight(stood, store_feed_before(options, flight_ns), until_ns);
	sort(stood);
}

static uint64_t close_ns(const struct stood_spots *all)
{
	uint64_t apart_ns = (all->spot[all->count - 1].from_ns - all->spot[0].from_ns) / PARTS_MAX;

	return apart_ns > CLOSE_NS ? apart_ns : CLOSE_NS;
}

void stood_rows_load(struct stood *stood, uint64_t now_ns)
{
	const struct stood_spots *all = &stood->all;
	size_t at = stood->part_end;

	if (stood->part_end > stood->part_at && now_ns <= all->spot[stood->part_end - 1].to_ns + STOOD_TAIL_NS)
		return;
	while (at < all->count && all->spot[at].to_ns + STOOD_TAIL_NS < now_ns)
		at++;
	if (at == all->count || all->spot[at].from_ns > now_ns)
		return; /* another store's time */
	stood->part_at = at;
	while (at + 1 < all->count && all->spot[at + 1].from_ns <= all->spot[at].to_ns + close_ns(all))
		at++;
	stood->part_end = at + 1;
	read_part(stood);
}
