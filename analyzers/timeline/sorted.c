/* SPDX-License-Identifier: Apache-2.0 */
/* Records are rows of a virtual table, read by an ordered statement. */
#include "analyzers/timeline/timeline_internal.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#define DECLARED "CREATE TABLE records(a INTEGER, b INTEGER, c INTEGER, bytes BLOB)"
#define IN_ORDER "SELECT bytes FROM records ORDER BY a, b, c"
/* The page cache size bounds the sorter's memory. */
#define SETUP "PRAGMA temp_store=FILE; PRAGMA cache_size=-4096"

struct source { /* client data of the module */
	const struct sorting *sorting;
	int r; /* result of next */
};

struct vtab {
	sqlite3_vtab base; /* first: SQLite's view of it */
	struct source *source;
};

struct cursor {
	sqlite3_vtab_cursor base; /* the same */
	struct source *source;
	struct sorted_record at;
	sqlite3_int64 row;
};

static int records_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret, char **error)
{
	struct vtab *vtab;
	int rc = sqlite3_declare_vtab(db, DECLARED);

	if (rc != SQLITE_OK)
		return rc;
	vtab = calloc(1, sizeof(*vtab));
	if (!vtab)
		return SQLITE_NOMEM;
	vtab->source = aux;
	*ret = &vtab->base;
	return SQLITE_OK;
}

static int records_disconnect(sqlite3_vtab *base)
{
	free(base);
	return SQLITE_OK;
}

/* Only a full scan. */
static int records_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	info->estimatedCost = 1e6;
	return SQLITE_OK;
}

static int timeline_sorted_cursor_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
	struct cursor *cursor = calloc(1, sizeof(*cursor));

	if (!cursor)
		return SQLITE_NOMEM;
	cursor->source = ((struct vtab *)base)->source;
	*ret = &cursor->base;
	return SQLITE_OK;
}

static int timeline_sorted_cursor_close(sqlite3_vtab_cursor *base)
{
	free(base);
	return SQLITE_OK;
}

static int timeline_sorted_cursor_next(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;
	struct source *source = cursor->source;

	cursor->row++;
	source->r = source->sorting->next(source->sorting->arg, &cursor->at);
	return source->r < 0 ? SQLITE_ABORT : SQLITE_OK;
}

static int timeline_sorted_cursor_filter(
	sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv)
{
	return timeline_sorted_cursor_next(base);
}

static int timeline_sorted_cursor_eof(sqlite3_vtab_cursor *base)
{
	return ((struct cursor *)base)->source->r == 0;
}

static int timeline_sorted_cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
	const struct sorted_record *at = &((struct cursor *)base)->at;

	if (column < SORTED_KEYS)
		sqlite3_result_int64(context, at->key[column]);
	else
		sqlite3_result_blob(context, at->bytes, at->size, SQLITE_STATIC); /* the sorter copies it */
	return SQLITE_OK;
}

static int timeline_sorted_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	*ret = ((struct cursor *)base)->row;
	return SQLITE_OK;
}

static const sqlite3_module records_module = {
	.iVersion = 1,
	.xConnect = records_connect, /* no xCreate: eponymous */
	.xBestIndex = records_best_index,
	.xDisconnect = records_disconnect,
	.xDestroy = records_disconnect,
	.xOpen = timeline_sorted_cursor_open,
	.xClose = timeline_sorted_cursor_close,
	.xFilter = timeline_sorted_cursor_filter,
	.xNext = timeline_sorted_cursor_next,
	.xEof = timeline_sorted_cursor_eof,
	.xColumn = timeline_sorted_cursor_column,
	.xRowid = timeline_sorted_cursor_rowid,
};

static int timeline_sorted_prepare(struct source *source, sqlite3 **ret_db, sqlite3_stmt **ret)
{
	int rc = sqlite3_open_v2(":memory:", ret_db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(*ret_db, SETUP, NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_create_module_v2(*ret_db, "records", &records_module, source, NULL);
	return rc == SQLITE_OK ? sqlite3_prepare_v2(*ret_db, IN_ORDER, -1, ret, NULL) : rc;
}

static int timeline_sorted_each(const struct source *source, sqlite3_stmt *statement, int *ret_rc)
{
	const struct sorting *sorting = source->sorting;
	int r = 0;

	while (r == 0 && (*ret_rc = sqlite3_step(statement)) == SQLITE_ROW)
		r = sorting->take(sorting->arg, sqlite3_column_blob(statement, 0), sqlite3_column_bytes(statement, 0));
	return r;
}

int sorted_each(const struct sorting *sorting, char *error, size_t error_size)
{
	struct source source = {.sorting = sorting};
	sqlite3_stmt *statement = NULL;
	sqlite3 *db = NULL;
	int rc = timeline_sorted_prepare(&source, &db, &statement), r = 0;

	if (rc == SQLITE_OK)
		r = timeline_sorted_each(&source, statement, &rc);
	if (r == 0)
		r = source.r;
	if (r >= 0 && rc != SQLITE_DONE) {
		snprintf(error, error_size, "cannot sort in temporary files: %s",
			db ? sqlite3_errmsg(db) : "out of memory");
		r = -EIO;
	}
	sqlite3_finalize(statement);
	sqlite3_close(db);
	return r < 0 ? r : 0;
}
