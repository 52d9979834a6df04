/* SPDX-License-Identifier: Apache-2.0 */
/* detect/slow_rank: checkpoints of ranks beside each other, what the only one costs; detect/measure: sends that nobody
 * waits for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "analyzers/detect/detect.h"
#include "analyzers/detect/detector.h"
#include "analyzers/detect/slow_rank_internal.h"

#define MS 1000000ULL
#define RANKS 6
#define STEPS 120
#define EVERY 4
#define PERIODS 40

extern const struct detector slow_rank_detector;

static struct frame_who who[RANKS];
static struct frame_rank rank[RANKS];
static struct frame frame;
static struct measure *measure;
static unsigned said[RANKS], confirmed[RANKS], between; /* between: in steps without a checkpoint */
static enum finding_cause cause;
static double cost_ns;

static void on_verdict(void *arg, const struct verdict *verdict)
{
	(void)arg;
	assert_in_range(verdict->finding.rank, 0, RANKS - 1);
	said[verdict->finding.rank]++;
	confirmed[verdict->finding.rank] += verdict->confirmed;
	cause = verdict->finding.cause;
	if (frame.class == FRAME_TRAIN) {
		between++;
		assert_true(verdict->lost_ns == 0);
	}
	cost_ns += verdict->lost_ns;
}

static int start(void **state)
{
	(void)state;
	memset(rank, 0, sizeof(rank));
	memset(said, 0, sizeof(said));
	memset(confirmed, 0, sizeof(confirmed));
	between = 0;
	cost_ns = 0;
	for (uint32_t i = 0; i < RANKS; i++)
		who[i] = (struct frame_who){.rank = (int32_t)i, .stage = FRAME_NONE};
	measure = measure_new();
	return measure ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	measure = measure_free(measure);
	return 0;
}

/* Steps of a second, the same of all, with a checkpoint in each fourth, which all leave together. */
static void run(uint64_t (*checkpoint_ns)(uint32_t rank, uint64_t step))
{
	struct detect_options options;
	const struct detector_out out = {.emit = on_verdict};
	const struct measures *measures;
	void *state;

	detect_options_default(&options);
	state = slow_rank_detector.new(&options);
	assert_non_null(state);
	for (uint64_t step = 1; step <= STEPS; step++) {
		bool is = step % EVERY == 0;
		uint64_t longest = 0;

		frame = (struct frame){.step = step,
			.class = is ? FRAME_CHECKPOINT : FRAME_TRAIN,
			.tier = FRAME_TIER_STAGES,
			.world_size = RANKS,
			.cards = RANKS,
			.ranks = RANKS,
			.who = who,
			.rank = rank};
		for (uint32_t i = 0; is && i < RANKS; i++)
			longest = checkpoint_ns(i, step) > longest ? checkpoint_ns(i, step) : longest;
		for (uint32_t i = 0; i < RANKS; i++) {
			rank[i] = (struct frame_rank){.here = true, .step_ns = 1000 * MS + longest};
			rank[i].stage_ns[STAGE_FORWARD] = 300 * MS;
			rank[i].stage_ns[STAGE_BACKWARD] = 600 * MS;
			rank[i].stage_ns[STAGE_CHECKPOINT] = is ? checkpoint_ns(i, step) : 0;
		}
		assert_int_equal(measure_frame(measure, &frame, &measures), 0);
		slow_rank_detector.frame(state, &frame, measures, measure, &out);
	}
	slow_rank_detector.free(state);
}

/* A little different each time. */
static uint64_t usual(uint32_t of, uint64_t step)
{
	return (200 + (of * 7 + step * 3) % 11) * MS;
}

static uint64_t one_slower(uint32_t of, uint64_t step)
{
	return usual(of, step) + (of == 3 && step > STEPS / 2 ? 300 * MS : 0);
}

static uint64_t one_writes(uint32_t of, uint64_t step)
{
	return of == 3 ? usual(of, step) + 300 * MS : 0;
}

static uint64_t one_writes_most(uint32_t of, uint64_t step)
{
	return of == 3 ? 20 * usual(of, step) : usual(of, step);
}

static uint64_t one_writes_slower(uint32_t of, uint64_t step)
{
	return of == 3 ? 2 * usual(of, step) + (step > STEPS / 2 ? 400 * MS : 0) : 0;
}

static uint64_t one_is_far_slower(uint32_t of, uint64_t step)
{
	return usual(of, step) / 10 + (of == 3 && step > STEPS / 2 ? 500 * MS : 0);
}

static uint64_t first_writes_more(uint32_t of, uint64_t step)
{
	return of == 0 ? 3 * usual(of, step) : usual(of, step);
}

