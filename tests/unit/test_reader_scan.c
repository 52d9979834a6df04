/* SPDX-License-Identifier: Apache-2.0 */
/* Scans: row by row what the views say, in every range of times, side by side, and of files that are not as they should
 * be. */
#include "tests/unit/store_fixture.h"

#include <dirent.h>

#include "analyzers/store/reader_scan.h"

#define SEGMENTS 12
#define SEGMENT_ROWS 60

enum { RANK, STEP, STAGE, NAME, START, DURATION, NOTHING };
enum { FORWARD, ABSENT };

static const struct reader_scanning scanning = {
	.table = TABLE_STAGES,
	.columns = {"rank", "step", "stage", "name", "start_ns", "duration_ns", "no such column"},
	.words = {[FORWARD] = "forward", [ABSENT] = "in no file"},
};
static const char *const stages[] = {"forward", "backward", "optimizer", "Forward", "1"};
static uint64_t seed;

static unsigned random_below(unsigned n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(seed >> 33) % n;
}

/* Rows over many segments, some older than their segment. */
static void make_rows(uint64_t now)
{
	struct store *store = open_store();

	for (unsigned i = 0; i < SEGMENTS; i++) {
		uint64_t at = now + i * options.segment_ns;

		for (unsigned j = 0; j < SEGMENT_ROWS; j++) {
			int64_t rank = random_below(4), step = random_below(4);
			uint64_t start_ns = at + random_below(1000) * NSEC_PER_SEC - random_below(9000) * NSEC_PER_SEC;
			char name[16];
			const struct row_stages row = {.rank = field_int(rank),
				.step = field_int_if(step, step - 1),
				.stage = field_text(stages[random_below(ARRAY_SIZE(stages))]),
				.name = field_text(step > 1 ? name : NULL),
				.start_ns = field_time(start_ns),
				.duration_ns = field_duration_if(random_below(5), random_below(100)),
				.thread_id = field_int(7),
				.depth = field_int(0),
				.instance = field_int(rank + 1)};

			snprintf(name, sizeof(name), "n%u", random_below(40));
			store_put_stages(store, &row);
		}
		assert_int_equal(store_flush(store, at), 0);
	}
	store_close(store);
}

static struct reader_scan *begin(
	struct reader *reader, const struct reader_scanning *what, int64_t since, int64_t until)
{
	struct reader_scan *scan = NULL;
	char error[256] = "";

