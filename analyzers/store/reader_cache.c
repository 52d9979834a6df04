/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State tables and tables of the present are small and often joined: a statement reads them into memory once, oldest
 * segment first, so that the newest row of a key remains.
 */
#include "analyzers/store/reader_internal.h"

#include <stdio.h>

#define CACHE_ROWS_MAX 100000 /* a file; the store writes a few thousand */

static int prepare_cache(struct reader_table *table, sqlite3_stmt **ret)
{
	sqlite3 *cache = table->reader->cache;
	char sql[2048], insert[1024];
	int rc;

	/* Not dropped: a statement that reads another table of the cache would lock it. */
	if (sqlite3_table_column_metadata(cache, NULL, table->schema->name, NULL, NULL, NULL, NULL, NULL, NULL) ==
		SQLITE_OK)
		snprintf(sql, sizeof(sql), "DELETE FROM \"%s\"", table->schema->name);
	else if (schema_declare_sql(table->schema, sql, sizeof(sql)) < 0)
		return SQLITE_ERROR;
	rc = sqlite3_exec(cache, sql, NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_snprintf(sizeof(insert), insert, "INSERT OR REPLACE INTO \"%w\" VALUES(", table->schema->name);
	for (size_t i = 0, n = schema_columns(table->schema); i < n; i++) {
		char *end = insert;

		while (*end)
			end++;
		snprintf(end, sizeof(insert) - (size_t)(end - insert), "?%s", i + 1 < n ? "," : ")");
	}
	return sqlite3_prepare_v2(cache, insert, -1, ret, NULL);
}

/* The cache refuses non-integers in an integer key: an error of the file. */
static int copy_rows(struct reader_connection *connection, sqlite3_stmt *from, sqlite3_stmt *to)
{
	struct reader_pass pass = {0};
	size_t rows = 0;
	int rc;

	while ((rc = reader_guard_step(connection, &pass, from)) == SQLITE_ROW) {
		if (++rows > CACHE_ROWS_MAX)
			return SQLITE_TOOBIG;
		for (int i = 0; i < sqlite3_column_count(from); i++) {
			rc = sqlite3_bind_value(to, i + 1, sqlite3_column_value(from, i));
			if (rc != SQLITE_OK)
				return rc;
		}
		rc = sqlite3_step(to);
		sqlite3_reset(to);
		if (rc != SQLITE_DONE)
			return rc;
	}
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int load_file(struct reader_table *table, struct reader_file *file, sqlite3_stmt *to)
{
	struct reader_connection *connection = NULL;
	sqlite3_stmt *from = NULL;
	int rc;

	rc = reader_file_acquire(table->reader, file, &connection);
	if (rc == SQLITE_OK)
		rc = reader_file_select(connection->db, table->schema, UINT64_MAX, "", &from);
	if (rc == SQLITE_OK)
		rc = copy_rows(connection, from, to);
	sqlite3_finalize(from);
	reader_file_release(connection);
	if (rc == SQLITE_OK || rc == SQLITE_EMPTY || reader_file_leave_out(table->reader, file, rc))
		return SQLITE_OK;
	return rc;
}

static int reader_cache_tidy(struct reader_table *table)
{
	char sql[1024];

	if (table->schema->kind != SCHEMA_STATE)
		return SQLITE_OK;
	if (schema_tidy_sql(table->schema, sql, sizeof(sql)) < 0)
		return SQLITE_ERROR;
	return sqlite3_exec(table->reader->cache, sql, NULL, NULL, NULL);
}

int reader_cache_load(struct reader_table *table)
{
	struct reader *reader = table->reader;
	sqlite3_stmt *to = NULL;
	size_t first = 0;
	int rc;

	if (table->loaded == reader->generation)
		return SQLITE_OK;
	/* The present is in the newest segment of its tier. */
	if (table->schema->kind == SCHEMA_NOW)
		for (size_t i = 0; i < reader->files_count; i++)
			if (schema_in_tier(table->schema, reader->files[i].name.tier))
				first = i;
	rc = prepare_cache(table, &to);
	for (size_t i = first; rc == SQLITE_OK && i < reader->files_count; i++)
		if (schema_in_tier(table->schema, reader->files[i].name.tier))
			rc = load_file(table, &reader->files[i], to);
	sqlite3_finalize(to);
	if (rc == SQLITE_OK)
		rc = reader_cache_tidy(table);
	if (rc == SQLITE_OK)
		table->loaded = reader->generation;
	return rc;
}

int reader_cache_select(const struct reader_table *table, uint64_t wanted, const char *where, sqlite3_stmt **ret)
{
	sqlite3_str *sql = sqlite3_str_new(table->reader->cache);
	char *text;
	int rc;

	for (size_t i = 0; i < schema_columns(table->schema); i++)
		if (wanted & (1ULL << i))
			sqlite3_str_appendf(sql, "%s\"%w\"", i ? "," : "SELECT ", table->schema->columns[i].name);
		else
			sqlite3_str_appendf(sql, "%sNULL", i ? "," : "SELECT ");
	sqlite3_str_appendf(sql, " FROM \"%w\"%s", table->schema->name, where);
	text = sqlite3_str_finish(sql);
	if (!text)
		return SQLITE_NOMEM;
	rc = sqlite3_prepare_v2(table->reader->cache, text, -1, ret, NULL);
	sqlite3_free(text);
	return rc;
}
