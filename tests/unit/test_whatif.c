/* SPDX-License-Identifier: Apache-2.0 */
/* detect/whatif: steps without some ranks' excess; what cannot be computed; hostile frames. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "analyzers/judge/whatif.h"

#define RANKS 8
#define ROUNDS 16
#define COLL_MAX (RANKS * ROUNDS * 2)
#define MS 1000000ULL
#define TRANSFER (2 * MS)

static struct frame_rank rank[RANKS];
static struct frame_who who[RANKS];
static struct frame_comm comm[2];
static struct frame_group group[COLL_MAX];
static struct frame_op op[COLL_MAX];
static struct frame frame;
static struct measure_rank measured[RANKS];
static uint32_t class_ranks[1];
static struct measures measures;
static struct whatif *whatif;

static int start(void **state)
{
	(void)state;
	whatif = whatif_new();
	return whatif ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	whatif = whatif_free(whatif);
	return 0;
}

static void begin(size_t ranks)
{
	memset(rank, 0, sizeof(rank));
	frame = (struct frame){.tier = FRAME_TIER_DEVICE,
		.ranks = ranks,
		.who = who,
		.rank = rank,
		.comms = 2,
		.comm = comm,
		.group = group,
		.op = op};
	class_ranks[0] = (uint32_t)ranks;
	measures = (struct measures){.ranks = ranks, .classes = 1, .rank = measured, .class_ranks = class_ranks};
	for (size_t i = 0; i < ranks; i++) {
		rank[i].here = true;
		measured[i] = (struct measure_rank){.ratio = 1};
	}
}

static uint32_t a_group(uint32_t members, bool p2p)
{
	group[frame.groups] = (struct frame_group){.members = members, .p2p = p2p};
	return (uint32_t)frame.groups++;
}

static void an_op(uint32_t of, uint32_t in, int64_t start_ns, uint64_t duration_ns)
{
	op[frame.ops++] = (struct frame_op){in, of, start_ns, duration_ns};
	if (start_ns + (int64_t)duration_ns > (int64_t)rank[of].step_ns)
		rank[of].step_ns = (uint64_t)start_ns + duration_ns;
}

/* All ranks reduce after each own time, ROUNDS times; own_ns of a rank in a round; so many ms after the last. */
static void rounds(size_t ranks, uint64_t (*own_ns)(uint32_t rank, size_t round), uint64_t tail_ns)
{
	uint64_t now = 0;

	begin(ranks);
	for (size_t round = 0; round < ROUNDS; round++) {
		uint32_t g = a_group((uint32_t)ranks, false);
		uint64_t last = 0;

		for (uint32_t r = 0; r < ranks; r++)
			if (own_ns(r, round) > last)
				last = own_ns(r, round);
		for (uint32_t r = 0; r < ranks; r++)
			an_op(r, g, (int64_t)(now + own_ns(r, round)), last + TRANSFER - own_ns(r, round));
		now += last + TRANSFER;
	}
	for (uint32_t r = 0; r < ranks; r++)
		rank[r].step_ns = now + tail_ns;
}

static uint64_t third_is_slow(uint32_t r, size_t round)
{
	(void)round;
	return r == 3 ? 15 * MS : 10 * MS + r * 1000;
}

static uint64_t third_stalls(uint32_t r, size_t round)
{
	return r == 3 && round == 7 ? 90 * MS : 10 * MS;
}

static uint64_t two_are_slow(uint32_t r, size_t round)
{
	(void)round;
	return r == 3 || r == 5 ? 15 * MS : 10 * MS;
}

static void in_ms(uint64_t ns, double ms)
{
	if (fabs((double)ns / MS - ms) > 0.2)
		fail_msg("%g ms, not %g", (double)ns / MS, ms);
}

static uint64_t ask(uint32_t of, uint64_t excess_ns, uint64_t *ret_as_is_ns)
{
	return whatif_excess(whatif, &frame, &measures, &of, &excess_ns, 1, ret_as_is_ns);
}

static void a_slow_rank_costs_its_excess(void **state)
{
	uint64_t as_is;

	(void)state;
	rounds(RANKS, third_is_slow, 4 * MS);
	in_ms(ask(3, ROUNDS * 5 * MS, &as_is), ROUNDS * 12 + 4);
	in_ms(as_is, ROUNDS * 17 + 4);
	in_ms(ask(3, ROUNDS * 2 * MS, &as_is), ROUNDS * 15 + 4);
	in_ms(ask(2, ROUNDS * 5 * MS, &as_is), ROUNDS * 17 + 4);
	in_ms(ask(3, UINT64_MAX, &as_is), ROUNDS * 12 + 4);
}

static void whatif_classes_the_longest_go_first(void **state)
{
	uint32_t of = 3;
	uint64_t excess = 80 * MS, as_is;

	(void)state;
	rounds(RANKS, third_stalls, 0);
	in_ms(whatif_excess(whatif, &frame, NULL, &of, &excess, 1, &as_is), ROUNDS * 12);
	in_ms(as_is, ROUNDS * 12 + 80);
	in_ms(ask(3, 80 * MS, NULL), ROUNDS * 12);
}

