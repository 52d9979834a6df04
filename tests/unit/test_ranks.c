/* SPDX-License-Identifier: Apache-2.0 */
/* Roles, identity and limits of ranks over a made-up /proc; the store and the kernel's filter are stand-ins that count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/context.h"
#include "daemon/kernel.h"
#include "daemon/log.h"
#include "daemon/rank_room.h"
#include "daemon/store.h"
#include "tests/unit/fake_proc.h"

#define RANKS_MAX 64

static struct {
	char root[128];
	struct context context;
	struct ranks *ranks;
	uint64_t now_ns;
	unsigned added, changed, ended, warnings;
	struct {
		uint32_t pid;
		uint64_t start_time_ns;
	} instance[8192];
	int64_t instances;
	uint32_t filter[RANKS_MAX]; /* pid by slot */
	int64_t row_rank, row_ended, row_instance;
	unsigned rows;
} t;

/* Stand-ins for other rooms. */
__attribute__((weak)) void log_message(
	int level, const char *component, const char *file, int line, const char *func, const char *format, ...)
{
	(void)component, (void)file, (void)line, (void)func, (void)format;
	t.warnings += level <= LOG_WARNING;
}

__attribute__((weak)) int store_instance(
	struct store *store, const char *boot_id, uint32_t pid, uint64_t start_time_ns, int64_t *ret)
{
	(void)store, (void)boot_id;
	for (int64_t i = 0; i < t.instances; i++)
		if (t.instance[i].pid == pid && t.instance[i].start_time_ns == start_time_ns) {
			*ret = i + 1;
			return 0;
		}
	t.instance[t.instances].pid = pid;
	t.instance[t.instances].start_time_ns = start_time_ns;
	*ret = ++t.instances;
	return 0;
}

__attribute__((weak)) int store_put(
	struct store *store, enum schema_id table, const struct store_value *values, size_t count)
{
	(void)store;
	assert_int_equal(table, TABLE_RANKS);
	assert_int_equal(count, 18);
	t.row_rank = values[0].type == STORE_NULL ? -1 : values[0].integer;
	t.row_ended = values[16].integer;
	t.row_instance = values[17].integer;
	t.rows++;
	return 0;
}

__attribute__((weak)) int kernel_rank_add(struct kernel *kernel, uint32_t pid, uint32_t slot)
{
	(void)kernel;
	assert_in_range(slot, 0, RANKS_MAX - 1);
	assert_int_equal(t.filter[slot], 0);
	t.filter[slot] = pid;
	return 0;
}

__attribute__((weak)) int kernel_rank_remove(struct kernel *kernel, uint32_t pid)
{
	(void)kernel;
	for (size_t i = 0; i < RANKS_MAX; i++)
		if (t.filter[i] == pid) {
			t.filter[i] = 0;
			return 0;
		}
	return -ENOENT;
}

static void observe(void *arg, const struct rank *rank, enum rank_change change)
{
	(void)arg;
	/* A rank that ends or turns into something else still has its slot while others hear of it. */
	if (rank->role == RANK_ROLE_RANK)
		assert_ptr_equal(ranks_by_slot(t.ranks, rank->slot), rank);
	t.added += change == RANK_ADDED;
	t.changed += change == RANK_CHANGED;
	t.ended += change == RANK_ENDED;
}

static int setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	fake_new(t.root, sizeof(t.root));
	t.context.config.ranks_max = RANKS_MAX;
	(void)copy_text(t.context.host, sizeof(t.context.host), "node");
	(void)copy_text(t.context.boot_id, sizeof(t.context.boot_id), "boot");
	assert_int_equal(ranks_new(&t.context, &t.ranks), 0);
	ranks_set_proc_root(t.ranks, t.root);
	assert_int_equal(ranks_observe(t.ranks, observe, NULL), 0);
	t.now_ns = monotonic_ns();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	t.ranks = ranks_free(t.ranks);
	fake_free(t.root);
	return 0;
}

#define PUT(...) FAKE_PUT(t.root, __VA_ARGS__)
#define ENV(text) FAKE_TEXT(environ, text)
#define TORCH .maps = FAKE_TORCH

