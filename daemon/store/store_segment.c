/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One open segment: its prepared statements, interned texts and the span of its rows. Knows nothing of other segments.
 */
#include "daemon/store/store_internal.h"

#include <sys/statvfs.h>

#include "daemon/base/log.h"

#define SHORT_BYTES (16UL << 20) /* a disk with less counts as full */

static const char *const statements[] = {
	"BEGIN IMMEDIATE",
	"COMMIT",
	"ROLLBACK",
	"SELECT id FROM texts WHERE text=?1",
	"INSERT INTO texts(text) VALUES(?1)",
	"INSERT OR REPLACE INTO spans VALUES(?1,?2,?3)",
	"INSERT OR REPLACE INTO instances VALUES(?1,?2,?3,?4,?5)",
};

/* Where the error of the system says so, or, as what SQLite does after a failure may hide it, the file system does. */
static bool segment_disk_is_full(sqlite3 *db)
{
	int e = db ? sqlite3_system_errno(db) : 0;
	const char *path = db ? sqlite3_db_filename(db, "main") : NULL;
	struct statvfs fs;

	if (e == ENOSPC || e == EDQUOT)
		return true;
	if (!path || statvfs(path, &fs) < 0)
		return false;
	return (uint64_t)fs.f_bavail * fs.f_frsize < SHORT_BYTES || (fs.f_files && !fs.f_favail);
}

int segment_error(sqlite3 *db, int rc)
{
	if (rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW)
		return 0;
	switch (rc & 0xff) {
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_FORMAT:
		return -EBADMSG;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EAGAIN;
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		return segment_disk_is_full(db) ? -ENOSPC : -EIO;
	}
	return -EIO;
}

