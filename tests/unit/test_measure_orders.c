/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detect/measure: a frame whose records are in the order of ranks, and of short times, is measured in a quicker way,
 * and in a still quicker one where its producer kept the shortest of each group. The measures equal those of the same
 * frame in another order, or with one long time.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/judge/measure.h"
#include "analyzers/base/robust.h"
#include "tests/test.h"

#define RANKS 8
#define OPS 60
#define GROUPS (OPS * RANKS / 2)
#define US 1000LL
#define FRAMES 50

static struct frame_who who[RANKS];
static struct frame_rank rank[RANKS];
static struct frame_comm comm[] = {
	{"all", COMM_KIND_DATA, RANKS}, {"half", COMM_KIND_TENSOR, RANKS / 2}, {"pair", COMM_KIND_PIPELINE, 2}};
static struct frame_group group[GROUPS];
static struct frame_op op[RANKS * OPS], turned[RANKS * OPS];
static struct shortest shortest[GROUPS];
static size_t stop[RANKS];
static uint64_t drawn;

static uint64_t draw(uint64_t below)
{
	drawn = drawn * 6364136223846793005ULL + 1442695040888963407ULL;
	return (drawn >> 33) % below;
}

/* The i-th operation of a rank: of all, of its half, or of it and its neighbour. */
static uint32_t group_of(uint32_t of, uint32_t i)
{
	static const uint32_t share[] = {RANKS, RANKS / 2, 2};

	return i * RANKS / 2 + of / share[i % 3];
}

/* Some begin before the one before has ended, some as it ends. No two take equally long. */
static void make(void)
{
	for (uint32_t g = 0; g < GROUPS; g++) {
		uint32_t kind = g / (RANKS / 2) % 3;

		group[g] = (struct frame_group){kind, comm[kind].members, 1 << 20, (uint16_t)kind, kind == 2};
	}
	for (uint32_t r = 0; r < RANKS; r++) {
		int64_t at = (int64_t)draw(100) * US;

		who[r] = (struct frame_who){.rank = (int32_t)r, .node = r / 4, .stage = FRAME_NONE};
		rank[r] = (struct frame_rank){.here = true, .step_ns = 100000000};
		for (uint32_t i = 0; i < OPS; i++) {
			uint64_t length = (draw(300) * 1000 + 1000) + r;

			op[r * OPS + i] = (struct frame_op){group_of(r, i), r, at, length};
			at += draw(2) && length > 20000 ? (int64_t)length + (int64_t)draw(40) * US - 20 * US
							: (int64_t)draw(600) * US;
		}
	}
}

/* As who makes a frame does while it writes, but slowly. */
static void keep(void)
{
	for (uint32_t g = 0; g < GROUPS; g++) {
		shortest[g] = shortest_none();
		for (size_t i = 0; i < RANKS * OPS; i++) {
			uint64_t key = op[i].duration_ns << SHORTEST_RANK_BITS | op[i].rank;

			if (op[i].group != g)
				continue;
			shortest[g].records++;
			if (key < shortest[g].second)
				shortest[g].second = key > shortest[g].first ? key : shortest[g].first;
			if (key < shortest[g].first)
				shortest[g].first = key;
		}
	}
	for (size_t r = 0; r < RANKS; r++)
		stop[r] = (r + 1) * OPS;
}

/* Of ranks from the last to the first, half of each one's, and then the other half. */
static void turn(void)
{
	struct frame_op *to = turned;

	for (uint32_t half = 0; half < 2; half++) {
		for (uint32_t r = RANKS; r-- > 0; to += OPS / 2)
			memcpy(to, op + r * OPS + half * (OPS / 2), OPS / 2 * sizeof(*op));
	}
}

static struct frame frame_of(const struct frame_op *ops)
{
	return (struct frame){.tier = FRAME_TIER_DEVICE,
		.world_size = RANKS,
		.ranks = RANKS,
		.who = who,
		.rank = rank,
		.comms = 3,
		.comm = comm,
		.groups = GROUPS,
		.group = group,
		.ops = RANKS * OPS,
		.op = ops};
}

static void assert_equal(const struct measures *a, const struct measures *b)
{
	assert_int_equal(a->left_out, b->left_out);
	assert_int_equal(a->lost, b->lost);
	assert_int_equal(a->sends_overlap, b->sends_overlap);
	for (size_t i = 0; i < RANKS; i++) {
		assert_int_equal(a->rank[i].wait_ns, b->rank[i].wait_ns);
		assert_int_equal(a->rank[i].self_ns, b->rank[i].self_ns);
		assert_int_equal(a->rank[i].last_ns, b->rank[i].last_ns);
	}
	for (size_t i = 0; i < GROUPS; i++) {
		assert_int_equal(a->group[i].transfer_ns, b->group[i].transfer_ns);
		assert_int_equal(a->group[i].last, b->group[i].last);
		assert_int_equal(a->group[i].before, b->group[i].before);
	}
}

