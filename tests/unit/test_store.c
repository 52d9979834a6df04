/* SPDX-License-Identifier: Apache-2.0 */
/* The store in good times: rows come back, segments roll, old ones go, identities last. */
#include <sys/file.h>
#include <sys/wait.h>
#include "tests/unit/store_fixture.h"

#include <glob.h>

static size_t files(const char *pattern)
{
	char path[PATH_MAX];
	glob_t found;
	size_t n;

	snprintf(path, sizeof(path), "%s/db/%s", dir, pattern);
	n = glob(path, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
	if (n)
		globfree(&found);
	return n;
}

static void first_file(const char *pattern, char *ret, size_t size)
{
	char path[PATH_MAX];
	glob_t found;

	snprintf(path, sizeof(path), "%s/db/%s", dir, pattern);
	assert_int_equal(glob(path, 0, NULL, &found), 0);
	snprintf(ret, size, "%s", found.gl_pathv[0]);
	globfree(&found);
}

TEST_WITH(rows_come_back, store_setup, store_teardown)
{
	struct store *store = open_store();
	uint64_t now = realtime_ns();
	char expected[256];

	put_rank(store, 1, 3, 0);
	put_stage(store, 1, "forward", now, 17);
	put_stage(store, 1, "forward", now + 1, 19);
	assert_int_equal(store_flush(store, now), 0);
	snprintf(expected, sizeof(expected), "1|NULL|forward|n|%llu|17|7|0|1\n1|NULL|forward|n|%llu|19|7|0|1\n",
		(unsigned long long)now, (unsigned long long)now + 1);
	assert_query("select * from stages order by start_ns", expected);
	assert_query("select rank, job, first_seen_ns, host, ended from ranks", "3|job|1000|NULL|0\n");
	store_close(store);
	assert_query("select * from stages order by start_ns", expected);
	assert_int_equal(files("*-wal"), 0);
	assert_int_equal(files("*-shm"), 0);
}

/* Without the reader: anyone may open a segment. */
TEST_WITH(a_segment_is_complete, store_setup, store_teardown)
{
	struct store *store = open_store();
	uint64_t now = realtime_ns();
	char path[PATH_MAX], *text;
	sqlite3_stmt *statement;
	sqlite3 *db;

	put_rank(store, 1, 3, 0);
	for (int i = 0; i < 100; i++)
		put_stage(store, 1, i % 2 ? "forward" : "backward", now + (uint64_t)i, 1);
	store_close(store);
	first_file("events-*.db", path, sizeof(path));
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(
		sqlite3_prepare_v2(db,
			"select stage, count(*), min(start_ns), (select rank from ranks), (select count(*) from texts),"
			" (select typeof(stage) from stages_raw) from stages group by 1",
			-1, &statement, NULL),
		SQLITE_OK);
	text = rows_of(statement);
	sqlite3_finalize(statement);
	sqlite3_close(db);
	/* texts: job, n, forward, backward */
	char expected[256];

	snprintf(expected, sizeof(expected), "backward|50|%llu|3|4|integer\nforward|50|%llu|3|4|integer\n",
		(unsigned long long)now, (unsigned long long)now + 1);
	assert_string_equal(text, expected);
	free(text);
}

/* A row that does not fit its table is no row, and is counted: for that table, in status and in the store. */
TEST_WITH(wrong_rows_are_refused, store_setup, store_teardown)
{
	struct store_value clock[COLUMNS_CLOCK] = {
		{.type = STORE_INT, .integer = 1}, {.type = STORE_TEXT, .text = "late"}};
	struct store *store = open_store();
	struct store_status status;

	store_put_values(store, TABLE_CLOCK, clock);
	store_put_values(store, TABLE_CLOCK, clock);
	store_put_ranks(store, &(struct row_ranks){.rank = field_int(7)}); /* without its key */
	store_remove(store, TABLE_CLOCK, 1);				   /* has none */
	put_stage(store, 1, "forward", realtime_ns(), 17);
	assert_int_equal(store_replace(store, TABLE_CLOCK), -EINVAL);
	store_status(store, &status);
	assert_int_equal(status.rows_dropped, 4);
	assert_int_equal(status.drops_count, 2);
	assert_string_equal(status.drops[0].table, "ranks");
	assert_string_equal(status.drops[0].reason, "row refused");
	assert_int_equal(status.drops[0].rows, 1);
	assert_string_equal(status.drops[1].table, "clock");
	assert_int_equal(status.drops[1].rows, 3);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	assert_query("select source, reason, table_name, count from drops order by 3",
		"store|row refused|clock|3\nstore|row refused|ranks|1\n");
	/* Once in the view, and since the start in status. */
	put_stage(store, 1, "forward", realtime_ns(), 17);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	assert_query("select count(*) from drops", "2\n");
	assert_query("select count(*) from stages", "2\n");
	store_status(store, &status);
	assert_int_equal(status.drops[1].rows, 3);
	store_close(store);
}

TEST_WITH(second_opener_is_refused, store_setup, store_teardown)
{
	struct store *store = open_store(), *second = NULL;

	assert_int_equal(store_open(&options, &second), -EBUSY);
	assert_null(second);
	store_close(store);
	store = open_store();
	store_close(store);
}

/* What a killed daemon was starting has the lock for a moment. */
TEST_WITH(a_lock_for_a_moment_is_waited_for, store_setup, store_teardown)
{
	struct store *store = open_store();
	char path[PATH_MAX];
	int fd;

	store_close(store);
	snprintf(path, sizeof(path), "%s/lock", dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	if (fork() == 0) {
		usleep(300000);
		_exit(0);
	}
	close(fd); /* the child has it */
	store = open_store();
	store_close(store);
	while (wait(NULL) < 0 && errno == EINTR)
		;
}

TEST_WITH(identities_last, store_setup, store_teardown)
{
	struct store *store = open_store();
	int64_t a, b, again, step;

	assert_int_equal(store_instance(store, "boot", 10, 100, &a), 0);
	assert_int_equal(store_instance(store, "boot", 10, 101, &b), 0);
	assert_int_equal(a, 1);
	assert_int_equal(b, 2);
	for (int i = 1; i <= 41; i++)
		put_step(store, a, i, realtime_ns());
	store_close(store);
	store = open_store();
	assert_int_equal(store_instance(store, "boot", 10, 100, &again), 0);
	assert_int_equal(again, a);
	assert_int_equal(store_last_step(store, a, &step), 0);
	assert_int_equal(step, 41);
	assert_int_equal(store_last_step(store, b, &step), 0);
	assert_int_equal(step, 0);
	assert_int_equal(store_instance(store, "other boot", 10, 100, &again), 0);
	assert_int_equal(again, 3);
	store_close(store);
}

TEST_WITH(rolls_by_time, store_setup, store_teardown)
{
	struct store *store = open_store();
	uint64_t now = realtime_ns();

	put_rank(store, 1, 0, 0);
	put_rank(store, 2, 1, 0);
	for (unsigned i = 0; i < 13; i++) {
		put_stage(store, 1, "forward", now + i * options.segment_ns, i);
		assert_int_equal(store_flush(store, now + i * options.segment_ns), 0);
	}
	put_rank(store, 1, 0, 1);
	assert_int_equal(store_flush(store, now + 12 * options.segment_ns + 1), 0);
	assert_int_equal(files("events-*.db"), 13);
	assert_query("select count(*), sum(duration_ns) from stages", "13|78\n");
	/* The newest row of a key wins, over all segments. */
	assert_query("select rank, ended from ranks order by rank", "0|1\n1|0\n");
	assert_query("select count(*) from stages join ranks using (instance) where ended = 1", "13\n");
	store_close(store);
}

TEST_WITH(rolls_by_size_and_keeps_to_it, store_setup, store_teardown)
{
	struct store_status status;
	struct store *store;
	uint64_t now = realtime_ns();

	options.events_size_bytes_max = 2UL << 20;
	store = open_store();
	for (int i = 0; i < 60; i++) {
		for (int j = 0; j < 3000; j++)
			put_stage(store, 1, "forward", now + (uint64_t)i, i);
		assert_int_equal(store_flush(store, now + (uint64_t)i), 0);
	}
	store_status(store, &status);
	assert_true(status.segments > 2);
	assert_true(status.segments_removed > 0);
	assert_true(folder_size(&store->writer->folder, TIER_EVENTS) <= options.events_size_bytes_max);
	assert_int_equal(status.rows, 180000);
	assert_int_equal(status.rows_dropped, 0);
	/* The oldest went, the newest is kept. */
	assert_int_equal(query_int("select max(duration_ns) from stages"), 59);
	assert_true(query_int("select min(duration_ns) from stages") > 0);
	store_close(store);
}

TEST_WITH(old_ones_go, store_setup, store_teardown)
{
	struct store *store;
	uint64_t now = realtime_ns();

	options.events_age_ns_max = 5 * options.segment_ns;
	store = open_store();
	for (unsigned i = 0; i < 12; i++) {
		put_stage(store, 1, "forward", now + i * options.segment_ns, i);
		put_step(store, 1, i, now + i * options.segment_ns);
		assert_int_equal(store_flush(store, now + i * options.segment_ns), 0);
	}
	assert_query("select min(duration_ns), max(duration_ns) from stages", "5|11\n");
	/* Summaries have an age of their own. */
	assert_query("select min(step), max(step) from steps", "0|11\n");
	store_close(store);
}

/* A clock that jumps ten years ahead, and later back: nothing goes that was not replaced by something newer. */
TEST_WITH(a_wrong_clock_takes_little, store_setup, store_teardown)
{
	uint64_t now = realtime_ns(), wrong = now + 10 * 365 * 24 * 3600 * NSEC_PER_SEC;
	struct store *store;
	size_t before;

	options.events_age_ns_max = 20 * options.segment_ns;
	options.summary_age_ns_max = 20 * options.segment_ns;
	store = open_store();
	for (unsigned i = 0; i < 12; i++) {
		put_stage(store, 1, "forward", now + i * options.segment_ns, i);
		put_step(store, 1, i, now + i * options.segment_ns);
		assert_int_equal(store_flush(store, now + i * options.segment_ns), 0);
	}
	assert_int_equal(files("events-*.db"), 12);
	before = files("summary-*.db");
	for (unsigned i = 0; i < 100; i++) {
		put_stage(store, 1, "forward", wrong + i, 100 + i);
		put_step(store, 1, 100 + i, wrong + i);
		assert_int_equal(store_flush(store, wrong + i), 0);
	}
	assert_true(files("events-*.db") >= 11);
	assert_true(files("summary-*.db") >= before - 1);
	/* The daemon is restarted under the wrong clock: a new file again, and two more go. */
	store_close(store);
	store = open_store();
	put_stage(store, 1, "forward", wrong + 2 * options.segment_ns, 300);
	assert_int_equal(store_flush(store, wrong + 2 * options.segment_ns), 0);
	assert_true(files("events-*.db") >= 9);
	store_close(store);
}

/* What a stopped daemon left goes too, two files for each new one. */
TEST_WITH(a_backlog_drains, store_setup, store_teardown)
{
	uint64_t now = realtime_ns();
	struct store *store;

	options.events_age_ns_max = 3 * options.segment_ns;
	store = open_store();
	for (unsigned i = 0; i < 10; i++) {
		put_stage(store, 1, "old", now - (100 - i) * options.segment_ns, i);
		assert_int_equal(store_flush(store, now - (100 - i) * options.segment_ns), 0);
	}
	for (unsigned i = 0; i < 12; i++) {
		put_stage(store, 1, "new", now + i * options.segment_ns, i);
		assert_int_equal(store_flush(store, now + i * options.segment_ns), 0);
	}
	assert_int_equal(query_int("select count(*) from stages where stage = 'old'"), 0);
	store_close(store);
}

static void put_open(struct store *store, int64_t instance, const char *stage)
{
	const struct row_in_flight row = {.rank = field_int(0),
		.step = field_int(1),
		.stage = field_text(stage),
		.name = field_text(""),
		.start_ns = field_time(realtime_ns()),
		.thread_id = field_int(1),
		.depth = field_int(0),
		.instance = field_int(instance)};

	store_put_in_flight(store, &row);
}

TEST_WITH(now_is_now, store_setup, store_teardown)
{
	struct store *store = open_store();
	uint64_t now = realtime_ns();

	put_open(store, 1, "forward");
	put_open(store, 1, "sync");
	assert_int_equal(store_flush(store, now), 0);
	assert_query("select stage from in_flight order by 1", "forward\nsync\n");
	store_replace(store, TABLE_IN_FLIGHT);
	put_open(store, 1, "backward");
	assert_int_equal(store_flush(store, now), 0);
	assert_query("select stage from in_flight", "backward\n");
	/* Still true in the next segment. */
	assert_int_equal(store_flush(store, now + options.segment_ns), 0);
	assert_query("select stage from in_flight", "backward\n");
	store_replace(store, TABLE_IN_FLIGHT);
	assert_int_equal(store_flush(store, now + options.segment_ns), 0);
	assert_query("select stage from in_flight", "");
	store_close(store);
}

TEST_WITH(clock_steps_are_noted, store_setup, store_teardown)
{
	struct store *store = open_store();
	uint64_t mono = monotonic_ns();
	int64_t off = (int64_t)(store_utc_ns(store, mono) - realtime_ns());

	assert_true(off < (int64_t)NSEC_PER_SEC && off > -(int64_t)NSEC_PER_SEC);
	store_clock_note(store, 1000, 5000);
	assert_int_equal(store_utc_ns(store, 1500), 5500);
	store_clock_note(store, 2000, 6000 + NSEC_PER_MSEC); /* not more than a millisecond */
	store_clock_note(store, 3000, 7000 + 3 * NSEC_PER_MSEC);
	assert_int_equal(store->batch.rows[TIER_EVENTS].rows, 2);
	/* The flush reads the true clocks again (a third step) and writes the segment's own row. */
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	assert_query("select count(*) from clock where monotonic_ns in (1000, 3000)", "2\n");
	assert_query("select count(*) from clock", "4\n");
	store_close(store);
}

TEST_WITH(goes_on_with_the_newest, store_setup, store_teardown)
{
	struct store *store = open_store();

	put_stage(store, 1, "forward", realtime_ns(), 1);
	store_close(store);
	store = open_store();
	put_stage(store, 1, "forward", realtime_ns(), 2);
	store_close(store);
	assert_int_equal(files("events-*.db"), 1);
	assert_query("select sum(duration_ns) from stages", "3\n");
}

static struct store_value int_value(int64_t integer)
{
	return (struct store_value){.type = STORE_INT, .integer = integer};
}

static struct store_value text_value(const char *text)
{
	return (struct store_value){.type = STORE_TEXT, .text = text};
}

/* Any value comes out of the queue as it went in; a text without letters is one still, and NULL is none. */
TEST(values_are_packed)
{
	static const double reals[] = {0.0, -0.0, 0.5, -1e308, 5e-324};
	static const int64_t integers[] = {0, 1, -1, 127, -128, 128, 1LL << 32, INT64_MAX, INT64_MIN};
	char longest[STORE_TEXT_BYTES_MAX + 10];
	struct store_value put[SCHEMA_COLUMNS_MAX], taken[SCHEMA_COLUMNS_MAX];
	size_t n = 0, offset = 0, count;
	struct queue queue = {0};
	enum schema_id table;

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	put[n++] = (struct store_value){.type = STORE_NULL, .integer = 7};
	put[n++] = text_value(NULL);
	put[n++] = text_value("");
	put[n++] = text_value("one");
	put[n++] = text_value(longest);
	for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++)
		put[n++] = (struct store_value){.type = STORE_REAL, .real = reals[i]};
	for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++)
		put[n++] = int_value(integers[i]);
	assert_int_equal(queue_put(&queue, TABLE_STAGES, put, n), 0);
	assert_int_equal(queue_put(&queue, TABLE_RANKS, put, 0), 0);
	assert_true(queue_next(&queue, &offset, &table, taken, &count));
	assert_int_equal(table, TABLE_STAGES);
	assert_int_equal(count, n);
	assert_int_equal(taken[0].type, STORE_NULL);
	assert_int_equal(taken[1].type, STORE_NULL);
	assert_string_equal(taken[2].text, "");
	assert_string_equal(taken[3].text, "one");
	assert_int_equal(strlen(taken[4].text), STORE_TEXT_BYTES_MAX);
	for (size_t i = 5; i < n; i++) {
		assert_int_equal(taken[i].type, put[i].type);
		assert_int_equal(taken[i].integer, put[i].integer);
	}
	assert_true(queue_next(&queue, &offset, &table, taken, &count));
	assert_true(table == TABLE_RANKS && count == 0);
	assert_false(queue_next(&queue, &offset, &table, taken, &count));
	queue_free(&queue);
}

