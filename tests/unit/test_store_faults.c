/* SPDX-License-Identifier: Apache-2.0 */
/* The store under faults: killed, damaged, disk full. What was flushed is there; what is missing is counted. */
#include "tests/unit/store_fixture.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define KILLED_ROWS 1009

static void newest_file(const char *pattern, char *ret, size_t size)
{
	char path[PATH_MAX];
	glob_t found;

	snprintf(path, sizeof(path), "%s/db/%s", dir, pattern);
	assert_int_equal(glob(path, 0, NULL, &found), 0);
	snprintf(ret, size, "%s", found.gl_pathv[found.gl_pathc - 1]);
	globfree(&found);
}

static void overwrite(const char *path, off_t at, size_t count)
{
	char noise[8192];
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	memset(noise, 0xa5, sizeof(noise));
	assert_true(fd >= 0 && count <= sizeof(noise));
	assert_int_equal(pwrite(fd, noise, count, at), (ssize_t)count);
	close(fd);
}

static int fault_teardown(void **state)
{
	(void)umount2(dir, MNT_DETACH);
	return store_teardown(state);
}

TEST_WITH(killed_store_keeps_what_was_flushed, store_setup, fault_teardown)
{
	int status, ready[2];
	struct store *store;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		store = NULL;
		if (store_open(&options, &store) < 0)
			_exit(1);
		for (int i = 0; i < KILLED_ROWS; i++)
			put_stage(store, 1, "forward", realtime_ns(), 1);
		put_step(store, 1, 1, realtime_ns());
		if (store_flush(store, realtime_ns()) < 0)
			_exit(1);
		for (int i = 0; i < 77; i++)
			put_stage(store, 1, "lost", realtime_ns(), 1);
		(void)!write(ready[1], "x", 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));

	/* The reader needs no recovery by the daemon, and the daemon goes on with the same file. */
	assert_int_equal(query_int("select count(*) from stages where stage = 'forward'"), KILLED_ROWS);
	store = open_store();
	put_stage(store, 1, "forward", realtime_ns(), 1);
	store_close(store);
	assert_int_equal(query_int("select count(*) from stages"), KILLED_ROWS + 1);
	assert_int_equal(warnings, 0);
}

/* One closed segment and one that is newest, each with a row. */
static void two_segments(void)
{
	struct store *store = open_store();
	uint64_t now = realtime_ns();

	for (int i = 0; i < 3000; i++)
		put_stage(store, 1, "old", now - options.segment_ns - NSEC_PER_SEC, i);
	assert_int_equal(store_flush(store, now - options.segment_ns - NSEC_PER_SEC), 0);
	for (int i = 0; i < 3000; i++)
		put_stage(store, 1, "new", now, i);
	put_step(store, 1, 5, now);
	assert_int_equal(store_flush(store, now), 0);
	store_close(store);
}

#define STAGES_ROOT (-1) /* where the table of stages begins: what every reader of it meets */

static off_t stages_root(const char *path)
{
	sqlite3 *db;
	sqlite3_stmt *statement;
	off_t page;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "select rootpage from sqlite_master where name = 'stages_raw'", -1,
				 &statement, NULL),
		SQLITE_OK);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	page = sqlite3_column_int(statement, 0);
	sqlite3_finalize(statement);
	sqlite3_close(db);
	return (page - 1) * 4096;
}

static void damage_newest(off_t at)
{
	struct store_status status;
	struct store *store;
	char path[PATH_MAX], aside[PATH_MAX + 16];
	struct stat st;

	two_segments();
	newest_file("events-*.db", path, sizeof(path));
	if (at == STAGES_ROOT)
		at = stages_root(path);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > at + 4096);
	overwrite(path, at, 4096);
	/* The reader first: says so, reads the rest. */
	assert_int_equal(query_int("select count(*) from stages where stage = 'old'"), 3000);
	assert_int_equal(query_int("select count(*) from steps"), 1);
	assert_true(warnings > 0);

	store = open_store();
	put_stage(store, 1, "newest", realtime_ns(), 1);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	store_status(store, &status);
	assert_int_equal(status.segments_corrupt, 1);
	store_close(store);
	snprintf(aside, sizeof(aside), "%s.corrupt", path);
	assert_int_equal(access(aside, F_OK), 0);
	assert_int_equal(access(path, F_OK), -1);
	warnings = 0;
	assert_query("select stage, count(*) from stages group by 1", "newest|1\nold|3000\n");
	assert_int_equal(warnings, 0);
}

