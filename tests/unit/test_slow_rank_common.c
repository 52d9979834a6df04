/* SPDX-License-Identifier: Apache-2.0 */
/* detect/slow_rank_common: several who stand out in stages alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "analyzers/detect/slow_rank_internal.h"

#define RANKS 8
#define STEP_NS 1000000000ULL

static struct frame_rank rank[RANKS];
static struct measure_rank measured[RANKS];
static struct frame frame;
static struct measures measures;
static const uint32_t set[] = {1, 4, 6};

/* Three are longer by so much of a step; so much of it is of that stage. */
static int start(void **state)
{
	(void)state;
	memset(rank, 0, sizeof(rank));
	for (uint32_t i = 0; i < RANKS; i++) {
		rank[i] = (struct frame_rank){.here = true, .step_ns = STEP_NS};
		rank[i].stage_ns[STAGE_DATALOADER] = STEP_NS / 50;
		measured[i] = (struct measure_rank){.self_ns = STEP_NS / 2, .ratio = 1};
	}
	for (uint32_t i = 0; i < 3; i++)
		measured[set[i]].ratio = 1.25;
	frame = (struct frame){.tier = FRAME_TIER_STAGES, .ranks = RANKS, .rank = rank};
	measures = (struct measures){.ranks = RANKS, .classes = 1, .rank = measured};
	return 0;
}

static bool common(size_t n)
{
	double scratch[RANKS];

	return slow_rank_common(&frame, &measures, set, n, n, scratch);
}

static void add(enum stage_kind stage, uint64_t ns, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rank[set[i]].stage_ns[stage] += ns;
}

static void what_is_not_seen_may_be_common(void **state)
{
	(void)state;
	assert_true(common(3));
	assert_false(common(2));
	frame.tier = FRAME_TIER_HOST;
	assert_false(common(3));
}

static void forward_is_not_seen(void **state)
{
	(void)state;
	add(STAGE_FORWARD, STEP_NS / 10, 3);
	assert_true(common(3));
}

static void loading_is_seen(void **state)
{
	(void)state;
	add(STAGE_DATALOADER, STEP_NS / 10, 1);
	assert_false(common(3));
	add(STAGE_DATALOADER, STEP_NS / 10, 3);
	assert_false(common(3));
}

static void collecting_is_seen(void **state)
{
	(void)state;
	add(STAGE_GC, STEP_NS / 10, 3);
	assert_false(common(3));
}

/* Ranks that all load for that long are not distinguished by it, nor by a tenth of their excess. */
static void a_little_or_all_says_nothing(void **state)
{
	(void)state;
	add(STAGE_DATALOADER, STEP_NS / 100, 3);
	assert_true(common(3));
	for (uint32_t i = 0; i < RANKS; i++)
		rank[i].stage_ns[STAGE_DATALOADER] = STEP_NS / 5;
	assert_true(common(3));
}

#define TEST(test) cmocka_unit_test_setup(test, start)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_not_seen_may_be_common),
		TEST(forward_is_not_seen),
		TEST(loading_is_seen),
		TEST(collecting_is_seen),
		TEST(a_little_or_all_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