/* A number takes as many bytes as it needs: most columns of a row are absent or small. */
TEST(small_values_take_little)
{
	const struct store_value put[] = {int_value(-5), {.type = STORE_NULL}, int_value(300), int_value(0)};
	struct queue queue = {0};

	assert_int_equal(queue_put(&queue, TABLE_STAGES, put, 4), 0);
	assert_int_equal(queue.used, 2 + 2 + 1 + 3 + 1);
	queue_free(&queue);
}

TEST_WITH(memory_is_bounded, store_setup, store_teardown)
{
	struct store *store = open_store();
	struct store_status status;
	uint64_t now = realtime_ns();
	unsigned n = 1000;

	for (unsigned i = 0; i < QUEUE_ROWS_MAX + n; i++)
		put_stage(store, 1, "forward", now, 1);
	store_status(store, &status);
	assert_true(status.rows_pending <= QUEUE_ROWS_MAX);
	assert_int_equal(status.rows_pending + status.rows_dropped, QUEUE_ROWS_MAX + n);
	assert_int_equal(store_flush(store, now), 0); /* store_close() alone waits for CLOSE_NS at most */
	store_close(store);
	assert_int_equal(query_int("select sum(count) from drops where source = 'store'"), status.rows_dropped);
	assert_int_equal(query_int("select count(*) from stages"), status.rows_pending);
}

