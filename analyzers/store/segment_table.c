/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A view over all segments as an eponymous virtual table. The plan (xBestIndex) only names which columns are wanted and
 * which comparisons may be answered inside; SQLite checks every comparison again, so what is pushed down can never
 * change a result, it only saves rows.
 */
#include "analyzers/store/reader_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTERS_MAX 16
#define WHERE_BYTES 1024

struct vtab {
	sqlite3_vtab base; /* first: SQLite's view of it */
	struct reader_table *table;
};

struct filter {
	int column;
	int op;
	sqlite3_value *value;
};

struct cursor {
	sqlite3_vtab_cursor base;
	struct reader_table *table;
	struct filter filters[FILTERS_MAX];
	size_t filters_count;
	uint64_t wanted;
	char where[WHERE_BYTES];
	size_t next_file;
	struct reader_file *file;
	struct reader_connection *connection; /* NULL: the rows are in the cache, or none is read */
	sqlite3_stmt *statement;
	struct reader_pass pass; /* over the present file */
	sqlite3_int64 row;
	bool end;
};

static const struct {
	int op;
	const char *text;
} operators[] = {
	{SQLITE_INDEX_CONSTRAINT_EQ, "="},
	{SQLITE_INDEX_CONSTRAINT_GT, ">"},
	{SQLITE_INDEX_CONSTRAINT_GE, ">="},
	{SQLITE_INDEX_CONSTRAINT_LT, "<"},
	{SQLITE_INDEX_CONSTRAINT_LE, "<="},
};

static const char *operator_text(int op)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (operators[i].op == op)
			return operators[i].text;
	return NULL;
}

static bool in_memory(const struct schema_table *schema)
{
	return schema->kind != SCHEMA_LOG;
}

static int table_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret, char **error)
{
	struct reader_table *table = aux;
	struct vtab *vtab;
	char sql[2048];
	int rc;

	if (schema_declare_sql(table->schema, sql, sizeof(sql)) < 0)
		return SQLITE_ERROR;
	rc = sqlite3_declare_vtab(db, sql);
	if (rc != SQLITE_OK)
		return rc;
	vtab = calloc(1, sizeof(*vtab));
	if (!vtab)
		return SQLITE_NOMEM;
	vtab->table = table;
	*ret = &vtab->base;
	return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *base)
{
	free(base);
	return SQLITE_OK;
}

/* Whether it is a list of values, of which each would be one scan if it were pushed down. SQLite reports it since 3.38;
 * before, a list is a scan a value. */
static bool is_list(sqlite3_index_info *info, int i)
{
#if SQLITE_VERSION_NUMBER >= 3038000
	return sqlite3_vtab_in(info, i, -1);
#else
	return false;
#endif
}

static bool can_push(const struct schema_table *schema, sqlite3_index_info *info, int i)
{
	const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];

	if (!constraint->usable || constraint->iColumn < 0 || !operator_text(constraint->op))
		return false;
	if (is_list(info, i)) /* checked outside */
		return false;
	return schema->columns[constraint->iColumn].type != SCHEMA_TEXT ||
	       sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") == 0;
}

static int table_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	const struct schema_table *schema = ((struct vtab *)base)->table->schema;
	double rows = in_memory(schema) ? 64 : 1e6;
	char plan[256];
	int pushed = 0;
	size_t used;

	used = (size_t)snprintf(plan, sizeof(plan), "%" PRIx64, (uint64_t)info->colUsed);
	for (int i = 0; i < info->nConstraint && pushed < FILTERS_MAX; i++) {
		const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
		bool equal = constraint->op == SQLITE_INDEX_CONSTRAINT_EQ;

		if (!can_push(schema, info, i) || used + 16 > sizeof(plan))
			continue;
		used += (size_t)snprintf(
			plan + used, sizeof(plan) - used, ";%d,%d", constraint->iColumn, constraint->op);
		info->aConstraintUsage[i].argvIndex = ++pushed;
		rows /= equal ? 10 : 3;
		if (equal && schema->columns[constraint->iColumn].presence == PRESENCE_KEY)
			rows = 1;
	}
	info->idxStr = sqlite3_mprintf("%s", plan);
	if (!info->idxStr)
		return SQLITE_NOMEM;
	info->needToFreeIdxStr = 1;
	info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
	/* Segments have no index: a filter saves rows, not the scan. */
	info->estimatedCost = in_memory(schema) ? 10 + rows : 1e6 + rows;
	return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
	struct cursor *cursor = calloc(1, sizeof(*cursor));

	if (!cursor)
		return SQLITE_NOMEM;
	cursor->table = ((struct vtab *)base)->table;
	*ret = &cursor->base;
	return SQLITE_OK;
}

