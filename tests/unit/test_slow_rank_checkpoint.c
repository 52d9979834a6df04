/* SPDX-License-Identifier: Apache-2.0 */
/* detect/slow_rank_checkpoint: after how many long checkpoints a rank is reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/detect/detect.h"
#include "analyzers/detect/detector.h"

#define MS 1000000ULL
#define RANKS_MAX 8
#define CHECKPOINTS 24
#define ONSET 12 /* checkpoints before it */
#define STEP_MS 1000
#define USUAL_MS 600
#define SLOW 1

extern const struct detector slow_rank_detector;

struct scenario {
	uint32_t ranks;
	unsigned every;
	unsigned (*ms)(uint32_t rank, unsigned checkpoint); /* from 0 */
	unsigned step_ms;				    /* 0: STEP_MS */
	bool later;					    /* who has written goes on, and waits in the next step */
};

/* By rank: verdicts, and the checkpoint since the onset with the first confirmed one; 0: never. */
static struct {
	unsigned said[RANKS_MAX], first[RANKS_MAX];
	enum finding_cause cause;
	double slowdown;
} found;
static unsigned checkpoint;

static void on_verdict(void *arg, const struct verdict *verdict)
{
	(void)arg;
	assert_in_range(verdict->finding.rank, 0, RANKS_MAX - 1);
	found.said[verdict->finding.rank]++;
	if (!verdict->confirmed || found.first[verdict->finding.rank])
		return;
	found.first[verdict->finding.rank] = checkpoint - ONSET;
	found.cause = verdict->finding.cause;
	found.slowdown = verdict->finding.slowdown;
}

static void make_frame(const struct scenario *scenario, uint64_t step, struct frame_who *who, struct frame_rank *rank,
	struct frame *ret)
{
	static unsigned left[RANKS_MAX]; /* to be waited in the next step */
	bool is = step % scenario->every == 0;
	unsigned ms[RANKS_MAX] = {0}, longest = 0, step_ms = scenario->step_ms ? scenario->step_ms : STEP_MS;

	for (uint32_t i = 0; is && i < scenario->ranks; i++) {
		ms[i] = scenario->ms(i, checkpoint);
		longest = ms[i] > longest ? ms[i] : longest;
	}
	for (uint32_t i = 0; i < scenario->ranks; i++) {
		unsigned waited = scenario->later ? left[i] : longest - ms[i];

		who[i] = (struct frame_who){.rank = (int32_t)i, .stage = FRAME_NONE};
		rank[i] = (struct frame_rank){.here = true, .step_ns = (step_ms + ms[i] + waited) * MS};
		rank[i].stage_ns[STAGE_FORWARD] = step_ms / 3 * MS;
		rank[i].stage_ns[STAGE_BACKWARD] = step_ms / 2 * MS;
		rank[i].stage_ns[STAGE_CHECKPOINT] = ms[i] * MS;
		left[i] = longest - ms[i];
	}
	checkpoint += is;
	*ret = (struct frame){.step = step,
		.class = is ? FRAME_CHECKPOINT : FRAME_TRAIN,
		.tier = FRAME_TIER_STAGES,
		.world_size = scenario->ranks,
		.cards = scenario->ranks,
		.ranks = scenario->ranks,
		.who = who,
		.rank = rank};
}

static void run(struct scenario scenario)
{
	const struct detector_out out = {.emit = on_verdict};
	struct measure *measure = measure_new();
	struct frame_who who[RANKS_MAX];
	struct frame_rank rank[RANKS_MAX];
	struct detect_options options;
	void *state;

	memset(&found, 0, sizeof(found));
	checkpoint = 0;
	detect_options_default(&options);
	state = slow_rank_detector.new(&options);
	assert_non_null(measure);
	assert_non_null(state);
	for (uint64_t step = 1; checkpoint < CHECKPOINTS; step++) {
		const struct measures *measures;
		struct frame frame;

		make_frame(&scenario, step, who, rank, &frame);
		assert_int_equal(measure_frame(measure, &frame, &measures), 0);
		slow_rank_detector.frame(state, &frame, measures, measure, &out);
	}
	slow_rank_detector.free(state);
	measure_free(measure);
}

/* Nobody but the one, and of the one as confirmed from this checkpoint on; 0: nobody at all, not even suspected. */
static void expect(unsigned first)
{
	for (uint32_t i = 0; i < RANKS_MAX; i++) {
		assert_int_equal(found.first[i], i == SLOW ? first : 0);
		if (i != SLOW || !first)
			assert_int_equal(found.said[i], 0);
	}
}

static unsigned usual(uint32_t of, unsigned n)
{
	return USUAL_MS + (of * 7 + n * 3) % 11 * 5;
}

static bool since(unsigned n, unsigned onset, unsigned length)
{
	return n >= onset && n < onset + length;
}

static unsigned twice(uint32_t of, unsigned n)
{
	return usual(of, n) * (of == SLOW && n >= ONSET ? 2 : 1);
}

static unsigned twice_two(uint32_t of, unsigned n)
{
	return usual(of, n) * (of == SLOW && since(n, ONSET, 2) ? 2 : 1);
}

static unsigned once(uint32_t of, unsigned n)
{
	return usual(of, n) * (of == SLOW && n == ONSET ? 5 : 1);
}

static unsigned once_and_again(uint32_t of, unsigned n)
{
	return usual(of, n) * (of == SLOW && (n == ONSET || n == ONSET + 2 || n == ONSET + 5) ? 2 : 1);
}

/* It has happened to it before. */
static unsigned has_hiccups(uint32_t of, unsigned n)
{
	return usual(of, n) * (of == SLOW && (n == ONSET - 4 || since(n, ONSET, 2)) ? 2 : 1);
}

