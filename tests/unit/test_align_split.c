/* SPDX-License-Identifier: Apache-2.0 */
/* A step to self times of activities, device synchronizations and the lead of the host. */
#include "tests/unit/align_script.h"

#define STORM 1000     /* syncs that are all kept */
#define STORM_MAX 1536 /* as PARTS_SMALL_MAX in align_split.c */
#define STORM_BEYOND 5000

static const struct frame_rank *last(void)
{
	const struct frame_rank *rank = &seen[n_seen - 1].rank[0];
	uint64_t sum = 0;

	for (int i = 0; i < ACTIVITY_MAX; i++)
		sum += rank->activity_ns[i];
	assert_int_equal(sum, rank->step_ns);
	assert_int_equal(rank->activity_ns[ACTIVITY_COMPUTE], 0);
	return rank;
}

static void has(enum activity activity, uint64_t ms)
{
	assert_int_equal(last()->activity_ns[activity], ms * MS);
}

static void stage_of(uint32_t thread_id, uint32_t depth, int64_t step, enum stage_kind kind, uint64_t from, uint64_t ms)
{
	align_stage(align, process[0],
		&(struct align_stage){.step = step,
			.kind = kind,
			.start_ns = start_ns + from * MS,
			.duration_ns = ms * MS,
			.thread_id = thread_id,
			.depth = depth});
}

TEST(a_step_that_was_not_watched_has_no_activities)
{
	begin_job(1, true);
	stage_of(1, 0, 1, STAGE_BACKWARD, 10, 50);
	align_step(align, process[0], &(struct align_step){1, start_ns, 100 * MS, true});
	stage_of(1, 0, 2, STAGE_BACKWARD, 110, 50);
	step_at(0, 2, 100, 100);
	align_end(align);
	assert_int_equal(n_seen, 2);
	assert_true(seen[0].rank[0].unsplit && seen[0].rank[0].step_ns == 100 * MS);
	for (int i = 0; i < ACTIVITY_MAX; i++)
		assert_int_equal(seen[0].rank[0].activity_ns[i], 0);
	/* What was not counted then is not the next one's. */
	assert_false(last()->unsplit);
	has(ACTIVITY_BACKWARD, 50);
	has(ACTIVITY_OUTSIDE, 50);
}

TEST(a_step_without_stages_is_outside)
{
	begin_job(1, true);
	step_at(0, 1, 0, 100);
	has(ACTIVITY_OUTSIDE, 100);
	assert_int_equal(last()->syncs, 0);
	assert_int_equal(last()->may_wait_until_ns, 0);
	assert_int_equal(last()->leads, 0);
}

TEST(a_plain_loop)
{
	begin_job(1, true);
	stage_at(0, 1, STAGE_ZERO_GRAD, 0, 1);
	stage_at(0, 1, STAGE_DATALOADER, 2, 10);
	stage_at(0, 1, STAGE_SYNC, 20, 3);
	stage_at(0, 1, STAGE_GC, 24, 5);
	stage_at(0, 1, STAGE_FORWARD, 15, 20);
	stage_at(0, 1, STAGE_BACKWARD, 35, 40);
	stage_at(0, 1, STAGE_CHECKPOINT, 76, 4);
	stage_at(0, 1, STAGE_OPTIMIZER, 90, 10);
	step_at(0, 1, 0, 100);
	has(ACTIVITY_ZERO_GRAD, 1);
	has(ACTIVITY_DATALOADER, 10);
	has(ACTIVITY_SYNC, 3);
	has(ACTIVITY_GC, 5);
	has(ACTIVITY_FORWARD, 12);
	has(ACTIVITY_BACKWARD, 40);
	has(ACTIVITY_CHECKPOINT, 4);
	has(ACTIVITY_OPTIMIZER, 10);
	has(ACTIVITY_OUTSIDE, 15);
	assert_int_equal(last()->syncs, 1);
	assert_int_equal(last()->may_wait_from_ns, 15 * MS);
	assert_int_equal(last()->may_wait_until_ns, 75 * MS);
}

