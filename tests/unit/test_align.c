/* SPDX-License-Identifier: Apache-2.0 */
/* Steps and stages of one job on one node to frames. */
#include "tests/unit/align_script.h"

TEST(a_frame_a_step)
{
	begin_job(4, true);
	steps_alike(4, 1, 10);
	assert_int_equal(n_seen, 10);
	for (size_t i = 0; i < n_seen; i++) {
		assert_int_equal(seen[i].frame.step, i + 1);
		assert_int_equal(seen[i].here, 4);
		assert_int_equal(seen[i].frame.world_size, 4);
		assert_int_equal(seen[i].frame.cards, 4);
		assert_int_equal(seen[i].frame.tier, FRAME_TIER_STAGES);
		assert_int_equal(seen[i].frame.class, i < 3 ? FRAME_FIRST : FRAME_TRAIN);
		assert_int_equal(seen[i].rank[2].step_ns, 100 * MS);
		assert_int_equal(seen[i].rank[2].end_ns, start_ns + (i + 1) * 100 * MS);
		assert_int_equal(seen[i].rank[2].host.cpu_ns, FRAME_UNKNOWN);
		assert_int_equal(seen[i].rank[2].host.launch_gap_ns, FRAME_UNKNOWN);
		assert_int_equal(seen[i].who[2].rank, 2);
		assert_int_equal(seen[i].who[2].node, 0);
		assert_string_equal(seen[i].who[2].host, "node");
	}
}

TEST(a_frame_waits_for_the_slowest)
{
	begin_job(2, true);
	step_at(0, 1, 0, 100);
	at(200);
	assert_int_equal(n_seen, 0);
	step_at(1, 1, 0, 150);
	assert_int_equal(n_seen, 1);
	assert_int_equal(seen[0].rank[1].step_ns, 150 * MS);
}

TEST(loop_stages_are_the_step_threads)
{
	begin_job(1, true);
	for (int64_t step = 1; step <= 4; step++) {
		uint64_t from = (uint64_t)step * 100 - 100;
		struct align_stage other = {.step = step,
			.kind = STAGE_DATALOADER,
			.start_ns = start_ns + from * MS,
			.duration_ns = 90 * MS,
			.thread_id = 2};

		stage_at(0, step, STAGE_DATALOADER, from, 10);
		stage_at(0, step, STAGE_OPTIMIZER, from + 80, 10);
		align_stage(align, process[0], &other);
		other.kind = STAGE_CHECKPOINT;
		if (step == 4)
			align_stage(align, process[0], &other);
		step_at(0, step, from, 100);
	}
	assert_int_equal(n_seen, 4);
	assert_int_equal(seen[3].rank[0].activity_ns[ACTIVITY_DATALOADER], 10 * MS);
	assert_int_not_equal(seen[2].frame.class, FRAME_CHECKPOINT);
	assert_int_equal(seen[3].frame.class, FRAME_CHECKPOINT); /* of whatever thread */
}

TEST(operations_make_groups)
{
	begin_job(2, true);
	align_comm(align, process[0], "00000000000000aa", COMM_KIND_DATA, 2, 0);
	for (int64_t step = 1; step <= 5; step++) {
		uint64_t from = (uint64_t)step * 100 - 100;

		for (int i = 0; i < 2; i++) {
			op_at(i, (uint64_t)step * 2 - 1, step, from + 50, 10);
			op_at(i, (uint64_t)step * 2, step, from + 70, 20 - (uint64_t)i * 15);
			step_at(i, step, from, 100);
		}
	}
	align_end(align);
	assert_int_equal(n_seen, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(seen[i].frame.tier, FRAME_TIER_HOST);
		assert_int_equal(seen[i].frame.ops, 4);
		assert_int_equal(seen[i].frame.groups, 2);
		assert_int_equal(seen[i].group[1].members, 2);
		assert_int_equal(seen[i].group[1].bytes, 4096);
		assert_false(seen[i].group[1].p2p);
		assert_int_equal(seen[i].op[3].rank, 1);
		assert_int_equal(seen[i].op[3].start_ns, 70 * MS);
		assert_int_equal(seen[i].op[3].duration_ns, 5 * MS);
	}
	assert_int_equal(counts().coll_left_out, 0);
}

TEST(what_makes_no_sense_is_dropped)
{
	begin_job(1, true);
	step_at(0, 1, 0, 100);
	step_at(0, 1, 0, 100);
	step_at(0, -1, 0, 100);
	step_at(0, INT64_MAX, 0, 100);
	align_step(align, process[0], &(struct align_step){2, UINT64_MAX, 1, false});
	align_step(align, process[0], &(struct align_step){2, 1, UINT64_MAX, false});
	align_step(align, 77, &(struct align_step){2, 1, 1, false});
	align_step(align, -1, &(struct align_step){2, 1, 1, false});
	stage_at(0, 2, STAGE_KIND_MAX, 0, 1);
	stage_at(0, -5, STAGE_GC, 0, 1);
	assert_int_equal(n_seen, 1);
	assert_int_equal(counts().dropped, 7);
	step_at(0, 2, 100, 100);
	assert_int_equal(n_seen, 2);
}

TEST_MAIN(NULL, done)