/* Lets time pass, tick by tick. */
static void pass(uint64_t ns)
{
	for (uint64_t end_ns = t.now_ns + ns; t.now_ns < end_ns;) {
		t.now_ns += 100 * NSEC_PER_MSEC;
		ranks_tick(t.ranks, t.now_ns);
	}
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

static void test_torchrun_with_workers(void **state)
{
	const struct rank *rank;

	(void)state;
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

static void test_single_process(void **state)
{
	const struct rank *rank;

	(void)state;
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

static void test_library_comes_late(void **state)
{
	(void)state;
	PUT(100, 1, 100, ENV("RANK=3\0WORLD_SIZE=8"));
	ranks_on_exec(t.ranks, 100);
	t.now_ns = monotonic_ns();
	pass(3 * NSEC_PER_SEC);
	check_counts(0, 0, 0);
	PUT(100, 1, 100, ENV("RANK=3\0WORLD_SIZE=8"), TORCH);
	pass(NSEC_PER_SEC);
	check_counts(1, 0, 0);
	assert_true(ranks_by_pid(t.ranks, 100)->from_start);
	/* With rank variables it is never given up, but what loads so late may have been missed. */
	PUT(200, 1, 100, ENV("RANK=4\0WORLD_SIZE=8"));
	ranks_on_exec(t.ranks, 200);
	pass(900 * NSEC_PER_SEC);
	PUT(200, 1, 100, ENV("RANK=4\0WORLD_SIZE=8"), TORCH);
	pass(6 * NSEC_PER_SEC);
	check_counts(2, 0, 0);
	assert_false(ranks_by_pid(t.ranks, 200)->from_start);
}

static void test_launcher_found_out(void **state)
{
	(void)state;
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

static void test_parent_is_late(void **state)
{
	(void)state;
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

static void test_evaluation_does_not_unseat_its_rank(void **state)
{
	(void)state;
	PUT(100, 1, 100, TORCH, ENV("RANK=3\0WORLD_SIZE=8\0LOCAL_RANK=3"));
	PUT(101, 100, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=1\0LOCAL_RANK=0"));
	/* SLURM's number under another name, for a spawned worker. */
	PUT(200, 1, 100, TORCH, ENV("SLURM_PROCID=1\0SLURM_NTASKS=2\0SLURM_LOCALID=1"));
	PUT(201, 200, 200, TORCH, ENV("SLURM_PROCID=1\0SLURM_NTASKS=2\0SLURM_LOCALID=1\0RANK=1\0WORLD_SIZE=2"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(3, 1, 0);
	assert_int_equal(ranks_by_pid(t.ranks, 100)->env.rank, 3);
}

static void test_mpirun_without_library(void **state)
{
	(void)state;
	PUT(100, 1, 100, .exe = "/usr/bin/mpirun",
		FAKE_TEXT(command, "mpirun\0-n\0"
				   "2\0python3\0t.py"));
	PUT(101, 100, 200, TORCH, ENV("OMPI_COMM_WORLD_RANK=0\0OMPI_COMM_WORLD_SIZE=1"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(1, 0, 1);
}

static void test_ends(void **state)
{
	(void)state;
	PUT(100, 1, 100, TORCH);
	assert_int_equal(ranks_scan(t.ranks), 0);
	assert_int_equal(t.row_ended, 0);
	ranks_on_exit(t.ranks, 100);
	check_counts(0, 0, 0);
	assert_int_equal(t.ended, 1);
	assert_int_equal(t.row_ended, 1);
	ranks_on_exit(t.ranks, 100);
	assert_int_equal(t.ended, 1);
	/* An end that no event told of: gone, and a zombie. */
	fake_remove(t.root, 100);
	PUT(200, 1, 100, TORCH);
	PUT(300, 1, 100, TORCH);
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(2, 0, 0);
	fake_remove(t.root, 200);
	PUT(300, 1, 100, TORCH, .state = 'Z');
	pass(3 * NSEC_PER_SEC);
	check_counts(0, 0, 0);
	assert_int_equal(t.ended, 3);
}

static void test_pid_reuse_and_restart(void **state)
{
	int64_t first;

	(void)state;
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
	ranks_on_exit(t.ranks, 100);
	fake_remove(t.root, 100);
	PUT(150, 1, 1000, TORCH, ENV("RANK=1\0WORLD_SIZE=2"));
	ranks_on_exec(t.ranks, 150);
	pass(NSEC_PER_SEC);
	check_counts(1, 0, 0);
	assert_int_equal(ranks_by_pid(t.ranks, 150)->slot, 0);
	assert_int_equal(t.instances, 3);
}

static void test_exec_in_a_rank(void **state)
{
	int64_t instance;

	(void)state;
	PUT(100, 1, 100, TORCH);
	assert_int_equal(ranks_scan(t.ranks), 0);
	instance = ranks_by_pid(t.ranks, 100)->instance;
	/* An event that is older than our look. */
	ranks_on_exec(t.ranks, 100);
	assert_int_equal(t.ended, 0);
	PUT(100, 1, 100);
	ranks_on_exec(t.ranks, 100);
	assert_int_equal(t.ended, 1);
	check_counts(0, 0, 0);
	PUT(100, 1, 100, TORCH);
	pass(NSEC_PER_SEC);
	check_counts(1, 0, 0);
	assert_int_equal(ranks_by_pid(t.ranks, 100)->instance, instance);
}

static void test_forked_workers(void **state)
{
	(void)state;
	PUT(100, 1, 100, TORCH, ENV("RANK=0\0WORLD_SIZE=1"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	PUT(101, 100, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=1"));
	PUT(100, 1, 100, TORCH, ENV("RANK=0\0WORLD_SIZE=1"), .children = "101 102 ");
	pass(3 * NSEC_PER_SEC);
	check_counts(1, 1, 0);
}

static void test_64_ranks_and_one_more(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS_MAX + 2; i++) {
		char env[64];
		int n = snprintf(env, sizeof(env), "RANK=%u", i);

		PUT(100 + i, 1, 100 + i, TORCH, .environ = env, .environ_size = (size_t)n + 1);
	}
	assert_int_equal(ranks_scan(t.ranks), 0);
	check_counts(RANKS_MAX, 0, 0);
	pass(20 * NSEC_PER_SEC);
	assert_int_equal(t.warnings, 1);
	/* One that ends makes room. */
	ranks_on_exit(t.ranks, 110);
	fake_remove(t.root, 110);
	pass(6 * NSEC_PER_SEC);
	check_counts(RANKS_MAX, 0, 0);
	assert_non_null(ranks_by_slot(t.ranks, 10));
}

static void test_short_processes_cost_no_look(void **state)
{
	(void)state;
	for (uint32_t pid = 1000; pid < 3000; pid++) {
		ranks_on_exec(t.ranks, pid);
		ranks_on_exit(t.ranks, pid);
	}
	assert_int_equal(rank_queue_count(t.ranks->queue), 0);
	/* Gone without an exit event: dropped at the first look, without a word. */
	for (uint32_t pid = 1000; pid < 1200; pid++)
		ranks_on_exec(t.ranks, pid);
	t.now_ns = monotonic_ns();
	pass(NSEC_PER_SEC);
	assert_int_equal(rank_queue_count(t.ranks->queue), 0);
	assert_int_equal(t.warnings, 0);
}

static void test_rows_are_refreshed(void **state)
{
	(void)state;
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

static void test_order(void **state)
{
	char text[64] = "";

	(void)state;
	PUT(100, 1, 1, TORCH, ENV("RANK=1\0TORCHELASTIC_RUN_ID=b"));
	PUT(101, 1, 1, TORCH, ENV("RANK=0\0TORCHELASTIC_RUN_ID=b"));
	PUT(102, 1, 1, TORCH, ENV("RANK=9\0TORCHELASTIC_RUN_ID=a"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	ranks_each(t.ranks, note_order, text);
	assert_string_equal(text, "a9 b0 b1 ");
}

static void test_huge_environment(void **state)
{
	static char block[900000];

	(void)state;
	memset(block, 'x', sizeof(block));
	memcpy(block + sizeof(block) - 8, "\0RANK=6", 8);
	PUT(100, 1, 1, TORCH, .environ = block, .environ_size = sizeof(block));
	assert_int_equal(ranks_scan(t.ranks), 0);
	assert_int_equal(ranks_by_pid(t.ranks, 100)->env.rank, 6);
}

static void test_queue_is_bounded(void **state)
{
	struct rank_candidate candidate;
	struct rank_queue *queue;

	(void)state;
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {TEST(test_torchrun_with_workers), TEST(test_single_process),
		TEST(test_library_comes_late), TEST(test_launcher_found_out), TEST(test_parent_is_late),
		TEST(test_evaluation_does_not_unseat_its_rank), TEST(test_mpirun_without_library), TEST(test_ends),
		TEST(test_pid_reuse_and_restart), TEST(test_exec_in_a_rank), TEST(test_forked_workers),
		TEST(test_64_ranks_and_one_more), TEST(test_short_processes_cost_no_look),
		TEST(test_rows_are_refreshed), TEST(test_order), TEST(test_huge_environment),
		TEST(test_queue_is_bounded)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
