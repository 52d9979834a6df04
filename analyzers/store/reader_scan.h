/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk reading of a log table: the rows of the view of that name, from the segments of reader.h, in the same order and
 * with the same warnings, without SQL between. A row is numbers; texts are resolved on demand, once a segment. Damaged
 * rows are not refused: non-numbers convert as in SQLite.
 */
#ifndef RANKTRACE_STORE_READER_SCAN_H
#define RANKTRACE_STORE_READER_SCAN_H

#include "analyzers/store/reader.h"

#define READER_SCAN_COLUMNS_MAX 24
#define READER_SCAN_WORDS_MAX 4
#define READER_SCAN_TEXT_BYTES 256 /* longer texts are cut */

struct reader_scanning {
	enum schema_id table; /* a SCHEMA_LOG one */
	/* Columns of the view, NULL-terminated; unknown ones are NULL in all rows. */
	const char *columns[READER_SCAN_COLUMNS_MAX];
	/* Texts for reader_scan_is(), NULL-terminated. */
	const char *words[READER_SCAN_WORDS_MAX];
};

/* Columns in the requested order. */
struct reader_row {
	int64_t value[READER_SCAN_COLUMNS_MAX]; /* times: UTC ns; texts: their numbers; NULL: 0 */
	uint32_t null;				/* a bit each */
};

struct reader_scan;

/* scanning must outlive it. 0 or -ENOMEM. Call reader_scan_begin() next. */
int reader_scan_open(struct reader *reader, const struct reader_scanning *scanning, struct reader_scan **ret);
struct reader_scan *reader_scan_close(struct reader_scan *scan);
/* Restarts: rows with a time (the table's first time column) of at least since_ns and below until_ns; INT64_MIN and
 * INT64_MAX: all rows. Lists the folder again. 0, or negative errno with the sentence. */
int reader_scan_begin(struct reader_scan *scan, int64_t since_ns, int64_t until_ns, char *error, size_t error_size);
/* 1: a row; 0: end; or negative errno, which ends the scan. */
int reader_scan_next(struct reader_scan *scan);
/* The sentence of a failure. */
void reader_scan_error(const struct reader_scan *scan, char *error, size_t error_size);
/* The present row. */
const struct reader_row *reader_scan_row(const struct reader_scan *scan);
/* Text of a column, or NULL. Valid until any scan of the reader advances. */
const char *reader_scan_text(struct reader_scan *scan, size_t column);

/* The text of a column equals words[word]; cheaper than reader_scan_text(). */
bool reader_scan_is(const struct reader_scan *scan, size_t column, size_t word);

static inline bool reader_row_has(const struct reader_row *row, size_t column)
{
	return !(row->null & 1U << column);
}

#endif