static unsigned storage_is_slow(uint32_t of, unsigned n)
{
	return usual(of, n) * (of % 3 == SLOW % 3 && since(n, ONSET, 2) ? 2 : 1);
}

static unsigned storage_is_slow_for_all(uint32_t of, unsigned n)
{
	(void)of;
	return usual(of, n) * (since(n, ONSET, 2) ? 3 : 1);
}

/* As long as others take anyway. */
static unsigned as_long_as_another(uint32_t of, unsigned n)
{
	return of == RANKS_MAX - 1 ? 2 * usual(of, n) + 50 : twice_two(of, n);
}

/* Longer than it was by more than half, and than the others, who take longer too, by a quarter. */
static unsigned most_of_all_that_are_longer(uint32_t of, unsigned n)
{
	unsigned more = !since(n, ONSET, 2) ? 10 : of == SLOW ? 16 : 13;

	return usual(of, n) * more;
}

static unsigned cheap(uint32_t of, unsigned n)
{
	return twice(of, n) / 4;
}

static unsigned only_one_writes(uint32_t of, unsigned n)
{
	return of == SLOW ? twice_two(of, n) : 0;
}

static unsigned one_writes_most(uint32_t of, unsigned n)
{
	return of == SLOW ? twice_two(of, n) : usual(of, n) / 20;
}

static unsigned slow_from_the_first(uint32_t of, unsigned n)
{
	return usual(of, n) * (of == SLOW ? 2 : 1);
}

/* The first one finds nothing prepared. */
static unsigned cold(uint32_t of, unsigned n)
{
	return n ? twice(of, n) : 6 * usual(of, n);
}

static void two_in_a_row_are_reported(void **state)
{
	(void)state;
	for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++) {
		run((struct scenario){.ranks = ranks, .every = 4, .ms = twice});
		expect(2);
		assert_int_equal(found.cause, CAUSE_CHECKPOINT);
		/* Some 600 ms of 4.6 s. */
		assert_true(found.slowdown > 1.1 && found.slowdown < 1.16);
		run((struct scenario){.ranks = ranks, .every = 4, .ms = twice_two});
		expect(2);
	}
	run((struct scenario){.ranks = 2, .every = 4, .ms = cold});
	expect(2);
}

/* Steps on cards are short beside a checkpoint: what one loses is more than the others' whole step then. */
static void who_waits_in_the_next_step_waits_too(void **state)
{
	(void)state;
	for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++) {
		run((struct scenario){.ranks = ranks, .every = 4, .ms = twice, .step_ms = 50, .later = true});
		expect(2);
		assert_int_equal(found.cause, CAUSE_CHECKPOINT);
		/* Some 600 ms of 0.8 s. */
		assert_true(found.slowdown > 1.5 && found.slowdown < 1.85);
		run((struct scenario){.ranks = ranks, .every = 4, .ms = once, .step_ms = 50, .later = true});
		expect(0);
	}
}

static void one_is_not(void **state)
{
	(void)state;
	for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++) {
		run((struct scenario){.ranks = ranks, .every = 4, .ms = once});
		expect(0);
		run((struct scenario){.ranks = ranks, .every = 4, .ms = once_and_again});
		assert_int_equal(found.first[SLOW], 0);
		run((struct scenario){.ranks = ranks, .every = 4, .ms = has_hiccups});
		assert_int_equal(found.first[SLOW], 0);
	}
}

static void storage_is_nobodys_fault(void **state)
{
	(void)state;
	run((struct scenario){.ranks = 6, .every = 4, .ms = storage_is_slow});
	expect(0);
	run((struct scenario){.ranks = RANKS_MAX, .every = 4, .ms = storage_is_slow_for_all});
	expect(0);
	run((struct scenario){.ranks = 2, .every = 4, .ms = storage_is_slow_for_all});
	expect(0);
	run((struct scenario){.ranks = RANKS_MAX, .every = 4, .ms = most_of_all_that_are_longer});
	assert_int_equal(found.first[SLOW], 0);
	run((struct scenario){.ranks = RANKS_MAX, .every = 4, .ms = as_long_as_another});
	assert_int_equal(found.first[SLOW], 0);
}

/* Whoever writes for others has no peer. */
static void who_writes_for_others_may_be_slow_twice(void **state)
{
	(void)state;
	run((struct scenario){.ranks = RANKS_MAX, .every = 4, .ms = only_one_writes});
	expect(0);
	run((struct scenario){.ranks = RANKS_MAX, .every = 4, .ms = one_writes_most});
	expect(0);
}

static void smaller_excess_needs_more_checkpoints(void **state)
{
	(void)state;
	run((struct scenario){.ranks = RANKS_MAX, .every = 4, .ms = cheap});
	assert_in_range(found.first[SLOW], 4, 6);
	/* Two steps in a row may be of one hiccup. */
	run((struct scenario){.ranks = RANKS_MAX, .every = 1, .ms = twice});
	assert_in_range(found.first[SLOW], 4, 6);
	run((struct scenario){.ranks = RANKS_MAX, .every = 4, .ms = slow_from_the_first});
	assert_true(found.said[SLOW] > 0 && found.said[0] == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_in_a_row_are_reported),
		cmocka_unit_test(who_waits_in_the_next_step_waits_too),
		cmocka_unit_test(one_is_not),
		cmocka_unit_test(storage_is_nobodys_fault),
		cmocka_unit_test(who_writes_for_others_may_be_slow_twice),
		cmocka_unit_test(smaller_excess_needs_more_checkpoints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
