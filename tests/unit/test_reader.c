/* SPDX-License-Identifier: Apache-2.0 */
/* The reader: the same answers as SQLite over one table with all rows, whatever is pushed down; and nothing but SELECT.
 */
#include "tests/unit/store_fixture.h"

#include "analyzers/cli/output.h"

#define SEGMENTS 24
#define SEGMENT_ROWS 40
#define QUERIES 600

static uint64_t seed;

static unsigned random_below(unsigned n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(seed >> 33) % n;
}

static const char *const stages[] = {"forward", "backward", "optimizer", "Forward", "1"};

/* Rows over many segments, some older than their segment, and the same rows in a plain table. */
static sqlite3 *make_rows(uint64_t now)
{
	struct store *store = open_store();
	sqlite3 *plain;
	char sql[512];

	assert_int_equal(sqlite3_open(":memory:", &plain), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(plain,
			"create table stages(rank INTEGER, step INTEGER, stage TEXT, name TEXT, start_ns INTEGER,"
			"duration_ns INTEGER, thread_id INTEGER, depth INTEGER, instance INTEGER)",
			NULL, NULL, NULL),
		SQLITE_OK);
	for (unsigned i = 0; i < SEGMENTS; i++) {
		uint64_t at = now + i * options.segment_ns;

		for (unsigned j = 0; j < SEGMENT_ROWS; j++) {
			const char *stage = stages[random_below(ARRAY_SIZE(stages))];
			int64_t rank = random_below(4), step = random_below(6), duration = random_below(100);
			uint64_t start_ns = at + random_below(1000) * NSEC_PER_SEC - random_below(9000) * NSEC_PER_SEC;
			const struct row_stages row = {.rank = field_int(rank),
				.step = field_int_if(step, step),
				.stage = field_text(stage),
				.name = field_text("n"),
				.start_ns = field_time(start_ns),
				.duration_ns = field_duration(duration),
				.thread_id = field_int(7),
				.depth = field_int(0),
				.instance = field_int(rank + 1)};

			store_put_stages(store, &row);
			snprintf(sql, sizeof(sql), "insert into stages values(%d,nullif(%d,0),'%s','n',%llu,%d,7,0,%d)",
				(int)rank, (int)step, stage, (unsigned long long)start_ns, (int)duration,
				(int)rank + 1);
			assert_int_equal(sqlite3_exec(plain, sql, NULL, NULL, NULL), SQLITE_OK);
		}
		assert_int_equal(store_flush(store, at), 0);
	}
	store_close(store);
	return plain;
}

static void random_condition(char *ret, size_t size, uint64_t now)
{
	static const char *const operators[] = {"=", "<", "<=", ">", ">=", "<>", "is", "is not"};
	const char *operator= operators[random_below(ARRAY_SIZE(operators))];
	uint64_t time = now + random_below(SEGMENTS) * options.segment_ns + random_below(1000) * NSEC_PER_SEC;

	switch (random_below(11)) {
	case 0:
		snprintf(ret, size, "rank %s %u", operator, random_below(4));
		break;
	case 1:
		snprintf(ret, size, "start_ns %s %llu", operator,(unsigned long long) time);
		break;
	case 2:
		snprintf(ret, size, "start_ns between %llu and %llu", (unsigned long long)time,
			(unsigned long long)(time + 3 * options.segment_ns));
		break;
	case 3:
		snprintf(ret, size, "stage %s '%s'", operator, stages[random_below(ARRAY_SIZE(stages))]);
		break;
	case 4:
		snprintf(ret, size, "stage = 'FORWARD' collate nocase");
		break;
	case 5:
		snprintf(ret, size, "step is %s", random_below(2) ? "null" : "not null");
		break;
	case 6:
		snprintf(ret, size, "step in (1, %u, 5)", random_below(6));
		break;
	case 7: /* types that the column's affinity turns */
		snprintf(ret, size, "start_ns %s '%llu'", operator,(unsigned long long) time);
		break;
	case 8:
		snprintf(ret, size, "stage %s 1", operator);
		break;
	case 9:
		snprintf(ret, size, "duration_ns %s %u.5", operator, random_below(100));
		break;
	default:
		snprintf(ret, size, "(step %s %u or duration_ns > %u)", operator, random_below(6), random_below(100));
	}
}