TEST_WITH(damaged_header_is_set_aside, store_setup, fault_teardown)
{
	damage_newest(0);
}

TEST_WITH(damaged_page_is_set_aside, store_setup, fault_teardown)
{
	damage_newest(STAGES_ROOT);
}

TEST_WITH(damage_while_writing_is_set_aside, store_setup, fault_teardown)
{
	struct store *store = open_store();
	struct store_status status;
	char path[PATH_MAX];

	for (int i = 0; i < 100; i++)
		put_stage(store, 1, "first", realtime_ns(), 1);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	newest_file("events-*.db", path, sizeof(path));
	/* Another connection checkpoints, the pages on disk are overwritten, the cache of ours is dropped. */
	assert_int_equal(sqlite3_wal_checkpoint_v2(
				 store->writer->current[TIER_EVENTS]->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL),
		SQLITE_OK);
	for (int page = 1; page < 16; page++)
		overwrite(path, page * 4096, 4096);
	sqlite3_db_release_memory(store->writer->current[TIER_EVENTS]->db);
	put_stage(store, 1, "second", realtime_ns(), 1);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	store_status(store, &status);
	assert_int_equal(status.segments_corrupt, 1);
	assert_int_equal(status.rows_dropped, 0);
	store_close(store);
	assert_query("select stage, count(*) from stages group by 1", "second|1\n");
}

TEST_WITH(a_removed_file_is_replaced, store_setup, fault_teardown)
{
	struct store *store = open_store();

	put_stage(store, 1, "first", realtime_ns(), 1);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	sh("rm -f '%s'/db/events-*", dir);
	put_stage(store, 1, "second", realtime_ns(), 1);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	assert_query("select stage from stages", "second\n");
	store_close(store);
}