static void leave_file(struct cursor *cursor)
{
	sqlite3_finalize(cursor->statement);
	cursor->statement = NULL;
	reader_file_release(cursor->connection);
	cursor->connection = NULL;
}

static void segment_table_reset(struct cursor *cursor)
{
	leave_file(cursor);
	for (size_t i = 0; i < cursor->filters_count; i++)
		sqlite3_value_free(cursor->filters[i].value);
	cursor->filters_count = 0;
	cursor->next_file = 0;
	cursor->row = 0;
	cursor->end = false;
}

static int cursor_close(sqlite3_vtab_cursor *base)
{
	segment_table_reset((struct cursor *)base);
	free(base);
	return SQLITE_OK;
}

/* Inside, no affinity is applied to expressions: only values of the column's own type compare alike there. */
static bool same_type(const struct schema_column *column, int type)
{
	return column->type == SCHEMA_TEXT ? type == SQLITE_TEXT : type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

static int take_filters(struct cursor *cursor, const char *plan, int argc, sqlite3_value **argv)
{
	const struct schema_table *schema = cursor->table->schema;
	size_t used = 0;
	char *rest;

	cursor->where[0] = 0;
	cursor->wanted = strtoull(plan, &rest, 16);
	for (int i = 0; i < argc && *rest == ';'; i++) {
		int column = (int)strtol(rest + 1, &rest, 10);
		int op = *rest == ',' ? (int)strtol(rest + 1, &rest, 10) : 0;
		struct filter *filter = &cursor->filters[cursor->filters_count];

		if (!operator_text(op) || !same_type(&schema->columns[column], sqlite3_value_type(argv[i])))
			continue;
		*filter = (struct filter){column, op, sqlite3_value_dup(argv[i])};
		if (!filter->value)
			return SQLITE_NOMEM;
		cursor->filters_count++;
		used += (size_t)snprintf(cursor->where + used, sizeof(cursor->where) - used, "%s\"%s\"%s?%zu",
			used ? " AND " : " WHERE ", schema->columns[column].name, operator_text(op),
			cursor->filters_count);
		if (used >= sizeof(cursor->where))
			return SQLITE_ERROR;
	}
	return SQLITE_OK;
}

/* Whether the times of the file's rows rule it out. Where it does not say, it may match. */
static bool out_of_range(const struct cursor *cursor, sqlite3 *db)
{
	const struct schema_table *schema = cursor->table->schema;
	int64_t low = INT64_MIN, high = INT64_MAX;
	size_t timed = reader_time_column(schema);

	for (size_t i = 0; i < cursor->filters_count; i++) {
		const struct filter *filter = &cursor->filters[i];
		int64_t value = sqlite3_value_int64(filter->value);

		if ((size_t)filter->column != timed || sqlite3_value_type(filter->value) != SQLITE_INTEGER)
			continue;
		if (filter->op != SQLITE_INDEX_CONSTRAINT_LT && filter->op != SQLITE_INDEX_CONSTRAINT_LE && value > low)
			low = value;
		if (filter->op != SQLITE_INDEX_CONSTRAINT_GT && filter->op != SQLITE_INDEX_CONSTRAINT_GE &&
			value < high)
			high = value;
	}
	return reader_file_span(db, schema, low, high) == READER_SPAN_OUTSIDE;
}

static int segment_table_start(struct cursor *cursor)
{
	int rc = cursor->connection
			 ? reader_file_select(cursor->connection->db, cursor->table->schema, cursor->wanted,
				   cursor->where, &cursor->statement)
			 : reader_cache_select(cursor->table, cursor->wanted, cursor->where, &cursor->statement);

	for (size_t i = 0; rc == SQLITE_OK && i < cursor->filters_count; i++)
		rc = sqlite3_bind_value(cursor->statement, (int)i + 1, cursor->filters[i].value);
	return rc;
}

/* SQLITE_OK with or without a statement (none: leave this file out), or an error that ends the query. */
static int next_file(struct cursor *cursor)
{
	struct reader *reader = cursor->table->reader;
	int rc;

	cursor->file = &reader->files[cursor->next_file++];
	if (!schema_in_tier(cursor->table->schema, cursor->file->name.tier))
		return SQLITE_OK;
	rc = reader_file_acquire(reader, cursor->file, &cursor->connection);
	if (rc != SQLITE_OK)
		return rc == SQLITE_EMPTY ? SQLITE_OK : rc;
	if (out_of_range(cursor, cursor->connection->db)) {
		leave_file(cursor);
		return SQLITE_OK;
	}
	cursor->pass = (struct reader_pass){0};
	return segment_table_start(cursor);
}

static int cursor_step(struct cursor *cursor)
{
	return cursor->connection ? reader_guard_step(cursor->connection, &cursor->pass, cursor->statement)
				  : sqlite3_step(cursor->statement);
}

static int segment_table_advance(struct cursor *cursor)
{
	struct reader *reader = cursor->table->reader;

	for (;;) {
		int rc = SQLITE_OK;

		if (cursor->statement) {
			rc = cursor_step(cursor);
			if (rc == SQLITE_ROW) {
				cursor->row++;
				return SQLITE_OK;
			}
			if (rc == SQLITE_DONE)
				rc = SQLITE_OK;
			leave_file(cursor);
		} else if (!in_memory(cursor->table->schema) && cursor->next_file < reader->files_count) {
			rc = next_file(cursor);
			if (rc != SQLITE_OK)
				leave_file(cursor);
		} else {
			cursor->end = true;
			return SQLITE_OK;
		}
		if (rc == SQLITE_OK || rc == SQLITE_EMPTY)
			continue;
		if (in_memory(cursor->table->schema) || !reader_file_leave_out(reader, cursor->file, rc))
			return rc;
	}
}

static int cursor_filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv)
{
	struct cursor *cursor = (struct cursor *)base;
	int rc;

	segment_table_reset(cursor);
	rc = take_filters(cursor, plan, argc, argv);
	if (rc == SQLITE_OK && in_memory(cursor->table->schema)) {
		rc = reader_cache_load(cursor->table);
		if (rc == SQLITE_OK)
			rc = segment_table_start(cursor);
	}
	return rc == SQLITE_OK ? segment_table_advance(cursor) : rc;
}

static int cursor_next(sqlite3_vtab_cursor *base)
{
	return segment_table_advance((struct cursor *)base);
}

static int cursor_eof(sqlite3_vtab_cursor *base)
{
	return ((struct cursor *)base)->end;
}

static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
	sqlite3_result_value(context, sqlite3_column_value(((struct cursor *)base)->statement, column));
	return SQLITE_OK;
}

static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	*ret = ((struct cursor *)base)->row;
	return SQLITE_OK;
}

const sqlite3_module segment_table_module = {
	.iVersion = 1,
	.xConnect = table_connect, /* and no xCreate: there under its own name without CREATE */
	.xBestIndex = table_best_index,
	.xDisconnect = table_disconnect,
	.xDestroy = table_disconnect,
	.xOpen = cursor_open,
	.xClose = cursor_close,
	.xFilter = cursor_filter,
	.xNext = cursor_next,
	.xEof = cursor_eof,
	.xColumn = cursor_column,
	.xRowid = cursor_rowid,
};