static uint64_t first_slower(uint32_t of, uint64_t step)
{
	return first_writes_more(of, step) + (of == 0 && step > STEPS / 2 ? 400 * MS : 0);
}

static void expect(uint32_t slow)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		if (i == slow)
			assert_true(confirmed[i] > 0);
		else
			assert_int_equal(said[i], 0);
	}
}

static void a_slow_checkpoint_is_reported(void **state)
{
	(void)state;
	run(one_slower);
	expect(3);
	assert_int_equal(cause, CAUSE_CHECKPOINT);
	/* It goes on between checkpoints, and costs nothing there. */
	assert_true(between > 2 * EVERY);
	assert_true(cost_ns > 500 * (double)MS && cost_ns < 15 * 310 * (double)MS);
}

static void writing_for_others_is_no_fault(void **state)
{
	(void)state;
	run(one_writes);
	expect(RANKS);
	run(one_writes_most);
	expect(RANKS);
	run(first_writes_more);
	expect(RANKS);
	run(usual);
	expect(RANKS);
}

static void a_writing_rank_has_ruled_out_causes(void **state)
{
	(void)state;
	run(one_writes_slower);
	expect(3);
	run(one_is_far_slower);
	expect(3);
	assert_int_equal(cause, CAUSE_CHECKPOINT);
}

static void the_first_rank_has_ruled_out_causes(void **state)
{
	(void)state;
	run(first_slower);
	expect(0);
}

/* Ranks 0 and 3 are the first of their nodes, and both have more to write. */
static uint64_t first_of_nodes_write_more(uint32_t of, uint64_t step)
{
	return usual(of, step) + (of % 3 == 0 ? (of ? 450 : 300) * MS : 0);
}

static uint64_t first_of_a_node_is_slower(uint32_t of, uint64_t step)
{
	return usual(of, step) + (of == 3 ? 300 * MS : 0);
}

static uint64_t first_of_a_node_is_far_slower(uint32_t of, uint64_t step)
{
	return usual(of, step) + (of % 3 == 0 ? (of ? 600 : 100) * MS : 0);
}

static void first_ranks_are_beside_first_ranks(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++)
		who[i].node = i / 3;
	run(first_of_nodes_write_more);
	expect(RANKS);
	/* The job's first rank has nobody beside it. */
	run(first_writes_more);
	expect(RANKS);
	run(first_of_a_node_is_slower);
	expect(3);
	memset(said, 0, sizeof(said));
	memset(confirmed, 0, sizeof(confirmed));
	run(first_of_a_node_is_far_slower);
	expect(3);
}

static void the_longest_checkpoint_holds_the_others_up(void **state)
{
	static const uint32_t set[] = {1, 4};

	(void)state;
	frame = (struct frame){.ranks = RANKS, .who = who, .rank = rank};
	for (uint32_t i = 0; i < RANKS; i++) {
		rank[i] = (struct frame_rank){.here = i != 5, .step_ns = 1000 * MS};
		rank[i].stage_ns[STAGE_CHECKPOINT] = (i + 1) * 100 * MS;
	}
	assert_true(checkpoint_lead_ns(&frame, set, 2, 4) == 100.0 * MS);
	assert_true(checkpoint_lead_ns(&frame, set, 2, 1) == 0);
	assert_true(checkpoint_lead_ns(&frame, set, 1, 4) == 0);
	/* No longer than its step. */
	rank[4].stage_ns[STAGE_CHECKPOINT] = UINT64_MAX;
	assert_true(checkpoint_lead_ns(&frame, set, 2, 4) == 600.0 * MS);
}

static struct frame_group group[2 * PERIODS];
static struct frame_op op[4 * PERIODS];
static struct frame_comm comm[1];

/* Each 100 ms rank 0 sends (so long) and receives (20 ms); its partner comes last to all of them. */
static const struct measure_rank *send_and_receive(uint64_t send_ns, bool *ret_overlap)
{
	const struct measures *measures;

	frame = (struct frame){.class = FRAME_TRAIN,
		.tier = FRAME_TIER_HOST,
		.world_size = 2,
		.cards = 2,
		.ranks = 2,
		.who = who,
		.rank = rank,
		.comms = 1,
		.comm = comm,
		.groups = 2 * PERIODS,
		.group = group,
		.op = op,
		.ops = 4 * (size_t)PERIODS};
	rank[0] = rank[1] = (struct frame_rank){.here = true, .step_ns = (PERIODS + 1) * 100 * MS};
	for (uint32_t i = 0; i < PERIODS; i++) {
		int64_t at = (int64_t)(i * 100 * MS);

		group[2 * i] = group[2 * i + 1] = (struct frame_group){.members = 2, .p2p = true};
		op[2 * i] = (struct frame_op){2 * i, 0, at, send_ns};
		op[2 * i + 1] = (struct frame_op){2 * i + 1, 0, at, 20 * MS};
		op[2 * (PERIODS + i)] = (struct frame_op){2 * i + 1, 1, at, MS};
		op[2 * (PERIODS + i) + 1] = (struct frame_op){2 * i, 1, at + (int64_t)(50 * MS), MS};
	}
	assert_int_equal(measure_frame(measure, &frame, &measures), 0);
	*ret_overlap = measures->sends_overlap;
	return measures->rank;
}

