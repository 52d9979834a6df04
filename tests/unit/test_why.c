/* SPDX-License-Identifier: Apache-2.0 */
/* Why a step took as long as it did: parts that add up, the usual step, samples, intervals of the thread, peers, jobs.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analyzers/why/why.h"

#include "tests/test.h"

#define MS 1000000ULL
#define RANKS 4
#define BEGIN_NS 1000000000000ULL
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct frame_who who[RANKS];
static struct frame_rank rank[RANKS];
static uint64_t now_ns;

/* A step of 100 ms: forward 40, backward 60 (of which ranks wait for the slowest). */
static void usual_step(void)
{
	for (unsigned i = 0; i < RANKS; i++) {
		who[i] = (struct frame_who){.rank = (int32_t)i, .host = "node"};
		rank[i] = (struct frame_rank){.here = true,
			.host = {.cpu_ns = FRAME_UNKNOWN,
				.run_delay_ns = 0,
				.throttled_ns = 0,
				.major_faults = FRAME_UNKNOWN,
				.launch_gap_ns = FRAME_UNKNOWN}};
		rank[i].activity_ns[ACTIVITY_FORWARD] = 40 * MS;
		rank[i].activity_ns[ACTIVITY_BACKWARD] = 60 * MS;
	}
}

/* The slow rank's activity grows; the others wait for it in backward. */
static void grow(unsigned slow, enum activity activity, uint64_t ns)
{
	for (unsigned i = 0; i < RANKS; i++)
		rank[i].activity_ns[i == slow ? activity : ACTIVITY_BACKWARD] += ns;
}

static void end_step(struct why *why, uint64_t job)
{
	struct frame frame = {.class = FRAME_TRAIN,
		.tier = FRAME_TIER_STAGES,
		.ranks = RANKS,
		.who = who,
		.rank = rank,
		.world_size = RANKS};
	uint64_t longest_ns = 0;

	for (unsigned i = 0; i < RANKS; i++) {
		rank[i].step_ns = 0;
		for (enum activity a = 0; a < ACTIVITY_MAX; a++)
			rank[i].step_ns += rank[i].activity_ns[a];
		longest_ns = rank[i].step_ns > longest_ns ? rank[i].step_ns : longest_ns;
	}
	now_ns += longest_ns;
	for (unsigned i = 0; i < RANKS; i++)
		rank[i].end_ns = now_ns;
	assert_int_equal(why_frame(why, job, &frame), 0);
}

static struct why *new_why(int32_t number, uint64_t since_ns)
{
	now_ns = BEGIN_NS;
	return why_new(&(struct why_options){.rank = number, .since_ns = since_ns, .until_ns = UINT64_MAX});
}

static void usual_steps(struct why *why, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		usual_step();
		end_step(why, 1);
	}
}

#define SINCE_NS (BEGIN_NS + 2000 * MS) /* twenty usual steps */

static struct why_result explain(struct why *why)
{
	struct why_result result;
	double excess_ns = 0;
	uint64_t job;

	assert_true(why_job(why, 0, &job));
	assert_int_equal(why_choose(why, job), 0);
	assert_int_equal(why_explain(why, &result), 0);
	for (size_t i = 0; i < result.parts; i++) {
		excess_ns += result.part[i].chosen_ns - result.part[i].usual_ns;
		assert_true(!i || result.part[i - 1].chosen_ns - result.part[i - 1].usual_ns >=
					  result.part[i].chosen_ns - result.part[i].usual_ns);
	}
	assert_true(fabs(excess_ns + result.residual_ns - (result.chosen_ns - result.usual_ns)) < 1);
	assert_true(fabs(result.residual_ns) < 1);
	return result;
}

static const struct why_part *part_of(const struct why_result *result, enum activity activity, enum why_kind kind)
{
	static const struct why_part none = {.peers_ns = NAN};

	for (size_t i = 0; i < result->parts; i++)
		if (result->part[i].activity == activity && result->part[i].kind == kind)
			return &result->part[i];
	return &none;
}

static void near(double ns, double ms)
{
	if (!(fabs(ns - ms * 1e6) < 1000))
		fail_msg("%g ms is not %g ms", ns / 1e6, ms);
}

