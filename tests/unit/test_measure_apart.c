/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h, apart_ns: of a rank's waits those before or after all activities that hold waits. */
#include "tests/unit/measure_fixture.h"

#define MS 1000000

static struct frame_who who[] = {{.rank = 0}, {.rank = 1}};
static struct frame_comm comm = {"all", COMM_KIND_DATA, 2};
static const struct frame_group group[] = {{0, 2, 8, 1, false}, {0, 2, 8, 2, false}, {0, 2, 8, 3, false}};

/* Three operations of 1 ms, in each of which rank 0 waits for rank 1: at the begin of the step, within backward, at its
 * end. */
static const struct frame_op op[] = {{0, 0, 1 * MS, 11 * MS}, {1, 0, 40 * MS, 21 * MS}, {2, 0, 80 * MS, 6 * MS},
	{0, 1, 11 * MS, 1 * MS}, {1, 1, 60 * MS, 1 * MS}, {2, 1, 85 * MS, 1 * MS}};

static enum frame_tier tier = FRAME_TIER_HOST;

static uint64_t apart_of(size_t rank, int64_t from_ms, int64_t until_ms)
{
	struct frame_rank ranks[2] = {{.here = true, .step_ns = 100 * MS}, {.here = true, .step_ns = 100 * MS}};
	const struct frame frame = {.tier = tier,
		.world_size = 2,
		.ranks = 2,
		.who = who,
		.rank = ranks,
		.comms = 1,
		.comm = &comm,
		.groups = 3,
		.group = group,
		.ops = sizeof(op) / sizeof(op[0]),
		.op = op};
	const struct measures *measures;

	ranks[0].may_wait_from_ns = ranks[1].may_wait_from_ns = from_ms * MS;
	ranks[0].may_wait_until_ns = ranks[1].may_wait_until_ns = until_ms * MS;
	assert_int_equal(measure_frame(measure, &frame, &measures), 0);
	assert_int_equal(measures->rank[0].wait_ns, 35 * MS);
	return measures->rank[rank].apart_ns / MS;
}

TEST_WITH(waits_within_do_not_count, start, stop)
{
	assert_int_equal(apart_of(0, 20, 70), 15);
	assert_int_equal(apart_of(0, 12, 70), 15); /* it ends as they begin */
	assert_int_equal(apart_of(0, 11, 70), 5);
	assert_int_equal(apart_of(0, 20, 81), 10);
	assert_int_equal(apart_of(0, 20, 80), 15);
	assert_int_equal(apart_of(1, 20, 70), 0);
}

TEST_WITH(without_such_activities_nothing_is_known, start, stop)
{
	assert_int_equal(apart_of(0, 0, 0), 0);
}

TEST_WITH(it_is_at_most_the_wait, start, stop)
{
	assert_int_equal(apart_of(0, 90, 95), 35);
}

TEST_WITH(while_a_device_waits_its_host_does_not, start, stop)
{
	tier = FRAME_TIER_DEVICE;
	assert_int_equal(apart_of(0, 20, 70), 0);
	tier = FRAME_TIER_HOST;
}

TEST_MAIN(NULL, NULL)