/* Forward and backward in the optimizer's closure, twice; gc in the second forward. */
struct nested {
	enum stage_kind kind;
	uint64_t from, ms;
	uint32_t depth;
};
static const struct nested lightning[] = {{STAGE_DATALOADER, 0, 10, 0}, {STAGE_FORWARD, 12, 20, 1},
	{STAGE_ZERO_GRAD, 32, 1, 1}, {STAGE_BACKWARD, 33, 20, 1}, {STAGE_GC, 62, 5, 2}, {STAGE_FORWARD, 60, 12, 1},
	{STAGE_SYNC, 80, 2, 2}, {STAGE_BACKWARD, 72, 15, 1}, {STAGE_OPTIMIZER, 12, 86, 0}};
#define LIGHTNING (sizeof(lightning) / sizeof(lightning[0]))

static int by_start(const void *a, const void *b)
{
	const struct nested *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return (y->ms > x->ms) - (y->ms < x->ms);
}

static void feed_lightning(const struct nested *stage)
{
	for (size_t i = 0; i < LIGHTNING; i++)
		stage_of(1, stage[i].depth, 1, stage[i].kind, stage[i].from, stage[i].ms);
	step_at(0, 1, 0, 100);
	has(ACTIVITY_DATALOADER, 10);
	has(ACTIVITY_FORWARD, 27);
	has(ACTIVITY_ZERO_GRAD, 1);
	has(ACTIVITY_BACKWARD, 33);
	has(ACTIVITY_GC, 5);
	has(ACTIVITY_SYNC, 2);
	has(ACTIVITY_OPTIMIZER, 18);
	has(ACTIVITY_OUTSIDE, 4);
}

TEST(stages_within_the_optimizer)
{
	struct nested sorted[LIGHTNING];

	begin_job(1, true);
	feed_lightning(lightning); /* by their ends */
	memcpy(sorted, lightning, sizeof(sorted));
	qsort(sorted, LIGHTNING, sizeof(sorted[0]), by_start);
	begin_job(1, true);
	feed_lightning(sorted);
}

TEST(marks_count_what_is_in_no_other_stage)
{
	begin_job(1, true);
	stage_of(1, 1, 1, STAGE_DATALOADER, 5, 10);
	stage_of(1, 2, 1, STAGE_FORWARD, 20, 30); /* as long as a mark: the deeper one counts */
	stage_of(1, 1, 1, STAGE_USER, 20, 30);
	stage_of(1, 1, 1, STAGE_OPTIMIZER, 60, 10);
	stage_of(1, 0, 1, STAGE_USER, 0, 100);
	step_at(0, 1, 0, 100);
	has(ACTIVITY_DATALOADER, 10);
	has(ACTIVITY_FORWARD, 30);
	has(ACTIVITY_OPTIMIZER, 10);
	has(ACTIVITY_MARK, 50);
	has(ACTIVITY_OUTSIDE, 0);
}

/* A derived forward begins before the mark that has it and the backward in it. */
TEST(a_mark_yields_to_a_derived_forward)
{
	begin_job(1, true);
	stage_of(1, 0, 1, STAGE_DATALOADER, 0, 10);
	stage_of(1, 0, 1, STAGE_FORWARD, 10, 30);
	stage_of(1, 1, 1, STAGE_BACKWARD, 40, 30);
	stage_of(1, 0, 1, STAGE_USER, 11, 69);
	stage_of(1, 0, 1, STAGE_OPTIMIZER, 90, 10);
	step_at(0, 1, 0, 100);
	has(ACTIVITY_FORWARD, 30);
	has(ACTIVITY_BACKWARD, 30);
	has(ACTIVITY_MARK, 10);
	has(ACTIVITY_OUTSIDE, 10);
}