/* The rank that is slow works; its peers wait for it. */
TEST(own_work_and_waiting)
{
	struct why *of_slow = new_why(2, SINCE_NS), *of_peer;
	struct why_result result;

	usual_steps(of_slow, 20);
	usual_step();
	grow(2, ACTIVITY_DATALOADER, 50 * MS);
	end_step(of_slow, 1);
	result = explain(of_slow);
	near(result.chosen_ns, 150);
	near(result.usual_ns, 100);
	assert_int_equal(result.chosen, 1);
	assert_int_equal(result.peers, 3);
	near(result.peers_ns, 150);
	assert_int_equal(result.part[0].activity, ACTIVITY_DATALOADER);
	assert_int_equal(result.part[0].kind, WHY_WORK);
	near(result.part[0].chosen_ns - result.part[0].usual_ns, 50);
	near(result.part[0].peers_ns, 0);
	near(part_of(&result, ACTIVITY_BACKWARD, WHY_WAITING)->chosen_ns, 0);
	why_free(of_slow);

	of_peer = new_why(0, SINCE_NS);
	usual_steps(of_peer, 20);
	usual_step();
	grow(2, ACTIVITY_DATALOADER, 50 * MS);
	end_step(of_peer, 1);
	result = explain(of_peer);
	assert_int_equal(result.part[0].activity, ACTIVITY_BACKWARD);
	assert_int_equal(result.part[0].kind, WHY_WAITING);
	near(result.part[0].chosen_ns - result.part[0].usual_ns, 50);
	near(part_of(&result, ACTIVITY_BACKWARD, WHY_WORK)->chosen_ns, 60);
	assert_false(result.thread_known);
	why_free(of_peer);
}

/* Nearly half of the other steps are slow: the usual one is not. Evaluations and the like are not usual. */
TEST(the_usual_step)
{
	struct why *why = new_why(0, BEGIN_NS + 40 * 100 * MS + 19 * 100 * MS);
	struct frame frame = {.class = FRAME_CHECKPOINT, .ranks = RANKS, .who = who, .rank = rank, .world_size = RANKS};
	struct why_result result;

	for (unsigned i = 0; i < 40; i++) {
		usual_step();
		if (i % 2)
			grow(0, ACTIVITY_FORWARD, 95 * MS);
		end_step(why, 1);
	}
	usual_step();
	grow(0, ACTIVITY_FORWARD, 200 * MS);
	end_step(why, 1);
	frame.tier = FRAME_TIER_STAGES;
	for (unsigned i = 0; i < 100; i++) {
		usual_step();
		rank[0].step_ns = 1;
		rank[0].activity_ns[ACTIVITY_FORWARD] = 1;
		rank[0].activity_ns[ACTIVITY_BACKWARD] = 0;
		rank[0].end_ns = BEGIN_NS + i;
		assert_int_equal(why_frame(why, 1, &frame), 0);
	}
	result = explain(why);
	near(result.usual_ns, 100);
	near(result.chosen_ns, 300);
	why_free(why);
}

/* Run delay and throttling of a sample: from the work of what grew, and no more than there is. */
TEST(samples)
{
	struct why *why = new_why(1, SINCE_NS);
	struct why_result result;

	usual_steps(why, 20);
	usual_step();
	grow(1, ACTIVITY_FORWARD, 50 * MS);
	rank[1].host.run_delay_ns = 48 * MS;
	rank[1].host.throttled_ns = 18 * MS;
	rank[1].host.preemptor_pid = 77;
	rank[1].host.preemptor_ns = 30 * MS;
	strcpy(rank[1].host.preemptor_name, "burner");
	end_step(why, 1);
	result = explain(why);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_READY)->chosen_ns, 30);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_THROTTLED)->chosen_ns, 18);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_WORK)->chosen_ns, 42);
	near(part_of(&result, ACTIVITY_BACKWARD, WHY_READY)->chosen_ns, 0);
	assert_int_equal(result.others, 1);
	assert_string_equal(result.other[0].name, "burner");
	near(result.other[0].chosen_ns, 30);
	why_free(why);

	/* A control group's time is a sum over CPUs. */
	why = new_why(1, SINCE_NS);
	usual_steps(why, 20);
	usual_step();
	grow(1, ACTIVITY_FORWARD, 50 * MS);
	rank[1].host.throttled_ns = 900 * MS;
	end_step(why, 1);
	result = explain(why);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_THROTTLED)->chosen_ns, 90);
	near(part_of(&result, ACTIVITY_BACKWARD, WHY_THROTTLED)->chosen_ns, 60);
	why_free(why);
}

