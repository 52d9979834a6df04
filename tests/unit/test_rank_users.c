/* SPDX-License-Identifier: Apache-2.0 */
/* Users of ranks: read, kept apart, suspected for what their own processes do; environments of any size. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "daemon/base/procfs.h"
#include "tests/unit/ranks_fixture.h"

TEST_WITH(each_rank_has_its_user, setup, teardown)
{
	uint32_t uid = 0;

	PUT(100, 1, 100, TORCH, .uid = 1000, ENV("RANK=0\0WORLD_SIZE=2\0JOB_ID=j"));
	PUT(101, 1, 100, TORCH, .uid = 1000, ENV("RANK=1\0WORLD_SIZE=2\0JOB_ID=j"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	assert_int_equal(ranks_by_pid(t.ranks, 100)->uid, 1000);
	assert_false(ranks_disputed(t.ranks, ranks_by_pid(t.ranks, 100), &uid));
	/* Another user claims the same number of the same job: both have a remark, and neither is suspected for it. */
	PUT(102, 1, 200, TORCH, .uid = 65534, ENV("RANK=0\0WORLD_SIZE=2\0JOB_ID=j"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	assert_true(ranks_disputed(t.ranks, ranks_by_pid(t.ranks, 100), &uid));
	assert_int_equal(uid, 65534);
	assert_true(ranks_disputed(t.ranks, ranks_by_pid(t.ranks, 102), &uid));
	assert_int_equal(uid, 1000);
	assert_false(ranks_disputed(t.ranks, ranks_by_pid(t.ranks, 101), &uid));
	assert_string_equal(ranks_suspicion(t.ranks, 1000), "");
	assert_string_equal(ranks_suspicion(t.ranks, 65534), "");
}

/* Jobs without a word have rank 0 each. */
TEST_WITH(jobs_without_a_word_are_no_dispute, setup, teardown)
{
	uint32_t uid;

	PUT(100, 1, 100, TORCH, .uid = 1000);
	PUT(101, 1, 100, TORCH, .uid = 1001);
	assert_int_equal(ranks_scan(t.ranks), 0);
	assert_false(ranks_disputed(t.ranks, ranks_by_pid(t.ranks, 100), &uid));
}

static char *environment(size_t before, size_t *ret_size)
{
	static const char rank[] = "RANK=3\0WORLD_SIZE=4";
	char *block = malloc(before + sizeof(rank));

	assert_non_null(block);
	memset(block, 'x', before);
	block[0] = 'A';
	block[1] = '=';
	block[before - 1] = 0;
	memcpy(block + before, rank, sizeof(rank));
	*ret_size = before + sizeof(rank);
	return block;
}

TEST_WITH(a_large_environment_hides_nothing, setup, teardown)
{
	size_t size;
	_cleanup_free_ char *block = environment(1500000, &size);

	PUT(100, 1, 100, TORCH, .uid = 1000, .environ = block, .environ_size = size);
	assert_int_equal(ranks_scan(t.ranks), 0);
	assert_non_null(ranks_by_pid(t.ranks, 100));
	assert_int_equal(ranks_by_pid(t.ranks, 100)->env.rank, 3);
	assert_string_equal(ranks_suspicion(t.ranks, 1000), "");
}

/* More than execve() can give: no rank, reported, and its user is suspected; the next image of the process is read
 * anew. */
TEST_WITH(an_impossible_environment_is_refused, setup, teardown)
{
	size_t size;
	_cleanup_free_ char *block = environment(PROCFS_ENVIRON_BYTES_MAX, &size);

	PUT(100, 1, 100, TORCH, .uid = 65534, .environ = block, .environ_size = size);
	PUT(101, 1, 100, TORCH, .uid = 1000, ENV("RANK=0\0WORLD_SIZE=1"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	assert_null(ranks_by_pid(t.ranks, 100));
	assert_non_null(ranks_by_pid(t.ranks, 101));
	assert_true(t.warnings > 0);
	assert_string_equal(
		ranks_suspicion(t.ranks, 65534), "a process has an environment larger than the kernel gives");
	assert_string_equal(ranks_suspicion(t.ranks, 1000), "");
	PUT(100, 1, 100, TORCH, .uid = 65534, ENV("RANK=1\0WORLD_SIZE=2"));
	ranks_on_exec(t.ranks, 100, 0);
	pass(NSEC_PER_SEC);
	assert_non_null(ranks_by_pid(t.ranks, 100));
}

/* Moved after it was read for the first time, and before the process has a library of training. */
TEST_WITH(an_environment_moved_late_is_refused, setup, teardown)
{
	size_t size;
	_cleanup_free_ char *block = environment(PROCFS_ENVIRON_BYTES_MAX, &size);

	PUT(100, 1, 100, .uid = 65534, ENV("RANK=1\0WORLD_SIZE=2"));
	ranks_on_exec(t.ranks, 100, 0);
	pass(NSEC_PER_SEC);
	assert_string_equal(ranks_suspicion(t.ranks, 65534), "");
	PUT(100, 1, 100, TORCH, .uid = 65534, .environ = block, .environ_size = size);
	pass(NSEC_PER_SEC);
	assert_null(ranks_by_pid(t.ranks, 100));
	assert_string_equal(
		ranks_suspicion(t.ranks, 65534), "a process has an environment larger than the kernel gives");
}

static void count(void *arg, uint32_t uid, uint64_t times, const char *why)
{
	unsigned *users = arg;

	assert_true(times > 0 && why[0]);
	*users += uid >= 5000;
}

/* The oldest suspicion goes first, so that inventing users forgets only those not seen for long. */
TEST_WITH(suspects_are_bounded, setup, teardown)
{
	unsigned users = 0;

	for (uint32_t uid = 5000; uid < 5000 + 4 * RANK_SUSPECTS_MAX; uid++)
		ranks_suspect(t.ranks, uid, "of a reason");
	ranks_suspects_each(t.ranks, count, &users);
	assert_int_equal(users, RANK_SUSPECTS_MAX);
	assert_string_equal(ranks_suspicion(t.ranks, 5000 + 4 * RANK_SUSPECTS_MAX - 1), "of a reason");
	assert_string_equal(ranks_suspicion(t.ranks, 5000), "");
}

TEST_MAIN(NULL, NULL)
