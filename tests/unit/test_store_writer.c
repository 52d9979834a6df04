/* SPDX-License-Identifier: Apache-2.0 */
/* The store on a disk that answers late, or never: the caller does not wait, and what is lost is counted. */
#define TEST_ALONE /* replaces fsync() */
#include "tests/unit/store_fixture.h"

#include <glob.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The disk: while it is held, no sync ends. SQLite syncs when a segment is closed. */
static pthread_mutex_t disk_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t disk_changed = PTHREAD_COND_INITIALIZER;
static bool is_held;
static unsigned syncs_held;

static int sync_when_let(long call, int fd)
{
	pthread_mutex_lock(&disk_lock);
	syncs_held += is_held;
	pthread_cond_broadcast(&disk_changed);
	while (is_held)
		pthread_cond_wait(&disk_changed, &disk_lock);
	pthread_mutex_unlock(&disk_lock);
	return (int)syscall(call, fd);
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
	return sync_when_let(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
	return sync_when_let(SYS_fsync, fd);
}

static void hold_disk(bool held)
{
	pthread_mutex_lock(&disk_lock);
	is_held = held;
	syncs_held = 0;
	pthread_cond_broadcast(&disk_changed);
	pthread_mutex_unlock(&disk_lock);
}

static void wait_for_sync(void)
{
	pthread_mutex_lock(&disk_lock);
	while (!syncs_held)
		pthread_cond_wait(&disk_changed, &disk_lock);
	pthread_mutex_unlock(&disk_lock);
}

/* A store whose writer hangs as it closes its first segment; with it the rows that were put before. UTC of then. */
static uint64_t hang(struct store *store, uint64_t now_ns)
{
	assert_int_equal(store_flush(store, now_ns), 0);
	put_stage(store, 1, "passed", now_ns, 1);
	hold_disk(true);
	assert_true(store_pass(store, now_ns + options.segment_ns));
	wait_for_sync();
	return now_ns + options.segment_ns;
}

static int release_and_teardown(void **state)
{
	hold_disk(false);
	return store_teardown(state);
}

TEST_WITH(the_caller_does_not_wait, store_setup, release_and_teardown)
{
	struct store *store = open_store();
	struct store_status status;
	uint64_t now_ns = realtime_ns();

	put_stage(store, 1, "first", now_ns, 1);
	now_ns = hang(store, now_ns);
	/* None of these would end if it waited for the disk. */
	for (int i = 0; i < 100; i++)
		put_stage(store, 1, "waits", now_ns, 1);
	assert_false(store_pass(store, now_ns));
	store_status(store, &status);
	assert_int_equal(status.rows, 1);
	assert_int_equal(status.rows_pending, 101);
	assert_string_equal(status.reason, "");
	usleep(WRITE_SLOW_NS / 1000 + 100000);
	assert_false(store_pass(store, now_ns));
	store_status(store, &status);
	/* The seconds are those that passed: a busy machine adds some. */
	assert_non_null(strstr(status.reason, "is slow: a write has taken "));
	assert_non_null(strstr(status.reason, " s so far; 101 rows wait in memory"));
	hold_disk(false);
	assert_int_equal(store_flush(store, now_ns), 0);
	store_status(store, &status);
	assert_int_equal(status.rows, 102);
	assert_int_equal(status.rows_pending, 0);
	assert_int_equal(status.rows_dropped, 0);
	assert_string_equal(status.reason, "");
	assert_query("select stage, count(*) from stages group by 1", "first|1\npassed|1\nwaits|100\n");
	store_close(store);
}

static void put_clock(struct store *store)
{
	store_put_clock(
		store, &(struct row_clock){.monotonic_ns = field_duration(1), .utc_ns = field_time(realtime_ns())});
}

/* What the writer has counts to the limit of rows in memory, until it is written. */
TEST_WITH(the_limit_is_of_both_batches, store_setup, release_and_teardown)
{
	struct store *store = open_store();
	struct store_status status;
	uint64_t now_ns = realtime_ns();
	const unsigned beyond = 1000;

	put_stage(store, 1, "first", now_ns, 1);
	assert_int_equal(store_flush(store, now_ns), 0);
	for (unsigned i = 0; i < QUEUE_ROWS_MAX / 2; i++)
		put_clock(store);
	hold_disk(true);
	assert_true(store_pass(store, now_ns + options.segment_ns));
	wait_for_sync();
	for (unsigned i = 0; i < QUEUE_ROWS_MAX / 2 + beyond; i++)
		put_clock(store);
	store_status(store, &status);
	assert_int_equal(status.rows_pending, QUEUE_ROWS_MAX);
	assert_int_equal(status.rows_dropped, beyond);
	assert_int_equal(status.drops_count, 1);
	assert_string_equal(status.drops[0].table, "clock");
	assert_string_equal(status.drops[0].reason, "too many rows waited in memory");
	/* There is space as soon as the writer is done, before the next batch is passed. */
	hold_disk(false);
	assert_true(writer_wait(store->writer, UINT64_MAX));
	put_stage(store, 1, "after", now_ns, 1);
	assert_int_equal(store_flush(store, now_ns + options.segment_ns), 0);
	store_status(store, &status);
	assert_int_equal(status.rows_dropped, beyond);
	assert_int_equal(status.rows, QUEUE_ROWS_MAX + 2);
	assert_query("select table_name, count from drops", "clock|1000\n");
	assert_query("select count(*) from stages where stage = 'after'", "1\n");
	store_close(store);
}

/* The same of their bytes. */
TEST_WITH(the_limit_of_bytes_is_too, store_setup, release_and_teardown)
{
	struct store *store = open_store();
	struct store_status status;
	uint64_t now_ns = realtime_ns();
	char text[60001];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	put_stage(store, 1, "first", now_ns, 1);
	assert_int_equal(store_flush(store, now_ns), 0);
	for (unsigned i = 0; i < QUEUE_BYTES_MAX / sizeof(text) / 2; i++)
		put_stage(store, 1, text, now_ns, 1);
	hold_disk(true);
	assert_true(store_pass(store, now_ns + options.segment_ns));
	wait_for_sync();
	for (unsigned i = 0; i < QUEUE_BYTES_MAX / sizeof(text); i++)
		put_stage(store, 1, text, now_ns, 1);
	store_status(store, &status);
	assert_in_range(status.rows_pending, QUEUE_BYTES_MAX / sizeof(text) - 2, QUEUE_BYTES_MAX / sizeof(text) + 1);
	assert_true(status.rows_dropped > 0);
	hold_disk(false);
	assert_int_equal(store_flush(store, now_ns + options.segment_ns), 0);
	assert_int_equal(query_int("select count(*) from stages"), status.rows_pending + 1);
	store_close(store);
}

static void put_open(struct store *store, const char *stage)
{
	store_put_in_flight(store, &(struct row_in_flight){.instance = field_int(1),
					   .stage = field_text(stage),
					   .start_ns = field_time(1000),
					   .thread_id = field_int(1)});
}

/* Ranks, what is in flight and identities are not of one batch: they reach the disk when it answers. */
TEST_WITH(what_outlives_a_batch_is_kept, store_setup, release_and_teardown)
{
	struct store *store = open_store();
	int64_t known, fresh, again, step;
	uint64_t now_ns = realtime_ns();

	assert_int_equal(store_instance(store, "boot", 10, 100, &known), 0);
	put_rank(store, known, 3, 0);
	put_open(store, "forward");
	now_ns = hang(store, now_ns);
	assert_int_equal(store_instance(store, "boot", 11, 100, &fresh), 0);
	put_rank(store, known, 3, 1);
	put_rank(store, fresh, 4, 0);
	put_step(store, known, 7, now_ns);
	for (int i = 0; i < 3; i++) {
		store_replace(store, TABLE_IN_FLIGHT);
		put_open(store, i < 2 ? "forward" : "backward");
		assert_false(store_pass(store, now_ns));
	}
	assert_int_equal(store_last_step(store, known, &step), 0);
	assert_int_equal(step, 7);
	hold_disk(false);
	assert_int_equal(store_flush(store, now_ns), 0);
	assert_query("select rank, ended from ranks order by 1", "3|1\n4|0\n");
	assert_query("select stage from in_flight", "backward\n");
	put_open(store, "added"); /* without a replacement, to what the table holds */
	store_close(store);
	assert_query("select stage from in_flight order by 1", "added\nbackward\n");
	store = open_store();
	assert_int_equal(store_instance(store, "boot", 11, 100, &again), 0);
	assert_int_equal(again, fresh);
	assert_int_equal(store_last_step(store, known, &step), 0);
	assert_int_equal(step, 7);
	store_close(store);
}

/* Somebody else's transaction delays rows, in the order in which they were put, and drops none. */
TEST_WITH(a_foreign_transaction_is_waited_for, store_setup, release_and_teardown)
{
	struct store *store = open_store();
	struct store_status status;
	char pattern[PATH_MAX];
	sqlite3 *db = NULL;
	glob_t found;

	put_stage(store, 1, "before", realtime_ns(), 1);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	snprintf(pattern, sizeof(pattern), "%s/db/events-*.db", dir);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(sqlite3_open(found.gl_pathv[0], &db), SQLITE_OK);
	globfree(&found);
	assert_int_equal(sqlite3_exec(db, "begin immediate", NULL, NULL, NULL), SQLITE_OK);
	for (int i = 0; i < 3; i++) {
		put_stage(store, 1, "during", realtime_ns(), i);
		put_step(store, 1, i, realtime_ns());
		assert_int_equal(store_flush(store, realtime_ns()), -EAGAIN);
	}
	store_status(store, &status);
	assert_int_equal(status.rows_pending, 3); /* the steps are in another file */
	assert_non_null(strstr(status.reason, "somebody else writes"));
	assert_query("select count(*) from steps", "3\n");
	assert_int_equal(sqlite3_exec(db, "rollback", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	assert_query("select duration_ns from stages where stage = 'during' order by rowid", "0\n1\n2\n");
	store_status(store, &status);
	assert_int_equal(status.rows_dropped, 0);
	assert_int_equal(status.rows_pending, 0);
	assert_string_equal(status.reason, "");
	store_close(store);
}

/* In a process of its own: its lock is kept until it ends, as its writer may still write. */
TEST_WITH(a_stop_does_not_wait_for_ever, store_setup, release_and_teardown)
{
	struct store *store;
	int status;
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		struct store *second = NULL;
		uint64_t before_ns;

		store = open_store();
		put_stage(store, 1, "first", realtime_ns(), 1);
		(void)hang(store, realtime_ns());
		before_ns = monotonic_ns();
		store_close(store);
		_exit(monotonic_ns() - before_ns < CLOSE_NS			   ? 1
			: monotonic_ns() - before_ns > CLOSE_NS + 2 * NSEC_PER_SEC ? 2
			: store_open(&options, &second) != -EBUSY		   ? 3
										   : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	store = open_store();
	put_stage(store, 1, "next", realtime_ns(), 1);
	store_close(store);
	assert_query("select stage, count(*) from stages group by 1", "first|1\nnext|1\n");
	assert_int_equal(warnings, 0);
}

/* What a crash left is completed by the writer; identities are there at once. */
TEST_WITH(a_start_does_not_wait, store_setup, release_and_teardown)
{
	struct store *store;
	int64_t instance;
	int status;
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		store = open_store();
		assert_int_equal(store_instance(store, "boot", 10, 100, &instance), 0);
		put_stage(store, instance, "first", realtime_ns(), 1);
		assert_int_equal(store_flush(store, realtime_ns()), 0);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	hold_disk(true);
	store = open_store();
	wait_for_sync();
	assert_int_equal(store_instance(store, "boot", 10, 100, &instance), 0);
	assert_int_equal(instance, 1);
	put_stage(store, instance, "next", realtime_ns(), 1);
	assert_false(store_pass(store, realtime_ns()));
	hold_disk(false);
	store_close(store);
	assert_query("select stage, count(*) from stages group by 1", "first|1\nnext|1\n");
}

TEST_MAIN(NULL, NULL)
