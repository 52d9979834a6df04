/* SPDX-License-Identifier: Apache-2.0 */
/* Who is missing where a member's process is stopped. */
#include "daemon/coll/coll_snapshot.h"

#include "tests/test.h"

#define SECOND NSEC_PER_SEC

static struct coll_snapshot_member member(uint32_t pid, uint64_t entered, uint64_t completed, bool missing)
{
	return (struct coll_snapshot_member){.judged = {.pid = pid,
						     .missing = missing,
						     .standing = {.entered = {.seq = entered, .time_ns = 10 * SECOND},
							     .completed = {.seq = completed},
							     .completion_known = true}}};
}

static void snapshot(struct coll_snapshot_comm *comm, struct coll_snapshot_member *members, enum coll_state state)
{
	*comm = (struct coll_snapshot_comm){.members = 3, .verdict.state = state};
	coll_snapshot_mark_stopped(comm, members, 15 * SECOND, 2 * SECOND);
}

TEST(stopped_in_an_operation_is_missing)
{
	struct coll_snapshot_member members[] = {
		member(1, 7, 6, false), member(2, 7, 6, false), member(3, 7, 6, false)};
	struct coll_snapshot_comm comm;

	members[1].stopped = true;
	snapshot(&comm, members, COLL_STATE_RUNNING);
	assert_int_equal(comm.verdict.state, COLL_STATE_MISSING);
	assert_int_equal(comm.verdict.seq, 7);
	assert_int_equal(comm.verdict.waited_ns, 5 * SECOND);
	assert_false(members[0].judged.missing || members[2].judged.missing);
	assert_true(members[1].judged.missing && members[1].stopped);
}

TEST(who_waits_for_it_is_not)
{
	struct coll_snapshot_member members[] = {member(1, 8, 7, false), member(2, 7, 6, true), member(3, 7, 6, true)};
	struct coll_snapshot_comm comm;

	members[1].stopped = true;
	snapshot(&comm, members, COLL_STATE_MISSING);
	assert_true(members[1].judged.missing);
	assert_false(members[2].judged.missing);
	/* One that is not in an operation is missing of itself. */
	members[2] = member(3, 7, 7, true);
	snapshot(&comm, members, COLL_STATE_MISSING);
	assert_true(members[2].judged.missing);
}

TEST(nothing_is_wrong)
{
	struct coll_snapshot_member members[] = {
		member(1, 7, 7, false), member(2, 7, 7, false), member(3, 7, 6, false)};
	struct coll_snapshot_comm comm;

	members[1].stopped = true; /* between operations: nobody waits yet */
	snapshot(&comm, members, COLL_STATE_RUNNING);
	assert_int_equal(comm.verdict.state, COLL_STATE_RUNNING);
	assert_false(members[1].judged.missing);
	members[1] = member(2, 7, 6, false);
	snapshot(&comm, members, COLL_STATE_RUNNING);
	assert_int_equal(comm.verdict.state, COLL_STATE_RUNNING);
	members[1].stopped = true;
	members[1].judged.standing.entered.time_ns = 14 * SECOND;
	snapshot(&comm, members, COLL_STATE_RUNNING);
	assert_int_equal(comm.verdict.state, COLL_STATE_RUNNING);
}

TEST_MAIN(NULL, NULL)