TEST(other_threads_do_not_count)
{
	begin_job(1, true);
	stage_of(1, 0, 1, STAGE_DATALOADER, 0, 10);
	stage_of(2, 0, 1, STAGE_GC, 20, 10);
	stage_of(2, 0, 1, STAGE_SYNC, 30, 10);
	stage_of(2, 0, 1, STAGE_USER, 0, 90);
	stage_of(2, 0, 1, STAGE_CHECKPOINT, 50, 10);
	stage_of(1, 0, 1, STAGE_OPTIMIZER, 90, 10);
	step_at(0, 1, 0, 100);
	has(ACTIVITY_DATALOADER, 10);
	has(ACTIVITY_OPTIMIZER, 10);
	has(ACTIVITY_OUTSIDE, 80);
	assert_int_equal(last()->syncs, 0);
}

TEST(what_straddles_counts_in_both)
{
	begin_job(1, true);
	stage_of(1, 0, 1, STAGE_DATALOADER, 0, 10);
	stage_of(1, 0, 1, STAGE_USER, 95, 10); /* comes before its step closes */
	step_at(0, 1, 0, 100);
	has(ACTIVITY_MARK, 5);
	has(ACTIVITY_OUTSIDE, 85);
	stage_of(1, 0, 2, STAGE_DATALOADER, 110, 10);
	step_at(0, 2, 100, 100);
	has(ACTIVITY_MARK, 5);
	has(ACTIVITY_DATALOADER, 10);
	stage_of(1, 0, 2, STAGE_SYNC, 190, 30); /* comes late */
	step_at(0, 3, 200, 100);
	has(ACTIVITY_SYNC, 20);
	has(ACTIVITY_OUTSIDE, 80);
	assert_int_equal(last()->syncs, 0);		       /* it began before */
	stage_of(1, 0, STEPS_NONE, STAGE_DATALOADER, 300, 50); /* an evaluation */
	stage_of(1, 0, STEPS_NONE, STAGE_SYNC, 360, 5); /* of the step, but so many waited that it was not reported */
	step_at(0, 4, 350, 100);
	has(ACTIVITY_SYNC, 5);
	has(ACTIVITY_OUTSIDE, 95);
	step_at(0, 5, 450, 100);
	has(ACTIVITY_OUTSIDE, 100);
}

static void storm(int64_t step, uint64_t syncs)
{
	uint64_t from = (uint64_t)step * 100 - 100;

	stage_of(1, 0, step, STAGE_DATALOADER, from, 10);
	for (uint64_t i = 0; i < syncs; i++)
		align_stage(align, process[0],
			&(struct align_stage){.step = step,
				.kind = STAGE_SYNC,
				.start_ns = start_ns + (from + 10) * MS + i * 10000,
				.duration_ns = 5000,
				.thread_id = 1,
				.depth = 1});
	stage_of(1, 0, step, STAGE_FORWARD, from + 10, 60);
	stage_of(1, 0, step, STAGE_OPTIMIZER, from + 80, 20);
	step_at(0, step, from, 100);
}

TEST(storms_are_bounded)
{
	begin_job(1, true);
	storm(1, STORM);
	has(ACTIVITY_SYNC, STORM * 5000 / MS);
	has(ACTIVITY_FORWARD, 60 - STORM * 5000 / MS);
	assert_int_equal(last()->syncs, STORM);
	assert_int_equal(counts().stages_left_out, 0);
	storm(2, STORM_BEYOND);
	assert_int_equal(last()->syncs, STORM_BEYOND);
	assert_int_equal(last()->activity_ns[ACTIVITY_SYNC], (STORM_MAX - 1) * 5000);
	has(ACTIVITY_DATALOADER, 10);
	has(ACTIVITY_OPTIMIZER, 20);
	assert_int_equal(last()->activity_ns[ACTIVITY_FORWARD], 60 * MS - last()->activity_ns[ACTIVITY_SYNC]);
	assert_int_equal(counts().stages_left_out, STORM_BEYOND - STORM_MAX + 1);
	storm(3, 10); /* nothing of it is left */
	assert_int_equal(last()->syncs, 10);
	assert_int_equal(last()->activity_ns[ACTIVITY_SYNC], 50000);
}