/* Step 21 of rank 1: forward 0-90 ms with a collection inside at 10-20, backward 90-150. */
static void feed_thread(struct why *why, uint64_t covered_from_ns)
{
	const uint64_t begin_ns = SINCE_NS;
	const struct why_stage stages[] = {
		{ACTIVITY_FORWARD, begin_ns, begin_ns + 90 * MS},
		{ACTIVITY_GC, begin_ns + 10 * MS, begin_ns + 20 * MS},
		{ACTIVITY_BACKWARD, begin_ns + 90 * MS, begin_ns + 150 * MS},
	};
	const struct why_off offs[] = {
		{begin_ns + 5 * MS, begin_ns + 12 * MS, 7 * MS, 77, "burner"},	 /* 5 in forward, 2 in the collection */
		{begin_ns + 60 * MS, begin_ns + 95 * MS, 10 * MS, 77, "burner"}, /* asleep 60-85, ready 85-95 */
		{begin_ns + 140 * MS, begin_ns + 170 * MS, 0, 0, ""},		 /* asleep beyond the end */
	};

	for (uint64_t at_ns = covered_from_ns; at_ns < begin_ns + 200 * MS; at_ns += 50 * MS)
		assert_int_equal(why_covered(why, at_ns, at_ns + 50 * MS), 0);
	for (size_t i = 0; i < COUNT(stages); i++)
		assert_int_equal(why_stage(why, &stages[i]), 0);
	for (size_t i = 0; i < COUNT(offs); i++)
		assert_int_equal(why_off(why, &offs[i]), 0);
	/* Another thread is ready while this one sleeps: 70-80, named twice, of which 5 are the same. */
	assert_int_equal(
		why_off_other(why, &(struct why_off){begin_ns + 70 * MS, begin_ns + 77 * MS, 7 * MS, 88, "o\033]er"}),
		0);
	assert_int_equal(
		why_off_other(why, &(struct why_off){begin_ns + 72 * MS, begin_ns + 80 * MS, 8 * MS, 88, "o\033]er"}),
		0);
}

static void thread_steps(struct why *why)
{
	usual_steps(why, 20);
	usual_step();
	rank[1].activity_ns[ACTIVITY_FORWARD] = 80 * MS;
	rank[1].activity_ns[ACTIVITY_GC] = 10 * MS;
	for (unsigned i = 0; i < RANKS; i++)
		if (i != 1)
			rank[i].activity_ns[ACTIVITY_BACKWARD] = 110 * MS;
	end_step(why, 1);
}

TEST(intervals_of_the_thread)
{
	struct why *why = new_why(1, SINCE_NS);
	struct why_result result;
	uint64_t since_ns, until_ns;

	thread_steps(why);
	assert_int_equal(why_choose(why, 1), 0);
	why_span(why, &since_ns, &until_ns);
	assert_true(since_ns >= BEGIN_NS && since_ns < SINCE_NS);
	assert_int_equal(until_ns, SINCE_NS + 150 * MS);
	feed_thread(why, BEGIN_NS);
	assert_int_equal(why_explain(why, &result), 0);
	assert_true(result.thread_known);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_READY)->chosen_ns, 5 + 5 + 10);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_BLOCKED)->chosen_ns, 25 - 10);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_WORK)->chosen_ns, 80 - 20 - 15);
	near(part_of(&result, ACTIVITY_GC, WHY_READY)->chosen_ns, 2);
	near(part_of(&result, ACTIVITY_GC, WHY_WORK)->chosen_ns, 8);
	near(part_of(&result, ACTIVITY_BACKWARD, WHY_READY)->chosen_ns, 5);
	near(part_of(&result, ACTIVITY_BACKWARD, WHY_BLOCKED)->chosen_ns, 10);
	near(part_of(&result, ACTIVITY_BACKWARD, WHY_WORK)->chosen_ns, 45);
	/* Nobody has read the peers' threads. */
	assert_true(isnan(part_of(&result, ACTIVITY_FORWARD, WHY_WORK)->peers_ns));
	assert_int_equal(result.others, 2);
	assert_string_equal(result.other[0].name, "burner");
	near(result.other[0].chosen_ns, 7 + 10);
	near(result.other[1].chosen_ns, 10);
	why_free(why);
}