static int store_segment_run(sqlite3 *db, const char *sql)
{
	return segment_error(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
}

static int step_once(struct segment *segment, sqlite3_stmt *statement)
{
	int rc = sqlite3_step(statement);
	int r = segment_error(segment->db, rc);

	sqlite3_reset(statement);
	return r;
}

static int read_int(sqlite3 *db, const char *sql, int64_t *ret)
{
	sqlite3_stmt *statement = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(statement);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return rc == SQLITE_DONE ? -ENODATA : segment_error(db, rc);
}

static int store_segment_create(struct segment *segment)
{
	char sql[SCHEMA_SQL_BYTES], meta[512];
	int r;

	r = schema_create_sql(segment->name.tier, segment->name.base_ns, sql, sizeof(sql));
	if (r < 0)
		return r;
	snprintf(meta, sizeof(meta),
		"PRAGMA application_id=%d; PRAGMA user_version=%d;"
		"INSERT OR REPLACE INTO meta VALUES('base_ns',%lld),('tier','%s'),('version','%s')",
		SCHEMA_APPLICATION_ID, SCHEMA_VERSION, (long long)segment->name.base_ns,
		schema_tier_names[segment->name.tier], RANKTRACE_VERSION);
	r = store_segment_run(segment->db, "BEGIN IMMEDIATE");
	if (r == 0)
		r = store_segment_run(segment->db, sql);
	if (r == 0)
		r = store_segment_run(segment->db, meta);
	if (r == 0)
		r = store_segment_run(segment->db, "COMMIT");
	return r;
}

/* Is it ours, whole, and of the schema that we write? */
static int store_segment_check(struct segment *segment)
{
	int64_t application = 0, version = 0, base_ns = 0;
	sqlite3_stmt *statement = NULL;
	char sql[SCHEMA_SQL_BYTES];
	bool sound = false;
	int r, rc;

	r = read_int(segment->db, "PRAGMA application_id", &application);
	if (r == 0)
		r = read_int(segment->db, "PRAGMA user_version", &version);
	if (r < 0)
		return r;
	if (application != SCHEMA_APPLICATION_ID)
		return -EBADMSG;
	if (version != SCHEMA_VERSION)
		return -ESTALE;
	rc = sqlite3_prepare_v2(segment->db, "PRAGMA quick_check(1)", -1, &statement, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(statement);
	if (rc == SQLITE_ROW)
		sound = sqlite3_column_text(statement, 0) &&
			streq((const char *)sqlite3_column_text(statement, 0), "ok");
	sqlite3_finalize(statement);
	if (rc != SQLITE_ROW)
		return segment_error(segment->db, rc);
	if (!sound)
		return -EBADMSG;
	r = read_int(segment->db, "SELECT value FROM meta WHERE key='base_ns'", &base_ns);
	if (r < 0)
		return -EBADMSG;
	segment->name.base_ns = base_ns;
	/* A table that a newer build added to the schema. */
	r = schema_create_sql(segment->name.tier, base_ns, sql, sizeof(sql));
	return r < 0 ? r : store_segment_run(segment->db, sql);
}

static int load_spans(struct segment *segment)
{
	sqlite3_stmt *statement = NULL;
	int rc = sqlite3_prepare_v2(segment->db, "SELECT name, oldest_ns, newest_ns FROM spans", -1, &statement, NULL);

	if (rc == SQLITE_OK)
		while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
			const char *name = (const char *)sqlite3_column_text(statement, 0);

			for (size_t i = 0; name && i < TABLE_MAX; i++)
				if (streq(schema_tables[i].name, name))
					segment->spans[i] = (struct span){sqlite3_column_int64(statement, 1),
						sqlite3_column_int64(statement, 2), true, false};
		}
	sqlite3_finalize(statement);
	return segment_error(segment->db, rc);
}

static int store_segment_prepare(struct segment *segment)
{
	sqlite3_stmt **const places[] = {&segment->begin, &segment->commit, &segment->rollback, &segment->text_find,
		&segment->text_add, &segment->span_put, &segment->instance_put};
	int rc;

	_Static_assert(ARRAY_SIZE(places) == ARRAY_SIZE(statements), "one place a statement");
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		rc = sqlite3_prepare_v3(segment->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT, places[i], NULL);
		if (rc != SQLITE_OK)
			return segment_error(segment->db, rc);
	}
	for (size_t i = 0; i < TABLE_MAX; i++) {
		char sql[1024];
		int r;

		if (!schema_in_tier(&schema_tables[i], segment->name.tier))
			continue;
		r = schema_insert_sql(&schema_tables[i], sql, sizeof(sql));
		if (r < 0)
			return r;
		rc = sqlite3_prepare_v3(segment->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &segment->insert[i], NULL);
		if (rc != SQLITE_OK)
			return segment_error(segment->db, rc);
	}
	return 0;
}

static void segment_finalize(struct segment *segment)
{
	sqlite3_finalize(segment->begin);
	sqlite3_finalize(segment->commit);
	sqlite3_finalize(segment->rollback);
	sqlite3_finalize(segment->text_find);
	sqlite3_finalize(segment->text_add);
	sqlite3_finalize(segment->span_put);
	sqlite3_finalize(segment->instance_put);
	for (size_t i = 0; i < TABLE_MAX; i++)
		sqlite3_finalize(segment->insert[i]);
}

static struct segment *segment_free(struct segment *segment)
{
	if (!segment)
		return NULL;
	segment_finalize(segment);
	sqlite3_close(segment->db);
	texts_free(&segment->texts);
	free(segment);
	return NULL;
}

static void unlink_all(const char *path)
{
	char name[PATH_MAX + 8];

	(void)unlink(path);
	snprintf(name, sizeof(name), "%s-wal", path);
	(void)unlink(name);
	snprintf(name, sizeof(name), "%s-shm", path);
	(void)unlink(name);
}

