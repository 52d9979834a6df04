/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of calls in the running kernel: nested ones, empty ones, one that is attached to in its middle, one whose
 * close is seen only while it runs. In each way that the engine can attach.
 */
#include <pthread.h>

#include "tests/kernel/call_fixture.h"

#define ROW(name, symbol, edge) \
	"[probe \"" name "\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=" symbol "\nedge=" edge "\n"

static const char table_text[] = ROW("open", "target_group_start", "open")
	ROW("close", "target_group_end", "close") "event=group\nreturn=probe\nresult=yes\n" ROW("op", "target_op",
		"call") "event=op\nop=AllReduce\nmember=yes\nargs=count:reg(2)\n" ROW("other", "target_probe",
		"call") "event=op\nargs=reg(1)\n" ROW("entry", "target_named", "entry") "event=op\nmember=yes\n";

static bool in_group(const char *name, unsigned i)
{
	return record_of(name, i)->call.event.flags & RT_CALL_IN_GROUP;
}

static int never(void)
{
	_exit(9);
}

static void groups(void)
{
	struct target_comm comm = {0};

	target_op(&comm, 0);
	target_group_end(NULL); /* of a group that nobody opened */
	target_group_start();
	target_op(&comm, 1);
	target_group_start();
	target_op(&comm, 2);
	target_probe(2);
	target_group_end(NULL);
	target_named();
	target_group_end(NULL);
	target_op(&comm, 3);
	target_group_start(); /* with nothing in it */
	target_group_end(NULL);
	target_group_start();
	target_op(&comm, 4);
	target_group_end(NULL);
}

TEST(test_nested_and_empty)
{
	static const bool grouped[] = {false, true, true, false, true};
	const struct rt_call_event *close;

	run_child(groups, true);
	assert_int_equal(count_of("op").calls, ARRAY_SIZE(grouped));
	for (unsigned i = 0; i < ARRAY_SIZE(grouped); i++) {
		assert_int_equal(record_of("op", i)->call.arg[0], i);
		assert_int_equal(in_group("op", i), grouped[i]);
	}
	assert_false(in_group("other", 0)); /* its row does not say member */
	assert_true(in_group("entry", 0));
	assert_int_equal(count_of("open").begins + count_of("open").calls, 0);
	assert_int_equal(count_of("close").calls, 2);
	close = &record_of("close", 0)->call;
	assert_int_equal(close->arg[0], 3);
	assert_int_equal(close->result, 5);
	assert_true(close->start_ns < record_of("op", 1)->call.start_ns);
	assert_true(close->start_ns > record_of("op", 0)->call.event.time_ns);
	assert_true(close->arg[1] > record_of("entry", 0)->call.event.time_ns && close->arg[1] < close->event.time_ns);
	assert_true(close->event.time_ns < record_of("op", 3)->call.start_ns);
	assert_int_equal(record_of("close", 1)->call.arg[0], 1);
}

static void *other_thread(void *arg)
{
	target_op(arg, 7);
	return NULL;
}

static void two_threads(void)
{
	struct target_comm comm = {0};
	pthread_t thread;

	target_group_start();
	if (pthread_create(&thread, NULL, other_thread, &comm) != 0)
		_exit(5);
	pthread_join(thread, NULL);
	target_group_end(NULL);
}

TEST(test_of_one_thread)
{
	run_child(two_threads, true);
	assert_int_equal(count_of("op").calls, 1);
	assert_false(in_group("op", 0));
	assert_int_equal(count_of("close").calls, 0);
}

static int phase[2], reached[2];

static int wait_here(void)
{
	char c;

	if (write(reached[1], "x", 1) != 1 || read(phase[0], &c, 1) != 1)
		_exit(6);
	return 0;
}

static void stuck_in_close(void)
{
	struct target_comm comm = {0};

	target_group_start();
	target_op(&comm, 1);
	target_op(&comm, 2);
	target_group_end(wait_here);
	/* As a level that goes off sees it: the opening, and never the close. */
	target_group_start();
	wait_here();
	target_op(&comm, 3);
}

static unsigned kept;

static bool keep_all(void *arg, uint32_t pid, const struct probe *probe, uint64_t start_ns)
{
	kept += pid == fixture.child && probe && streq(probe->name, "close");
	return true;
}

static bool keep_none(void *arg, uint32_t pid, const struct probe *probe, uint64_t start_ns)
{
	return false;
}

static void await(void)
{
	char c;

	assert_int_equal(read(reached[0], &c, 1), 1);
}

TEST(test_in_flight_and_swept)
{
	struct child child;

	assert_int_equal(pipe(phase) | pipe(reached), 0);
	child = child_start(stuck_in_close, true);
	child_go(&child);
	await();
	kept = 0;
	call_engine_sweep(fixture.engine, keep_all, NULL);
	assert_int_equal(kept, 1); /* the close, while it does not return */
	assert_int_equal(write(phase[1], "x", 1), 1);
	await();
	call_engine_sweep(fixture.engine, keep_none, NULL);
	assert_int_equal(write(phase[1], "x", 1), 1);
	child_end(&child);
	assert_int_equal(count_of("close").calls, 1);
	assert_int_equal(record_of("close", 0)->call.arg[0], 2);
	assert_int_equal(count_of("op").calls, 3);
	assert_false(in_group("op", 2));
	for (int i = 0; i < 2; i++) {
		close(phase[i]);
		close(reached[i]);
	}
}

static int attach_now(void)
{
	struct target_comm comm = {0};

	if (wait_here() != 0)
		never();
	target_op(&comm, 1);
	return 0;
}

static void attached_in_the_middle(void)
{
	struct target_comm comm = {0};

	target_group_start();
	target_op(&comm, 0);
	target_group_end(attach_now);
	target_op(&comm, 2);
	target_group_start();
	target_op(&comm, 3);
	target_group_end(NULL);
}

TEST(test_attached_in_the_middle)
{
	struct child child;

	fixture_level(false);
	uprobe_detach_wait();
	assert_int_equal(pipe(phase) | pipe(reached), 0);
	child = child_start(attached_in_the_middle, true);
	child_go(&child);
	await();
	fixture_level(true);
	assert_int_equal(write(phase[1], "x", 1), 1);
	child_end(&child);
	assert_int_equal(count_of("op").calls, 3);
	assert_false(in_group("op", 0));
	assert_false(in_group("op", 1));
	assert_true(in_group("op", 2));
	assert_int_equal(count_of("close").calls, 1);
	assert_int_equal(record_of("close", 0)->call.arg[0], 1);
	for (int i = 0; i < 2; i++) {
		close(phase[i]);
		close(reached[i]);
	}
}

CALL_TEST_MAIN(table_text, fixture_level_on)