/* Usual steps are 30 ms of each 100 off the CPU, in short times of which sums of a second are known; the last step, of 150 ms, is
 * 90 ms. Long times are of backward alone: what is left there is less. */
TEST(sums_of_short_times)
{
	struct why *why = new_why(1, SINCE_NS);
	struct why_result result;
	double sum_ns = 0;

	usual_steps(why, 20);
	usual_step();
	grow(1, ACTIVITY_FORWARD, 50 * MS);
	end_step(why, 1);
	assert_int_equal(why_choose(why, 1), 0);
	assert_int_equal(why_covered(why, BEGIN_NS, SINCE_NS + 200 * MS), 0);
	for (unsigned second = 0; second < 2; second++)
		assert_int_equal(
			why_short(why, &(struct why_short){BEGIN_NS + second * 1000 * MS, 300 * MS, 100 * MS}), 0);
	assert_int_equal(why_short(why, &(struct why_short){SINCE_NS, 600 * MS, 200 * MS}), 0);
	for (uint64_t at_ns = BEGIN_NS; at_ns < SINCE_NS; at_ns += 100 * MS) {
		assert_int_equal(why_stage(why, &(struct why_stage){ACTIVITY_FORWARD, at_ns, at_ns + 40 * MS}), 0);
		assert_int_equal(
			why_stage(why, &(struct why_stage){ACTIVITY_BACKWARD, at_ns + 40 * MS, at_ns + 100 * MS}), 0);
	}
	assert_int_equal(why_stage(why, &(struct why_stage){ACTIVITY_FORWARD, SINCE_NS, SINCE_NS + 90 * MS}), 0);
	assert_int_equal(
		why_stage(why, &(struct why_stage){ACTIVITY_BACKWARD, SINCE_NS + 90 * MS, SINCE_NS + 150 * MS}), 0);
	assert_int_equal(
		why_off(why, &(struct why_off){SINCE_NS + 120 * MS, SINCE_NS + 150 * MS, 30 * MS, 77, "burner"}), 0);
	assert_int_equal(why_explain(why, &result), 0);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_READY)->usual_ns, 4);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_BLOCKED)->usual_ns, 8);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_WORK)->usual_ns, 28);
	/* It has 20 and 40 ms more of them, in forward, which works 50 longer; of the rest, 40 ms, forward has 40 of 70 parts. */
	near(part_of(&result, ACTIVITY_FORWARD, WHY_READY)->chosen_ns, 50 / 3.0 + (30 - 50 / 3.0) * 4 / 7);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_BLOCKED)->chosen_ns, 100 / 3.0 + (60 - 100 / 3.0) * 4 / 7);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_WORK)->chosen_ns, 40 - 40 * 4 / 7.0);
	near(part_of(&result, ACTIVITY_BACKWARD, WHY_READY)->chosen_ns, 30 + (30 - 50 / 3.0) * 3 / 7);
	for (size_t i = 0; i < result.parts; i++)
		sum_ns += result.part[i].excess_ns;
	near(sum_ns, 50);
	why_free(why);
}

/* Forward is 40 ms longer and backward 10; 30 ms of the step are short times off the CPU, which it usually has none of. */
TEST(short_times_are_where_most_grew)
{
	struct why *why = new_why(1, SINCE_NS);
	struct why_result result;

	usual_steps(why, 20);
	usual_step();
	grow(1, ACTIVITY_FORWARD, 40 * MS);
	grow(1, ACTIVITY_BACKWARD, 10 * MS);
	end_step(why, 1);
	assert_int_equal(why_choose(why, 1), 0);
	assert_int_equal(why_covered(why, BEGIN_NS, SINCE_NS + 200 * MS), 0);
	assert_int_equal(why_short(why, &(struct why_short){SINCE_NS, 200 * MS, 0}), 0);
	for (uint64_t at_ns = BEGIN_NS; at_ns < SINCE_NS; at_ns += 100 * MS) {
		assert_int_equal(why_stage(why, &(struct why_stage){ACTIVITY_FORWARD, at_ns, at_ns + 40 * MS}), 0);
		assert_int_equal(
			why_stage(why, &(struct why_stage){ACTIVITY_BACKWARD, at_ns + 40 * MS, at_ns + 100 * MS}), 0);
	}
	assert_int_equal(why_stage(why, &(struct why_stage){ACTIVITY_FORWARD, SINCE_NS, SINCE_NS + 80 * MS}), 0);
	assert_int_equal(
		why_stage(why, &(struct why_stage){ACTIVITY_BACKWARD, SINCE_NS + 80 * MS, SINCE_NS + 150 * MS}), 0);
	assert_int_equal(why_explain(why, &result), 0);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_BLOCKED)->chosen_ns, 30);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_WORK)->chosen_ns, 80 - 30);
	near(part_of(&result, ACTIVITY_BACKWARD, WHY_WORK)->chosen_ns, 70);
	why_free(why);
}

