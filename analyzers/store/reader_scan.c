/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans raw tables, one statement a segment. Columns arrive as arguments of our SQL function take_row(), at a third of
 * the cost of sqlite3_column_*(). The function is the WHERE condition, true only once ROWS rows are buffered, so that
 * SQLite advances by itself. See reader_scan.h.
 */
#include "analyzers/store/reader_scan.h"
#include "analyzers/base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/store/reader_internal.h"

#define NO_WORD INT64_MIN
#define ROWS 32 /* buffered */

struct reader_scan {
	struct reader_row row[ROWS];
	size_t rows, at; /* buffered rows; present one */
	int rows_rc;	 /* result that ended the buffering */
	size_t columns;
	uint32_t times; /* columns of times, a bit each */
	bool texts;	/* has text columns */
	int64_t base_ns;
	int64_t word[READER_SCAN_WORDS_MAX]; /* numbers in the file, or NO_WORD */
	sqlite3_stmt *statement;	     /* NULL: between files */
	struct reader_connection *connection;
	struct reader_pass pass; /* over the present file */
	uint64_t number;	 /* of the present or last file; 0: none */
	int text_rc;		 /* error of a text lookup */
	int rc;			 /* result that ended the scan */
	bool over;
	int64_t since_ns, until_ns;
	struct reader *reader;
	const struct schema_table *schema;
	int column[READER_SCAN_COLUMNS_MAX]; /* of the schema */
	const char *const *words;
};

int reader_scan_open(struct reader *reader, const struct reader_scanning *scanning, struct reader_scan **ret)
{
	struct reader_scan *scan = calloc(1, sizeof(*scan));

	if (!scan)
		return -ENOMEM;
	scan->reader = reader;
	scan->schema = &schema_tables[scanning->table];
	scan->words = scanning->words;
	scan->over = true;
	for (size_t i = 0; i < READER_SCAN_COLUMNS_MAX && scanning->columns[i]; i++) {
		int column = schema_column_find(scan->schema, scanning->columns[i]);

		scan->column[scan->columns++] = column;
		if (column >= 0 && scan->schema->columns[column].type == SCHEMA_TIME)
			scan->times |= 1U << i;
		scan->texts |= column >= 0 && scan->schema->columns[column].type == SCHEMA_TEXT;
	}
	*ret = scan;
	return 0;
}

static void reader_scan_leave_file(struct reader_scan *scan)
{
	sqlite3_finalize(scan->statement);
	scan->statement = NULL;
	reader_file_release(scan->connection);
	scan->connection = NULL;
	scan->rows = scan->at = 0;
	scan->rows_rc = scan->text_rc = SQLITE_OK;
	scan->pass = (struct reader_pass){0};
}

struct reader_scan *reader_scan_close(struct reader_scan *scan)
{
	if (!scan)
		return NULL;
	reader_scan_leave_file(scan);
	free(scan);
	return NULL;
}

int reader_scan_begin(struct reader_scan *scan, int64_t since_ns, int64_t until_ns, char *error, size_t error_size)
{
	int r;

	reader_scan_leave_file(scan);
	scan->over = true;
	r = reader_list(scan->reader);
	if (r < 0) {
		snprintf(error, error_size, "cannot read the store in %s: %s", scan->reader->dir, strerror(-r));
		return r;
	}
	reader_start_clock(scan->reader);
	scan->over = false;
	scan->number = 0;
	scan->rc = SQLITE_OK;
	scan->since_ns = since_ns;
	scan->until_ns = until_ns;
	return 0;
}

/* A bound in raw times. */
static int64_t raw_time(const struct reader_scan *scan, int64_t time_ns)
{
	int64_t ret;

	if (time_ns == INT64_MIN || time_ns == INT64_MAX)
		return time_ns;
	if (__builtin_sub_overflow(time_ns, scan->base_ns, &ret))
		return time_ns < 0 ? INT64_MIN : INT64_MAX;
	return ret;
}

