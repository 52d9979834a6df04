/* SPDX-License-Identifier: Apache-2.0 */
/* Who is missing where a member's process is stopped: a made-up /proc says which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/stat.h>

#include "daemon/coll/coll_snapshot.h"

#define SECOND NSEC_PER_SEC

static char root[64];

static void process(uint32_t pid, char state)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%u", root, pid);
	(void)mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%u/status", root, pid);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "Name:\tpython3\nState:\t%c\nPPid:\t1\nUid:\t0\t0\t0\t0\nVmSize:\t8 kB\n", state);
	fclose(file);
}

static struct coll_snapshot_member member(uint32_t pid, uint64_t entered, uint64_t completed, bool missing)
{
	return (struct coll_snapshot_member){.judged = {.pid = pid, .missing = missing, .standing = {
		.entered = {.seq = entered, .time_ns = 10 * SECOND},
		.completed = {.seq = completed},
		.completion_known = true}}};
}

static void snapshot(struct coll_snapshot_comm *comm, struct coll_snapshot_member *members, enum coll_state state)
{
	*comm = (struct coll_snapshot_comm){.members = 3, .verdict.state = state};
	coll_snapshot_mark_stopped(comm, members, root, 15 * SECOND, 2 * SECOND);
}

static void stopped_in_an_operation_is_missing(void **state)
{
	struct coll_snapshot_member members[] = {member(1, 7, 6, false), member(2, 7, 6, false), member(3, 7, 6, false)};
	struct coll_snapshot_comm comm;

	(void)state;
	process(2, 'T');
	snapshot(&comm, members, COLL_STATE_RUNNING);
	assert_int_equal(comm.verdict.state, COLL_STATE_MISSING);
	assert_int_equal(comm.verdict.seq, 7);
	assert_int_equal(comm.verdict.waited_ns, 5 * SECOND);
	assert_false(members[0].judged.missing || members[2].judged.missing);
	assert_true(members[1].judged.missing && members[1].stopped);
}

static void who_waits_for_it_is_not(void **state)
{
	struct coll_snapshot_member members[] = {member(1, 8, 7, false), member(2, 7, 6, true), member(3, 7, 6, true)};
	struct coll_snapshot_comm comm;

	(void)state;
	process(2, 't');
	snapshot(&comm, members, COLL_STATE_MISSING);
	assert_true(members[1].judged.missing);
	assert_false(members[2].judged.missing);
	/* One that is not in an operation is missing of itself. */
	members[2] = member(3, 7, 7, true);
	snapshot(&comm, members, COLL_STATE_MISSING);
	assert_true(members[2].judged.missing);
}

static void nothing_is_wrong(void **state)
{
	struct coll_snapshot_member members[] = {member(1, 7, 7, false), member(2, 7, 7, false), member(3, 7, 6, false)};
	struct coll_snapshot_comm comm;

	(void)state;
	process(2, 'T'); /* between operations: nobody waits yet */
	snapshot(&comm, members, COLL_STATE_RUNNING);
	assert_int_equal(comm.verdict.state, COLL_STATE_RUNNING);
	assert_true(members[1].stopped);
	assert_false(members[1].judged.missing);
	process(2, 'S');
	members[1] = member(2, 7, 6, false);
	snapshot(&comm, members, COLL_STATE_RUNNING);
	assert_int_equal(comm.verdict.state, COLL_STATE_RUNNING);
	assert_false(members[1].stopped);
	process(2, 'T');
	members[1].judged.standing.entered.time_ns = 14 * SECOND;
	snapshot(&comm, members, COLL_STATE_RUNNING);
	assert_int_equal(comm.verdict.state, COLL_STATE_RUNNING);
}

static int make_root(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/ranktrace-stopped-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	process(1, 'S');
	process(3, 'R');
	return 0;
}

static int remove_root(void **state)
{
	char path[128];

	(void)state;
	for (uint32_t pid = 1; pid <= 3; pid++) {
		snprintf(path, sizeof(path), "%s/%u/status", root, pid);
		(void)unlink(path);
		snprintf(path, sizeof(path), "%s/%u", root, pid);
		(void)rmdir(path);
	}
	return rmdir(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stopped_in_an_operation_is_missing),
		cmocka_unit_test(who_waits_for_it_is_not),
		cmocka_unit_test(nothing_is_wrong),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
