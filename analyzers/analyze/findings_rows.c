/* SPDX-License-Identifier: Apache-2.0 */
/* See findings_rows.h. What a row holds is not trusted: texts may hold any bytes, and evidence no JSON. */
#include "analyzers/analyze/findings_rows.h"
#include "analyzers/base/text.h"
#include "analyzers/finding/finding.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *findings_row_text(const char *text)
{
	char *copy = strdup(text);
	json_t *json = copy ? json_string(text_clean(copy)) : NULL;

	free(copy);
	return json ? json : json_null();
}

static void findings_rows_clean(json_t *piece)
{
	const char *key;
	json_t *value;

	json_object_foreach(piece, key, value) if (json_is_string(value))
		json_object_set_new(piece, key, findings_row_text(json_string_value(value)));
}

static json_t *findings_rows_evidence_of(const char *text)
{
	json_t *json = json_loads(text, 0, NULL), *piece;
	size_t i;

	if (!json_is_array(json)) {
		json_decref(json);
		return json_array();
	}
	json_array_foreach(json, i, piece)
	{
		const char *name = json_string_value(json_object_get(piece, "name"));

		if (name && strcmp(name, finding_evidence_name(name)) != 0)
			json_object_set_new(piece, "name", json_string(finding_evidence_name(name)));
		findings_rows_clean(piece);
	}
	return json;
}

static json_t *findings_rows_value_of(sqlite3_stmt *statement, int column)
{
	const char *name = sqlite3_column_name(statement, column);
	double real;

	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_INTEGER:
		return json_integer(sqlite3_column_int64(statement, column));
	case SQLITE_FLOAT:
		real = sqlite3_column_double(statement, column);
		return isfinite(real) ? json_real(real) : json_null();
	case SQLITE_TEXT:
		if (strcmp(name, "evidence") == 0)
			return findings_rows_evidence_of((const char *)sqlite3_column_text(statement, column));
		return findings_row_text((const char *)sqlite3_column_text(statement, column));
	default:
		return json_null();
	}
}

bool findings_row_is_wanted(const struct findings_filter *filter, const json_t *row)
{
	const json_t *rank = json_object_get(row, "rank");
	const char *job = json_string_value(json_object_get(row, "job"));

	if (filter->job && (!job || strcmp(job, filter->job) != 0))
		return false;
	return !filter->ranks.count ||
	       (json_is_integer(rank) && ranges_have(&filter->ranks, json_integer_value(rank))) ||
	       ranges_meet(&filter->ranks, json_string_value(json_object_get(row, "others")));
}

static json_t *findings_rows_row_of(sqlite3_stmt *statement)
{
	json_t *row = json_object();

	for (int i = 0; i < sqlite3_column_count(statement); i++)
		json_object_set_new(row, sqlite3_column_name(statement, i), findings_rows_value_of(statement, i));
	return row;
}

json_t *findings_rows(struct reader *reader, const struct findings_filter *filter, char *error, size_t error_size)
{
	sqlite3_stmt *statement = NULL;
	json_t *rows = json_array();
	char sql[256];
	int rc;

	snprintf(sql, sizeof(sql),
		"SELECT * FROM findings WHERE (until_ns IS NULL OR until_ns >= %" PRIu64
		")%s%s ORDER BY since_ns, finding",
		filter->since_ns, filter->all ? "" : " AND state IN ('open', 'closed')",
		filter->hangs ? " AND kind IN ('hang', 'mismatch')" : "");
	if (!rows || reader_prepare(reader, sql, &statement, error, error_size) < 0) {
		json_decref(rows);
		return NULL;
	}
	while ((rc = sqlite3_step(statement)) == SQLITE_ROW && json_array_size(rows) < FINDINGS_ROWS_MAX) {
		json_t *row = findings_rows_row_of(statement);

		if (findings_row_is_wanted(filter, row))
			json_array_append_new(rows, row);
		else
			json_decref(row);
	}
	if (rc != SQLITE_DONE && rc != SQLITE_ROW) {
		reader_error(reader, error, error_size);
		json_decref(rows);
		rows = NULL;
	}
	sqlite3_finalize(statement);
	return rows;
}

/*
 * The row of "SELECT ... WHERE ..." since the filter's time, of its ranks and job; of_any: rows without a rank count
 * for all. The caller finalizes. -EINVAL, -EIO with the sentence in error.
 */
static int findings_select(struct reader *reader, const struct findings_filter *filter, const char *select, bool of_any,
	sqlite3_stmt **ret, char *error, size_t error_size)
{
	char sql[512 + RANGES_MAX * 64];
	size_t used = (size_t)snprintf(sql, sizeof(sql), "%s start_ns >= %" PRIu64, select, filter->since_ns);

	for (size_t i = 0; i < filter->ranks.count; i++)
		used += (size_t)snprintf(sql + used, sizeof(sql) - used, "%s rank BETWEEN %" PRId64 " AND %" PRId64,
			i	 ? " OR"
			: of_any ? " AND (rank IS NULL OR"
				 : " AND (",
			filter->ranks.range[i].first, filter->ranks.range[i].last);
	if (filter->ranks.count)
		used += (size_t)snprintf(sql + used, sizeof(sql) - used, ")");
	if (filter->job)
		(void)snprintf(sql + used, sizeof(sql) - used,
			" AND (%sinstance IN (SELECT instance FROM ranks WHERE job = ?))",
			of_any ? "instance IS NULL OR " : "");
	if (reader_prepare(reader, sql, ret, error, error_size) < 0)
		return -EINVAL;
	if (filter->job)
		sqlite3_bind_text(*ret, 1, filter->job, -1, SQLITE_STATIC);
	if (sqlite3_step(*ret) == SQLITE_ROW)
		return 0;
	reader_error(reader, error, error_size);
	return -EIO;
}

int findings_watched(struct reader *reader, const struct findings_filter *filter, struct findings_watched *ret,
	char *error, size_t error_size)
{
	sqlite3_stmt *statement = NULL;
	int r = findings_select(reader, filter,
		"SELECT min(start_ns), max(start_ns + duration_ns), count(DISTINCT instance) FROM host_samples WHERE",
		false, &statement, error, error_size);

	if (r == 0)
		*ret = (struct findings_watched){
			.first_ns = (uint64_t)sqlite3_column_int64(statement, 0),
			.last_ns = (uint64_t)sqlite3_column_int64(statement, 1),
			.ranks = (uint64_t)sqlite3_column_int64(statement, 2),
			.chosen = filter->ranks.count > 0 || filter->job,
			.job = filter->job,
			.only_them = true,
		};
	sqlite3_finalize(statement);
	return r;
}

int findings_lost(
	struct reader *reader, const struct findings_filter *filter, uint64_t *ret, char *error, size_t error_size)
{
	sqlite3_stmt *statement = NULL;
	int r = findings_select(
		reader, filter, "SELECT sum(count) FROM drops WHERE", true, &statement, error, error_size);

	if (r == 0)
		*ret = (uint64_t)sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return r;
}