static void two_alike_gain_only_together(void **state)
{
	const uint32_t both[] = {3, 5, 3, RANKS, UINT32_MAX};
	const uint64_t excess[] = {ROUNDS * 5 * MS, ROUNDS * 5 * MS, ROUNDS * 5 * MS, MS, MS};

	(void)state;
	rounds(RANKS, two_are_slow, 0);
	in_ms(ask(3, ROUNDS * 5 * MS, NULL), ROUNDS * 17);
	in_ms(whatif_excess(whatif, &frame, &measures, both, excess, 5, NULL), ROUNDS * 12);
}

static void what_comes_after_the_last_operation_counts(void **state)
{
	(void)state;
	rounds(RANKS, two_are_slow, 0);
	rank[6].step_ns += 100 * MS;
	in_ms(ask(6, 100 * MS, NULL), ROUNDS * 17);
	in_ms(ask(0, 100 * MS, NULL), ROUNDS * 17 + 100);
}

/* Nobody waits for it: it is late for a group of its own. */
static void an_idle_rank_costs_nothing(void **state)
{
	uint64_t as_is;
	uint32_t g;

	(void)state;
	rounds(RANKS, two_are_slow, 50 * MS);
	g = a_group(2, true);
	an_op(0, g, ROUNDS * 17 * MS, 30 * MS);
	an_op(1, g, ROUNDS * 17 * MS + 29 * MS, MS);
	in_ms(ask(1, 29 * MS, &as_is), ROUNDS * 17 + 50);
	in_ms(as_is, ROUNDS * 17 + 50);
}

/* A gradient is reduced while the next is computed; the two end together. */
static void what_overlaps_begins_with_the_other(void **state)
{
	uint64_t as_is;

	(void)state;
	begin(2);
	for (uint32_t r = 0; r < 2; r++) {
		int64_t late = r == 1 ? 20 * MS : 0;

		if (r == 0) {
			a_group(2, false);
			a_group(2, false);
		}
		an_op(r, 0, 10 * MS + late, 25 * MS - late);
		an_op(r, 1, 20 * MS + late, 30 * MS - late);
	}
	in_ms(ask(1, 20 * MS, &as_is), 30);
	in_ms(as_is, 50);
}

static void a_pipeline_hides_what_it_can(void **state)
{
	uint64_t as_is;

	(void)state;
	begin(3); /* 0 sends to 1 after 10 ms, 1 to 2 after 30 more; 2 needs it after 60 */
	an_op(0, a_group(2, true), 10 * MS, MS);
	an_op(1, 0, 5 * MS, 6 * MS);
	an_op(1, a_group(2, true), 41 * MS, 20 * MS);
	an_op(2, 1, 60 * MS, MS);
	in_ms(ask(1, 25 * MS, &as_is), 61);
	in_ms(as_is, 61);
	in_ms(ask(2, 40 * MS, &as_is), 42);
}

static bool is_lost(uint32_t of, uint32_t in)
{
	return (of * 7 + in * 3) % 11 == 0 && of != 3;
}

static void lost_records_do_not_hold_it(void **state)
{
	uint64_t as_is;
	size_t left = 0, all;

	(void)state;
	rounds(RANKS, third_is_slow, 0);
	all = frame.ops;
	for (size_t i = 0; i < all; i++)
		if (!is_lost(op[i].rank, op[i].group))
			op[left++] = op[i];
	frame.ops = left;
	assert_true(left < all - 8);
	in_ms(ask(3, ROUNDS * 5 * MS, &as_is), ROUNDS * 12);
	in_ms(as_is, ROUNDS * 17);
}

static uint64_t all_but_first_are_slow(uint32_t r, size_t round)
{
	(void)round;
	return r == 0 ? 10 * MS : 15 * MS;
}

/* Seven of eight seem to compute for longer: they wait in something that is not recorded. */
static void unrecorded_waits_do_not_hold_it(void **state)
{
	uint32_t of = 0;
	uint64_t excess = 0, as_is;

	(void)state;
	rounds(RANKS, all_but_first_are_slow, 0);
	for (uint32_t r = 0; r < RANKS; r++)
		measured[r] = (struct measure_rank){
			.self_ns = ROUNDS * (r == 1 ? 12 : 17) * MS, .ratio = r == 1 ? 12.0 / 17 : 1};
	for (size_t i = 0; i < frame.ops; i++)
		if (op[i].rank == 1) {
			op[i].start_ns -= 5 * MS;
			op[i].duration_ns += 5 * MS;
		}
	in_ms(whatif_excess(whatif, &frame, &measures, &of, &excess, 1, &as_is), ROUNDS * 12);
	in_ms(as_is, ROUNDS * 12);
	measured[1].ratio = 0.9;
	in_ms(whatif_excess(whatif, &frame, &measures, &of, &excess, 1, &as_is), ROUNDS * 17);
}