static void sends_that_nobody_waits_for(void **state)
{
	bool overlap;

	(void)state;
	send_and_receive(130 * MS, &overlap);
	assert_false(overlap);
	/* Known from the next frame on: the receives alone hold it up. */
	assert_int_equal(send_and_receive(130 * MS, &overlap)[0].wait_ns, PERIODS * 19 * MS);
	assert_true(overlap);
}

static void sends_that_are_waited_for(void **state)
{
	bool overlap;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(send_and_receive(60 * MS, &overlap)[0].wait_ns, PERIODS * 59 * MS);
		assert_false(overlap);
	}
}

/*
 * Two cards, steps of 210 ms: 170 of computing and an all-reduce of 40. Then another process computes on the card of
 * rank 1: its own part takes 280 ms, and the all-reduce, of which it does half, 160 ms of all.
 */
#define SHARED_STEPS 60
#define SHARED_ONSET 40

struct found {
	unsigned confirmed;
	double first, slowdown, lost_ns; /* first: slowdown in the first confirmed verdict */
	enum finding_cause cause;
};

static void on_shared(void *arg, const struct verdict *verdict)
{
	struct found *found = arg;

	assert_int_equal(verdict->finding.rank, 1);
	if (!verdict->confirmed)
		return;
	if (!found->confirmed++)
		found->first = verdict->finding.slowdown;
	found->slowdown = verdict->finding.slowdown;
	found->lost_ns = verdict->lost_ns;
	found->cause = verdict->finding.cause;
}

/* grows: steps grow with it, or were as long before. Operations are seen from that step on. */
static struct found share_a_card(bool grows, uint64_t seen_from)
{
	struct found found = {0};
	const struct detector_out out = {.emit = on_shared, .arg = &found};
	struct detect_options options;
	void *state;

	detect_options_default(&options);
	state = slow_rank_detector.new(&options);
	assert_non_null(state);
	comm[0] = (struct frame_comm){.communicator = "c", .kind = COMM_KIND_DATA, .members = 2};
	for (uint32_t i = 0; i < 2; i++)
		snprintf(who[i].card, sizeof(who[i].card), "%u", i);
	for (uint64_t step = 0; step < SHARED_STEPS; step++) {
		bool shared = step >= SHARED_ONSET;
		uint64_t noise_ns = step * 7 % 5 * MS / 2, transfer_ns = (shared || !grows ? 160 : 40) * MS;
		uint64_t own_ns[2] = {170 * MS + noise_ns, (shared ? 280 : 170) * MS}, last_ns, end_ns;
		const struct measures *measures;

		last_ns = own_ns[0] > own_ns[1] ? own_ns[0] : own_ns[1];
		end_ns = last_ns + transfer_ns;
		frame = (struct frame){.step = step,
			.class = FRAME_TRAIN,
			.tier = step < seen_from ? FRAME_TIER_STAGES : FRAME_TIER_DEVICE,
			.world_size = 2,
			.cards = 2,
			.ranks = 2,
			.who = who,
			.rank = rank,
			.comms = 1,
			.comm = comm,
			.groups = step >= seen_from,
			.group = group,
			.op = op,
			.ops = step < seen_from ? 0 : 2};
		group[0] = (struct frame_group){.members = 2, .bytes = 1 << 20};
		for (uint32_t i = 0; i < 2; i++) {
			rank[i] = (struct frame_rank){.here = true, .step_ns = end_ns, .end_ns = (step + 1) * end_ns};
			rank[i].stage_ns[STAGE_FORWARD] = 60 * MS;
			op[i] = (struct frame_op){0, i, (int64_t)own_ns[i], end_ns - own_ns[i]};
		}
		assert_int_equal(measure_frame(measure, &frame, &measures), 0);
		slow_rank_detector.frame(state, &frame, measures, measure, &out);
	}
	slow_rank_detector.free(state);
	return found;
}