/* What is of no step takes no space from what is of one. */
TEST(an_evaluation_does_not_fill_it)
{
	begin_job(1, true);
	stage_of(1, 0, 1, STAGE_DATALOADER, 0, 10);
	step_at(0, 1, 0, 100);
	for (uint64_t i = 0; i < 2 * STORM_BEYOND; i++)
		stage_of(1, 0, STEPS_NONE, i % 2 ? STAGE_DATALOADER : STAGE_SYNC, 100 + i, 1);
	stage_of(1, 0, 2, STAGE_DATALOADER, 20000, 10);
	stage_of(1, 0, 2, STAGE_OPTIMIZER, 20080, 10);
	step_at(0, 2, 20000, 100);
	has(ACTIVITY_DATALOADER, 10);
	has(ACTIVITY_OPTIMIZER, 10);
	has(ACTIVITY_OUTSIDE, 80);
}

/* Stages far ahead of all steps are forgotten. */
TEST(what_never_comes_is_dropped)
{
	begin_job(1, true);
	stage_of(1, 0, 1, STAGE_DATALOADER, 0, 10);
	for (uint64_t i = 0; i < STORM_BEYOND; i++)
		stage_of(1, 0, 1, STAGE_OPTIMIZER, 1000000 + i, 1);
	for (int64_t step = 1; step <= 20; step++)
		step_at(0, step, (uint64_t)step * 100 - 100, 100);
	storm(21, STORM);
	has(ACTIVITY_SYNC, STORM * 5000 / MS);
	has(ACTIVITY_OPTIMIZER, 20);
}

static void op_ahead(uint64_t seq, int64_t step, uint64_t from, int64_t lead_ns, enum frame_tier tier)
{
	align_op(align, process[0],
		&(struct align_op){.communicator = "00000000000000aa",
			.seq = seq,
			.op = "AllReduce",
			.step = step,
			.start_ns = start_ns + from * MS,
			.duration_ns = MS,
			.bytes = 4096,
			.lead_ns = lead_ns,
			.peer = -1,
			.tier = tier});
}

TEST(leads_are_summed)
{
	const uint64_t ops = 10; /* enough for a template: see align_template.c */

	begin_job(1, true);
	for (int64_t step = 1; step <= 20; step++) {
		uint64_t from = (uint64_t)step * 100 - 100;

		for (uint64_t i = 0; i < ops; i++)
			op_ahead((uint64_t)step * ops + i, step, from + i, i ? (int64_t)(i * MS) : -5,
				FRAME_TIER_DEVICE);
		step_at(0, step, from, 100);
	}
	align_end(align);
	assert_int_equal(n_seen, 20);
	for (size_t i = 1; i < n_seen; i++) {
		assert_int_equal(seen[i].rank[0].leads, ops);
		assert_int_equal(seen[i].rank[0].lead_ns, 45 * MS);
	}
}

TEST(unknown_leads_are_not_counted)
{
	begin_job(1, true);
	for (int64_t step = 1; step <= 5; step++) {
		uint64_t from = (uint64_t)step * 100 - 100;

		op_ahead((uint64_t)step * 4, step, from, ALIGN_LEAD_UNKNOWN, FRAME_TIER_DEVICE);
		op_ahead((uint64_t)step * 4 + 1, step, from + 1, INT64_MAX, FRAME_TIER_DEVICE);
		op_ahead((uint64_t)step * 4 + 2, step, from + 2, 7, FRAME_TIER_DEVICE);
		op_ahead((uint64_t)step * 4 + 3, step, from + 3, 9, FRAME_TIER_HOST);
		step_at(0, step, from, 100);
	}
	align_end(align);
	assert_int_equal(n_seen, 5);
	assert_int_equal(seen[4].rank[0].leads, 1);
	assert_int_equal(seen[4].rank[0].lead_ns, 7);
}

TEST_MAIN(NULL, done)