/* take_row(): buffers its arguments as a row. True: the buffer is full. */
static void reader_scan_take_row(sqlite3_context *context, int count, sqlite3_value **values)
{
	struct reader_connection *connection = sqlite3_user_data(context);
	struct reader_scan *scan = connection->scanning;
	struct reader_row *row;
	uint32_t null = 0;

	if (!scan || (size_t)count != scan->columns || scan->rows >= ROWS)
		return;
	row = &scan->row[scan->rows++];
	for (int i = 0; i < count; i++) {
		int64_t value = sqlite3_value_int64(values[i]);

		if (value == 0 && sqlite3_value_type(values[i]) == SQLITE_NULL)
			null |= 1U << i;
		else if (scan->times & 1U << i && __builtin_add_overflow(value, scan->base_ns, &value))
			value = scan->base_ns < 0 ? INT64_MIN : INT64_MAX;
		row->value[i] = value;
	}
	row->null = null;
	sqlite3_result_int(context, scan->rows == ROWS);
}

/* Missing columns are NULL. */
static char *make_sql(const struct reader_scan *scan, sqlite3 *db, uint64_t there, bool bounded)
{
	sqlite3_str *sql = sqlite3_str_new(db);
	size_t time = reader_time_column(scan->schema);
	const char *timed = time < schema_columns(scan->schema) ? schema_column_in(scan->schema, there, time) : NULL;

	bounded = bounded && timed;
	sqlite3_str_appendf(sql, "SELECT 1 FROM \"%w_raw\" WHERE ", scan->schema->name);
	/* CASE skips evaluation of other rows. */
	if (bounded)
		sqlite3_str_appendf(sql, "CASE WHEN \"%w\">=?1 AND \"%w\"<?2 THEN ", timed, timed);
	sqlite3_str_appendall(sql, "take_row(");
	for (size_t i = 0; i < scan->columns; i++) {
		int column = scan->column[i];
		const char *name = column >= 0 ? schema_column_in(scan->schema, there, (size_t)column) : NULL;

		if (name)
			sqlite3_str_appendf(sql, "%s\"%w\"", i ? "," : "", name);
		else
			sqlite3_str_appendf(sql, "%sNULL", i ? "," : "");
	}
	sqlite3_str_appendall(sql, bounded ? ") END" : ")");
	return sqlite3_str_finish(sql);
}

static int find_words(struct reader_scan *scan)
{
	sqlite3_stmt *statement = NULL;
	int rc = sqlite3_prepare_v2(scan->connection->db, "SELECT id FROM texts WHERE text=?1", -1, &statement, NULL);

	for (size_t i = 0; i < READER_SCAN_WORDS_MAX && scan->words[i] && rc == SQLITE_OK; i++) {
		sqlite3_bind_text(statement, 1, scan->words[i], -1, SQLITE_STATIC);
		rc = sqlite3_step(statement);
		scan->word[i] = rc == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : NO_WORD;
		rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
		sqlite3_reset(statement);
	}
	sqlite3_finalize(statement);
	return rc;
}

static int reader_scan_prepare(struct reader_scan *scan)
{
	sqlite3 *db = scan->connection->db;
	int rc = reader_file_base(db, &scan->base_ns);

	if (rc == SQLITE_OK && scan->texts)
		rc = reader_texts_open(scan->connection);
	if (rc == SQLITE_OK && scan->words[0])
		rc = find_words(scan);
	if (rc == SQLITE_OK && !scan->connection->takes)
		rc = sqlite3_create_function_v2(db, "take_row", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, scan->connection,
			reader_scan_take_row, NULL, NULL, NULL);
	scan->connection->takes |= rc == SQLITE_OK;
	return rc;
}

static int reader_scan_start(struct reader_scan *scan)
{
	sqlite3 *db = scan->connection->db;
	enum reader_span span = reader_file_span(db, scan->schema, scan->since_ns, scan->until_ns);
	uint64_t there;
	char *sql;
	int rc;

	if (span == READER_SPAN_OUTSIDE)
		return SQLITE_EMPTY;
	rc = reader_file_columns(db, scan->schema, &there);
	/* Without a time column no row is in the range. */
	if (rc == SQLITE_OK && span != READER_SPAN_WITHIN && !(there & (1ULL << reader_time_column(scan->schema))))
		return SQLITE_EMPTY;
	/* Of before the table. */
	if (rc == SQLITE_OK && !there)
		return SQLITE_EMPTY;
	if (rc == SQLITE_OK)
		rc = reader_scan_prepare(scan);
	if (rc != SQLITE_OK)
		return rc;
	sql = make_sql(scan, db, there, span != READER_SPAN_WITHIN);
	if (!sql)
		return SQLITE_NOMEM;
	rc = sqlite3_prepare_v2(db, sql, -1, &scan->statement, NULL);
	sqlite3_free(sql);
	if (rc == SQLITE_OK && span != READER_SPAN_WITHIN) {
		sqlite3_bind_int64(scan->statement, 1, raw_time(scan, scan->since_ns));
		sqlite3_bind_int64(scan->statement, 2, raw_time(scan, scan->until_ns));
	}
	return rc;
}

