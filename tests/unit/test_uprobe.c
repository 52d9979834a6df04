/* SPDX-License-Identifier: Apache-2.0 */
/* Detaching, with links whose end takes a while: that of one file does not wait for those of others. */
#include "daemon/base/util.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SLOW_NS (100 * NSEC_PER_MSEC)
#define SLOW_LINKS 8
#define FILES 3

static int closed[FILES];

/* In the place of the kernel's end of a link, whose descriptor is the number of its file. */
static void slow_close(int *fd)
{
	const struct timespec pause = {.tv_nsec = SLOW_NS};

	nanosleep(&pause, NULL);
	__atomic_fetch_add(&closed[(unsigned)*fd % FILES], 1, __ATOMIC_RELAXED);
}

#define closep slow_close
#include "daemon/kernel/uprobe.c" /* NOLINT */
#undef closep

static void detach_later(uint64_t file)
{
	struct uprobe_link *link = link_new(file, 1);

	assert_non_null(link);
	link->fd[0] = (int)file;
	uprobe_detach_async(link);
}

static void test_one_file(void **state)
{
	uint64_t before_ns = monotonic_ns();

	(void)state;
	for (unsigned i = 0; i < SLOW_LINKS / 2; i++)
		detach_later(1);
	detach_later(2);
	for (unsigned i = 0; i < SLOW_LINKS / 2; i++)
		detach_later(1);
	assert_true(uprobe_is_detaching());
	uprobe_detach_file(2);
	assert_int_equal(closed[2], 1);
	assert_true(monotonic_ns() - before_ns < SLOW_NS * SLOW_LINKS / 2);
	uprobe_detach_file(0);
	/* All of it, also the one that the thread has in hand. */
	uprobe_detach_file(1);
	assert_int_equal(closed[1], SLOW_LINKS);
	uprobe_detach_wait();
	assert_false(uprobe_is_detaching());
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_file)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
