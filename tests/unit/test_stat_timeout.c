/* SPDX-License-Identifier: Apache-2.0 */
/* A file system that does not answer holds nobody but the thread that asks it. */
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static sem_t server; /* of the path "/dead/": answers when it is posted */

static int slow_fstatat(int folder, const char *path, struct stat *st, int flags)
{
	if (strncmp(path, "/dead/", 6) != 0)
		return fstatat(folder, path, st, flags);
	while (sem_wait(&server) < 0)
		;
	*st = (struct stat){.st_ino = 7};
	return 0;
}

#define fstatat slow_fstatat
#include "daemon/base/timeout_call.c" /* NOLINT */
#undef fstatat

#define SOON_NS (20 * NSEC_PER_MSEC)
#define EVER_NS (60 * NSEC_PER_SEC)

static void files_that_are_there(void **state)
{
	struct stat ours = {0}, theirs;
	char longest[PATH_MAX + 1];

	(void)state;
	assert_int_equal(stat("/proc/self/exe", &theirs), 0);
	assert_int_equal(stat_timeout("/proc/self/exe", EVER_NS, &ours), 0);
	assert_true(ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev);
	assert_int_equal(stat_timeout("/proc/self/nothing", EVER_NS, &ours), -ENOENT);
	assert_int_equal(stat_timeout("/proc/self/exe/nothing", EVER_NS, &ours), -ENOTDIR);
	memset(longest, 'x', PATH_MAX);
	longest[PATH_MAX] = 0;
	assert_int_equal(stat_timeout(longest, EVER_NS, &ours), -ENAMETOOLONG);
}

static void a_server_that_is_down(void **state)
{
	struct stat st = {.st_ino = 1};

	(void)state;
	assert_int_equal(sem_init(&server, 0, 0), 0);
	assert_int_equal(stat_timeout("/dead/file", SOON_NS, &st), -ETIMEDOUT);
	/* One thread waits for it, not one a rank; others' files are not asked for either. */
	assert_int_equal(stat_timeout("/dead/file", EVER_NS, &st), -EBUSY);
	assert_int_equal(stat_timeout("/proc/self/exe", EVER_NS, &st), -EBUSY);
	assert_int_equal(st.st_ino, 1);
	/* It is up again. */
	sem_post(&server);
	while (stat_timeout("/proc/self/exe", EVER_NS, &st) == -EBUSY)
		usleep(1000);
	sem_post(&server);
	assert_int_equal(stat_timeout("/dead/file", EVER_NS, &st), 0);
	assert_int_equal(st.st_ino, 7);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_that_are_there),
		cmocka_unit_test(a_server_that_is_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