/* By number, because the list may change during a scan. */
static struct reader_file *file_after(const struct reader *reader, uint64_t number)
{
	size_t low = array_first_not(i, reader->files_count, reader->files[i].name.number <= number);

	return low < reader->files_count ? &reader->files[low] : NULL;
}

/* False: the error ends the scan. */
static bool reader_scan_leave_out(struct reader_scan *scan, int rc)
{
	struct reader_file *file = file_after(scan->reader, scan->number - 1);
	struct reader_file removed = {.warned = true};

	return reader_file_leave_out(scan->reader, file && file->name.number == scan->number ? file : &removed, rc);
}

static int reader_scan_next_file(struct reader_scan *scan)
{
	struct reader_file *file = file_after(scan->reader, scan->number);
	int rc;

	if (!file) {
		scan->over = true;
		return SQLITE_OK;
	}
	scan->number = file->name.number;
	if (!schema_in_tier(scan->schema, file->name.tier))
		return SQLITE_OK;
	rc = reader_file_acquire(scan->reader, file, &scan->connection);
	return rc == SQLITE_OK ? reader_scan_start(scan) : rc;
}

/* SQLITE_ROW: rows are buffered; or SQLite's result after the last one. */
static int read_rows(struct reader_scan *scan)
{
	int rc = scan->rows_rc;

	scan->rows = scan->at = 0;
	if (rc == SQLITE_OK) {
		scan->connection->scanning = scan;
		rc = reader_guard_step(scan->connection, &scan->pass, scan->statement);
		if (rc != SQLITE_ROW)
			scan->rows_rc = rc;
	}
	return scan->rows ? SQLITE_ROW : rc;
}

static int next_rows(struct reader_scan *scan)
{
	while (!scan->over) {
		int rc = scan->text_rc;

		if (rc == SQLITE_OK)
			rc = scan->statement ? read_rows(scan) : reader_scan_next_file(scan);
		if (rc == SQLITE_ROW)
			return 1;
		if (rc == SQLITE_OK)
			continue;
		reader_scan_leave_file(scan);
		if (rc == SQLITE_DONE || rc == SQLITE_EMPTY || reader_scan_leave_out(scan, rc))
			continue;
		scan->rc = rc;
		scan->over = true;
		return rc == SQLITE_NOMEM ? -ENOMEM : -EINTR;
	}
	return 0;
}

int reader_scan_next(struct reader_scan *scan)
{
	if (scan->connection && scan->connection->texts)
		reader_texts_tidy(scan->connection->texts);
	if (scan->at + 1 < scan->rows && scan->text_rc == SQLITE_OK) {
		scan->at++;
		return 1;
	}
	return next_rows(scan);
}

void reader_scan_error(const struct reader_scan *scan, char *error, size_t error_size)
{
	snprintf(error, error_size, "cannot read the store in %s: %s", scan->reader->dir, sqlite3_errstr(scan->rc));
}

const struct reader_row *reader_scan_row(const struct reader_scan *scan)
{
	return &scan->row[scan->at];
}

const char *reader_scan_text(struct reader_scan *scan, size_t column)
{
	const char *ret = NULL;
	int rc;

	if (scan->at >= scan->rows || scan->row[scan->at].null & 1U << column)
		return NULL;
	rc = reader_texts_find(scan->connection->texts, scan->row[scan->at].value[column], &ret);
	if (rc != SQLITE_OK)
		scan->text_rc = rc;
	return ret;
}

bool reader_scan_is(const struct reader_scan *scan, size_t column, size_t word)
{
	return scan->row[scan->at].value[column] == scan->word[word] && scan->word[word] != NO_WORD;
}
