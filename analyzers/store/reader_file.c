/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to single segments. A segment may be in use, left by a crash, damaged, malicious, or removed at any time.
 */
#include "analyzers/store/reader_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void file_path(const struct reader *reader, const struct reader_file *file, char *ret, size_t size)
{
	char name[SEGMENT_NAME_BYTES] = "";

	(void)segment_name_format(&file->name, name, sizeof(name));
	snprintf(ret, size, "%s/%s", reader->dir, name);
}

static void reader_file_warn(struct reader *reader, struct reader_file *file, const char *why)
{
	char path[PATH_MAX], sentence[PATH_MAX + 256];

	file_path(reader, file, path, sizeof(path));
	if (file->warned || !reader->options.warning || access(path, F_OK) < 0)
		return;
	file->warned = true;
	snprintf(sentence, sizeof(sentence), "%s cannot be read (%s); its rows are left out", path, why);
	reader->options.warning(reader->options.arg, sentence);
}

bool reader_file_leave_out(struct reader *reader, struct reader_file *file, int rc)
{
	static const struct {
		int rc;
		bool for_good;
		const char *why;
	} reasons[] = {
		{SQLITE_MISMATCH, false, "written by a newer version"},
		{SQLITE_AUTH, true, "a table of it is none that ranktrace writes"},
		{SQLITE_INTERRUPT, true, "reading it takes too long"},
	};

	if (rc == SQLITE_NOMEM || (rc == SQLITE_INTERRUPT && reader->late))
		return false;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (rc == reasons[i].rc) {
			file->left_out = reasons[i].for_good;
			reader_file_warn(reader, file, reasons[i].why);
			return true;
		}
	reader_file_warn(reader, file, sqlite3_errstr(rc));
	return true;
}

