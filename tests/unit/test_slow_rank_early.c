/* SPDX-License-Identifier: Apache-2.0 */
/* detect/slow_rank_court: whom three frames with operations are enough for, where steps grew before there were any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "analyzers/detect/detect.h"
#include "analyzers/detect/detector.h"

#define MS 1000000ULL
#define RANKS 4
#define STEPS 70
#define ONSET 40
#define SEEN_FROM 46 /* frames with operations */

extern const struct detector slow_rank_detector;

/* What ranks do in a step of theirs: 170 ms of computing and an all-reduce of 40. */
struct story {
	uint32_t ranks;
	uint64_t later_ms;    /* that rank 1 computes longer from the onset on */
	uint64_t always_ms;   /* and has always done */
	uint64_t transfer_ms; /* that the all-reduce takes longer from the onset on */
	uint64_t before_ms;   /* that it took longer before */
	uint64_t onset;
	bool lost;  /* in the second frame with operations, one of rank 1's is missing */
	bool other; /* rank 0 is as slow */
	bool once;  /* rank 1 is not slow in the second one */
};

struct found {
	uint64_t step; /* in which it was confirmed first, 0 never */
	uint64_t since_step, since_ns, step_ns;
	int32_t rank;
	uint64_t now;
};

static void on_verdict(void *arg, const struct verdict *verdict)
{
	struct found *found = arg;

	if (!verdict->confirmed || found->step)
		return;
	found->step = found->now;
	found->rank = verdict->finding.rank;
	found->since_step = verdict->finding.since_step;
	found->since_ns = verdict->finding.since_ns;
}

static uint64_t own_of(const struct story *story, uint32_t i, uint64_t step)
{
	uint64_t own_ns = 170 * MS + (step * 7 + i * 3) % 5 * MS / 2;

	if (i == 1)
		own_ns += story->always_ms * MS;
	if (step >= story->onset && (i == 1 || (story->other && i == 0)) && !(story->once && step == SEEN_FROM + 1))
		own_ns += story->later_ms * MS;
	return own_ns;
}

static struct found play(const struct story *story)
{
	static struct frame_who who[RANKS];
	struct frame_rank rank[RANKS];
	struct frame_op op[2 * RANKS];
	struct frame_comm comm = {.communicator = "c", .kind = COMM_KIND_DATA, .members = story->ranks};
	struct frame_group group[2];
	struct found found = {0};
	const struct detector_out out = {.emit = on_verdict, .arg = &found};
	struct measure *measure = measure_new();
	struct detect_options options;
	uint64_t now_ns = 0;
	void *state;

	detect_options_default(&options);
	state = slow_rank_detector.new(&options);
	assert_non_null(state);
	assert_non_null(measure);
	for (uint64_t step = 0; step < STEPS; step++) {
		uint64_t transfer_ns = (40 + (step < story->onset ? story->before_ms : story->transfer_ms)) * MS;
		bool seen = step >= SEEN_FROM, lost = story->lost && step == SEEN_FROM + 1;
		uint64_t last_ns = 0, end_ns;
		const struct measures *measures;
		size_t ops = 0;

		for (uint32_t i = 0; i < story->ranks; i++)
			last_ns = own_of(story, i, step) > last_ns ? own_of(story, i, step) : last_ns;
		end_ns = last_ns + transfer_ns;
		now_ns += end_ns;
		for (uint32_t i = 0; i < story->ranks; i++) {
			uint64_t own_ns = own_of(story, i, step);

			who[i] = (struct frame_who){.rank = (int32_t)i, .stage = FRAME_NONE, .card = {(char)('0' + i)}};
			rank[i] = (struct frame_rank){.here = true, .step_ns = end_ns, .end_ns = now_ns};
			rank[i].stage_ns[STAGE_FORWARD] = 60 * MS;
			op[ops++] = (struct frame_op){0, i, (int64_t)own_ns, last_ns + transfer_ns / 2 - own_ns};
			if (lost && i == 1)
				continue;
			op[ops++] = (struct frame_op){1, i, (int64_t)(last_ns + transfer_ns / 2), transfer_ns / 2};
		}
		for (size_t i = 0; i < 2; i++)
			group[i] = (struct frame_group){.members = story->ranks, .bytes = 1 << 20};
		const struct frame frame = {.step = step,
			.class = FRAME_TRAIN,
			.tier = seen ? FRAME_TIER_DEVICE : FRAME_TIER_STAGES,
			.world_size = story->ranks,
			.cards = story->ranks,
			.ranks = story->ranks,
			.who = who,
			.rank = rank,
			.comms = 1,
			.comm = &comm,
			.groups = seen ? 2 : 0,
			.group = group,
			.op = op,
			.ops = seen ? ops : 0};
		found.now = step;
		if (step == story->onset)
			found.step_ns = now_ns - end_ns;
		assert_int_equal(measure_frame(measure, &frame, &measures), 0);
		slow_rank_detector.frame(state, &frame, measures, measure, &out);
	}
	slow_rank_detector.free(state);
	measure_free(measure);
	return found;
}

static void an_explaining_rank_needs_three_frames(void **state)
{
	(void)state;
	for (uint32_t ranks = 2; ranks <= RANKS; ranks++) {
		struct found found = play(&(struct story){.ranks = ranks, .later_ms = 105, .onset = ONSET});

		assert_int_equal(found.step, SEEN_FROM + 2);
		assert_int_equal(found.rank, 1);
		/* It is slow since steps are longer, which was seen before. */
		assert_int_equal(found.since_step, ONSET);
		assert_true(found.since_ns == found.step_ns);
	}
}

/* Each is reported later, with the usual number of frames, or never. */
static void who_does_not_is_not(void **state)
{
	static const struct story stories[] = {
		/* It is slow since operations are seen, or since just before. */
		{.later_ms = 105, .onset = SEEN_FROM},
		{.later_ms = 105, .onset = SEEN_FROM - 1},
		/* Steps were as long before. */
		{.later_ms = 105, .before_ms = 105, .onset = ONSET},
		/* It was always so slow, and what has grown is another thing. */
		{.always_ms = 105, .transfer_ms = 40, .onset = ONSET},
		{.always_ms = 20, .transfer_ms = 100, .onset = ONSET},
		/* So little of it is common. */
		{.later_ms = 14, .onset = ONSET},
		/* It explains half of it. */
		{.later_ms = 50, .transfer_ms = 50, .onset = ONSET},
		/* Something is missing. */
		{.later_ms = 105, .onset = ONSET, .lost = true},
		/* Not in each frame. */
		{.later_ms = 105, .onset = ONSET, .once = true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
		for (uint32_t ranks = 2; ranks <= RANKS; ranks++) {
			struct story story = stories[i];
			struct found found;

			story.ranks = ranks;
			found = play(&story);
			if (found.step)
				assert_true(found.step >= SEEN_FROM + 4 && found.rank == 1);
		}
	}
}

/* Of four, two equally slow ones are reported as usual; of two, none. */
static void one_alone(void **state)
{
	struct found found = play(&(struct story){.ranks = 2, .later_ms = 105, .onset = ONSET, .other = true});

	(void)state;
	assert_int_equal(found.step, 0);
	found = play(&(struct story){.ranks = RANKS, .later_ms = 105, .onset = ONSET, .other = true});
	assert_true(!found.step || found.step >= SEEN_FROM + 4);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_explaining_rank_needs_three_frames),
		cmocka_unit_test(who_does_not_is_not),
		cmocka_unit_test(one_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