/* The rank usually sleeps 30 ms of forward's 40; now it is ready 60 ms without a CPU, and sleeps no more: late by
 * 30. */
TEST(sleep_that_pays)
{
	struct why *why = new_why(1, SINCE_NS);
	struct why_result result;
	double sum_ns = 0;

	usual_steps(why, 20);
	usual_step();
	grow(1, ACTIVITY_FORWARD, 30 * MS);
	end_step(why, 1);
	assert_int_equal(why_choose(why, 1), 0);
	assert_int_equal(why_covered(why, BEGIN_NS, SINCE_NS + 200 * MS), 0);
	for (uint64_t at_ns = BEGIN_NS; at_ns < SINCE_NS; at_ns += 100 * MS) {
		assert_int_equal(why_stage(why, &(struct why_stage){ACTIVITY_FORWARD, at_ns, at_ns + 40 * MS}), 0);
		assert_int_equal(why_off(why, &(struct why_off){at_ns, at_ns + 30 * MS, 0, 0, ""}), 0);
	}
	assert_int_equal(why_stage(why, &(struct why_stage){ACTIVITY_FORWARD, SINCE_NS, SINCE_NS + 70 * MS}), 0);
	assert_int_equal(why_off(why, &(struct why_off){SINCE_NS, SINCE_NS + 60 * MS, 60 * MS, 77, "burner"}), 0);
	assert_int_equal(why_explain(why, &result), 0);
	assert_true(result.thread_known);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_READY)->chosen_ns, 60);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_READY)->excess_ns, 30);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_BLOCKED)->usual_ns, 30);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_BLOCKED)->excess_ns, 0);
	for (size_t i = 0; i < result.parts; i++)
		sum_ns += result.part[i].excess_ns;
	near(sum_ns, 30);
	assert_int_equal(result.part[0].kind, WHY_READY);
	why_free(why);
}

/* Backward is longer than that of all others, but its thread has no CPU then: stages alone take that for waiting. On a
 * card a host may spin while it waits. */
TEST(who_waits_sleeps)
{
	for (int card = 0; card <= 1; card++) {
		struct why *why = new_why(1, SINCE_NS);
		struct why_result result;

		usual_steps(why, 20);
		usual_step();
		strcpy(who[1].card, card ? "0" : "");
		rank[1].activity_ns[ACTIVITY_BACKWARD] += 50 * MS;
		end_step(why, 1);
		assert_int_equal(why_choose(why, 1), 0);
		assert_int_equal(why_covered(why, SINCE_NS, SINCE_NS + 300 * MS), 0);
		assert_int_equal(
			why_stage(why, &(struct why_stage){ACTIVITY_BACKWARD, SINCE_NS + 40 * MS, SINCE_NS + 150 * MS}),
			0);
		assert_int_equal(
			why_off(why, &(struct why_off){SINCE_NS + 50 * MS, SINCE_NS + 110 * MS, 50 * MS, 77, "burner"}),
			0);
		assert_int_equal(why_explain(why, &result), 0);
		assert_true(result.thread_known);
		near(part_of(&result, ACTIVITY_BACKWARD, WHY_WAITING)->chosen_ns, card ? 50 : 10);
		near(part_of(&result, ACTIVITY_BACKWARD, WHY_READY)->chosen_ns, 50);
		why_free(why);
	}
	who[1].card[0] = 0;
}