static int pragma_int(sqlite3 *db, const char *sql, int64_t *ret)
{
	sqlite3_stmt *statement = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(statement);
	if (rc == SQLITE_ROW) {
		*ret = sqlite3_column_int64(statement, 0);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(statement);
	return rc;
}

static int reader_file_open_at(struct reader_connection *connection, const char *path, const char *uri, sqlite3 **ret)
{
	sqlite3 *db = NULL;
	int64_t version = 0;
	int rc;

	rc = sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
	if (!db)
		return SQLITE_NOMEM;
	sqlite3_busy_timeout(db, 1000);
	if (rc == SQLITE_OK)
		rc = reader_guard_open(connection, db, path);
	if (rc == SQLITE_OK && connection->reader->options.connections_max)
		rc = sqlite3_exec(db, "PRAGMA cache_size=-256", NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = pragma_int(db, "PRAGMA user_version", &version);
	if (rc == SQLITE_OK && version > SCHEMA_VERSION)
		rc = SQLITE_MISMATCH;
	if (rc == SQLITE_OK)
		rc = reader_guard_close_off(db);
	if (rc != SQLITE_OK) {
		sqlite3_close(db);
		return rc;
	}
	*ret = db;
	return SQLITE_OK;
}

/* Escapes URI characters. */
static void make_uri(const char *path, const char *query, char *ret, size_t size)
{
	size_t used = (size_t)snprintf(ret, size, "file:");

	for (; *path && used + 4 < size; path++)
		used += (size_t)snprintf(
			ret + used, size - used, strchr("%?#", *path) ? "%%%02X" : "%c", (unsigned)*path);
	snprintf(ret + used, size - used, "?%s", query);
}

static int reader_file_open_file(struct reader_connection *connection, const struct reader_file *file, sqlite3 **ret)
{
	char path[PATH_MAX], wal[PATH_MAX + 8], uri[3 * PATH_MAX + 64];
	struct stat st;
	int rc;

	file_path(connection->reader, file, path, sizeof(path));
	/* Opening a pipe would block. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return SQLITE_NOTADB;
	make_uri(path, "mode=ro", uri, sizeof(uri));
	rc = reader_file_open_at(connection, path, uri, ret);
	if ((rc & 0xff) != SQLITE_CANTOPEN && (rc & 0xff) != SQLITE_READONLY)
		return rc;
	/* SQLite cannot open a WAL-mode file that has no -shm in a read-only folder. Without a WAL it is complete and
	 * immutable. */
	snprintf(wal, sizeof(wal), "%s-wal", path);
	if (access(path, R_OK) < 0 || access(wal, F_OK) == 0)
		return rc;
	make_uri(path, "mode=ro&immutable=1", uri, sizeof(uri));
	return reader_file_open_at(connection, path, uri, ret);
}

static struct reader_connection *reader_file_free_connection(struct reader *reader)
{
	unsigned max = reader->options.connections_max;
	struct reader_connection *oldest = NULL;

	if (!max || max > READER_CONNECTIONS_MAX)
		max = READER_CONNECTIONS_MAX;
	for (size_t i = 0; i < max; i++) {
		struct reader_connection *at = &reader->connections[i];

		if (!at->db)
			return at;
		if (!at->users && (!oldest || at->used_at < oldest->used_at))
			oldest = at;
	}
	if (oldest) {
		reader_texts_close(oldest->texts);
		sqlite3_close(oldest->db);
		*oldest = (struct reader_connection){0};
	}
	return oldest;
}

int reader_file_acquire(struct reader *reader, struct reader_file *file, struct reader_connection **ret)
{
	struct reader_connection *place = NULL;
	int rc;

	if (file->left_out)
		return SQLITE_EMPTY;
	for (size_t i = 0; i < READER_CONNECTIONS_MAX && !place; i++)
		if (reader->connections[i].db && reader->connections[i].number == file->name.number)
			place = &reader->connections[i];
	if (!place) {
		place = reader_file_free_connection(reader);
		if (!place) /* all connections are in use */
			return SQLITE_NOMEM;
		place->reader = reader;
		rc = reader_file_open_file(place, file, &place->db);
		if (rc != SQLITE_OK)
			return reader_file_leave_out(reader, file, rc) ? SQLITE_EMPTY : rc;
		place->number = file->name.number;
	}
	/* One snapshot for all users. */
	if (place->users++ == 0)
		(void)sqlite3_exec(place->db, "BEGIN", NULL, NULL, NULL);
	place->used_at = ++reader->uses;
	reader_guard_restart(place);
	*ret = place;
	return SQLITE_OK;
}

void reader_file_release(struct reader_connection *connection)
{
	if (connection && --connection->users == 0)
		(void)sqlite3_exec(connection->db, "COMMIT", NULL, NULL, NULL);
}

void reader_files_close(struct reader *reader)
{
	for (size_t i = 0; i < READER_CONNECTIONS_MAX; i++) {
		reader_texts_close(reader->connections[i].texts);
		sqlite3_close(reader->connections[i].db);
		reader->connections[i] = (struct reader_connection){0};
	}
}

size_t reader_time_column(const struct schema_table *table)
{
	size_t at = 0;

	while (at < schema_columns(table) && table->columns[at].type != SCHEMA_TIME)
		at++;
	return at;
}

enum reader_span reader_file_span(sqlite3 *db, const struct schema_table *table, int64_t low_ns, int64_t high_ns)
{
	enum reader_span span = READER_SPAN_UNKNOWN;
	sqlite3_stmt *statement = NULL;

	if (low_ns == INT64_MIN && high_ns == INT64_MAX)
		return READER_SPAN_WITHIN;
	if (sqlite3_prepare_v2(db, "SELECT oldest_ns, newest_ns FROM spans WHERE name=?1", -1, &statement, NULL) !=
		SQLITE_OK)
		return span;
	sqlite3_bind_text(statement, 1, table->name, -1, SQLITE_STATIC);
	if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) == SQLITE_INTEGER &&
		sqlite3_column_type(statement, 1) == SQLITE_INTEGER) {
		int64_t oldest_ns = sqlite3_column_int64(statement, 0), newest_ns = sqlite3_column_int64(statement, 1);

		if (newest_ns < low_ns || oldest_ns > high_ns)
			span = READER_SPAN_OUTSIDE;
		else
			span = oldest_ns >= low_ns && newest_ns < high_ns ? READER_SPAN_WITHIN : READER_SPAN_ACROSS;
	}
	sqlite3_finalize(statement);
	return span;
}

