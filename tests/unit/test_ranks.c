/* SPDX-License-Identifier: Apache-2.0 */
/* Roles, identity and limits of ranks. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "tests/unit/ranks_fixture.h"

static void fake_vmstat_is(const char *root, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/vmstat", root);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void fake_vmstat(unsigned faults)
{
	char text[64];

	snprintf(text, sizeof(text), "nr_free_pages 1\npgmajfault %u\n", faults);
	fake_vmstat_is(t.root, text);
}

static void check_counts(size_t ranks, size_t children, size_t launchers)
{
	size_t filtered = 0;

	assert_int_equal(ranks_count(t.ranks, RANK_ROLE_RANK), ranks);
	assert_int_equal(ranks_count(t.ranks, RANK_ROLE_CHILD), children);
	assert_int_equal(ranks_count(t.ranks, RANK_ROLE_LAUNCHER), launchers);
	for (size_t i = 0; i < RANKS_MAX; i++)
		filtered += t.filter[i] != 0;
	assert_int_equal(filtered, ranks);
}

TEST_WITH(test_torchrun_with_workers, setup, teardown)
{
	const struct rank *rank;

	PUT(100, 1, 100, TORCH, FAKE_TEXT(command, "python3\0/usr/bin/torchrun\0train.py"));
	PUT(101, 100, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=2\0LOCAL_RANK=0\0TORCHELASTIC_RUN_ID=j"));
	PUT(102, 100, 200, TORCH, ENV("RANK=1\0WORLD_SIZE=2\0LOCAL_RANK=1\0TORCHELASTIC_RUN_ID=j"));
	PUT(103, 102, 300, TORCH, ENV("RANK=1\0WORLD_SIZE=2\0LOCAL_RANK=1\0TORCHELASTIC_RUN_ID=j"));
	PUT(104, 1, 300, .exe = "/usr/bin/bash");
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(2, 1, 1);
	rank = ranks_by_pid(t.ranks, 102);
	assert_non_null(rank);
	assert_int_equal(rank->env.rank, 1);
	assert_int_equal(rank->env.world_size, 2);
	assert_string_equal(rank->env.job, "j");
	assert_string_equal(rank->host, "node");
	assert_string_equal(rank->command, "python3 train.py");
	assert_false(rank->from_start);
	assert_int_equal(tracked_find(t.ranks, 103)->rank.parent_instance, rank->instance);
	assert_null(ranks_by_pid(t.ranks, 103));
	assert_null(ranks_by_pid(t.ranks, 100));
	/* A second walk changes nothing. */
	assert_int_equal(ranks_scan(t.ranks), 0);
	assert_int_equal(t.added, 4);
}