/* As long asleep as usual: that another thread is ready meanwhile costs nothing. */
TEST(asleep_as_usual)
{
	struct why *why = new_why(1, SINCE_NS);
	const uint64_t begin_ns = SINCE_NS;
	struct why_result result;

	usual_steps(why, 20);
	usual_step();
	end_step(why, 1);
	assert_int_equal(why_choose(why, 1), 0);
	assert_int_equal(why_covered(why, BEGIN_NS, begin_ns + 200 * MS), 0);
	for (uint64_t at_ns = BEGIN_NS; at_ns <= begin_ns; at_ns += 100 * MS) {
		assert_int_equal(why_stage(why, &(struct why_stage){ACTIVITY_FORWARD, at_ns, at_ns + 40 * MS}), 0);
		assert_int_equal(why_off(why, &(struct why_off){at_ns, at_ns + 30 * MS, 0, 0, ""}), 0);
	}
	assert_int_equal(
		why_off_other(why, &(struct why_off){begin_ns, begin_ns + 20 * MS, 20 * MS, 88, "o\033]er"}), 0);
	assert_int_equal(why_explain(why, &result), 0);
	assert_true(result.thread_known);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_READY)->chosen_ns, 0);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_BLOCKED)->chosen_ns, 30);
	why_free(why);
}

/* Records of off-CPU time are of a second, the last one begins within the last second or two of the thread. */
TEST(a_step_after_the_last_record)
{
	static const struct {
		uint64_t before_end_ns;
		bool known;
	} cases[] = {{1000 * MS, true}, {1900 * MS, true}, {2100 * MS, false}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct why *why = new_why(1, BEGIN_NS + 3900 * MS);
		struct why_result result;

		usual_steps(why, 40);
		assert_int_equal(why_choose(why, 1), 0);
		/* One a second, and no time off the CPU since the last. */
		assert_int_equal(why_covered(why, BEGIN_NS, BEGIN_NS + 10 * MS), 0);
		assert_int_equal(why_covered(why, BEGIN_NS + 1000 * MS, BEGIN_NS + 1010 * MS), 0);
		assert_int_equal(why_covered(why, BEGIN_NS + 1500 * MS, now_ns - cases[i].before_end_ns), 0);
		assert_int_equal(why_explain(why, &result), 0);
		assert_int_equal(result.thread_known, cases[i].known);
		why_free(why);
	}
}

/* All steps are chosen: the slow ones are compared with the others. Of fewer than eight nothing is usual. */
TEST(a_window_of_all_steps)
{
	struct why *why = new_why(2, BEGIN_NS);
	struct why_result result;

	usual_steps(why, 12);
	for (int i = 0; i < 4; i++) {
		usual_step();
		grow(2, ACTIVITY_DATALOADER, 50 * MS);
		end_step(why, 1);
	}
	result = explain(why);
	assert_true(result.usual_within);
	assert_int_equal(result.chosen, 16);
	assert_true(result.begin_ns == BEGIN_NS && result.end_ns == now_ns);
	near(result.usual_ns, 100);
	near(result.chosen_ns, 112.5);
	assert_int_equal(result.part[0].activity, ACTIVITY_DATALOADER);
	why_free(why);
	for (unsigned steps = 7; steps <= 8; steps++) {
		why = new_why(2, BEGIN_NS);
		usual_steps(why, steps);
		assert_int_equal(why_choose(why, 1), 0);
		assert_int_equal(why_explain(why, &result), steps < 8 ? -ENODATA : 0);
		why_free(why);
	}
}

/* L3 came on in the window: its steps are explained if they are half of the window. */
TEST(steps_of_which_less_is_known_are_left_out)
{
	for (unsigned on = 9; on <= 10; on++) {
		struct why *why = new_why(2, SINCE_NS);
		struct why_result result;

		usual_steps(why, 40);
		assert_int_equal(why_choose(why, 1), 0);
		assert_int_equal(why_covered(why, now_ns - on * 100 * MS, now_ns), 0);
		assert_int_equal(why_explain(why, &result), 0);
		assert_int_equal(result.thread_known, on == 10);
		assert_int_equal(result.left_out, on == 10 ? 10 : 0);
		assert_int_equal(result.chosen, on == 10 ? 10 : 20);
		why_free(why);
	}
}

TEST(of_many_steps_some_are_read)
{
	struct why *why = new_why(2, SINCE_NS);
	struct why_result result;

	usual_steps(why, 20 + 3 * WHY_STEPS_USED);
	assert_int_equal(why_choose(why, 1), 0);
	assert_int_equal(why_explain(why, &result), 0);
	assert_int_equal(result.of, 3 * WHY_STEPS_USED);
	assert_int_equal(result.chosen, WHY_STEPS_USED);
	assert_true(result.begin_ns == SINCE_NS && result.end_ns > now_ns - 300 * MS);
	why_free(why);
}

