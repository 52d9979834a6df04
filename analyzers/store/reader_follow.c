/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a log table. Log tables are append-only and raw rows are numbered from 1, so segment and row number are a
 * position independent of clocks. Reads the raw table, because views have no row numbers; results are those of the
 * view.
 */
#include "analyzers/store/reader_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct walk {
	const struct reader_following *following;
	const struct schema_table *schema;
	struct reader_place *place;
	uint64_t left; /* rows left in this call */
};

/* All rows of the segment are older than since_ns; false if unknown. */
static bool too_old(sqlite3 *db, const struct walk *walk)
{
	sqlite3_stmt *statement = NULL;
	bool old = false;

	if (!walk->following->since_ns ||
		sqlite3_prepare_v2(db, "SELECT newest_ns FROM spans WHERE name=?1", -1, &statement, NULL) != SQLITE_OK)
		return false;
	sqlite3_bind_text(statement, 1, walk->schema->name, -1, SQLITE_STATIC);
	if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) == SQLITE_INTEGER)
		old = sqlite3_column_int64(statement, 0) < (int64_t)walk->following->since_ns;
	sqlite3_finalize(statement);
	return old;
}

/* Row number, time, then the columns of the view. */
static int select_rows(sqlite3 *db, const struct schema_table *table, sqlite3_stmt **ret)
{
	const char *time = NULL;
	int64_t base_ns = 0;
	uint64_t there;
	sqlite3_str *sql;
	char *text;
	int rc = reader_file_columns(db, table, &there);

	if (rc == SQLITE_OK)
		rc = reader_file_base(db, &base_ns);
	if (rc != SQLITE_OK)
		return rc;
	sql = sqlite3_str_new(db);
	for (size_t i = 0; i < schema_columns(table); i++) {
		sqlite3_str_appendall(sql, ",");
		reader_file_add_column(sql, table, there, i, base_ns);
		if (!time && table->columns[i].type == SCHEMA_TIME)
			time = schema_column_in(table, there, i);
	}
	text = sqlite3_str_finish(sql);
	if (!text)
		return SQLITE_NOMEM;
	sql = sqlite3_str_new(db);
	sqlite3_str_appendf(sql, "SELECT r.rowid");
	if (time)
		sqlite3_str_appendf(sql, ",r.\"%w\"+%lld", time, (long long)base_ns);
	else
		sqlite3_str_appendf(sql, ",NULL");
	sqlite3_str_appendf(
		sql, "%s FROM \"%w_raw\" AS r WHERE r.rowid>?1 ORDER BY r.rowid LIMIT ?2", text, table->name);
	sqlite3_free(text);
	text = sqlite3_str_finish(sql);
	if (!text)
		return SQLITE_NOMEM;
	rc = sqlite3_prepare_v2(db, text, -1, ret, NULL);
	sqlite3_free(text);
	return rc;
}

/* SQLITE_DONE: end of the segment; SQLITE_ROW: stopped, with the result in *ret_stop. */
static int walk_rows(struct walk *walk, uint64_t segment, struct reader_connection *connection, sqlite3_stmt *statement,
	int *ret_stop)
{
	struct reader_pass pass = {0};
	int rc;

	while ((rc = reader_guard_step(connection, &pass, statement)) == SQLITE_ROW) {
		bool timed = sqlite3_column_type(statement, 1) == SQLITE_INTEGER;
		bool early = walk->following->since_ns && timed &&
			     sqlite3_column_int64(statement, 1) < (int64_t)walk->following->since_ns;

		*ret_stop = early ? 0 : walk->following->row(walk->following->arg, statement);
		if (*ret_stop < 0)
			return SQLITE_ROW;
		*walk->place = (struct reader_place){segment, sqlite3_column_int64(statement, 0)};
		if (--walk->left == 0) {
			*ret_stop = 1;
			return SQLITE_ROW;
		}
	}
	return rc;
}

static int walk_file(struct reader *reader, struct walk *walk, struct reader_file *file, int *ret_stop)
{
	struct reader_connection *connection = NULL;
	sqlite3_stmt *statement = NULL;
	uint64_t number = file->name.number;
	int rc = reader_file_acquire(reader, file, &connection);

	if (rc != SQLITE_OK)
		return rc;
	rc = too_old(connection->db, walk) ? SQLITE_EMPTY : select_rows(connection->db, walk->schema, &statement);
	if (rc == SQLITE_OK) {
		sqlite3_bind_int64(statement, 1, walk->place->segment == number ? walk->place->row : 0);
		sqlite3_bind_int64(statement, 2, walk->left < INT64_MAX ? (sqlite3_int64)walk->left : INT64_MAX);
		rc = walk_rows(walk, number, connection, statement, ret_stop);
	}
	sqlite3_finalize(statement);
	reader_file_release(connection);
	return rc;
}

/* All segments are older than the position: the store was recreated. */
static bool reader_follow_recreated(const struct reader *reader, const struct reader_place *place)
{
	for (size_t i = 0; i < reader->files_count; i++)
		if (reader->files[i].name.number >= place->segment)
			return false;
	return true;
}

int reader_follow(struct reader *reader, const struct reader_following *following, struct reader_place *place,
	char *error, size_t error_size)
{
	struct walk walk = {following, &schema_tables[following->table], place, following->rows_max};
	int r = reader_list(reader);

	if (r < 0) {
		snprintf(error, error_size, "cannot read the store in %s: %s", reader->dir, strerror(-r));
		return r;
	}
	reader->generation++;
	if (place->segment && reader_follow_recreated(reader, place))
		*place = (struct reader_place){0};
	for (size_t i = 0; i < reader->files_count; i++) {
		struct reader_file *file = &reader->files[i];
		int stop = 0, rc;

		if (file->name.number < place->segment || !schema_in_tier(walk.schema, file->name.tier))
			continue;
		rc = walk_file(reader, &walk, file, &stop);
		if (rc == SQLITE_ROW)
			return stop;
		if (rc == SQLITE_DONE || rc == SQLITE_EMPTY || reader_file_leave_out(reader, file, rc))
			continue;
		snprintf(error, error_size, "cannot read the store: %s", sqlite3_errstr(rc));
		return rc == SQLITE_NOMEM ? -ENOMEM : -EINTR;
	}
	return 0;
}