int reader_file_base(sqlite3 *db, int64_t *ret)
{
	sqlite3_stmt *statement = NULL;
	int rc = sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key='base_ns'", -1, &statement, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(statement);
	if (rc == SQLITE_ROW && sqlite3_column_type(statement, 0) == SQLITE_INTEGER) {
		*ret = sqlite3_column_int64(statement, 0);
		rc = SQLITE_OK;
	} else if (rc == SQLITE_ROW || rc == SQLITE_DONE) {
		rc = SQLITE_CORRUPT;
	}
	sqlite3_finalize(statement);
	return rc;
}

struct columns {
	const struct schema_table *table;
	uint64_t there;
};

static void reader_file_take_column(void *arg, const char *name)
{
	struct columns *columns = arg;
	int at = schema_column_find(columns->table, name);

	if (at >= 0)
		columns->there |= 1ULL << at;
}

int reader_file_columns(sqlite3 *db, const struct schema_table *table, uint64_t *ret)
{
	struct columns columns = {.table = table};
	char name[64];
	int rc;

	snprintf(name, sizeof(name), "%s_raw", table->name);
	rc = reader_guard_table(db, name, reader_file_take_column, &columns);
	if (rc == SQLITE_OK)
		*ret = columns.there;
	return rc;
}

void reader_file_add_column(
	sqlite3_str *sql, const struct schema_table *table, uint64_t there, size_t i, int64_t base_ns)
{
	const char *name = schema_column_in(table, there, i);

	if (!name)
		sqlite3_str_appendall(sql, "NULL");
	else if (table->columns[i].type == SCHEMA_TIME)
		sqlite3_str_appendf(sql, "r.\"%w\"+%lld", name, (long long)base_ns);
	else if (table->columns[i].type == SCHEMA_TEXT)
		sqlite3_str_appendf(sql, "(SELECT text FROM texts WHERE id=r.\"%w\")", name);
	else
		sqlite3_str_appendf(sql, "r.\"%w\"", name);
}

int reader_file_select(
	sqlite3 *db, const struct schema_table *table, uint64_t wanted, const char *where, sqlite3_stmt **ret)
{
	int64_t base_ns = 0;
	sqlite3_str *sql;
	uint64_t there;
	char *text;
	int rc;

	rc = reader_file_columns(db, table, &there);
	if (rc == SQLITE_OK)
		rc = reader_file_base(db, &base_ns);
	if (rc != SQLITE_OK)
		return rc;
	sql = sqlite3_str_new(db);
	for (size_t i = 0; i < schema_columns(table); i++)
		if (wanted & (1ULL << i) && schema_column_in(table, there, i))
			sqlite3_str_appendf(sql, "%s\"%w\"", i ? "," : "SELECT ", table->columns[i].name);
		else
			sqlite3_str_appendf(sql, "%sNULL", i ? "," : "SELECT ");
	/* The file's own view of that name is not used. A missing column is NULL, also in comparisons. */
	for (size_t i = 0; i < schema_columns(table); i++) {
		sqlite3_str_appendall(sql, i ? "," : " FROM (SELECT ");
		reader_file_add_column(sql, table, there, i, base_ns);
		sqlite3_str_appendf(sql, " AS \"%w\"", table->columns[i].name);
	}
	sqlite3_str_appendf(sql, " FROM \"%w_raw\" AS r)%s", table->name, where);
	text = sqlite3_str_finish(sql);
	if (!text)
		return SQLITE_NOMEM;
	rc = sqlite3_prepare_v2(db, text, -1, ret, NULL);
	sqlite3_free(text);
	return rc;
}
