/* SPDX-License-Identifier: Apache-2.0 */
/* Steps split into activities: self time by nesting, the step thread, buckets, restarts, and rows that are missing. */
#include <string.h>

#include "analyzers/report/splits.h"

#include "tests/test.h"

#define MS 1000000ULL

static struct report report;
static struct report_rank rank[4];
static struct splits *splits;
static int window;

static int setup(void **state)
{
	const struct split_window wanted = {
		.since_ns = 1000 * MS, .until_ns = 2000 * MS, .buckets = 10, .stride = 1, .also = -1};

	memset(&report, 0, sizeof(report));
	memset(rank, 0, sizeof(rank));
	report.rank = rank;
	report.ranks = 4;
	rank[0].rank = 0;
	rank[1].rank = 1;
	rank[2].rank = 1; /* the same, restarted */
	rank[3].rank = 2;
	rank[3].job = 1;
	splits = splits_new(&report);
	window = splits_add(splits, &wanted);
	return window < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	splits = splits_free(splits);
	return 0;
}

static void step(size_t process, int64_t number, uint64_t start_ms, uint64_t length_ms)
{
	assert_int_equal(splits_step(splits, &rank[process], start_ms * MS, length_ms * MS, number), 0);
}

static void stage(
	size_t process, int64_t thread, int64_t number, const char *name, uint64_t start_ms, uint64_t length_ms)
{
	const struct split_stage one = {thread, number, name, start_ms * MS, length_ms * MS};

	assert_int_equal(splits_stage(splits, &rank[process], &one), 0);
}

static double ms(const struct split *split, enum activity activity)
{
	return (double)split->self_ns[activity] / (double)MS;
}

/* Stages inside others arrive first; what no stage covers is outside. */
TEST_WITH(test_self, setup, teardown)
{
	struct split split;

	stage(0, 5, 6, "forward", 900, 20);
	step(0, 7, 1010, 100);
	stage(0, 5, 7, "dataloader", 1010, 10);
	stage(0, 5, 7, "gc", 1032, 3);
	stage(0, 5, 7, "sync", 1040, 5);
	stage(0, 5, 7, "forward", 1030, 20);
	stage(0, 5, 7, "backward", 1050, 30);
	assert_true(splits_at(splits, window, 0, 0, 1, &split));
	assert_int_equal(split.steps, 1);
	assert_true(ms(&split, ACTIVITY_DATALOADER) == 10 && ms(&split, ACTIVITY_GC) == 3 &&
		    ms(&split, ACTIVITY_SYNC) == 5);
	assert_true(ms(&split, ACTIVITY_FORWARD) == 12 && ms(&split, ACTIVITY_BACKWARD) == 30);
	assert_true(ms(&split, ACTIVITY_OUTSIDE) == 40);
	assert_false(splits_at(splits, window, 0, 1, 9, &split));
	assert_false(splits_at(splits, window, 77, 0, 10, &split));
}

/* Lightning: forward and backward run inside the optimizer's step. */
TEST_WITH(test_nested, setup, teardown)
{
	struct split split;

	step(0, 1, 1000, 100);
	stage(0, 5, 1, "forward", 1010, 30);
	stage(0, 5, 1, "backward", 1040, 40);
	stage(0, 5, 1, "optimizer", 1005, 90);
	assert_true(splits_at(splits, window, 0, 0, 1, &split));
	assert_true(ms(&split, ACTIVITY_OPTIMIZER) == 20 && ms(&split, ACTIVITY_OUTSIDE) == 10);
}

/* Another thread's stages are not of the step, nor are those of no step. */
TEST_WITH(test_thread, setup, teardown)
{
	struct split split;

	step(0, 1, 1000, 100);
	stage(0, 5, 1, "forward", 1010, 30);
	stage(0, 9, 1, "sync", 1010, 80);
	stage(0, 9, 1, "gc", 1010, 80);
	stage(0, 5, 1, "backward", 1040, 40);
	stage(0, 5, -1, "gc", 1080, 10);
	assert_true(splits_at(splits, window, 0, 0, 1, &split));
	assert_true(
		ms(&split, ACTIVITY_SYNC) == 0 && ms(&split, ACTIVITY_GC) == 0 && ms(&split, ACTIVITY_OUTSIDE) == 30);
}

/* A stage counts where its step began, though it begins in the next bucket. */
TEST_WITH(test_bucket, setup, teardown)
{
	struct split split;

	step(0, 1, 1090, 60);
	step(0, 2, 1150, 60);
	stage(0, 5, 1, "forward", 1105, 20);
	stage(0, 5, 1, "backward", 1125, 20);
	stage(0, 5, 2, "forward", 1155, 25);
	stage(0, 5, 2, "backward", 1180, 25);
	assert_true(splits_at(splits, window, 0, 0, 1, &split));
	assert_true(ms(&split, ACTIVITY_FORWARD) == 20 && ms(&split, ACTIVITY_OUTSIDE) == 20);
	assert_true(splits_at(splits, window, 0, 1, 1, &split));
	assert_true(ms(&split, ACTIVITY_FORWARD) == 25 && ms(&split, ACTIVITY_OUTSIDE) == 10);
}

/* A restarted rank counts its steps from 1 again: both processes are the rank. Another job is not. */
TEST_WITH(test_restart, setup, teardown)
{
	const int32_t *ranks;
	struct split split;

	step(1, 400, 1000, 50);
	step(2, 1, 1060, 50);
	step(3, 1, 1060, 50);
	stage(1, 5, 400, "forward", 1010, 10);
	stage(2, 6, 1, "forward", 1070, 20);
	stage(3, 6, 1, "forward", 1070, 20);
	assert_int_equal(splits_ranks(splits, window, &ranks), 1);
	assert_int_equal(ranks[0], 1);
	assert_true(splits_at(splits, window, 1, 0, 10, &split));
	assert_int_equal(split.steps, 2);
	assert_true(ms(&split, ACTIVITY_FORWARD) == 30);
}

/* Steps without their stages are not "outside all stages". */
TEST_WITH(test_lost, setup, teardown)
{
	struct split split;
	uint64_t since_ns, until_ns;

	for (int64_t i = 0; i < 4; i++)
		step(0, i, 1000 + 20 * (uint64_t)i, 20);
	stage(0, 5, 1, "forward", 1025, 10);
	assert_true(splits_at(splits, window, 0, 0, 1, &split));
	assert_int_equal(split.stages, 0);
	assert_true(splits_want(splits, 0, &since_ns, &until_ns));
	assert_true(since_ns == 1000 * MS && until_ns == 2000 * MS);
	assert_false(splits_want(splits, 1, &since_ns, &until_ns));
}

/* More stages in one than are kept, lengths and times that no daemon writes. */
TEST_WITH(test_hostile, setup, teardown)
{
	struct split split;

	step(0, 1, 1000, 500);
	for (uint64_t i = 0; i < 5000; i++)
		stage(0, 5, 1, i % 3 ? "sync" : "\xff\033", 1100, 0);
	for (int64_t i = 0; i < 200; i++)
		stage(0, i, 1, "forward", 1100, UINT64_MAX / MS);
	stage(0, 5, INT64_MAX, "backward", UINT64_MAX / MS, UINT64_MAX / MS);
	splits_step(splits, &rank[0], UINT64_MAX, UINT64_MAX, INT64_MIN);
	assert_true(splits_at(splits, window, 0, 0, 10, &split));
	assert_true(split.self_ns[ACTIVITY_OUTSIDE] == 0);
}

TEST_MAIN(NULL, NULL)