TEST_WITH(same_answers_as_one_table, store_setup, store_teardown)
{
	uint64_t now = realtime_ns();
	struct reader *reader;
	sqlite3 *plain;
	unsigned some = 0;

	seed = 20261121;
	plain = make_rows(now);
	reader = open_reader();
	for (unsigned i = 0; i < QUERIES; i++) {
		char a[256], b[256], sql[1024], error[256], *got, *expected;
		sqlite3_stmt *ours, *theirs;

		random_condition(a, sizeof(a), now);
		random_condition(b, sizeof(b), now);
		snprintf(sql, sizeof(sql),
			i % 3 ? "select rank, step, stage, start_ns, duration_ns from stages where %s and %s order by "
				"1,2,3,4,5"
			      : "select stage, count(*), sum(duration_ns), min(start_ns) from stages where %s and %s "
				"group by 1",
			a, b);
		if (reader_prepare(reader, sql, &ours, error, sizeof(error)) < 0)
			fail_msg("%s: %s", sql, error);
		assert_int_equal(sqlite3_prepare_v2(plain, sql, -1, &theirs, NULL), SQLITE_OK);
		got = rows_of(ours);
		expected = rows_of(theirs);
		if (strcmp(got, expected) != 0)
			fail_msg("%s:\n%s\ninstead of\n%s", sql, got, expected);
		some += *got != 0;
		free(got);
		free(expected);
		sqlite3_finalize(ours);
		sqlite3_finalize(theirs);
	}
	/* Not a comparison of empty with empty. */
	assert_true(some > QUERIES / 4);
	assert_int_equal(warnings, 0);
	reader_close(reader);
	sqlite3_close(plain);
}

TEST_WITH(joins_of_many_tables, store_setup, store_teardown)
{
	sqlite3 *plain;

	seed = 7;
	plain = make_rows(realtime_ns());
	sqlite3_close(plain);
	/* A table with itself, in more segments at once than are kept open. */
	assert_int_equal(query_int("select count(*) from (select count(*) n from stages a, stages b where a.start_ns ="
				   " b.start_ns and a.rank = b.rank and a.rank = 1 group by a.rank)"),
		1);
	assert_query("with r(n) as (select 1 union all select n + 1 from r where n < 5) select sum(n) from r", "15\n");
}

TEST_WITH(only_select, store_setup, store_teardown)
{
	static const char *const refused[] = {
		"delete from stages",
		"insert into stages(rank) values(1)",
		"update ranks set rank = 2",
		"create table t(a)",
		"create temp table t(a)",
		"drop table stages",
		"attach '/tmp/x.db' as x",
		"detach main",
		"pragma user_version",
		"pragma query_only = 0",
		"select load_extension('x')",
		"select writefile('/tmp/x', 'y')",
		"begin",
		"vacuum into '/tmp/x.db'",
		"select 1; select 2",
		"",
		"selec",
	};
	struct store *store = open_store();
	struct reader *reader;
	sqlite3_stmt *statement;
	char error[256];

	store_close(store);
	reader = open_reader();
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		error[0] = 0;
		if (reader_prepare(reader, refused[i], &statement, error, sizeof(error)) == 0)
			fail_msg("taken: %s", refused[i]);
		assert_string_not_equal(error, "");
	}
	assert_int_equal(reader_prepare(reader, "select 1 ; ", &statement, error, sizeof(error)), 0);
	sqlite3_finalize(statement);
	reader_close(reader);
}

TEST_WITH(time_is_bounded, store_setup, store_teardown)
{
	struct reader_options how = {.timeout_ns = 10 * NSEC_PER_MSEC};
	struct store *store = open_store();
	struct reader *reader;
	sqlite3_stmt *statement;
	char error[256];

	store_close(store);
	assert_int_equal(reader_open(dir, &how, &reader, error, sizeof(error)), 0);
	assert_int_equal(
		reader_prepare(reader, "with r(n) as (select 1 union all select n + 1 from r) select max(n) from r",
			&statement, error, sizeof(error)),
		0);
	assert_int_equal(sqlite3_step(statement), SQLITE_INTERRUPT);
	reader_error(reader, error, sizeof(error));
	assert_non_null(strstr(error, "longer than"));
	sqlite3_finalize(statement);
	reader_close(reader);
}

TEST_WITH(no_store_is_said, store_setup, store_teardown)
{
	struct reader *reader = NULL;
	char error[256] = "";

	assert_int_equal(reader_open("/nonexistent", NULL, &reader, error, sizeof(error)), -ENOENT);
	assert_null(reader);
	assert_non_null(strstr(error, "/nonexistent"));
	assert_non_null(strstr(error, "--state-dir"));
}

