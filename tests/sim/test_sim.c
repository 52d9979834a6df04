/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the simulator with theory. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

#include "tests/test.h"

static struct sim_options options;

static int defaults(void **state)
{
	sim_options_default(&options);
	return 0;
}

static void shape(uint32_t tp, uint32_t pp, uint32_t dp, uint32_t chunks, uint32_t micro_batches)
{
	options.tp = tp;
	options.pp = pp;
	options.dp = dp;
	options.chunks = chunks;
	options.micro_batches = micro_batches;
	options.layers = pp > 1 ? 1 : 8;
}

/* The frame of step n of a new run, which the caller frees. */
static const struct frame *run_to(struct sim **ret, unsigned n)
{
	const struct frame *frame = NULL;

	*ret = sim_new(&options);
	assert_non_null(*ret);
	for (unsigned i = 0; i <= n; i++)
		frame = sim_step(*ret);
	return frame;
}

static void assert_about(double value, double expected, double by)
{
	if (value < expected - by || value > expected + by)
		fail_msg("%g is not within %g of %g", value, by, expected);
}

/* Every member of every group has a record, with equal ends, in order within a rank. */
static void assert_split(const struct frame_rank *rank)
{
	uint64_t sum = 0;

	for (int i = 0; i < ACTIVITY_MAX; i++) {
		assert_true(rank->activity_ns[i] <= rank->step_ns);
		sum += rank->activity_ns[i];
	}
	assert_int_equal(sum, rank->step_ns);
}

static void assert_whole(const struct frame *frame, bool device)
{
	uint32_t *count = calloc(frame->groups + 1, sizeof(*count));
	uint64_t ops = 0;

	assert_non_null(count);
	for (size_t i = 0; i < frame->groups; i++) {
		assert_true(frame->group[i].comm < frame->comms);
		ops += frame->group[i].members;
	}
	assert_int_equal(frame->ops, ops);
	for (size_t i = 0; i < frame->ranks; i++) {
		assert_split(&frame->rank[i]);
		assert_true((frame->rank[i].leads > 0) == device);
	}
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];

		assert_true(op->group < frame->groups && op->rank < frame->ranks);
		count[op->group]++;
		assert_true(op->start_ns >= 0 && op->duration_ns > 0);
		if (device)
			assert_true((uint64_t)op->start_ns + op->duration_ns <= frame->rank[op->rank].step_ns);
		if (i > 0 && op[-1].rank == op->rank)
			assert_true(op[-1].start_ns <= op->start_ns);
	}
	for (size_t i = 0; i < frame->groups; i++)
		assert_int_equal(count[i], frame->group[i].members);
	free(count);
}

TEST_WITH(every_schedule_ends_with_all_records, defaults, NULL)
{
	static const uint32_t shapes[][7] = {
		/* tp, pp, dp, ep, chunks, micro-batches, blocking sends */
		{1, 1, 8, 1, 1, 1, 0},
		{2, 2, 2, 1, 1, 4, 0},
		{2, 2, 2, 1, 1, 4, 1},
		{1, 4, 4, 2, 1, 8, 1},
		{1, 4, 2, 1, 2, 8, 0},
		{2, 4, 4, 4, 3, 4, 0},
		{1, 2, 1, 1, 4, 6, 0},
		{8, 8, 4, 2, 2, 16, 0},
		{1, 8, 1, 1, 1, 3, 0},
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		for (enum frame_tier tier = FRAME_TIER_HOST; tier < FRAME_TIER_MAX; tier++) {
			const uint32_t *s = shapes[i];
			struct sim *sim;

			shape(s[0], s[1], s[2], s[4], s[5]);
			options.ep = s[3];
			options.blocking_sends = s[6];
			options.tier = tier;
			options.world_op = i % 2;
			options.sharded = i % 3 == 0;
			options.jitter = 0.05;
			assert_whole(run_to(&sim, 4), tier == FRAME_TIER_DEVICE);
			sim_free(sim);
		}
	}
}

TEST_WITH(a_job_without_noise_waits_for_nobody, defaults, NULL)
{
	for (enum frame_tier tier = FRAME_TIER_HOST; tier < FRAME_TIER_MAX; tier++) {
		const struct frame *frame;
		uint64_t *duration;
		struct sim *sim;

		shape(2, 1, 8, 1, 2);
		options.tier = tier;
		frame = run_to(&sim, 5);
		duration = calloc(frame->groups, sizeof(*duration));
		assert_non_null(duration);
		for (size_t i = 0; i < frame->ops; i++) {
			const struct frame_op *op = &frame->op[i];

			if (duration[op->group])
				assert_int_equal(op->duration_ns, duration[op->group]);
			duration[op->group] = op->duration_ns;
		}
		free(duration);
		sim_free(sim);
	}
}

