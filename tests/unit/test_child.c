/* SPDX-License-Identifier: Apache-2.0 */
/* A program beside the daemon: what it says, how it ends, and that nobody waits for it. */
#include <event2/event.h>

#include "daemon/base/child.h"
#include "daemon/base/spawn.h"
#include "daemon/base/util.h"
#include "tests/test.h"

static struct event_base *base;
static struct spawner *spawner;
static struct child child;
static struct child_end end;

static int setup(void **state)
{
	base = event_base_new();
	child = (struct child){.running = false};
	end = (struct child_end){.failed = false};
	return base ? spawner_new(base, &spawner) : -1;
}

static int teardown(void **state)
{
	child_forget(&child);
	spawner = spawner_free(spawner);
	event_base_free(base);
	return 0;
}

static int start(const char *script, int to)
{
	const char *argv[] = {"/bin/sh", "-c", script, NULL};

	return child_start(&child, spawner, argv, to);
}

/* The loop runs on meanwhile. */
static void to_the_end(void)
{
	for (unsigned i = 0; i < 3000; i++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		if (child_ended(&child, &end))
			return;
		usleep(10000);
	}
	fail_msg("it does not end");
}

TEST_WITH(says_its_first_line, setup, teardown)
{
	assert_int_equal(start("echo one; echo two; echo other >&2", STDOUT_FILENO), 0);
	assert_true(child.running);
	assert_false(child_ended(&child, &end)); /* the loop has not run: it has not started */
	to_the_end();
	assert_false(end.failed);
	assert_string_equal(end.said, "one");
	assert_string_equal(end.why, "");
	assert_false(child.running);
	assert_false(child_ended(&child, &end));
}

TEST_WITH(a_failure_has_a_reason, setup, teardown)
{
	const char *none[] = {"/nonexistent/program", NULL};

	assert_int_equal(start("echo 'the disk is full' >&2; exit 1", STDERR_FILENO), 0);
	to_the_end();
	assert_true(end.failed);
	assert_string_equal(end.why, "the disk is full");
	assert_int_equal(start("exit 3", STDERR_FILENO), 0);
	to_the_end();
	assert_string_equal(end.why, "it failed and did not say why");
	assert_int_equal(start("kill -SEGV $$", STDERR_FILENO), 0);
	to_the_end();
	assert_non_null(strstr(end.why, "ended by a signal"));
	assert_int_equal(child_start(&child, spawner, none, STDERR_FILENO), 0);
	to_the_end();
	assert_true(end.failed);
	assert_string_equal(end.why, "it does not start: No such file or directory");
}

/* More than a pipe holds, and than is kept. */
TEST_WITH(may_say_more_than_is_kept, setup, teardown)
{
	assert_int_equal(start("head -c 300000 /dev/zero | tr '\\0' x", STDOUT_FILENO), 0);
	to_the_end();
	assert_false(end.failed);
	assert_int_equal(strlen(end.said), CHILD_SAID_BYTES - 1);
}

TEST_WITH(is_killed, setup, teardown)
{
	assert_int_equal(start("exec sleep 1000", STDOUT_FILENO), 0);
	while (!child.pid)
		event_base_loop(base, EVLOOP_ONCE);
	child_kill(&child);
	to_the_end();
	assert_true(end.failed);
}

TEST_WITH(is_forgotten_at_any_time, setup, teardown)
{
	child_forget(&child);
	assert_int_equal(start("exec sleep 1000", STDOUT_FILENO), 0);
	child_kill(&child); /* nothing to kill yet */
	child_forget(&child);
	assert_false(child.running);
	assert_int_equal(start("exec sleep 1000", STDOUT_FILENO), 0);
	while (!child.pid)
		event_base_loop(base, EVLOOP_ONCE);
	child_forget(&child);
	assert_false(child.running);
}

TEST_WITH(starts_without_a_spawner, setup, teardown)
{
	const char *argv[] = {"/bin/sh", "-c", "echo here", NULL}, *none[] = {"/nonexistent/program", NULL};

	assert_int_equal(child_start(&child, NULL, argv, STDOUT_FILENO), 0);
	to_the_end();
	assert_string_equal(end.said, "here");
	assert_int_equal(child_start(&child, NULL, none, STDOUT_FILENO), -ENOENT);
	assert_false(child.running);
}

TEST_MAIN(NULL, NULL)