static int open_database(const char *path, bool fresh, sqlite3 **ret)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (fresh ? SQLITE_OPEN_CREATE : 0);
	sqlite3 *db = NULL;
	int rc, r;

	rc = sqlite3_open_v2(path, &db, flags, NULL);
	if (!db)
		return -ENOMEM;
	sqlite3_extended_result_codes(db, 1);
	r = segment_error(db, rc);
	if (r == 0) {
		sqlite3_busy_timeout(db, 200);
		sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
		sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
		/* An empty file is worth no sync; segment_open() turns them on. */
		r = store_segment_run(db, fresh ? "PRAGMA synchronous=OFF" : "PRAGMA synchronous=NORMAL");
		if (r == 0)
			r = store_segment_run(db, "PRAGMA journal_mode=WAL; PRAGMA temp_store=MEMORY;"
						  "PRAGMA cache_size=-4096; PRAGMA journal_size_limit=4194304");
	}
	if (r < 0) {
		sqlite3_close(db);
		return r;
	}
	*ret = db;
	return 0;
}

int segment_open(const char *path, const struct segment_name *name, bool fresh, struct segment **ret)
{
	struct segment *segment = calloc(1, sizeof(*segment));
	int r;

	if (!segment)
		return -ENOMEM;
	segment->name = *name;
	(void)copy_text(segment->path, sizeof(segment->path), path);
	r = open_database(path, fresh, &segment->db);
	if (r == 0)
		r = fresh ? store_segment_create(segment) : store_segment_check(segment);
	if (r == 0)
		r = store_segment_run(segment->db, "PRAGMA synchronous=NORMAL");
	if (r == 0)
		r = store_segment_prepare(segment);
	if (r == 0)
		r = load_spans(segment);
	if (r < 0) {
		segment_free(segment);
		if (fresh)
			unlink_all(path);
		return r;
	}
	*ret = segment;
	return 0;
}

/* A reader may hold the file: its -wal is left then, and segment_tidy() removes it at the next start. */
static int store_segment_settle(sqlite3 *db)
{
	(void)sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	return store_segment_run(db, "PRAGMA journal_mode=DELETE");
}

struct segment *segment_close(struct segment *segment)
{
	if (!segment)
		return NULL;
	segment_finalize(segment);
	if (store_segment_settle(segment->db) < 0)
		log_debug("store", "%s is being read or the disk is full; leaving its write-ahead log beside it",
			segment->path);
	sqlite3_close(segment->db);
	texts_free(&segment->texts);
	free(segment);
	return NULL;
}

int segment_tidy(const char *path)
{
	sqlite3 *db = NULL;
	int r;

	r = open_database(path, false, &db);
	if (r < 0)
		return r;
	r = store_segment_settle(db);
	sqlite3_close(db);
	return r;
}

int segment_begin(struct segment *segment)
{
	return step_once(segment, segment->begin);
}

static int store_segment_intern(struct segment *segment, const char *text, int64_t *ret)
{
	int rc;

	if (texts_find(&segment->texts, text, ret))
		return 0;
	sqlite3_bind_text(segment->text_find, 1, text, -1, SQLITE_STATIC);
	rc = sqlite3_step(segment->text_find);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(segment->text_find, 0);
	sqlite3_reset(segment->text_find);
	if (rc == SQLITE_DONE) {
		int r;

		sqlite3_bind_text(segment->text_add, 1, text, -1, SQLITE_STATIC);
		r = step_once(segment, segment->text_add);
		if (r < 0)
			return r;
		*ret = sqlite3_last_insert_rowid(segment->db);
	} else if (rc != SQLITE_ROW) {
		return segment_error(segment->db, rc);
	}
	texts_add(&segment->texts, text, *ret);
	return 0;
}

/* The first TIME column is what readers leave whole segments out by. */
static void store_segment_widen(struct span *span, int64_t utc_ns)
{
	if (!span->set || utc_ns < span->oldest_ns) {
		span->oldest_ns = utc_ns;
		span->dirty = true;
	}
	if (!span->set || utc_ns > span->newest_ns) {
		span->newest_ns = utc_ns;
		span->dirty = true;
	}
	span->set = true;
}