TEST_WITH(few_corrupt_files_are_kept, store_setup, fault_teardown)
{
	char path[PATH_MAX];
	struct store *store;
	glob_t found;

	for (int i = 0; i < CORRUPT_FILES_MAX + 3; i++) {
		store = open_store();
		put_stage(store, 1, "x", realtime_ns(), 1);
		store_close(store);
		newest_file("events-*.db", path, sizeof(path));
		overwrite(path, 0, 4096);
	}
	store = open_store();
	store_close(store);
	snprintf(path, sizeof(path), "%s/db/*.corrupt", dir);
	assert_int_equal(glob(path, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, CORRUPT_FILES_MAX);
	globfree(&found);
}

/* ---- a disk of 2 MiB ---- */
static bool mount_small(void)
{
	if (mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=0700") == 0)
		return true;
	print_message("skipped: cannot mount a tmpfs here (%s)\n", strerror(errno));
	return false;
}

static void fill_disk(size_t leave_bytes)
{
	char path[PATH_MAX], block[4096] = {1};
	int fd;

	snprintf(path, sizeof(path), "%s/ballast", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	while (write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
		;
	assert_int_equal(lseek(fd, 0, SEEK_END) > (off_t)leave_bytes, 1);
	assert_int_equal(ftruncate(fd, lseek(fd, 0, SEEK_END) - (off_t)leave_bytes), 0);
	close(fd);
}

static void free_disk(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/ballast", dir);
	assert_int_equal(unlink(path), 0);
}

TEST_WITH(a_full_disk_is_survived, store_setup, fault_teardown)
{
	struct store_status status;
	struct store *store;
	uint64_t put = 0;

	if (!mount_small())
		skip();
	store = open_store();
	for (int i = 0; i < 100; i++, put++)
		put_stage(store, 1, "before", realtime_ns(), 1);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	fill_disk(64 << 10);
	for (int i = 0; i < 40; i++) {
		for (int j = 0; j < 500; j++, put++)
			put_stage(store, 1, "during", realtime_ns(), 1);
		(void)store_flush(store, realtime_ns());
	}
	store_status(store, &status);
	assert_true(status.rows_dropped > 0);
	assert_int_equal(status.rows + status.rows_dropped, put);
	assert_string_not_equal(status.reason, "");
	assert_int_equal(query_int("select count(*) from stages"), status.rows);

	free_disk();
	for (int i = 0; i < 100; i++, put++)
		put_stage(store, 1, "after", realtime_ns(), 1);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	store_status(store, &status);
	assert_string_equal(status.reason, "");
	assert_query("select count(*) from stages where stage = 'after'", "100\n");
	assert_int_equal(query_int("select count(*) from stages"), put - status.rows_dropped);
	assert_int_equal(query_int("select sum(count) from drops where source = 'store'"), status.rows_dropped);
	store_close(store);
	assert_int_equal(query_int("select count(*) from stages"), put - status.rows_dropped);
	assert_int_equal(umount(dir), 0);
}

TEST_WITH(a_full_disk_takes_old_segments_first, store_setup, fault_teardown)
{
	struct store_status status;
	struct store *store;
	uint64_t now = realtime_ns();

	if (!mount_small())
		skip();
	store = open_store();
	for (unsigned i = 0; i < 40; i++) {
		for (int j = 0; j < 2000; j++)
			put_stage(store, 1, "forward", now + i * options.segment_ns, i);
		assert_int_equal(store_flush(store, now + i * options.segment_ns), 0);
	}
	store_status(store, &status);
	assert_int_equal(status.rows_dropped, 0);
	assert_true(status.segments_removed > 0);
	assert_int_equal(query_int("select max(duration_ns) from stages"), 39);
	assert_int_equal(query_int("select count(*) from stages where duration_ns = 39"), 2000);
	store_close(store);
	assert_int_equal(umount(dir), 0);
}

/* What is wrong with one file, here that it may not grow, is no reason to take others away. */
TEST_WITH(a_failing_file_takes_no_other, store_setup, fault_teardown)
{
	struct rlimit before, small = {.rlim_cur = 64 << 10};
	struct store_status status;
	uint64_t now = realtime_ns();
	struct store *store = open_store();

	for (unsigned i = 0; i < 4; i++) {
		put_stage(store, 1, "kept", now + i * options.segment_ns, i);
		assert_int_equal(store_flush(store, now + i * options.segment_ns), 0);
	}
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (unsigned i = 0; i < 20000; i++)
		put_stage(store, 1, "lost", now + 4 * options.segment_ns, i);
	assert_int_equal(store_flush(store, now + 4 * options.segment_ns), -EIO);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	store_status(store, &status);
	assert_int_equal(status.segments_removed, 0);
	assert_int_equal(status.rows_dropped, 20000);
	put_stage(store, 1, "kept", now + 4 * options.segment_ns, 4);
	assert_int_equal(store_flush(store, now + 4 * options.segment_ns), 0);
	assert_query("select count(*) from stages where stage = 'kept'", "5\n");
	assert_query("select reason, count from drops", "segment could not be written|20000\n");
	store_close(store);
}

/* Full before there is anything: opens, counts, starts when there is space. */
TEST_WITH(a_disk_full_from_the_start, store_setup, fault_teardown)
{
	struct store_status status;
	struct store *store;

	if (!mount_small())
		skip();
	store = open_store();
	fill_disk(0);
	put_stage(store, 1, "lost", realtime_ns(), 1);
	assert_int_equal(store_flush(store, realtime_ns()), -ENOSPC);
	store_status(store, &status);
	assert_int_equal(status.rows_dropped, 1);
	free_disk();
	put_stage(store, 1, "kept", realtime_ns(), 1);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	assert_query("select stage from stages", "kept\n");
	assert_query("select reason, count from drops", "disk full|1\n");
	store_close(store);
	assert_int_equal(umount(dir), 0);
}

TEST_MAIN(NULL, NULL)