TEST_WITH(test_single_process, setup, teardown)
{
	const struct rank *rank;

	PUT(100, 1, 100, TORCH);
	PUT(101, 100, 110, TORCH);
	/* The script sets RANK for itself; its spawned workers see it. */
	PUT(102, 100, 120, TORCH, ENV("RANK=0\0WORLD_SIZE=1"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(1, 2, 0);
	rank = ranks_by_pid(t.ranks, 100);
	assert_non_null(rank);
	assert_int_equal(rank->env.rank, 0);
	assert_int_equal(rank->env.world_size, 1);
	assert_string_equal(rank->env.source, "");
}

TEST_WITH(test_library_comes_late, setup, teardown)
{
	PUT(100, 1, 100, ENV("RANK=3\0WORLD_SIZE=8"));
	ranks_on_exec(t.ranks, 100, 0);
	t.now_ns = monotonic_ns();
	pass(3 * NSEC_PER_SEC);
	check_counts(0, 0, 0);
	PUT(100, 1, 100, ENV("RANK=3\0WORLD_SIZE=8"), TORCH);
	pass(NSEC_PER_SEC);
	check_counts(1, 0, 0);
	assert_true(ranks_by_pid(t.ranks, 100)->from_start);
	/* With rank variables it is never given up, but what loads so late may have been missed. */
	PUT(200, 1, 100, ENV("RANK=4\0WORLD_SIZE=8"));
	ranks_on_exec(t.ranks, 200, 0);
	pass(900 * NSEC_PER_SEC);
	PUT(200, 1, 100, ENV("RANK=4\0WORLD_SIZE=8"), TORCH);
	pass(6 * NSEC_PER_SEC);
	check_counts(2, 0, 0);
	assert_false(ranks_by_pid(t.ranks, 200)->from_start);
}

TEST_WITH(test_launcher_found_out, setup, teardown)
{
	PUT(100, 1, 100, TORCH);
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(1, 0, 0);
	PUT(101, 100, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=2\0LOCAL_RANK=0"));
	PUT(102, 100, 200, TORCH, ENV("RANK=1\0WORLD_SIZE=2\0LOCAL_RANK=1"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(2, 0, 1);
	assert_int_equal(t.changed, 1);
	assert_int_equal(tracked_find(t.ranks, 100)->rank.env.rank, -1);
	/* A batch system's number on the launcher is no rank either. */
	PUT(200, 1, 300, TORCH, ENV("SLURM_PROCID=0\0SLURM_NTASKS=2\0SLURM_JOB_ID=5"));
	PUT(201, 200, 400, TORCH,
		ENV("SLURM_PROCID=0\0SLURM_NTASKS=2\0SLURM_JOB_ID=5\0RANK=0\0WORLD_SIZE=4\0LOCAL_RANK=0"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(3, 0, 2);
}

TEST_WITH(test_parent_is_late, setup, teardown)
{
	/* The launcher maps its library after its ranks did. */
	PUT(100, 1, 100);
	PUT(101, 100, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=2\0LOCAL_RANK=0"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	PUT(100, 1, 100, TORCH);
	pass(NSEC_PER_SEC);
	check_counts(1, 0, 1);
	/* And a single-process job after its worker. */
	PUT(200, 1, 100);
	PUT(201, 200, 200, TORCH);
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(2, 0, 1);
	PUT(200, 1, 100, TORCH);
	pass(NSEC_PER_SEC);
	check_counts(2, 1, 1);
	assert_non_null(ranks_by_pid(t.ranks, 200));
	assert_null(ranks_by_pid(t.ranks, 201));
}

TEST_WITH(test_evaluation_does_not_unseat_its_rank, setup, teardown)
{
	PUT(100, 1, 100, TORCH, ENV("RANK=3\0WORLD_SIZE=8\0LOCAL_RANK=3"));
	PUT(101, 100, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=1\0LOCAL_RANK=0"));
	/* SLURM's number under another name, for a spawned worker. */
	PUT(200, 1, 100, TORCH, ENV("SLURM_PROCID=1\0SLURM_NTASKS=2\0SLURM_LOCALID=1"));
	PUT(201, 200, 200, TORCH, ENV("SLURM_PROCID=1\0SLURM_NTASKS=2\0SLURM_LOCALID=1\0RANK=1\0WORLD_SIZE=2"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(3, 1, 0);
	assert_int_equal(ranks_by_pid(t.ranks, 100)->env.rank, 3);
}

TEST_WITH(test_mpirun_without_library, setup, teardown)
{
	PUT(100, 1, 100, .exe = "/usr/bin/mpirun",
		FAKE_TEXT(command, "mpirun\0-n\0"
				   "2\0python3\0t.py"));
	PUT(101, 100, 200, TORCH, ENV("OMPI_COMM_WORLD_RANK=0\0OMPI_COMM_WORLD_SIZE=1"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(1, 0, 1);
}

TEST_WITH(test_ends, setup, teardown)
{
	PUT(100, 1, 100, TORCH);
	assert_int_equal(ranks_scan(t.ranks), 0);
	assert_int_equal(t.row_ended, 0);
	ranks_on_exit(t.ranks, 100, 0);
	check_counts(0, 0, 0);
	assert_int_equal(t.ended, 1);
	assert_int_equal(t.row_ended, 1);
	ranks_on_exit(t.ranks, 100, 0);
	assert_int_equal(t.ended, 1);
	/* An end without an event: gone, and a zombie. */
	fake_remove(t.root, 100);
	PUT(200, 1, 100, TORCH);
	PUT(300, 1, 100, TORCH);
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(2, 0, 0);
	/* Another error of reading does not end it. */
	fake_write(t.root, 200, "stat", "200", 3);
	pass(3 * NSEC_PER_SEC);
	check_counts(2, 0, 0);
	fake_remove(t.root, 200);
	PUT(300, 1, 100, TORCH, .state = 'Z');
	pass(3 * NSEC_PER_SEC);
	check_counts(0, 0, 0);
	assert_int_equal(t.ended, 3);
}

TEST_WITH(test_pid_reuse_and_restart, setup, teardown)
{
	int64_t first;

	PUT(100, 1, 100, TORCH, ENV("RANK=0\0WORLD_SIZE=2"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	first = ranks_by_pid(t.ranks, 100)->instance;
	PUT(100, 1, 900, TORCH, ENV("RANK=1\0WORLD_SIZE=2"));
	pass(2 * NSEC_PER_SEC);
	check_counts(1, 0, 0);
	assert_int_equal(t.ended, 1);
	assert_int_equal(t.added, 2);
	assert_int_not_equal(ranks_by_pid(t.ranks, 100)->instance, first);
	assert_int_equal(ranks_by_pid(t.ranks, 100)->env.rank, 1);
	/* The same rank again as another process. */
	ranks_on_exit(t.ranks, 100, 0);
	fake_remove(t.root, 100);
	PUT(150, 1, 1000, TORCH, ENV("RANK=1\0WORLD_SIZE=2"));
	ranks_on_exec(t.ranks, 150, 0);
	pass(NSEC_PER_SEC);
	check_counts(1, 0, 0);
	assert_int_equal(ranks_by_pid(t.ranks, 150)->slot, 0);
	assert_int_equal(t.instances, 3);
}

TEST_WITH(test_exec_in_a_rank, setup, teardown)
{
	int64_t instance;

	PUT(100, 1, 100, TORCH);
	assert_int_equal(ranks_scan(t.ranks), 0);
	instance = ranks_by_pid(t.ranks, 100)->instance;
	/* An event that is older than the scan. */
	ranks_on_exec(t.ranks, 100, 0);
	assert_int_equal(t.ended, 0);
	PUT(100, 1, 100);
	ranks_on_exec(t.ranks, 100, 0);
	assert_int_equal(t.ended, 1);
	check_counts(0, 0, 0);
	PUT(100, 1, 100, TORCH);
	pass(NSEC_PER_SEC);
	check_counts(1, 0, 0);
	assert_int_equal(ranks_by_pid(t.ranks, 100)->instance, instance);
}

TEST_WITH(test_forked_workers, setup, teardown)
{
	PUT(100, 1, 100, TORCH, ENV("RANK=0\0WORLD_SIZE=1"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	PUT(101, 100, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=1"));
	PUT(100, 1, 100, TORCH, ENV("RANK=0\0WORLD_SIZE=1"), .children = "101 102 ");
	pass(3 * NSEC_PER_SEC);
	check_counts(1, 1, 0);
}

/* With a fresh rank, once the kernel has reported for so long that its children are not listed every 2 s. */
static void reported_rank(void)
{
	fake_vmstat(7);
	PUT(100, 1, 100, TORCH, ENV("RANK=0\0WORLD_SIZE=1"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	ranks_set_reported(t.ranks, true);
	pass(130 * NSEC_PER_SEC); /* until when its card is looked for every second, too */
}

TEST_WITH(test_reported_forks, setup, teardown)
{
	reported_rank();
	PUT(101, 100, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=1"));
	PUT(100, 1, 100, TORCH, ENV("RANK=0\0WORLD_SIZE=1"), .children = "101 ");
	ranks_on_fork(t.ranks, 4711, 101); /* of no rank */
	pass(10 * NSEC_PER_SEC);
	check_counts(1, 0, 0);
	ranks_on_fork(t.ranks, 100, 101);
	pass(NSEC_PER_SEC);
	check_counts(1, 1, 0);
	/* One that was not reported is found later. */
	PUT(102, 100, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=1"));
	PUT(100, 1, 100, TORCH, ENV("RANK=0\0WORLD_SIZE=1"), .children = "101 102 ");
	pass(61 * NSEC_PER_SEC);
	check_counts(1, 2, 0);
}

/* Ranks are asked for their faults when the node has had one, else for signs of life. */
TEST_WITH(test_reported_faults, setup, teardown)
{
	const struct rank *rank;
	uint64_t faults;

	reported_rank();
	rank = ranks_by_pid(t.ranks, 100);
	assert_non_null(rank);
	faults = rank->major_faults;
	pass(5 * NSEC_PER_SEC); /* it has just been asked */
	PUT(100, 1, 100, TORCH, ENV("RANK=0\0WORLD_SIZE=1"), .major_faults = (unsigned)faults + 3);
	pass(2 * NSEC_PER_SEC);
	assert_int_equal(rank->major_faults, faults);
	fake_vmstat(10);
	pass(2 * NSEC_PER_SEC);
	assert_int_equal(rank->major_faults, faults + 3);
	/* Not readable: nobody knows. */
	PUT(100, 1, 100, TORCH, ENV("RANK=0\0WORLD_SIZE=1"), .major_faults = (unsigned)faults + 4);
	fake_vmstat_is(t.root, "nr_free_pages 1\n");
	pass(2 * NSEC_PER_SEC);
	assert_int_equal(rank->major_faults, faults + 4);
	/* Its end is seen without a report, too. */
	fake_vmstat(10);
	pass(5 * NSEC_PER_SEC);
	fake_remove(t.root, 100);
	pass(11 * NSEC_PER_SEC);
	check_counts(0, 0, 0);
}

TEST_WITH(test_64_ranks_and_one_more, setup, teardown)
{
	for (uint32_t i = 0; i < RANKS_MAX + 2; i++) {
		char env[64];
		int n = snprintf(env, sizeof(env), "RANK=%u", i);

		PUT(100 + i, 1, 100 + i, TORCH, .environ = env, .environ_size = (size_t)n + 1);
	}
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(RANKS_MAX, 0, 0);
	pass(20 * NSEC_PER_SEC);
	assert_int_equal(t.warnings, 1);
	/* One that ends frees a slot. */
	ranks_on_exit(t.ranks, 110, 0);
	fake_remove(t.root, 110);
	pass(6 * NSEC_PER_SEC);
	check_counts(RANKS_MAX, 0, 0);
	assert_non_null(ranks_by_slot(t.ranks, 10));
}

TEST_WITH(test_short_processes_cost_no_probe, setup, teardown)
{
	for (uint32_t pid = 1000; pid < 3000; pid++) {
		ranks_on_exec(t.ranks, pid, 0);
		ranks_on_exit(t.ranks, pid, 0);
	}
	assert_int_equal(rank_queue_count(t.ranks->queue), 0);
	/* Gone without an exit event: dropped silently at the first scan. */
	for (uint32_t pid = 1000; pid < 1200; pid++)
		ranks_on_exec(t.ranks, pid, 0);
	t.now_ns = monotonic_ns();
	pass(NSEC_PER_SEC);
	assert_int_equal(rank_queue_count(t.ranks->queue), 0);
	assert_int_equal(t.warnings, 0);
}

TEST_WITH(test_rows_are_refreshed, setup, teardown)
{
	PUT(100, 1, 100, TORCH);
	assert_int_equal(ranks_scan(t.ranks), 0);
	assert_int_equal(t.rows, 1);
	pass(130 * NSEC_PER_SEC);
	assert_int_equal(t.rows, 3);
	assert_int_equal(t.row_rank, 0);
	assert_int_equal(t.row_instance, 1);
}

static void note_order(void *arg, const struct rank *rank)
{
	char *text = arg;

	snprintf(text + strlen(text), 64 - strlen(text), "%s%d ", rank->env.job, rank->env.rank);
}

TEST_WITH(test_order, setup, teardown)
{
	char text[64] = "";

	PUT(100, 1, 1, TORCH, ENV("RANK=1\0TORCHELASTIC_RUN_ID=b"));
	PUT(101, 1, 1, TORCH, ENV("RANK=0\0TORCHELASTIC_RUN_ID=b"));
	PUT(102, 1, 1, TORCH, ENV("RANK=9\0TORCHELASTIC_RUN_ID=a"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	ranks_each(t.ranks, note_order, text);
	assert_string_equal(text, "a9 b0 b1 ");
}

TEST_WITH(test_huge_environment, setup, teardown)
{
	static char block[900000];

	memset(block, 'x', sizeof(block));
	memcpy(block + sizeof(block) - 8, "\0RANK=6", 8);
	PUT(100, 1, 1, TORCH, .environ = block, .environ_size = sizeof(block));
	assert_int_equal(ranks_scan(t.ranks), 0);
	assert_int_equal(ranks_by_pid(t.ranks, 100)->env.rank, 6);
}

TEST_WITH(test_queue_is_bounded, setup, teardown)
{
	struct rank_candidate candidate;
	struct rank_queue *queue;

	assert_int_equal(rank_queue_new(100, &queue), 0);
	for (uint32_t pid = 1; pid <= 300; pid++) {
		candidate = (struct rank_candidate){.pid = pid, .due_ns = 1000 - pid, .has_env = pid <= 40};
		assert_int_equal(rank_queue_put(queue, &candidate), 0);
	}
	assert_int_equal(rank_queue_count(queue), 100);
	assert_int_equal(rank_queue_dropped(queue), 200);
	assert_true(rank_queue_get(queue, 1, &candidate));
	assert_false(rank_queue_get(queue, 41, &candidate));
	assert_false(rank_queue_pop(queue, 699, &candidate));
	for (uint32_t pid = 300; pid > 240; pid--) {
		if (pid % 3 == 0) {
			rank_queue_remove(queue, pid);
			continue;
		}
		assert_true(rank_queue_pop(queue, 1000, &candidate));
		assert_int_equal(candidate.pid, pid);
	}
	for (uint32_t pid = 40; pid > 0; pid--) {
		assert_true(rank_queue_pop(queue, 1000, &candidate));
		assert_int_equal(candidate.pid, pid);
	}
	assert_int_equal(rank_queue_count(queue), 0);
	/* Full of those that may not be dropped. */
	for (uint32_t pid = 1; pid <= 100; pid++)
		assert_int_equal(rank_queue_put(queue, &(struct rank_candidate){.pid = pid, .has_env = true}), 0);
	assert_int_equal(rank_queue_put(queue, &(struct rank_candidate){.pid = 101, .has_env = true}), -ENOSPC);
	rank_queue_free(queue);
}

TEST_MAIN(NULL, NULL)