static void measure_all(struct measure *in_order, struct measure *turned_round, struct measure *kept)
{
	struct frame frame = frame_of(op), other = frame_of(turned), third = frame_of(op);
	const struct measures *a, *b, *c;

	third.shortest = shortest;
	third.stop = stop;
	assert_int_equal(measure_frame(in_order, &frame, &a), 0);
	assert_int_equal(measure_frame(turned_round, &other, &b), 0);
	assert_int_equal(measure_frame(kept, &third, &c), 0);
	assert_true(a->rank[0].wait_ns > 0);
	assert_equal(a, b);
	assert_equal(a, c);
}

/* In each third frame a rank is left out, as its step has no length. */
TEST(order_does_not_matter)
{
	struct measure *a = measure_new(), *b = measure_new(), *c = measure_new();

	assert_non_null(a);
	assert_non_null(b);
	assert_non_null(c);
	drawn = 1;
	for (size_t i = 0; i < FRAMES; i++) {
		make();
		turn();
		keep();
		if (i % 3 == 2)
			rank[1 + draw(RANKS - 1)].step_ns = 0;
		measure_all(a, b, c);
	}
	measure_free(a);
	measure_free(b);
	measure_free(c);
}

/* Nobody waits less for it, whatever a long one is the last of. */
TEST(one_long_time_changes_its_group_alone)
{
	struct measure *a = measure_new(), *b = measure_new();
	struct frame frame = frame_of(op), other = frame_of(turned);
	const struct measures *of, *of_long;
	uint32_t last = RANKS * OPS - 1;

	assert_non_null(a);
	assert_non_null(b);
	drawn = 2;
	make();
	memcpy(turned, op, sizeof(op));
	turned[last].duration_ns = UINT64_MAX;
	assert_int_equal(measure_frame(a, &frame, &of), 0);
	assert_int_equal(measure_frame(b, &other, &of_long), 0);
	for (size_t i = 0; i < RANKS - 1; i++)
		assert_int_equal(of->rank[i].class, of_long->rank[i].class);
	for (size_t i = 0; i < GROUPS; i++) {
		if (i == op[last].group)
			continue;
		assert_int_equal(of->group[i].transfer_ns, of_long->group[i].transfer_ns);
		assert_int_equal(of->group[i].last, of_long->group[i].last);
		assert_int_equal(of->group[i].before, of_long->group[i].before);
	}
	assert_int_equal(of_long->rank[RANKS - 1].wait_ns, rank[RANKS - 1].step_ns);
	measure_free(a);
	measure_free(b);
}

/* A group of which one member's record has no length that can be: nobody came before the other. */
TEST(a_record_without_a_length_is_ignored)
{
	static const struct frame_op two[] = {{0, 0, 0, 1000}, {0, 1, 0, UINT64_MAX}};
	struct frame frame = frame_of(two);
	struct measure *measure = measure_new();
	const struct measures *measures;

	assert_non_null(measure);
	make();
	group[0] = (struct frame_group){.comm = 2, .members = 2, .p2p = true};
	frame.ops = 2;
	assert_int_equal(measure_frame(measure, &frame, &measures), 0);
	assert_int_equal(measures->group[0].transfer_ns, FRAME_UNKNOWN);
	assert_int_equal(measures->group[0].before, FRAME_NONE);
	measure_free(measure);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

TEST(each_index_of_the_sorted_values_is_found)
{
	double value[301], sorted[301];

	drawn = 3;
	for (size_t round = 0; round < 2000; round++) {
		size_t n = 1 + draw(301), many = round % 2 ? 4 : 1000, k = draw(n);

		for (size_t i = 0; i < n; i++)
			value[i] = sorted[i] = (double)draw(many) - 2;
		qsort(sorted, n, sizeof(*sorted), by_value);
		assert_true(robust_kth(value, n, k) >= sorted[k]);
		assert_true(robust_kth(value, n, k) <= sorted[k]);
	}
	for (size_t i = 0; i < 301; i++)
		value[i] = NAN;
	assert_true(isnan(robust_median(value, 301)));
}

TEST_MAIN(NULL, NULL)
