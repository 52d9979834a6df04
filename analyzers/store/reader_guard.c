/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a segment may make SQLite do. A folder of another node, or of another user, may hold anything: nothing that the
 * file defines is run. Views, triggers, virtual tables and generated columns are off or refused; our own statements
 * read the raw tables, and the authorizer lets them read nothing else. Triggers need no check: nothing is written.
 */
#include "analyzers/store/reader_internal.h"
#include "analyzers/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* One pass over a file. Rows have some 50 bytes and take some 300 steps of SQLite's machine: 6 a byte. A tree of pages
 * may lead to one leaf on a million ways, and a table may lack its key: both take more. */
#define PASS_OPS (2 << 20)
#define PASS_OPS_PER_BYTE 100
/* A slow disk reads it, and a busy machine decodes it, in a fraction of that. */
#define PASS_NS (10 * NSEC_PER_SEC)
#define PASS_BYTES_PER_SEC (4ULL << 20)
#define PROGRESS_OPS 2000    /* between readings of the clock: below a millisecond */
#define TEXT_BYTES (1 << 20) /* the daemon writes at most 64 KiB */
#define SQL_BYTES (1 << 16)  /* of a statement, also one in the file's schema; ours are below 8 KiB */
#define COLUMNS 200	     /* of a table or a statement: SCHEMA_COLUMNS_MAX twice, and to spare */

/* Precise to some milliseconds, at a tenth of the cost: it is read twice a row. */
static uint64_t guard_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC_COARSE);
}

static int guard_progress(void *arg)
{
	struct reader_connection *connection = arg;

	connection->pass->ops += PROGRESS_OPS;
	return reader_progress(connection->reader) || connection->pass->ops > connection->ops_max ||
	       guard_now_ns() >= connection->end_ns;
}

void reader_guard_restart(struct reader_connection *connection)
{
	connection->others = (struct reader_pass){0};
	connection->pass = &connection->others;
	connection->end_ns = guard_now_ns() + connection->pass_ns;
}

int reader_guard_step(struct reader_connection *connection, struct reader_pass *pass, sqlite3_stmt *statement)
{
	uint64_t start_ns = guard_now_ns();
	int rc;

	connection->pass = pass;
	connection->end_ns =
		start_ns + (pass->spent_ns < connection->pass_ns ? connection->pass_ns - pass->spent_ns : 0);
	rc = sqlite3_step(statement);
	pass->spent_ns += guard_now_ns() - start_ns;
	connection->pass = &connection->others;
	return rc;
}

/* By blocks, not by size: a sparse file costs its owner nothing. */
static void guard_measure(struct reader_connection *connection, const char *path)
{
	struct stat st;
	uint64_t bytes = stat(path, &st) == 0 && st.st_blocks > 0 ? 512 * (uint64_t)st.st_blocks : 0;

	connection->ops_max = PASS_OPS + bytes * PASS_OPS_PER_BYTE;
	connection->pass_ns = PASS_NS + bytes / PASS_BYTES_PER_SEC * NSEC_PER_SEC;
}

/* A table that our statements name. */
static bool guard_is_ours(const char *name)
{
	static const char *const fixed[] = {"meta", "texts", "spans"};
	size_t n = strlen(name);

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (strcmp(name, fixed[i]) == 0)
			return true;
	if (n <= 4 || strcmp(name + n - 4, "_raw") != 0)
		return false;
	for (size_t i = 0; i < TABLE_MAX; i++)
		if (strlen(schema_tables[i].name) == n - 4 && strncmp(schema_tables[i].name, name, n - 4) == 0)
			return true;
	return false;
}

/* within: the view or trigger that reads. */
static int guard_authorize(void *arg, int action, const char *a, const char *b, const char *c, const char *within)
{
	if (within)
		return SQLITE_DENY;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_TRANSACTION:
		return SQLITE_OK;
	case SQLITE_READ:
		return a && guard_is_ours(a) ? SQLITE_OK : SQLITE_DENY;
	case SQLITE_PRAGMA:
		return a && strcmp(a, "table_xinfo") == 0 ? SQLITE_OK : SQLITE_DENY;
	case SQLITE_FUNCTION:
		return b && strcmp(b, "take_row") == 0 ? SQLITE_OK : SQLITE_DENY;
	}
	return SQLITE_DENY;
}

int reader_guard_table(sqlite3 *db, const char *name, void (*column)(void *arg, const char *name), void *arg)
{
	sqlite3_stmt *statement = NULL;
	bool plain = true, found = false;
	char sql[128];
	int rc;

	sqlite3_snprintf(sizeof(sql), sql, "PRAGMA table_xinfo(\"%w\")", name);
	rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
	while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
		const char *of = (const char *)sqlite3_column_text(statement, 1);

		found = true;
		plain = plain && sqlite3_column_int(statement, 6) == 0; /* neither hidden nor generated */
		if (plain && column && of)
			column(arg, of);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(statement);
	if (rc != SQLITE_DONE && rc != SQLITE_OK)
		return rc;
	if (!found)
		return SQLITE_EMPTY;
	/*
	 * A view has no columns of its own, and no module is left that a virtual table could be of. Last: the daemon
	 * may have made the table since this function began, and what was found is still there.
	 */
	plain = plain &&
		sqlite3_table_column_metadata(db, "main", name, NULL, NULL, NULL, NULL, NULL, NULL) == SQLITE_OK;
	return plain ? SQLITE_OK : SQLITE_AUTH;
}

static int guard_tables(sqlite3 *db)
{
	static const char *const names[] = {"meta", "texts", "spans"};
	int rc = SQLITE_OK;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && (rc == SQLITE_OK || rc == SQLITE_EMPTY); i++)
		rc = reader_guard_table(db, names[i], NULL, NULL);
	return rc == SQLITE_EMPTY ? SQLITE_OK : rc;
}

static void guard_limit(sqlite3 *db)
{
	static const struct {
		int id, value;
	} limits[] = {
		{SQLITE_LIMIT_LENGTH, TEXT_BYTES},
		{SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES},
		{SQLITE_LIMIT_COLUMN, COLUMNS},
		{SQLITE_LIMIT_ATTACHED, 0},
		{SQLITE_LIMIT_TRIGGER_DEPTH, 1},
		{SQLITE_LIMIT_WORKER_THREADS, 0},
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		sqlite3_limit(db, limits[i].id, limits[i].value);
}

int reader_guard_open(struct reader_connection *connection, sqlite3 *db, const char *path)
{
	static const struct {
		int option, on;
	} options[] = {
		{SQLITE_DBCONFIG_DEFENSIVE, 1},
		{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
		{SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
		{SQLITE_DBCONFIG_ENABLE_VIEW, 0},
		{SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
	};
	int rc;

	guard_measure(connection, path);
	reader_guard_restart(connection);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		sqlite3_db_config(db, options[i].option, options[i].on, NULL);
	guard_limit(db);
	sqlite3_progress_handler(db, PROGRESS_OPS, guard_progress, connection);
	rc = sqlite3_drop_modules(db, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, "PRAGMA cell_size_check=1; PRAGMA query_only=1", NULL, NULL, NULL);
	return rc;
}

int reader_guard_close_off(sqlite3 *db)
{
	int rc = sqlite3_set_authorizer(db, guard_authorize, NULL);

	return rc == SQLITE_OK ? guard_tables(db) : rc;
}
