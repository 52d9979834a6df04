/* SPDX-License-Identifier: Apache-2.0 */
/* Segments that somebody else made: no SQL of theirs is run, and what is no plain table is left out, with a
 * sentence. */
#include "tests/unit/store_fixture.h"

#include <glob.h>

#include "analyzers/store/reader_scan.h"

#define ENDLESS "with recursive r(n) as (select 1 union all select n + 1 from r) select "

/* Two segments of events, a stage in each; SQL is run in the first. */
static void two_segments(const char *sql)
{
	struct store *store = open_store();
	char pattern[PATH_MAX];
	sqlite3 *db = NULL;
	glob_t found;

	put_stage(store, 1, "first", realtime_ns(), 1);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	put_stage(store, 2, "second", realtime_ns() + options.segment_ns, 1);
	assert_int_equal(store_flush(store, realtime_ns() + options.segment_ns), 0);
	store_close(store);
	snprintf(pattern, sizeof(pattern), "%s/db/events-*.db", dir);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 2);
	assert_int_equal(sqlite3_open(found.gl_pathv[0], &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	globfree(&found);
}

static int count_row(void *arg, sqlite3_stmt *columns)
{
	++*(unsigned *)arg;
	return 0;
}

/* Rows that the three ways of reading give. */
static void assert_stages(const char *stages, unsigned count)
{
	static const struct reader_scanning scanning = {.table = TABLE_STAGES, .columns = {"rank", "stage"}};
	unsigned followed = 0, scanned = 0;
	struct reader_following following = {
		.table = TABLE_STAGES, .rows_max = 100, .row = count_row, .arg = &followed};
	struct reader_place place = {0};
	struct reader_scan *scan = NULL;
	struct reader *reader = open_reader();
	char error[512] = "";
	int r;

	assert_query("select stage from stages order by stage", stages);
	assert_int_equal(reader_follow(reader, &following, &place, error, sizeof(error)), 0);
	assert_int_equal(followed, count);
	assert_int_equal(reader_scan_open(reader, &scanning, &scan), 0);
	assert_int_equal(reader_scan_begin(scan, INT64_MIN, INT64_MAX, error, sizeof(error)), 0);
	while ((r = reader_scan_next(scan)) == 1)
		scanned++;
	assert_int_equal(r, 0);
	assert_int_equal(scanned, count);
	reader_scan_close(scan);
	reader_close(reader);
}

/* Views, triggers and what else the file defines beside our tables is not used. */
TEST_WITH(own_sql_is_not_run, store_setup, store_teardown)
{
	two_segments("drop view stages; create view stages as " ENDLESS "n as rank from r;"
		     "drop view ranks; create view ranks as " ENDLESS "n as instance from r where n < 0;"
		     "create trigger t after insert on stages_raw begin insert into stages_raw select * from "
		     "stages_raw; end;"
		     "create view other as " ENDLESS "n from r");
	assert_stages("first\nsecond\n", 2);
	assert_query("select count(*) from ranks", "0\n");
	assert_int_equal(warnings, 0);
}

static void assert_left_out(const char *sql)
{
	two_segments(sql);
	assert_stages("second\n", 1);
	assert_true(warnings > 0);
	assert_non_null(strstr(warning, "none that ranktrace writes"));
}

TEST_WITH(a_view_is_no_table, store_setup, store_teardown)
{
	assert_left_out("drop table stages_raw; create view stages_raw as " ENDLESS "n as rank, n as start_ns from r");
}

TEST_WITH(neither_for_texts, store_setup, store_teardown)
{
	assert_left_out("drop table texts; create view texts as " ENDLESS "n as id, 'x' as text from r where n < 0");
}

TEST_WITH(neither_for_times, store_setup, store_teardown)
{
	assert_left_out("drop table spans; create view spans as " ENDLESS
			"n as name, 1 as oldest_ns, 1 as newest_ns from r where n < 0");
}

TEST_WITH(generated_columns_are_refused, store_setup, store_teardown)
{
	assert_left_out("drop table texts; create table texts(id integer primary key,"
			" text as (replace(hex(zeroblob(500000)), '0', 'a')) virtual); insert into texts values(1)");
}

TEST_WITH(virtual_tables_are_refused, store_setup, store_teardown)
{
	if (!sqlite3_compileoption_used("ENABLE_FTS5"))
		skip();
	two_segments("drop table stages_raw; create virtual table stages_raw using fts5(stage)");
	assert_stages("second\n", 1);
	assert_true(warnings > 0);
}

/* A schema may name a view as a table, as sqlite_master is the file's. */
TEST_WITH(a_forged_schema_is_refused, store_setup, store_teardown)
{
	two_segments("drop table stages_raw; create view stages_raw as " ENDLESS "n as rank, n as start_ns from r;"
		     "pragma writable_schema = on;"
		     "update sqlite_master set type = 'table', rootpage = 2 where name = 'stages_raw'");
	assert_stages("second\n", 1);
	assert_true(warnings > 0);
}

/* Without its key the table of texts is read once a row: a square of rows. */
TEST_WITH(a_pass_has_an_end, store_setup, store_teardown)
{
	two_segments("pragma legacy_alter_table = on; create table keyless(id, text); with recursive r(n) as (select 1 "
		     "union all select n + 1 from r where n < 4000)"
		     " insert into keyless select 1000000 + n, n from r; drop table texts; alter table keyless rename "
		     "to texts;"
		     "with recursive r(n) as (select 1 union all select n + 1 from r where n < 4000)"
		     " insert into stages_raw(rank, stage, start_ns) select n, n, n from r");
	assert_query("select count(*) from stages where stage = 'second'", "1\n");
	assert_int_equal(warnings, 1);
	assert_non_null(strstr(warning, "takes too long"));
	/* What needs no text is read. */
	assert_query("select count(*) from stages where rank = 4000", "1\n");
	assert_int_equal(warnings, 1);
}

/* A statement's own limit ends the statement, and says so. */
TEST_WITH(the_statement_has_an_end_too, store_setup, store_teardown)
{
	struct reader_options how = {.timeout_ns = 1, .warning = warned};
	struct reader *reader = NULL;
	sqlite3_stmt *statement = NULL;
	char error[512] = "";

	two_segments("with recursive r(n) as (select 1 union all select n + 1 from r where n < 4000)"
		     " insert into stages_raw(rank, start_ns) select n, n from r");
	assert_int_equal(reader_open(dir, &how, &reader, error, sizeof(error)), 0);
	assert_int_equal(
		reader_prepare(reader, "select rank from stages where rank = -1", &statement, error, sizeof(error)), 0);
	assert_int_equal(sqlite3_step(statement), SQLITE_INTERRUPT);
	reader_error(reader, error, sizeof(error));
	assert_non_null(strstr(error, "longer than"));
	sqlite3_finalize(statement);
	assert_int_equal(warnings, 0);
	reader_close(reader);
}

TEST_WITH(long_texts_are_refused, store_setup, store_teardown)
{
	two_segments("update texts set text = hex(zeroblob(4 << 20)) where text = 'first'");
	assert_query("select count(*) from stages", "2\n");
	assert_query("select count(*) from stages where stage <> ''", "1\n");
	assert_int_equal(warnings, 1);
}

TEST_MAIN(NULL, NULL)