TEST_WITH(a_removed_segment_is_no_news, store_setup, store_teardown)
{
	struct reader *reader;
	sqlite3_stmt *statement;
	sqlite3 *plain;
	char error[256], *text;

	plain = make_rows(realtime_ns());
	sqlite3_close(plain);
	reader = open_reader();
	assert_int_equal(reader_prepare(reader, "select count(*) from stages", &statement, error, sizeof(error)), 0);
	sh("rm '%s'/db/events-*-000003.db", dir);
	text = rows_of(statement);
	assert_int_equal(atoi(text), (SEGMENTS - 1) * SEGMENT_ROWS);
	assert_int_equal(warnings, 0);
	free(text);
	sqlite3_finalize(statement);
	reader_close(reader);
}

/* The second statement loads `ranks` again while it reads `findings`. */
TEST_WITH(a_statement_loads_one_table_while_it_reads_another, store_setup, store_teardown)
{
	struct store *store = open_store();
	struct reader *reader;

	put_rank(store, 1, 5, 0);
	store_put_findings(store, &(struct row_findings){
					  .kind = field_text("hang"),
					  .cause = field_text("unknown"),
					  .state = field_text("open"),
					  .severity = field_text("critical"),
					  .tier = field_text("host"),
					  .since_ns = field_time(realtime_ns()),
					  .evidence = field_text("[]"),
					  .sentence = field_text("stored"),
					  .finding = field_int(7),
				  });
	store_close(store);
	reader = open_reader();
	for (unsigned i = 0; i < 2; i++) {
		sqlite3_stmt *statement;
		char error[256], *text;

		assert_int_equal(reader_prepare(reader, "select f.finding, r.rank from findings f cross join ranks r",
					 &statement, error, sizeof(error)),
			0);
		text = rows_of(statement);
		assert_string_equal(text, "7|5\n");
		free(text);
		sqlite3_finalize(statement);
	}
	reader_close(reader);
}

TEST_WITH(newer_versions_are_left_out, store_setup, store_teardown)
{
	sqlite3 *plain = make_rows(realtime_ns());

	sqlite3_close(plain);
	sh("for f in '%s'/db/events-*-000003.db; do printf '\\0\\0\\0\\143' | dd of=$f bs=1 seek=60 conv=notrunc "
	   "status=none; done",
		dir);
	assert_int_equal(query_int("select count(*) from stages"), (SEGMENTS - 1) * SEGMENT_ROWS);
	assert_int_equal(warnings, 1);
}

/* Names of segments on what is none: nobody waits for the other end of a pipe. */
TEST_WITH(what_is_no_file_is_left_out, store_setup, store_teardown)
{
	struct store *store = open_store();

	put_step(store, 1, 1, realtime_ns());
	store_close(store);
	sh("mkfifo '%s/db/summary-20261121T000000Z-000007.db'", dir);
	sh("mkdir '%s/db/summary-20261121T000000Z-000008.db'", dir);
	assert_int_equal(query_int("select count(*) from steps"), 1);
	assert_int_equal(warnings, 2);
}

static void printed(const char *sql, enum output_format format, const char *expected)
{
	struct reader *reader = open_reader();
	sqlite3_stmt *statement;
	char error[256], *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(reader_prepare(reader, sql, &statement, error, sizeof(error)), 0);
	assert_int_equal(output_rows(out, statement, format), SQLITE_DONE);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
	sqlite3_finalize(statement);
	reader_close(reader);
}

TEST_WITH(what_is_printed, store_setup, store_teardown)
{
	struct store *store = open_store();

	store_close(store);
	printed("select 7 as n, 'ab' as text, null as x union all select 1234, 'c', null", OUTPUT_TABLE,
		"   n  text  x\n   7  ab    \n1234  c     \n");
	printed("select 'a' || char(27) || 'b' as t", OUTPUT_TABLE, "t\na?b\n");
	printed("select 1 as a where 0", OUTPUT_TABLE, "a\n");
	printed("select 'a,b' as x, 'q\"q' as y, null as z, 1.5 as r", OUTPUT_CSV,
		"x,y,z,r\r\n\"a,b\",\"q\"\"q\",,1.5\r\n");
	printed("select 9223372036854775807 as n, 'q\"\\' || char(10) as t, null as z", OUTPUT_JSON,
		"[\n{\"n\": 9223372036854775807, \"t\": \"q\\\"\\\\\\u000a\", \"z\": null}\n]\n");
	printed("select cast(x'61ff62c0afe282' as text) as t", OUTPUT_JSON,
		"[\n{\"t\": \"a\xef\xbf\xbd"
		"b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"}\n]\n");
	printed("select 1 where 0", OUTPUT_JSON, "[\n]\n");
}

TEST_MAIN(NULL, NULL)