static void a_shared_card_costs_what_steps_grew_by(void **state)
{
	struct found found = share_a_card(true, 0);

	(void)state;
	assert_true(found.confirmed > 5);
	assert_int_equal(found.cause, CAUSE_COMPUTE);
	assert_true(found.slowdown > 2.05 && found.slowdown < 2.15); /* 440 of 210 */
	assert_true(found.lost_ns > 225 * (double)MS && found.lost_ns < 232 * (double)MS);
	assert_true(found.first > 2.05);
	/* Watched because steps are longer: the first confirmed verdict has the full cost. */
	found = share_a_card(true, SHARED_ONSET + 6);
	assert_true(found.confirmed > 5);
	assert_true(found.first > 2.05 && found.first < 2.15);
	found = share_a_card(false, 0);
	assert_true(found.confirmed > 5);
	assert_true(found.slowdown > 1.3 && found.slowdown < 1.36); /* 440 of 330 */
}

/*
 * Two ranks that share a machine: what the first computes by what the second does, ln in thousandths, as it was seen
 * with gloo. One collects garbage, or loads, for 40 ms of 240 in each step from the onset on: less than what they
 * differ by.
 */
static void stages_show_what_compute_hides(void **state)
{
	static const int differ[] = {284, -180, 133, 117, 270, 54, 140, 129, 153, 300, -110, -310, -130, 330, 100, -107,
		46, -56, -160, -43, 7, 42, 46, 250, -120, -80, 35, 250};
	static const struct {
		enum stage_kind stage;
		enum finding_cause cause;
	} own[] = {{STAGE_GC, CAUSE_GARBAGE_COLLECTION}, {STAGE_DATALOADER, CAUSE_DATALOADER}};
	const uint64_t onset = 2 * sizeof(differ) / sizeof(differ[0]), steps = onset + 12;

	(void)state;
	comm[0] = (struct frame_comm){.communicator = "c", .kind = COMM_KIND_DATA, .members = 2};
	for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++) {
		struct found found = {0};
		const struct detector_out out = {.emit = on_shared, .arg = &found};
		struct detect_options options;
		void *detector;

		detect_options_default(&options);
		detector = slow_rank_detector.new(&options);
		assert_non_null(detector);
		for (uint64_t step = 0; step < steps; step++) {
			double half = differ[step % (onset / 2)] / 2000.0;
			uint64_t late_ns = step >= onset ? 40 * MS : 0, end_ns;
			uint64_t own_ns[2] = {
				(uint64_t)(200 * (1 + half)) * MS, (uint64_t)(200 * (1 - half)) * MS + late_ns};
			const struct measures *measures;

			end_ns = (own_ns[0] > own_ns[1] ? own_ns[0] : own_ns[1]) + 10 * MS;
			frame = (struct frame){.step = step,
				.class = FRAME_TRAIN,
				.tier = FRAME_TIER_HOST,
				.world_size = 2,
				.cards = 2,
				.ranks = 2,
				.who = who,
				.rank = rank,
				.comms = 1,
				.comm = comm,
				.groups = 1,
				.group = group,
				.op = op,
				.ops = 2};
			group[0] = (struct frame_group){.members = 2, .bytes = 1 << 20};
			for (uint32_t i = 0; i < 2; i++) {
				rank[i] = (struct frame_rank){
					.here = true, .step_ns = end_ns, .end_ns = (step + 1) * end_ns};
				rank[i].stage_ns[STAGE_FORWARD] = own_ns[i] / 3;
				rank[i].stage_ns[own[k].stage] = 5 * MS + (i == 1 ? late_ns : 0);
				op[i] = (struct frame_op){0, i, (int64_t)own_ns[i], end_ns - own_ns[i]};
			}
			assert_int_equal(measure_frame(measure, &frame, &measures), 0);
			slow_rank_detector.frame(detector, &frame, measures, measure, &out);
		}
		slow_rank_detector.free(detector);
		assert_in_range(found.confirmed, 4, 9);
		assert_int_equal(found.cause, own[k].cause);
	}
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_slow_checkpoint_is_reported),
		TEST(a_writing_rank_has_ruled_out_causes),
		TEST(writing_for_others_is_no_fault),
		TEST(the_first_rank_has_ruled_out_causes),
		TEST(first_ranks_are_beside_first_ranks),
		TEST(the_longest_checkpoint_holds_the_others_up),
		TEST(sends_that_nobody_waits_for),
		TEST(sends_that_are_waited_for),
		TEST(a_shared_card_costs_what_steps_grew_by),
		TEST(stages_show_what_compute_hides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
