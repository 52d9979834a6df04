/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a log table row by row, front to back, for who reads millions of them: what the view of the same name shows, of
 * the segments that reader.h reads, in the same order and with the same warnings, without SQL between. A row is
 * numbers; texts are looked up where they are wanted, once a segment. Nothing of a damaged row is refused: what is no
 * number is what SQLite makes of it.
 */
#ifndef RANKTRACE_STORE_READER_SCAN_H
#define RANKTRACE_STORE_READER_SCAN_H

#include "analyzers/store/reader.h"

#define READER_SCAN_COLUMNS_MAX 24
#define READER_SCAN_WORDS_MAX 4
#define READER_SCAN_TEXT_BYTES 256 /* longer texts are cut */

struct reader_scanning {
	enum schema_id table; /* a SCHEMA_LOG one */
	/* Names of columns, as of the view; one that it does not have is NULL in all rows. NULL ends them. */
	const char *columns[READER_SCAN_COLUMNS_MAX];
	/* Texts that reader_scan_is() compares with. NULL ends them. */
	const char *words[READER_SCAN_WORDS_MAX];
};

/* Columns in the order in which they were asked for. */
struct reader_row {
	int64_t value[READER_SCAN_COLUMNS_MAX]; /* times in ns of UTC; of texts only their numbers; 0: NULL */
	uint32_t null;				/* a bit each */
};

struct reader_scan;

/* What it is told must outlive it. 0 or -ENOMEM. It begins with reader_scan_begin(). */
int reader_scan_open(struct reader *reader, const struct reader_scanning *scanning, struct reader_scan **ret);
struct reader_scan *reader_scan_close(struct reader_scan *scan);
/* From the front, rows whose time (the table's first column of times) is at least since_ns and below until_ns;
 * INT64_MIN and INT64_MAX: also those that have none. Looks at the folder again. 0, or negative errno with the
 * sentence. */
int reader_scan_begin(struct reader_scan *scan, int64_t since_ns, int64_t until_ns, char *error, size_t error_size);
/* 1: a row; 0: over, until it is begun again; or negative errno, and it is over. */
int reader_scan_next(struct reader_scan *scan);
/* After it failed: the sentence. */
void reader_scan_error(const struct reader_scan *scan, char *error, size_t error_size);
/* The row that it stands on. */
const struct reader_row *reader_scan_row(const struct reader_scan *scan);
/* Of a column of texts; NULL: it has none. Valid until any scan of the reader goes on. */
const char *reader_scan_text(struct reader_scan *scan, size_t column);

/* Whether a column of texts is the word of that number in reader_scanning; for less than to look it up. */
bool reader_scan_is(const struct reader_scan *scan, size_t column, size_t word);

static inline bool reader_row_has(const struct reader_row *row, size_t column)
{
	return !(row->null & 1U << column);
}

#endif
