/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps have all of their operations. */
#include "tests/unit/align_script.h"

/* All of them are seen from shortly before step 11 on. */
TEST(operations_that_begin_with_a_step)
{
	begin_job(2, true);
	for (int64_t step = 1; step <= 20; step++) {
		if (step == 11)
			align_watched(align, true, start_ns + 990 * MS);
		if (step >= 11)
			both_ops(step, FRAME_TIER_HOST);
		both_step(step);
	}
	align_end(align);
	assert_int_equal(seen[9].frame.tier, FRAME_TIER_STAGES);
	for (size_t i = 10; i < 20; i++)
		assert_int_equal(seen[i].frame.ops, 4);
}

TEST(operations_that_begin_within_a_step)
{
	begin_job(2, true);
	for (int64_t step = 1; step <= 20; step++) {
		if (step == 11)
			align_watched(align, true, start_ns + 1050 * MS);
		if (step > 11)
			both_ops(step, FRAME_TIER_HOST);
		for (int i = 0; i < 2 && step == 11; i++)
			op_at(i, NTH(step) * 2 + 2, step, NTH(step) * 100 + 60, 10);
		both_step(step);
	}
	align_end(align);
	assert_int_equal(seen[10].frame.tier, FRAME_TIER_STAGES);
	for (size_t i = 11; i < 20; i++)
		assert_int_equal(seen[i].frame.ops, 4);
}

/* One more than in the steps before: the other rank's is still to come. */
TEST(one_operation_more)
{
	begin_job(2, true);
	for (int64_t step = 1; step <= 10; step++) {
		both_ops(step, FRAME_TIER_HOST);
		both_step(step);
	}
	assert_int_equal(n_seen, 10);
	both_ops(11, FRAME_TIER_HOST);
	op_at(0, 1000, 11, 1080, 10);
	both_step(11);
	assert_int_equal(n_seen, 10);
	op_at(1, 1000, 11, 1080, 10);
	assert_int_equal(n_seen, 11);
	assert_int_equal(seen[10].frame.ops, 6);
	/* It has none: the next one decides. */
	both_ops(12, FRAME_TIER_HOST);
	op_at(0, 1001, 12, 1180, 10);
	both_step(12);
	assert_int_equal(n_seen, 11);
	both_ops(13, FRAME_TIER_HOST);
	assert_int_equal(n_seen, 12);
	assert_int_equal(seen[11].frame.ops, 5);
	/* Less than either of the two before: the one after next decides. */
	both_step(13);
	op_at(0, 2000, 14, 1340, 10);
	op_at(1, 2000, 14, 1340, 10);
	both_step(14);
	both_ops(15, FRAME_TIER_HOST);
	both_step(15);
	assert_int_equal(n_seen, 13);
	both_ops(16, FRAME_TIER_HOST);
	assert_int_equal(n_seen, 15);
}

/* They are not watched any more, in the midst of step 11, and again from step 21 on: no frame waits for them. */
TEST(operations_that_are_not_watched)
{
	begin_job(2, true);
	align_watched(align, true, start_ns);
	for (int64_t step = 1; step <= 30; step++) {
		if (step == 12)
			align_watched(align, false, start_ns + 1050 * MS);
		if (step == 21)
			align_watched(align, true, start_ns + 1990 * MS);
		if (step <= 10 || step > 20)
			both_ops(step, FRAME_TIER_HOST);
		for (int i = 0; i < 2 && step == 11; i++)
			op_at(i, NTH(step) * 2 + 1, step, NTH(step) * 100 + 40, 10);
		both_step(step);
		/* Of the first one with operations it is not known how many it has; it is remembered for step 21. */
		assert_int_equal(n_seen, step == 1 || step == 11 ? step - 1 : step);
	}
	for (size_t i = 0; i < 30; i++) {
		assert_int_equal(seen[i].frame.step, i + 1);
		assert_int_equal(seen[i].frame.tier, i < 10 || i >= 20 ? FRAME_TIER_HOST : FRAME_TIER_STAGES);
	}
}

/* Device records come after the end of their step, and some after watching stopped. */
TEST(operations_that_came_too_late)
{
	begin_job(2, true);
	align_watched(align, true, start_ns);
	for (int64_t step = 1; step <= 10; step++) {
		both_ops(step, FRAME_TIER_DEVICE);
		both_step(step);
	}
	op_on(0, "00000000000000aa", 21, 11, 1040, 10, FRAME_TIER_DEVICE);
	op_on(1, "00000000000000aa", 21, 11, 1040, 10, FRAME_TIER_DEVICE);
	both_step(11);
	assert_int_equal(n_seen, 10);
	align_watched(align, false, start_ns + 1110 * MS);
	align_advance(align, start_ns + 1200 * MS);
	assert_int_equal(n_seen, 11);
	both_step(12);
	assert_int_equal(n_seen, 12);
	assert_int_equal(seen[9].frame.tier, FRAME_TIER_DEVICE);
	assert_int_equal(seen[10].frame.tier, FRAME_TIER_STAGES);
	assert_int_equal(seen[11].frame.tier, FRAME_TIER_STAGES);
}

/* What was still on its way then makes nobody wait for more. */
TEST(operations_that_come_when_nobody_watches)
{
	begin_job(2, true);
	align_watched(align, true, start_ns);
	for (int64_t step = 1; step <= 10; step++) {
		both_ops(step, FRAME_TIER_HOST);
		both_step(step);
	}
	align_watched(align, false, start_ns + 1000 * MS);
	both_step(11);
	both_step(12);
	assert_int_equal(n_seen, 12);
	op_at(0, 21, 11, 1040, 10);
	op_at(1, 25, 13, 1240, 10);
	both_step(13);
	both_step(14);
	assert_int_equal(n_seen, 14);
	for (size_t i = 10; i < 14; i++)
		assert_int_equal(seen[i].frame.tier, FRAME_TIER_STAGES);
}

TEST_MAIN(NULL, done)
