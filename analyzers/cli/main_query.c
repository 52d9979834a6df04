/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/query, which is `tracectl query`: SQL over all segments of a store. Exit codes: 0 done, 1 the SQL
 * or the store failed, 2 usage; with 1 and 2 one sentence on stderr.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/replace.h"
#include "analyzers/base/term.h"
#include "analyzers/base/units.h"
#include "analyzers/cli/output.h"
#include "analyzers/store/reader.h"
#include "analyzers/tool/options.h"
#include "analyzers/tool/tool_json.h"

#define SQL_BYTES_MAX (1UL << 20)

static const char usage[] =
	"usage: tracectl query [--state-dir DIR] [--csv|--json] [--timeout LENGTH] 'SELECT ...'\n"
	"       tracectl query --tables [--json]\n"
	"Runs one SELECT on the whole store, read-only. With - the SQL is read from standard input.\n"
	"  --state-dir DIR    state folder (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --csv              write comma-separated values (RFC 4180)\n"
	"  --json             write an array of objects\n"
	"  --timeout LENGTH   cancel the query after 90s, 10m\n"
	"  --tables           list tables and columns\n"
	"  --help, --version\n"
	"Segments have no index. To join two large tables, write WITH x AS MATERIALIZED (SELECT ...) and join with "
	"x;\n"
	"SQLite before 3.35 takes WITH x AS (SELECT ... LIMIT -1) for that.\n";

struct query {
	const char *state_dir;
	enum output_format format;
	uint64_t timeout_ns;
	const char *sql;
	bool tables;
};

static const char *cmd_query_type_name(enum schema_type type)
{
	return type == SCHEMA_TEXT ? "text" : type == SCHEMA_REAL ? "real" : "integer";
}

/* An array of tables, each with an array of its columns. */
static int cmd_query_print_tables_json(void)
{
	json_t *all = json_array();

	for (size_t i = 0; i < TABLE_MAX; i++) {
		const struct schema_table *table = &schema_tables[i];
		json_t *columns = json_array();

		for (size_t j = 0; j < schema_columns(table); j++)
			json_array_append_new(columns, json_pack("{s:s, s:s, s:s, s:s}", "name", table->columns[j].name,
							       "type", cmd_query_type_name(table->columns[j].type),
							       "unit", schema_unit_names[table->columns[j].unit],
							       "description", table->columns[j].description));
		json_array_append_new(all, json_pack("{s:s, s:s, s:o}", "name", table->name, "description",
						   table->description, "columns", columns));
	}
	return tool_print(all, JSON_INDENT(2)) ?: tool_written();
}

static int cmd_query_print_tables(bool json)
{
	size_t width = term_width(stdout);

	if (json)
		return cmd_query_print_tables_json();
	for (size_t i = 0; i < TABLE_MAX; i++) {
		const struct schema_table *table = &schema_tables[i];

		printf("%s%s: ", i ? "\n" : "", table->name);
		term_wrap(stdout, table->description, strlen(table->name) + 2, 2, width);
		putchar('\n');
		for (size_t j = 0; j < schema_columns(table); j++) {
			const struct schema_column *column = &table->columns[j];
			int used = printf("  %-16s %-8s ", column->name, cmd_query_type_name(column->type));
			char text[1024];

			snprintf(text, sizeof(text), "%s%s%s", column->description,
				column->unit == UNIT_NONE ? "" : "; ", schema_unit_names[column->unit]);
			term_wrap(stdout, text, used > 0 ? (size_t)used : 0, 28, width);
			putchar('\n');
		}
	}
	return tool_written();
}

/* Whole standard input, bounded; NULL with a sentence said. */
static char *cmd_query_read_sql(void)
{
	char *sql = malloc(SQL_BYTES_MAX + 1);
	size_t n;

	if (!sql) {
		tool_fail(1, "%s", "out of memory");
		return NULL;
	}
	n = fread(sql, 1, SQL_BYTES_MAX + 1, stdin);
	if (ferror(stdin) || n > SQL_BYTES_MAX) {
		tool_fail(1, "cannot read SQL from standard input: %s",
			n > SQL_BYTES_MAX ? "it is longer than 1 MiB" : strerror(errno));
		free(sql);
		return NULL;
	}
	sql[n] = 0;
	return sql;
}

static int cmd_query_run(const struct query *query, const char *sql)
{
	struct reader_options options = {.warning = tool_warn, .timeout_ns = query->timeout_ns};
	struct reader *reader = NULL;
	sqlite3_stmt *statement = NULL;
	char error[1024];
	int rc;

	if (reader_open(query->state_dir, &options, &reader, error, sizeof(error)) < 0)
		return tool_fail(1, "%s", error);
	if (reader_prepare(reader, sql, &statement, error, sizeof(error)) < 0) {
		reader_close(reader);
		return tool_fail(1, "%s", error);
	}
	rc = output_rows(stdout, statement, query->format);
	if (rc != SQLITE_DONE) {
		if (ferror(stdout))
			snprintf(error, sizeof(error), "cannot write the result: %s",
				strerror(-replace_written(stdout)));
		else
			reader_error(reader, error, sizeof(error));
	}
	sqlite3_finalize(statement);
	reader_close(reader);
	return rc == SQLITE_DONE ? 0 : tool_fail(1, "%s", error);
}

static int cmd_query_set_timeout(void *arg, const char *value)
{
	uint64_t *timeout_ns = arg;

	if (units_parse_duration(value, timeout_ns) < 0 || !*timeout_ns)
		return 1 + tool_fail(2, "--timeout takes a length of time above 0 (90s, 10m), not '%s'", value);
	return 0;
}

/* 0: go on; else the exit code plus one. */
static int cmd_query_parse(int argc, char **argv, struct query *query)
{
	bool csv = false, json = false;
	const struct tool_option options[] = {
		{"state-dir", .text = &query->state_dir},
		{"csv", .flag = &csv},
		{"json", .flag = &json},
		{"timeout", .call = cmd_query_set_timeout, .arg = &query->timeout_ns},
		{"tables", .flag = &query->tables},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));

	if (r)
		return r;
	if (csv && json)
		return 1 + tool_fail(2, "%s", "--csv and --json exclude each other");
	if (query->tables && csv)
		return 1 + tool_fail(2, "%s", "--tables is a text or --json, not --csv");
	query->format = csv ? OUTPUT_CSV : json ? OUTPUT_JSON : OUTPUT_TABLE;
	if (query->tables ? optind != argc : optind + 1 != argc)
		return 1 + tool_fail(2, "%s",
				   query->tables ? "--tables takes no SQL"
						 : "one SQL statement is needed; see tracectl help query");
	query->sql = argv[optind];
	return 0;
}

int main(int argc, char **argv)
{
	struct query query = {0};
	char *sql = NULL;
	int r;

	tool_begin("query", argv);
	r = cmd_query_parse(argc, argv, &query);
	if (r)
		return r - 1;
	if (query.tables)
		return cmd_query_print_tables(query.format == OUTPUT_JSON);
	r = tool_state_dir(query.state_dir, &query.state_dir);
	if (r)
		return r;
	if (strcmp(query.sql, "-") == 0) {
		sql = cmd_query_read_sql();
		if (!sql)
			return 1;
		query.sql = sql;
	}
	r = cmd_query_run(&query, query.sql);
	free(sql);
	return r;
}
