/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are longer in forward, where nothing but stages is seen: analyzers/judge/measure_internal.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "analyzers/judge/measure.h"
#include "analyzers/judge/measure_internal.h"

#define MS 1000000ULL
#define RANKS 16
#define GROUPED(world, ...) \
	measure_alike_grouped((const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t), world)

static void groups_of_a_grid(void **state)
{
	(void)state;
	assert_true(GROUPED(8, 0, 1));
	assert_true(GROUPED(8, 6, 7));
	assert_true(GROUPED(8, 1, 3));
	assert_true(GROUPED(8, 3, 7));
	assert_true(GROUPED(8, 2, 5, 6)); /* of them 2 and 6 */
	assert_true(GROUPED(24, 3, 4, 5));
	assert_true(GROUPED(24, 2, 10, 18));
	assert_false(GROUPED(8, 1, 2));
	assert_false(GROUPED(8, 2, 4));
	assert_false(GROUPED(8, 0, 6));
	assert_false(GROUPED(64, 23, 24));
	assert_false(GROUPED(64, 1, 2, 11));
	assert_true(GROUPED(64, 3, 4, 5)); /* of them 4 and 5 */
	assert_false(GROUPED(8, 3));
}

static void what_makes_no_sense_may_be_a_group(void **state)
{
	(void)state;
	assert_true(GROUPED(8, -3, 2));
	assert_true(GROUPED(8, 5, 5));
	assert_true(GROUPED(8, 5, 2));
	assert_true(GROUPED(8, INT32_MIN, INT32_MAX));
	assert_true(GROUPED(0, 0, 1)); /* of no size */
	assert_false(GROUPED(1, 1, INT32_MAX));
}

/* Which ranks have 100 ms more of forward, as a mask, who has 40 more, who has a card; returns who is measured so. */
static unsigned longer(unsigned mask, unsigned some, unsigned cards)
{
	struct measure *measure = measure_new();
	const struct measures *measures;
	struct frame_who who[RANKS];
	struct frame_rank rank[RANKS];
	struct frame frame = {.class = FRAME_TRAIN,
		.tier = FRAME_TIER_STAGES,
		.world_size = RANKS,
		.cards = RANKS,
		.ranks = RANKS,
		.who = who,
		.rank = rank};
	unsigned found = 0;

	assert_non_null(measure);
	for (uint32_t i = 0; i < RANKS; i++) {
		uint64_t more = mask >> i & 1 ? 100 * MS + i * MS / 4 : some >> i & 1 ? 40 * MS : i % 3 * MS;

		who[i] = (struct frame_who){.rank = (int32_t)i, .stage = FRAME_NONE};
		snprintf(who[i].card, sizeof(who[i].card), "%s", cards >> i & 1 ? "0" : "");
		rank[i] = (struct frame_rank){.here = true, .step_ns = 1000 * MS};
		rank[i].stage_ns[STAGE_FORWARD] = 300 * MS + more;
		rank[i].stage_ns[STAGE_BACKWARD] = 650 * MS - more;
	}
	assert_int_equal(measure_frame(measure, &frame, &measures), 0);
	for (uint32_t i = 0; i < RANKS; i++)
		found |= (unsigned)(measures->rank[i].ratio > 1.05) << i;
	measure_free(measure);
	return found;
}

static void who_is_longer_by_itself(void **state)
{
	(void)state;
	assert_int_equal(longer(0, 0, 0), 0);
	assert_int_equal(longer(1 << 5, 0, 0), 1 << 5);
	/* Ranks 5 and 6 are of no group together, 4 and 5 may be. */
	assert_int_equal(longer(1 << 5 | 1 << 6, 0, 0), 1 << 5 | 1 << 6);
	assert_int_equal(longer(1 << 4 | 1 << 5, 0, 0), 0);
	assert_int_equal(longer(1 << 5 | 1 << 6 | 1 << 12, 0, 0), 1 << 5 | 1 << 6 | 1 << 12);
	assert_int_equal(longer(1 << 5 | 1 << 6 | 1 << 14, 0, 0), 0); /* 6 and 14 may be */
	/* More may be a group that is no grid. */
	assert_int_equal(longer(1 << 5 | 1 << 6 | 1 << 12 | 1 << 15, 0, 0), 0);
	/* Others have some of it: they may wait, too. */
	assert_int_equal(longer(1 << 5 | 1 << 6, 1 << 9, 0), 0);
	assert_int_equal(longer(1 << 5, 1 << 9, 0), 1 << 5);
	/* On a card forward only launches. */
	assert_int_equal(longer(1 << 5, 0, 0xffff), 0);
	assert_int_equal(longer(1 << 5 | 1 << 6, 0, 0xffff), 0);
	assert_int_equal(longer(1 << 5 | 1 << 6, 0, 1 << 5), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_of_a_grid),
		cmocka_unit_test(what_makes_no_sense_may_be_a_group),
		cmocka_unit_test(who_is_longer_by_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