/* L3 was turned on for this: of the usual 40 ms of forward, as much as of the chosen 80 is work, which is all. */
TEST(intervals_of_the_chosen_step_alone)
{
	struct why *why = new_why(1, SINCE_NS);
	struct why_result result;

	thread_steps(why);
	assert_int_equal(why_choose(why, 1), 0);
	feed_thread(why, SINCE_NS);
	assert_int_equal(why_explain(why, &result), 0);
	assert_true(result.thread_known);
	assert_false(result.usual_known);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_WORK)->chosen_ns, 80 - 20 - 15);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_WORK)->usual_ns, 40);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_READY)->usual_ns, 0);
	near(part_of(&result, ACTIVITY_FORWARD, WHY_BLOCKED)->usual_ns, 0);
	assert_true(result.others > 0 && isnan(result.other[0].usual_ns));
	/* Of backward's 60 it works in 45, and sleeps in the rest, as now. */
	near(part_of(&result, ACTIVITY_BACKWARD, WHY_BLOCKED)->usual_ns, 15);
	why_free(why);
}

/* Operations are seen: waiting is what they say, where the rank is longer than others. */
TEST(operations)
{
	const struct frame_comm comm = {.communicator = "c", .members = RANKS};
	const struct frame_group group = {.members = RANKS, .bytes = 1};
	struct frame_op op[RANKS];
	struct frame frame = {.class = FRAME_TRAIN,
		.tier = FRAME_TIER_HOST,
		.ranks = RANKS,
		.who = who,
		.rank = rank,
		.comms = 1,
		.comm = &comm,
		.groups = 1,
		.group = &group,
		.ops = RANKS,
		.op = op,
		.world_size = RANKS};
	struct why *why = new_why(0, SINCE_NS);
	struct why_result result;

	for (unsigned step = 0; step <= 20; step++) {
		uint64_t late_ns = step == 20 ? 30 * MS : 0;

		usual_step();
		grow(3, ACTIVITY_OUTSIDE, late_ns);
		/* Rank 0 loads data for longer, and waits less. */
		rank[0].activity_ns[ACTIVITY_DATALOADER] += late_ns / 3;
		rank[0].activity_ns[ACTIVITY_BACKWARD] -= late_ns / 3;
		now_ns += 100 * MS + late_ns;
		for (unsigned i = 0; i < RANKS; i++) {
			uint64_t wait_ns = i == 3 ? 5 * MS : 5 * MS + late_ns - (i == 0 ? late_ns / 3 : 0);

			rank[i].step_ns = 100 * MS + late_ns;
			rank[i].end_ns = now_ns;
			op[i] = (struct frame_op){.rank = i,
				.start_ns = (int64_t)(95 * MS + late_ns + 5 * MS - wait_ns),
				.duration_ns = wait_ns};
		}
		assert_int_equal(why_frame(why, 1, &frame), 0);
	}
	result = explain(why);
	assert_int_equal(result.tier, FRAME_TIER_HOST);
	assert_int_equal(result.part[0].kind, WHY_WAITING);
	assert_int_equal(result.part[0].activity, ACTIVITY_BACKWARD);
	near(result.part[0].chosen_ns, 20);
	near(part_of(&result, ACTIVITY_DATALOADER, WHY_WAITING)->chosen_ns, 0);
	why_free(why);
}

TEST(jobs)
{
	struct why *why = new_why(0, SINCE_NS);
	struct why_result result;
	uint64_t job;

	usual_steps(why, 20);
	assert_false(why_job(why, 0, &job));
	usual_step();
	end_step(why, 7);
	assert_true(why_job(why, 0, &job));
	assert_int_equal(job, 7);
	assert_int_equal(why_choose(why, 7), 0);
	assert_int_equal(why_explain(why, &result), -ENODATA); /* nothing to compare with */
	usual_step();
	end_step(why, 1);
	assert_true(why_job(why, 0, &job));
	assert_int_equal(job, 1); /* the newest */
	assert_true(why_job(why, 1, &job));
	assert_int_equal(job, 7);
	assert_false(why_job(why, 2, &job));
	why_free(why);
}

TEST_MAIN(NULL, NULL)
