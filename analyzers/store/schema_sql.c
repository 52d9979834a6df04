/* SPDX-License-Identifier: Apache-2.0 */
/* SQL texts and file names derived from schema_tables[]. See schema_sql.h. */
#include "analyzers/store/schema_sql.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NSEC 1000000000LL

const char *const schema_tier_names[TIER_MAX] = {[TIER_EVENTS] = "events", [TIER_SUMMARY] = "summary"};

static const char *const raw_types[] = {
	[SCHEMA_INT] = "INTEGER",
	[SCHEMA_TIME] = "INTEGER",
	[SCHEMA_DURATION] = "INTEGER",
	[SCHEMA_TEXT] = "INTEGER",
	[SCHEMA_REAL] = "REAL",
};
static const char *const view_types[] = {
	[SCHEMA_INT] = "INTEGER",
	[SCHEMA_TIME] = "INTEGER",
	[SCHEMA_DURATION] = "INTEGER",
	[SCHEMA_TEXT] = "TEXT",
	[SCHEMA_REAL] = "REAL",
};

struct text {
	char *data;
	size_t size;
	size_t used;
};

static void __attribute__((format(printf, 2, 3))) schema_sql_add(struct text *text, const char *format, ...)
{
	va_list args;
	int n;

	if (text->used >= text->size)
		return;
	va_start(args, format);
	n = vsnprintf(text->data + text->used, text->size - text->used, format, args);
	va_end(args);
	text->used = n < 0 ? text->size : text->used + (size_t)n;
}

static int schema_sql_done(const struct text *text)
{
	return text->used < text->size ? 0 : -ENOBUFS;
}

/* Holds for every row but those that take one away. */
static void add_present(struct text *sql, const struct schema_table *table)
{
	const char *between = "coalesce(";

	for (size_t i = 0; i < schema_stored(table); i++) {
		if (table->columns[i].presence == PRESENCE_KEY)
			continue;
		schema_sql_add(sql, "%s\"%s\"", between, table->columns[i].name);
		between = ",";
	}
	schema_sql_add(sql, ") IS NOT NULL");
}

static void add_table(struct text *sql, const struct schema_table *table, int64_t base_ns)
{
	size_t n = schema_stored(table);

	schema_sql_add(sql, "CREATE TABLE IF NOT EXISTS \"%s_raw\"(", table->name);
	for (size_t i = 0; i < n; i++)
		schema_sql_add(sql, "%s\"%s\" %s%s", i ? "," : "", table->columns[i].name,
			raw_types[table->columns[i].type],
			table->columns[i].presence == PRESENCE_KEY ? " PRIMARY KEY" : "");
	schema_sql_add(sql, ");\nCREATE VIEW IF NOT EXISTS \"%s\" AS SELECT ", table->name);
	for (size_t i = 0; i < schema_columns(table); i++) {
		const struct schema_column *column = &table->columns[i];
		const char *stored = column->alias_of ? column->alias_of : column->name;

		schema_sql_add(sql, i ? "," : "");
		if (column->type == SCHEMA_TIME)
			schema_sql_add(sql, "r.\"%s\"+%" PRId64 " AS \"%s\"", stored, base_ns, column->name);
		else if (column->type == SCHEMA_TEXT)
			schema_sql_add(
				sql, "(SELECT text FROM texts WHERE id=r.\"%s\") AS \"%s\"", stored, column->name);
		else
			schema_sql_add(sql, "r.\"%s\" AS \"%s\"", stored, column->name);
	}
	schema_sql_add(sql, " FROM \"%s_raw\" AS r", table->name);
	if (table->kind == SCHEMA_STATE) {
		schema_sql_add(sql, " WHERE ");
		add_present(sql, table);
	}
	schema_sql_add(sql, ";\n");
}