static void stages_wait_for_the_largest_excess(void **state)
{
	uint64_t as_is;

	(void)state;
	begin(4);
	frame.tier = FRAME_TIER_STAGES;
	measures.step_ns = 100 * MS;
	measured[1] = (struct measure_rank){.self_ns = 100 * MS, .ratio = 100.0 / 60};
	measured[2] = (struct measure_rank){.self_ns = 70 * MS, .ratio = 70.0 / 60};
	in_ms(ask(1, 40 * MS, &as_is), 70);
	in_ms(as_is, 100);
	in_ms(ask(2, 10 * MS, &as_is), 100);
	assert_int_equal(whatif_excess(whatif, &frame, NULL, (uint32_t[]){1}, (uint64_t[]){MS}, 1, &as_is), 0);
	assert_int_equal(as_is, 0);
	ask(1, UINT64_MAX, &as_is);
}

static void a_circle_is_unknown(void **state)
{
	uint64_t as_is = 1;

	(void)state;
	for (int p2p = 0; p2p < 2; p2p++) {
		begin(2);
		a_group(2, p2p);
		a_group(2, p2p);
		an_op(0, 0, 0, MS);
		an_op(0, 1, 5 * MS, MS);
		an_op(1, 1, 0, MS);
		an_op(1, 0, 5 * MS, MS);
		if (p2p) /* senders have left before the receivers came */
			in_ms(ask(0, 0, &as_is), 6);
		else
			assert_int_equal(ask(0, 0, &as_is), 0);
		in_ms(as_is, p2p ? 6 : 0);
	}
}

static void order_does_not_matter(void **state)
{
	(void)state;
	rounds(RANKS, third_is_slow, 0);
	for (size_t i = 0; i < frame.ops / 2; i++) {
		struct frame_op other = op[i];

		op[i] = op[frame.ops - 1 - i];
		op[frame.ops - 1 - i] = other;
	}
	in_ms(ask(3, ROUNDS * 5 * MS, NULL), ROUNDS * 12);
}

/* It ends, and reads only its input: sanitizers check. */
static void hostile_frames(void **state)
{
	static const int64_t starts[] = {INT64_MIN, -1, 0, 1, 1000000, INT64_MAX};
	static const uint64_t lengths[] = {0, 1, 1000000, FRAME_UNKNOWN, 1ULL << 63};
	unsigned seed = 4;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint32_t named[4];
		uint64_t excess[4];

		begin(1 + (size_t)rand_r(&seed) % RANKS);
		for (int g = 0; g < 12; g++) {
			a_group((uint32_t)rand_r(&seed) % 6, rand_r(&seed) % 2);
			group[g].comm = (uint32_t)rand_r(&seed) % 4 - 1;
		}
		for (size_t r = 0; r < frame.ranks; r++) {
			rank[r].here = rand_r(&seed) % 8;
			measured[r].class = (uint32_t)rand_r(&seed) % 3 - 1;
			measured[r].ratio = rand_r(&seed) % 4 / 2.0;
			measured[r].self_ns = lengths[rand_r(&seed) % 5];
		}
		for (int o = 0; o < 40; o++)
			op[frame.ops++] =
				(struct frame_op){(uint32_t)rand_r(&seed) % 13, (uint32_t)rand_r(&seed) % (RANKS + 1),
					starts[rand_r(&seed) % 6], lengths[rand_r(&seed) % 5]};
		for (size_t r = 0; r < frame.ranks; r++)
			rank[r].step_ns = lengths[rand_r(&seed) % 5];
		for (int n = 0; n < 4; n++) {
			named[n] = (uint32_t)rand_r(&seed) % (RANKS + 1);
			excess[n] = lengths[rand_r(&seed) % 5];
		}
		frame.tier = (enum frame_tier)(rand_r(&seed) % FRAME_TIER_MAX);
		whatif_excess(whatif, &frame, rand_r(&seed) % 4 ? &measures : NULL, named, excess, 4, NULL);
	}
	begin(0);
	assert_int_equal(ask(0, 1, NULL), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_slow_rank_costs_its_excess),
		TEST(whatif_classes_the_longest_go_first),
		TEST(two_alike_gain_only_together),
		TEST(what_comes_after_the_last_operation_counts),
		TEST(an_idle_rank_costs_nothing),
		TEST(what_overlaps_begins_with_the_other),
		TEST(a_pipeline_hides_what_it_can),
		TEST(lost_records_do_not_hold_it),
		TEST(unrecorded_waits_do_not_hold_it),
		TEST(stages_wait_for_the_largest_excess),
		TEST(a_circle_is_unknown),
		TEST(order_does_not_matter),
		TEST(hostile_frames),
	};

	return cmocka_run_group_tests_name("without", tests, NULL, NULL);
}