static int store_segment_bind(struct segment *segment, sqlite3_stmt *insert, int at, const struct schema_column *column,
	const struct store_value *value)
{
	int64_t id = 0;
	int r;

	switch (value->type) {
	case STORE_NULL:
		return sqlite3_bind_null(insert, at) == SQLITE_OK ? 0 : -EIO;
	case STORE_REAL:
		return sqlite3_bind_double(insert, at, value->real) == SQLITE_OK ? 0 : -EIO;
	case STORE_TEXT:
		r = store_segment_intern(segment, value->text, &id);
		if (r < 0)
			return r;
		return sqlite3_bind_int64(insert, at, id) == SQLITE_OK ? 0 : -EIO;
	case STORE_INT:
		id = value->integer;
		if (column->type == SCHEMA_TIME && __builtin_sub_overflow(id, segment->name.base_ns, &id))
			id = INT64_MIN;
		return sqlite3_bind_int64(insert, at, id) == SQLITE_OK ? 0 : -EIO;
	}
	return -EINVAL;
}

int segment_insert(struct segment *segment, enum schema_id table, const struct store_value *values, size_t count)
{
	const struct schema_column *columns = schema_tables[table].columns;
	sqlite3_stmt *insert = segment->insert[table];
	bool timed = false;
	int r;

	for (size_t i = 0; i < count; i++) {
		r = store_segment_bind(segment, insert, (int)i + 1, &columns[i], &values[i]);
		if (r < 0)
			return r;
		if (!timed && columns[i].type == SCHEMA_TIME) {
			timed = true;
			if (values[i].type == STORE_INT)
				store_segment_widen(&segment->spans[table], values[i].integer);
		}
	}
	return step_once(segment, insert);
}

int segment_clear(struct segment *segment, enum schema_id table)
{
	char sql[128];

	snprintf(sql, sizeof(sql), "DELETE FROM \"%s_raw\"", schema_tables[table].name);
	return store_segment_run(segment->db, sql);
}

int segment_instance(struct segment *segment, int64_t instance, const char *boot_id, uint32_t pid,
	uint64_t start_time_ns, int64_t last_step)
{
	sqlite3_stmt *put = segment->instance_put;

	sqlite3_bind_int64(put, 1, instance);
	sqlite3_bind_text(put, 2, boot_id, -1, SQLITE_STATIC);
	sqlite3_bind_int64(put, 3, pid);
	sqlite3_bind_int64(put, 4, (int64_t)start_time_ns);
	sqlite3_bind_int64(put, 5, last_step);
	return step_once(segment, put);
}

static int write_spans(struct segment *segment)
{
	for (size_t i = 0; i < TABLE_MAX; i++) {
		struct span *span = &segment->spans[i];
		int r;

		if (!span->dirty)
			continue;
		sqlite3_bind_text(segment->span_put, 1, schema_tables[i].name, -1, SQLITE_STATIC);
		sqlite3_bind_int64(segment->span_put, 2, span->oldest_ns);
		sqlite3_bind_int64(segment->span_put, 3, span->newest_ns);
		r = step_once(segment, segment->span_put);
		if (r < 0)
			return r;
		span->dirty = false;
	}
	return 0;
}

int segment_commit(struct segment *segment)
{
	int r = write_spans(segment);

	if (r == 0)
		r = step_once(segment, segment->commit);
	if (r < 0)
		segment_rollback(segment);
	return r;
}

/* Texts added in the transaction are gone, and spans in memory are wider than those on disk: both are made good. */
void segment_rollback(struct segment *segment)
{
	if (!sqlite3_get_autocommit(segment->db))
		(void)step_once(segment, segment->rollback);
	texts_free(&segment->texts);
	for (size_t i = 0; i < TABLE_MAX; i++)
		segment->spans[i].dirty = segment->spans[i].set;
}