TEST_WITH(a_slow_rank_lengthens_the_step_by_its_excess, defaults, NULL)
{
	double clean, slow, forward;
	struct sim *sim;

	options.tier = FRAME_TIER_HOST;
	forward = (double)run_to(&sim, 5)->rank[0].activity_ns[ACTIVITY_FORWARD];
	sim_free(sim);
	clean = sim_mean_step_ns(&options, FRAME_TRAIN, 4, 8);
	options.inject = SIM_COMPUTE;
	options.severity = 0.25;
	options.culprits = 1;
	options.culprit[0] = 3;
	slow = sim_mean_step_ns(&options, FRAME_TRAIN, 4, 8);
	/* Forward, twice that backward, half of it the optimizer. */
	assert_about(slow - clean, 0.25 * 3.5 * forward, 100);
	/* Two at once cost what one costs. */
	options.culprits = 2;
	options.culprit[1] = 5;
	assert_about(sim_mean_step_ns(&options, FRAME_TRAIN, 4, 8), slow, 100);
}

TEST_WITH(the_slow_rank_is_the_one_that_does_not_wait, defaults, NULL)
{
	const struct frame *frame;
	uint64_t shortest = UINT64_MAX;
	uint32_t who = 0;
	struct sim *sim;

	options.inject = SIM_COMPUTE;
	options.severity = 0.1;
	options.culprits = 1;
	options.culprit[0] = 3;
	options.onset = 4;
	frame = run_to(&sim, 3);
	assert_int_equal(frame->rank[3].activity_ns[ACTIVITY_FORWARD], frame->rank[2].activity_ns[ACTIVITY_FORWARD]);
	frame = sim_step(sim);
	for (size_t i = 0; i < frame->ops; i++) {
		if (frame->op[i].group == 0 && frame->op[i].duration_ns < shortest) {
			shortest = frame->op[i].duration_ns;
			who = frame->op[i].rank;
		}
	}
	assert_int_equal(who, 3);
	sim_free(sim);
}

/* The idle part of the first stage's pipeline time. */
static double bubble(void)
{
	double piece, step, own;
	const struct frame *frame;
	struct sim *sim;

	options.tier = FRAME_TIER_HOST;
	frame = run_to(&sim, 5);
	step = (double)(frame->rank[0].step_ns - frame->rank[0].activity_ns[ACTIVITY_OPTIMIZER] -
			frame->rank[0].activity_ns[ACTIVITY_DATALOADER]);
	piece = (double)frame->rank[0].activity_ns[ACTIVITY_OPTIMIZER] / 0.5;
	own = 3 * piece * options.micro_batches;
	sim_free(sim);
	return 1 - own / step;
}

TEST_WITH(a_pipeline_has_the_bubble_that_it_should, defaults, NULL)
{
	double plain;

	for (uint32_t pp = 2; pp <= 8; pp *= 2) {
		shape(1, pp, 1, 1, 4 * pp);
		assert_about(bubble(), (double)(pp - 1) / (4 * pp + pp - 1), 0.04);
	}
	shape(1, 4, 1, 1, 8);
	plain = bubble();
	options.chunks = 2;
	assert_about(bubble(), (double)3 / 2 / (8 + (double)3 / 2), 0.06);
	assert_true(bubble() < plain - 0.05);
}

TEST_WITH(a_stage_with_more_work_is_the_step, defaults, NULL)
{
	double clean, slow;

	shape(1, 4, 2, 1, 16);
	clean = sim_mean_step_ns(&options, FRAME_TRAIN, 4, 6);
	options.inject = SIM_STAGE;
	options.severity = 0.5;
	options.culprit[0] = 2;
	slow = sim_mean_step_ns(&options, FRAME_TRAIN, 4, 6);
	/* Its micro-batches take 1.5; the bubble mostly not. */
	assert_about(slow / clean, (16 * 1.5 + 3) / 19, 0.06);
}

