/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of large tables: rows of a scan are packed into records, sorted, and unpacked into cells. A record has a bit
 * for each NULL cell and the other cells as varints, texts as numbers, the end relative to the start: about 40 bytes.
 */
#include <errno.h>
#include <stdlib.h>

#include "analyzers/timeline/timeline_internal.h"
#include "analyzers/base/text_pool.h"

#define RECORD_BYTES ((READER_SCAN_COLUMNS_MAX + 1) * PROTO_VARINT_BYTES)

struct feed {
	struct timeline *timeline;
	const struct stream *stream;
	const struct stream_scan *how;
	struct reader_scan *scan;
	struct text_pool *texts;
	uint32_t is_text; /* cells, a bit each */
	int64_t since_ns; /* earlier rows are skipped */
	bool other;	  /* the row comes again with its second times */
	sqlite3_stmt *more;
	bool in_more;
	struct row row;
	uint8_t bytes[RECORD_BYTES];
};

/* Zigzag: small negative numbers are short. */
static uint64_t scans_folded(int64_t value)
{
	return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
}

static int64_t scans_unfolded(uint64_t value)
{
	return (int64_t)(value >> 1 ^ (value & 1 ? UINT64_MAX : 0));
}

/* 0 if truncated. */
static uint64_t get_varint(const uint8_t **at, const uint8_t *end)
{
	uint64_t value = 0;

	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		uint8_t byte = *(*at)++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			break;
	}
	return value;
}

/* Cells of a row as numbers. */
struct numbers {
	int64_t value[READER_SCAN_COLUMNS_MAX];
	uint32_t null;
};

static void scans_give(struct feed *feed, const struct numbers *numbers, struct sorted_record *ret)
{
	const struct stream_scan *how = feed->how;
	size_t used = proto_varint(feed->bytes, numbers->null);
	bool ends = !(numbers->null & 1U << COL_END);

	for (size_t i = 0; i < how->cells; i++) {
		uint64_t value = (uint64_t)numbers->value[i];

		if (i == COL_END)
			value -= (uint64_t)numbers->value[COL_START];
		if (!(numbers->null & 1U << i))
			used += proto_varint(feed->bytes + used, scans_folded((int64_t)value));
	}
	/* By start, the longest first, then without end. */
	ret->key[0] = numbers->value[COL_START];
	ret->key[1] = ends ? ~numbers->value[COL_END] : INT64_MAX;
	ret->key[2] = !how->order ? 0 : numbers->null & 1U << how->order ? INT64_MIN : numbers->value[how->order];
	ret->bytes = feed->bytes;
	ret->size = (int)used;
}

static uint32_t timeline_scans_number_of(struct feed *feed, const char *text)
{
	return text ? text_pool_number(feed->texts, text) : 0;
}

static void timeline_scans_set_number(struct numbers *numbers, size_t cell, bool has, int64_t value)
{
	numbers->value[cell] = value;
	if (!has)
		numbers->null |= 1U << cell;
}

/* Times of the scan's row, first or second; false: skip. */
static bool take_times(struct feed *feed, bool other, struct numbers *ret)
{
	const struct reader_row *row = reader_scan_row(feed->scan);
	size_t start = other ? feed->how->other : COL_START, duration = other ? start + 1 : COL_END;
	bool ends = reader_row_has(row, duration);
	int64_t start_ns = row->value[start], end_ns;

	if (!reader_row_has(row, start))
		return false;
	if (__builtin_add_overflow(start_ns, row->value[duration], &end_ns))
		end_ns = start_ns < 0 ? INT64_MIN : INT64_MAX;
	if (feed->how->reaches && (ends ? end_ns : start_ns) < feed->timeline->options->since_ns)
		return false;
	timeline_scans_set_number(ret, COL_START, true, start_ns);
	timeline_scans_set_number(ret, COL_END, ends, end_ns);
	return true;
}

static bool timeline_scans_take_row(struct feed *feed, bool other, struct sorted_record *ret)
{
	const struct reader_row *row = reader_scan_row(feed->scan);
	struct numbers numbers = {.null = 0};

	if (!take_times(feed, other, &numbers))
		return false;
	for (size_t i = 0; i < feed->how->cells; i++) {
		if (i == COL_START || i == COL_END)
			continue;
		timeline_scans_set_number(&numbers, i, reader_row_has(row, i), row->value[i]);
		if (feed->is_text & 1U << i) {
			uint32_t number = timeline_scans_number_of(feed, reader_scan_text(feed->scan, i));

			timeline_scans_set_number(&numbers, i, number != 0, number);
		}
	}
	if (feed->how->other) {
		numbers.null &= ~(1U << COL_MORE);
		numbers.value[COL_MORE] = other;
	}
	scans_give(feed, &numbers, ret);
	return true;
}

bool timeline_rank_chosen(const struct timeline *t, const struct reader_row *row, size_t column)
{
	return !t->options->ranks.count ||
	       (reader_row_has(row, column) && ranges_have(&t->options->ranks, row->value[column]));
}