/* Many rows of one state table push none of another out, and of their own those that changed longest ago. */
TEST_WITH(test_state_tables_are_apart, store_setup, store_teardown)
{
	struct store *store = open_store();
	struct row_communicators row = {.family = field_text("gloo")};

	put_rank(store, 1, 0, 0);
	for (int64_t i = 0; i < 2 * STATE_ROWS_MAX; i++) {
		row.communicator_key = field_int(2 * STATE_ROWS_MAX - i); /* keys say nothing of age */
		store_put_communicators(store, &row);
	}
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	assert_query("select count(*) from ranks", "1\n");
	assert_query(
		"select count(*), min(communicator_key), max(communicator_key) from communicators", "4096|1|4096\n");
	store_close(store);
}

/* A row with nothing but its key takes the row of that key away: for the reader and in the file. */
TEST_WITH(test_state_row_is_taken_away, store_setup, store_teardown)
{
	struct store *store = open_store();
	struct row_communicators row = {.family = field_text("gloo")};
	sqlite3_stmt *statement = NULL;
	char pattern[PATH_MAX], *text;
	sqlite3 *db = NULL;
	glob_t found;

	for (int64_t key = 1; key <= 3; key++) {
		row.communicator_key = field_int(key);
		store_put_communicators(store, &row);
		assert_int_equal(store_flush(store, realtime_ns()), 0);
	}
	store_remove(store, TABLE_COMMUNICATORS, 2);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	assert_query("select communicator_key from communicators order by 1", "1\n3\n");
	store_close(store);
	snprintf(pattern, sizeof(pattern), "%s/db/events-*.db", dir);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(sqlite3_open(found.gl_pathv[0], &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "select count(*) from communicators", -1, &statement, NULL), SQLITE_OK);
	text = rows_of(statement);
	assert_string_equal(text, "2\n");
	free(text);
	sqlite3_finalize(statement);
	sqlite3_close(db);
	globfree(&found);
}

TEST_MAIN(NULL, NULL)