TEST_WITH(late_hosts_and_pauses_cost_what_they_take, defaults, NULL)
{
	static const struct {
		enum sim_inject inject;
		double cost; /* of 1: x of the computing or of a step */
		enum frame_class class;
	} cases[] = {
		{SIM_LAUNCH, 0.9, FRAME_TRAIN},
		{SIM_CONTENTION, 0.9, FRAME_TRAIN},
		{SIM_LOADER, 1, FRAME_TRAIN},
		{SIM_GC, 1, FRAME_TRAIN},
		{SIM_CHECKPOINT, 1, FRAME_CHECKPOINT},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double clean, slow;

		defaults(NULL);
		options.checkpoint_every = 4;
		options.culprits = 1;
		options.culprit[0] = 2;
		options.severity = 0.2;
		clean = sim_mean_step_ns(&options, cases[i].class, 4, 12);
		options.inject = cases[i].inject;
		slow = sim_mean_step_ns(&options, cases[i].class, 4, 12);
		assert_about((slow - clean) / 0.2e9, cases[i].cost, 0.12);
	}
}

TEST_WITH(a_bad_link_is_seen_by_groups_that_use_it, defaults, NULL)
{
	uint64_t clean, slow;
	struct sim *sim;
	double with;

	shape(8, 1, 4, 1, 1);
	options.tier = FRAME_TIER_HOST;
	clean = run_to(&sim, 3)->op[0].duration_ns;
	sim_free(sim);
	options.inject = SIM_LINK_NODE;
	options.severity = 3;
	options.culprit[0] = 1;
	slow = run_to(&sim, 3)->op[0].duration_ns;
	assert_true(sim_comm_has_node(sim, "dp0", 1) && sim_comm_has_node(sim, "tp1", 1) &&
		    !sim_comm_has_node(sim, "tp0", 1));
	sim_free(sim);
	assert_int_equal(slow, clean); /* tensor groups are within a node */
	with = sim_mean_step_ns(&options, FRAME_TRAIN, 4, 5);
	options.inject = SIM_CLEAN;
	assert_true(with > 1.02 * sim_mean_step_ns(&options, FRAME_TRAIN, 4, 5));
}

static uint64_t digest(void)
{
	uint64_t h = 1469598103934665603ULL;
	struct sim *sim = sim_new(&options);

	assert_non_null(sim);
	for (int i = 0; i < 6; i++) {
		const struct frame *frame = sim_step(sim);

		for (size_t k = 0; k < frame->ops; k++)
			h = (h ^ frame->op[k].duration_ns ^ (uint64_t)frame->op[k].start_ns << 1 ^ frame->op[k].rank) *
			    1099511628211ULL;
		for (size_t r = 0; r < frame->ranks; r++)
			h = (h ^ frame->rank[r].step_ns ^ frame->rank[r].host.run_delay_ns ^
				    frame->rank[r].activity_ns[ACTIVITY_BACKWARD]) *
			    1099511628211ULL;
	}
	sim_free(sim);
	return h;
}

TEST_WITH(the_same_seed_is_the_same_run, defaults, NULL)
{
	uint64_t one;

	shape(2, 2, 4, 1, 4);
	options.jitter = 0.03;
	options.drift = 0.02;
	options.drift_phi = 0.7;
	options.loss = 0.05;
	one = digest();
	assert_true(one == digest());
	options.skew_ns = 10000000;
	assert_true(one == digest()); /* independent of nodes' clocks */
	options.seed = 2;
	assert_true(one != digest());
}

TEST_WITH(lost_records_are_counted, defaults, NULL)
{
	size_t all, some = 0, lost = 0;
	const struct frame *frame;
	struct sim *sim;

	shape(2, 2, 4, 1, 16);
	all = run_to(&sim, 0)->ops;
	sim_free(sim);
	options.loss = 0.05;
	frame = run_to(&sim, 0);
	for (int i = 0; i < 20; i++, frame = sim_step(sim)) {
		size_t there = 0;

		for (size_t r = 0; r < frame->ranks; r++)
			there += frame->rank[r].here;
		if (there == frame->ranks)
			assert_int_equal(frame->ops + frame->lost, all);
		some += frame->ops;
		lost += frame->lost;
	}
	sim_free(sim);
	assert_about((double)lost / (double)(lost + some), 0.05, 0.01);
}

TEST_WITH(what_makes_no_job_is_refused, defaults, NULL)
{
	options.ep = 3;
	assert_null(sim_new(&options));
	defaults(NULL);
	options.dp = 0;
	assert_null(sim_new(&options));
	defaults(NULL);
	options.dp = 1 << 30;
	assert_null(sim_new(&options));
	shape(1, 4, 2, 2, 6);
	assert_null(sim_new(&options));
}

TEST_MAIN(NULL, NULL)