int schema_create_sql(enum schema_tier tier, int64_t base_ns, char *ret, size_t size)
{
	struct text sql = {ret, size, 0};

	schema_sql_add(&sql,
		"CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;\n"
		"CREATE TABLE IF NOT EXISTS texts(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);\n"
		"CREATE TABLE IF NOT EXISTS spans(name TEXT PRIMARY KEY, oldest_ns, newest_ns) WITHOUT ROWID;\n"
		"CREATE TABLE IF NOT EXISTS instances(instance INTEGER PRIMARY KEY, boot_id TEXT, pid INTEGER, "
		"start_time_ns INTEGER, last_step INTEGER);\n");
	for (size_t i = 0; i < TABLE_MAX; i++)
		if (schema_in_tier(&schema_tables[i], tier))
			add_table(&sql, &schema_tables[i], base_ns);
	return schema_sql_done(&sql);
}

int schema_insert_sql(const struct schema_table *table, char *ret, size_t size)
{
	struct text sql = {ret, size, 0};

	schema_sql_add(&sql, "INSERT %sINTO \"%s_raw\" VALUES(", table->kind == SCHEMA_STATE ? "OR REPLACE " : "",
		table->name);
	for (size_t i = 0; i < schema_stored(table); i++)
		schema_sql_add(&sql, "%s?%zu", i ? "," : "", i + 1);
	schema_sql_add(&sql, ")");
	return schema_sql_done(&sql);
}

int schema_declare_sql(const struct schema_table *table, char *ret, size_t size)
{
	struct text sql = {ret, size, 0};

	schema_sql_add(&sql, "CREATE TABLE \"%s\"(", table->name);
	for (size_t i = 0; i < schema_columns(table); i++)
		schema_sql_add(&sql, "%s\"%s\" %s%s", i ? "," : "", table->columns[i].name,
			view_types[table->columns[i].type],
			table->columns[i].presence == PRESENCE_KEY ? " PRIMARY KEY" : "");
	schema_sql_add(&sql, ")");
	return schema_sql_done(&sql);
}

int schema_tidy_sql(const struct schema_table *table, char *ret, size_t size)
{
	struct text sql = {ret, size, 0};

	schema_sql_add(&sql, "DELETE FROM \"%s\" WHERE NOT (", table->name);
	add_present(&sql, table);
	schema_sql_add(&sql, ")");
	return schema_sql_done(&sql);
}

int segment_name_format(const struct segment_name *name, char *ret, size_t size)
{
	time_t seconds = (time_t)(name->base_ns / NSEC);
	char stamp[32];
	struct tm tm;
	int n;

	if (!gmtime_r(&seconds, &tm) || strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm) == 0)
		return -ERANGE;
	n = snprintf(ret, size, "%s-%s-%06" PRIu64 ".db", schema_tier_names[name->tier], stamp, name->number);
	return n > 0 && (size_t)n < size ? 0 : -ENOBUFS;
}

int segment_name_parse(const char *text, struct segment_name *ret)
{
	struct segment_name name;
	char canonical[SEGMENT_NAME_BYTES];
	const char *rest = NULL;
	struct tm tm = {0};
	int end = 0;

	for (unsigned i = 0; i < TIER_MAX && !rest; i++) {
		size_t n = strlen(schema_tier_names[i]);

		if (strncmp(text, schema_tier_names[i], n) == 0 && text[n] == '-') {
			name.tier = (enum schema_tier)i;
			rest = text + n + 1;
		}
	}
	if (!rest || sscanf(rest, "%4d%2d%2dT%2d%2d%2dZ-%18" SCNu64 ".db%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
			     &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &name.number, &end) != 7)
		return -EINVAL;
	if (tm.tm_year < 1970 || tm.tm_year > 2200)
		return -EINVAL;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	name.base_ns = (int64_t)timegm(&tm) * NSEC;
	/* Only what segment_name_format() writes is ours. */
	if (segment_name_format(&name, canonical, sizeof(canonical)) < 0 || strcmp(canonical, text) != 0)
		return -EINVAL;
	*ret = name;
	return 0;
}