static bool timeline_scans_is_wanted(const struct feed *feed)
{
	const struct reader_row *row = reader_scan_row(feed->scan);
	int64_t start_ns = row->value[COL_START];

	return reader_row_has(row, COL_START) && start_ns >= feed->since_ns &&
	       start_ns < feed->timeline->options->until_ns &&
	       timeline_rank_chosen(feed->timeline, row, feed->how->cells);
}

/* Further rows by SQL, after the scan. */
static int next_more(struct feed *feed, struct sorted_record *ret)
{
	struct timeline *t = feed->timeline;
	struct numbers numbers = {.null = 0};
	int r = feed->more ? 0 : timeline_prepare(t, feed->how->more, &feed->more);

	if (r < 0)
		return r;
	r = timeline_step(t, feed->more);
	if (r <= 0)
		return r;
	row_of(feed->more, &feed->row);
	for (size_t i = 0; i < feed->how->cells && i < feed->row.count; i++) {
		const struct cell *cell = &feed->row.cell[i];
		uint32_t number = feed->is_text & 1U << i ? timeline_scans_number_of(feed, cell->text) : 0;

		timeline_scans_set_number(&numbers, i, feed->is_text & 1U << i ? number != 0 : cell->type != CELL_NULL,
			number ? number : cell->integer);
	}
	scans_give(feed, &numbers, ret);
	return 1;
}

static int timeline_scans_next(void *arg, struct sorted_record *ret)
{
	struct feed *feed = arg;

	for (;;) {
		int r;

		if (feed->other) {
			feed->other = false;
			if (timeline_scans_take_row(feed, true, ret))
				return 1;
		}
		r = feed->in_more ? 0 : reader_scan_next(feed->scan);
		if (r < 0) {
			reader_scan_error(feed->scan, feed->timeline->error, feed->timeline->error_size);
			return r;
		}
		if (r == 0) {
			feed->in_more = true;
			return feed->how->more ? next_more(feed, ret) : 0;
		}
		if (!timeline_scans_is_wanted(feed))
			continue;
		feed->other = feed->how->other != 0;
		if (timeline_scans_take_row(feed, false, ret))
			return 1;
	}
}

static void set_cell(const struct feed *feed, size_t i, int64_t value, struct row *row)
{
	struct cell *cell = &row->cell[i];

	if (feed->is_text & 1U << i)
		cell_set_text(cell, text_pool_text(feed->texts, (uint32_t)value));
	else if (i == COL_END)
		cell_set_int(cell, (int64_t)((uint64_t)row_int(row, COL_START) + (uint64_t)value));
	else
		cell_set_int(cell, value);
}

static int timeline_scans_take(void *arg, const void *bytes, int size)
{
	struct feed *feed = arg;
	const uint8_t *at = bytes, *end = at + size;
	uint32_t null = (uint32_t)get_varint(&at, end);
	struct row *row = &feed->row;

	row->count = feed->how->cells;
	for (size_t i = 0; i < row->count; i++) {
		row->cell[i].name = feed->how->names[i] ? feed->how->names[i] : feed->how->scanning.columns[i];
		if (null & 1U << i)
			cell_clear(&row->cell[i]);
		else
			set_cell(feed, i, scans_unfolded(get_varint(&at, end)), row);
	}
	if (feed->how->finish)
		feed->how->finish(row);
	return timeline_row(feed->timeline, feed->stream, row);
}

static int timeline_scans_begin(struct feed *feed)
{
	struct timeline *t = feed->timeline;
	const struct stream_scan *how = feed->how;
	const struct schema_table *schema = &schema_tables[how->scanning.table];
	int r;

	feed->since_ns = how->before ? timeline_before(t) : t->options->since_ns;
	for (size_t i = 0; i < how->cells; i++) {
		int column = schema_column_find(schema, how->scanning.columns[i]);

		if (column >= 0 && schema->columns[column].type == SCHEMA_TEXT)
			feed->is_text |= 1U << i;
	}
	feed->texts = text_pool_new();
	r = feed->texts ? reader_scan_open(t->reader, &how->scanning, &feed->scan) : -ENOMEM;
	if (r < 0) {
		snprintf(t->error, t->error_size, "out of memory");
		return r;
	}
	return reader_scan_begin(feed->scan, feed->since_ns, t->options->until_ns, t->error, t->error_size);
}

int timeline_scan(struct timeline *t, const struct stream *stream)
{
	struct feed *feed = calloc(1, sizeof(*feed));
	const struct sorting sorting = {.next = timeline_scans_next, .take = timeline_scans_take, .arg = feed};
	int r;

	if (!feed) {
		snprintf(t->error, t->error_size, "out of memory");
		return -ENOMEM;
	}
	feed->timeline = t;
	feed->stream = stream;
	feed->how = stream->scan;
	r = timeline_scans_begin(feed);
	if (r == 0)
		r = sorted_each(&sorting, t->error, t->error_size);
	sqlite3_finalize(feed->more);
	reader_scan_close(feed->scan);
	text_pool_free(feed->texts);
	free(feed);
	return r;
}