	assert_int_equal(reader_scan_open(reader, what, &scan), 0);
	assert_int_equal(reader_scan_next(scan), 0);
	if (reader_scan_begin(scan, since, until, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	return scan;
}

static void print_number(FILE *out, struct reader_scan *scan, size_t column)
{
	const struct reader_row *row = reader_scan_row(scan);

	if (reader_row_has(row, column))
		fprintf(out, "%lld|", (long long)row->value[column]);
	else
		fprintf(out, "NULL|");
}

static void print_row(FILE *out, struct reader_scan *scan)
{
	const char *stage = reader_scan_text(scan, STAGE), *name = reader_scan_text(scan, NAME);

	print_number(out, scan, RANK);
	print_number(out, scan, STEP);
	fprintf(out, "%s|%s|", stage ? stage : "NULL", name ? name : "NULL");
	print_number(out, scan, START);
	print_number(out, scan, DURATION);
	print_number(out, scan, NOTHING);
	fprintf(out, "%d\n", reader_scan_is(scan, STAGE, FORWARD));
	assert_false(reader_scan_is(scan, STAGE, ABSENT));
}

static char *scanned(struct reader_scan *scan)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int r;

	while ((r = reader_scan_next(scan)) > 0)
		print_row(out, scan);
	assert_int_equal(r, 0);
	assert_int_equal(reader_scan_next(scan), 0);
	fclose(out);
	return text;
}

#define SELECT \
	"select rank, step, stage, name, start_ns, duration_ns, null, stage = 'forward' from stages where start_ns " \
	">= %lld" \
	" and start_ns < %lld"

static void assert_as_view(struct reader_scan *scan, int64_t since, int64_t until)
{
	char sql[512], *expected, *got = scanned(scan);

	snprintf(sql, sizeof(sql), SELECT, (long long)since, (long long)until);
	expected = query(sql);
	assert_string_equal(got, expected);
	free(expected);
	free(got);
}

TEST_WITH(as_the_view, store_setup, store_teardown)
{
	uint64_t now = realtime_ns();
	struct reader *reader;
	struct reader_scan *scan;
	char error[256], *all;

	make_rows(now);
	reader = open_reader();
	scan = begin(reader, &scanning, INT64_MIN, INT64_MAX);
	all = scanned(scan);
	assert_int_equal(reader_scan_begin(scan, 0, INT64_MAX, error, sizeof(error)), 0);
	assert_as_view(scan, 0, INT64_MAX);
	for (unsigned i = 0; i < 30; i++) {
		int64_t since = (int64_t)(now + random_below(SEGMENTS) * options.segment_ns -
					  random_below(9000) * NSEC_PER_SEC),
			until = since + (int64_t)(random_below(20000) * NSEC_PER_SEC);

		assert_int_equal(reader_scan_begin(scan, since, until, error, sizeof(error)), 0);
		/* Left in the middle, and begun again. */
		for (unsigned k = random_below(100); k > 0 && reader_scan_next(scan) > 0; k--)
			continue;
		assert_int_equal(reader_scan_begin(scan, since, until, error, sizeof(error)), 0);
		assert_as_view(scan, since, until);
	}
	assert_non_null(all);
	assert_int_equal(query_int("select count(*) from stages"), SEGMENTS * SEGMENT_ROWS);
	free(all);
	reader_scan_close(scan);
	reader_close(reader);
	assert_int_equal(warnings, 0);
}

/* Of one reader, in the same file and in others, with statements between. */
TEST_WITH(side_by_side, store_setup, store_teardown)
{
	uint64_t now = realtime_ns();
	char *expected[2], *text[2] = {NULL};
	struct reader_scan *scan[2];
	sqlite3_stmt *statement;
	struct reader *reader;
	FILE *out[2];
	char error[256];
	bool more[2] = {true, true};
	size_t size[2];

	make_rows(now);
	reader = open_reader();
	for (unsigned i = 0; i < 2; i++) {
		int64_t since = i ? (int64_t)(now + SEGMENTS / 2 * options.segment_ns) : INT64_MIN;

		scan[i] = begin(reader, &scanning, since, INT64_MAX);
		expected[i] = scanned(scan[i]);
		assert_int_equal(reader_scan_begin(scan[i], since, INT64_MAX, error, sizeof(error)), 0);
		out[i] = open_memstream(&text[i], &size[i]);
	}
	while (more[0] || more[1]) {
		unsigned i = random_below(2);

		more[i] = more[i] && reader_scan_next(scan[i]) > 0;
		if (more[i])
			print_row(out[i], scan[i]);
		if (random_below(50) == 0) {
			assert_int_equal(
				reader_prepare(reader, "select count(*) from stages", &statement, error, sizeof(error)),
				0);
			assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
			sqlite3_finalize(statement);
		}
	}
	for (unsigned i = 0; i < 2; i++) {
		fclose(out[i]);
		assert_string_equal(text[i], expected[i]);
		assert_true(strlen(text[i]) > 0);
		free(text[i]);
		free(expected[i]);
		reader_scan_close(scan[i]);
	}
	reader_close(reader);
}

static size_t count(struct reader_scan *scan)
{
	size_t rows = 0;

	while (reader_scan_next(scan) > 0)
		rows++;
	return rows;
}

TEST_WITH(damaged_files, store_setup, store_teardown)
{
	struct reader_scan *scan;
	struct reader *reader;

	make_rows(realtime_ns());
	sh("for f in '%s'/db/events-*-000003.db; do head -c 100 /dev/zero >$f; done", dir);
	sh("rm '%s'/db/events-*-000005.db", dir);
	reader = open_reader();
	scan = begin(reader, &scanning, INT64_MIN, INT64_MAX);
	assert_int_equal(count(scan), query_int("select count(*) from stages"));
	assert_int_equal(warnings, 2); /* one of them is the query's */
	reader_scan_close(scan);
	reader_close(reader);
}

/* Who wrote them knew fewer columns, or means no good. */
static void change_files(const char *sql)
{
	struct dirent *entry;
	char folder[PATH_MAX], path[2 * PATH_MAX];
	DIR *files;

	snprintf(folder, sizeof(folder), "%s/db", dir);
	files = opendir(folder);
	assert_non_null(files);
	while ((entry = readdir(files))) {
		sqlite3 *db;

		if (strncmp(entry->d_name, "events-", 7) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
		assert_int_equal(sqlite3_close(db), SQLITE_OK);
	}
	closedir(files);
}

TEST_WITH(columns_that_a_file_lacks, store_setup, store_teardown)
{
	struct reader_scan *scan;
	struct reader *reader;

	make_rows(realtime_ns());
	change_files("create table less as select rank, start_ns from stages_raw;"
		     "drop view stages; drop table stages_raw; alter table less rename to stages_raw");
	reader = open_reader();
	scan = begin(reader, &scanning, INT64_MIN, INT64_MAX);
	assert_int_equal(reader_scan_next(scan), 1);
	assert_true(reader_row_has(reader_scan_row(scan), RANK));
	assert_true(reader_row_has(reader_scan_row(scan), START));
	assert_false(reader_row_has(reader_scan_row(scan), STEP));
	assert_int_equal(reader_scan_row(scan)->value[STEP], 0);
	assert_null(reader_scan_text(scan, STAGE));
	assert_int_equal(1 + count(scan), SEGMENTS * SEGMENT_ROWS);
	reader_scan_close(scan);
	reader_close(reader);
}

/* No row is in times of a file that does not know its times. */
TEST_WITH(files_without_times, store_setup, store_teardown)
{
	struct reader_scan *scan;
	struct reader *reader;

	make_rows(realtime_ns());
	change_files("delete from spans; create table less as select rank from stages_raw;"
		     "drop view stages; drop table stages_raw; alter table less rename to stages_raw");
	reader = open_reader();
	scan = begin(reader, &scanning, 0, INT64_MAX);
	assert_int_equal(count(scan), 0);
	reader_scan_close(scan);
	reader_close(reader);
}

TEST_WITH(numbers_that_are_none, store_setup, store_teardown)
{
	struct reader_scan *scan;
	struct reader *reader;

	make_rows(realtime_ns());
	change_files("delete from stages_raw where rowid > 4;"
		     "update stages_raw set start_ns = 9223372036854775807, stage = -1 where rowid = 1;"
		     "update stages_raw set start_ns = 'x', rank = 1e300, stage = 'x' where rowid = 2;"
		     "update stages_raw set start_ns = x'00', duration_ns = '12', stage = 1e300 where rowid = 3;"
		     "update stages_raw set start_ns = null, stage = null where rowid = 4");
	reader = open_reader();
	scan = begin(reader, &scanning, INT64_MIN, INT64_MAX);
	for (unsigned i = 0; i < SEGMENTS; i++) {
		assert_int_equal(reader_scan_next(scan), 1);
		assert_true(reader_scan_row(scan)->value[START] == INT64_MAX);
		assert_null(reader_scan_text(scan, STAGE));
		assert_int_equal(reader_scan_next(scan), 1);
		assert_true(reader_scan_row(scan)->value[RANK] == INT64_MAX);
		assert_null(reader_scan_text(scan, STAGE));
		assert_int_equal(reader_scan_next(scan), 1);
		assert_int_equal(reader_scan_row(scan)->value[DURATION], 12);
		assert_null(reader_scan_text(scan, STAGE));
		assert_int_equal(reader_scan_next(scan), 1);
		assert_false(reader_row_has(reader_scan_row(scan), START));
		assert_null(reader_scan_text(scan, STAGE));
	}
	assert_int_equal(reader_scan_next(scan), 0);
	assert_int_equal(warnings, 0);
	reader_scan_close(scan);
	reader_close(reader);
}

/* More texts than are remembered, each once and then all again; and one that is longer than what is given. */
TEST_WITH(many_texts, store_setup, store_teardown)
{
	enum { TEXTS = 40000 };
	struct store *store = open_store();
	struct reader_scan *scan;
	struct reader *reader;
	uint64_t now = realtime_ns();
	char name[400];

	for (unsigned i = 0; i < 2 * TEXTS; i++) {
		const struct row_stages row = {.rank = field_int(0),
			.stage = field_text("forward"),
			.name = field_text(name),
			.start_ns = field_time(now),
			.duration_ns = field_duration(1),
			.thread_id = field_int(7),
			.depth = field_int(0),
			.instance = field_int(1)};

		snprintf(name, sizeof(name), "name %u", i % TEXTS);
		if (i == 1)
			memset(name, 'x', sizeof(name) - 1);
		store_put_stages(store, &row);
	}
	assert_int_equal(store_flush(store, now), 0);
	store_close(store);
	reader = open_reader();
	scan = begin(reader, &scanning, INT64_MIN, INT64_MAX);
	for (unsigned i = 0; i < 2 * TEXTS; i++) {
		const char *text;

		assert_int_equal(reader_scan_next(scan), 1);
		text = reader_scan_text(scan, NAME);
		snprintf(name, sizeof(name), "name %u", i % TEXTS);
		if (i == 1)
			assert_int_equal(strlen(text), READER_SCAN_TEXT_BYTES - 1);
		else
			assert_string_equal(text, name);
		assert_string_equal(reader_scan_text(scan, STAGE), "forward");
	}
	assert_int_equal(reader_scan_next(scan), 0);
	reader_scan_close(scan);
	reader_close(reader);
}

TEST_WITH(time_is_bounded, store_setup, store_teardown)
{
	struct reader_options how = {.timeout_ns = 1};
	struct reader_scan *scan;
	struct reader *reader;
	char error[256];

	make_rows(realtime_ns());
	change_files(
		"delete from spans; delete from stages_raw; with recursive r(n) as (select 1 union all select n + 1"
		" from r where n < 20000) insert into stages_raw(rank, start_ns) select n, 1 << 62 from r");
	assert_int_equal(reader_open(dir, &how, &reader, error, sizeof(error)), 0);
	scan = begin(reader, &scanning, 0, (int64_t)realtime_ns());
	assert_int_equal(reader_scan_next(scan), -EINTR);
	reader_scan_error(scan, error, sizeof(error));
	assert_non_null(strstr(error, dir));
	assert_int_equal(reader_scan_next(scan), 0);
	reader_scan_close(scan);
	reader_close(reader);
}

TEST_MAIN(NULL, NULL)
