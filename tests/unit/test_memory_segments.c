/* SPDX-License-Identifier: Apache-2.0 */
/* Segments of an allocator: their pieces, and who says which of them is fragmented: ours and NeuTracer's score. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/memory/segments.h"

#include "tests/test.h"

#define RUNS 40
#define MIB (1ULL << 20)
#define SEGMENTS 200
#define BLOCKS 8192

TEST(pieces_are_those_between_blocks)
{
	struct memory_segment segment[] = {{.address = 100 * MIB, .bytes = 20 * MIB},
		{.address = 10 * MIB, .bytes = 20 * MIB}, {.address = 400 * MIB, .bytes = 2 * MIB}};
	struct rt_memory_block block[] = {{.address = 115 * MIB, .bytes = 5 * MIB, .device = 1},
		{.address = 10 * MIB, .bytes = 20 * MIB, .device = 1},
		{.address = 102 * MIB, .bytes = 3 * MIB, .device = 1}, {.address = 5 * MIB, .bytes = MIB},
		{.address = 900 * MIB, .bytes = MIB},
		/* Its memory has another block by now. */
		{.address = 103 * MIB, .bytes = 9 * MIB, .device = 1}};
	struct memory_pieces pieces = {0};

	memory_segments_fill(segment, 3, block, 6);
	assert_int_equal(segment[0].address, 10 * MIB);
	assert_int_equal(segment[0].used_bytes, 20 * MIB);
	assert_int_equal(segment[0].gap_bytes, 0);
	assert_int_equal(segment[1].used_bytes, 8 * MIB);
	assert_int_equal(segment[1].gap_bytes, 10 * MIB);
	assert_int_equal(segment[1].blocks, 2);
	assert_int_equal(segment[2].gap_bytes, 2 * MIB);
	assert_int_equal(segment[2].device, 1);
	for (size_t i = 0; i < 3; i++)
		memory_pieces_add(&pieces, &segment[i]);
	assert_int_equal(pieces.bytes, 42 * MIB);
	assert_int_equal(pieces.split_bytes, 12 * MIB);
	assert_int_equal(pieces.empty_bytes, 2 * MIB);
	assert_int_equal(pieces.split, 1);
	memory_pieces_end(&pieces, UINT64_MAX);
	assert_int_equal(pieces.empty_bytes, 2 * MIB);
	assert_int_equal(pieces.gap_bytes, 10 * MIB);
	/* A block beyond its segment, segments that overlap, an address at the end of all. */
	segment[0].bytes = 500 * MIB;
	segment[2] = (struct memory_segment){.address = UINT64_MAX - 10, .bytes = 8};
	block[0] = (struct rt_memory_block){.address = UINT64_MAX - 8, .bytes = UINT64_MAX};
	memory_segments_fill(segment, 3, block, 6);
	assert_int_equal(segment[0].bytes, 90 * MIB);
	assert_int_equal(segment[2].used_bytes, 6);
	memory_segments_fill(segment, 0, block, 0);
}

/* A block lies across parts of an expandable segment; a segment beside it is none of them. */
TEST(parts_of_an_expandable_segment_are_one)
{
	struct memory_segment segment[] = {{.address = 60 * MIB, .bytes = 20 * MIB, .is_expandable = true},
		{.address = 20 * MIB, .bytes = 20 * MIB, .is_expandable = true},
		{.address = 40 * MIB, .bytes = 20 * MIB, .is_expandable = true},
		{.address = 80 * MIB, .bytes = 20 * MIB},
		{.address = 120 * MIB, .bytes = 20 * MIB, .is_expandable = true}};
	struct rt_memory_block block[] = {
		{.address = 30 * MIB, .bytes = 40 * MIB}, {.address = 80 * MIB, .bytes = 15 * MIB}};
	struct memory_pieces pieces = {0};

	assert_int_equal(memory_segments_fill(segment, 5, block, 2), 3);
	assert_int_equal(segment[0].bytes, 60 * MIB);
	assert_int_equal(segment[0].used_bytes, 40 * MIB);
	assert_int_equal(segment[0].blocks, 1);
	assert_int_equal(segment[1].used_bytes, 15 * MIB);
	for (size_t i = 0; i < 3; i++)
		memory_pieces_add(&pieces, &segment[i]);
	assert_int_equal(pieces.split_bytes, 25 * MIB);
	assert_int_equal(pieces.expandable_bytes, 20 * MIB);
	assert_int_equal(pieces.empty_bytes, 20 * MIB);
}

/* What libraries took beside the allocator: in segments without a block, and as much as there is beyond what it says it
 * has. */
TEST(memory_of_libraries_is_not_free)
{
	static const struct {
		uint64_t reserved, outside, empty, gap, before;
	} cases[] = {
		{UINT64_MAX, 0, 84, 64, 0}, /* unknown */
		{132, 0, 84, 64, 0}, {200, 0, 84, 64, 68},
		{68, 64, 20, 20, 0},			/* either of two segments: 20 MiB are free at most */
		{48, 84, 0, 14, 0}, {10, 84, 0, 14, 0}, /* segments with blocks are its own */
	};
	const struct memory_segment segment[] = {
		{.bytes = 40 * MIB, .used_bytes = 20 * MIB, .gap_bytes = 14 * MIB, .blocks = 2},
		{.bytes = 64 * MIB, .gap_bytes = 64 * MIB}, {.bytes = 20 * MIB, .gap_bytes = 20 * MIB},
		{.bytes = 8 * MIB, .used_bytes = 8 * MIB, .blocks = 1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct memory_pieces pieces = {0};

		for (size_t k = 0; k < sizeof(segment) / sizeof(segment[0]); k++)
			memory_pieces_add(&pieces, &segment[k]);
		memory_pieces_end(&pieces, cases[i].reserved == UINT64_MAX ? UINT64_MAX : cases[i].reserved * MIB);
		assert_int_equal(pieces.bytes, 132 * MIB);
		assert_int_equal(pieces.outside_bytes, cases[i].outside * MIB);
		assert_int_equal(pieces.empty_bytes, cases[i].empty * MIB);
		assert_int_equal(pieces.gap_bytes, cases[i].gap * MIB);
		assert_int_equal(pieces.before_bytes, cases[i].before * MIB);
		assert_int_equal(pieces.split_bytes, 20 * MIB);
	}
}

/* Of small blocks few are sampled: most segments seem empty, and are full. */
TEST(no_more_is_free_than_is_reserved_and_not_allocated)
{
	const struct memory_pieces known = {
		.used_bytes = 200, .split_bytes = 60, .expandable_bytes = 30, .empty_bytes = 40, .gap_bytes = 25};
	struct memory_pieces pieces = known;

	memory_pieces_cap(&pieces, 100);
	assert_memory_equal(&pieces, &known, sizeof(known));
	memory_pieces_cap(&pieces, 20);
	assert_int_equal(pieces.split_bytes, 12);
	assert_int_equal(pieces.expandable_bytes, 6);
	assert_int_equal(pieces.empty_bytes, 8);
	assert_int_equal(pieces.gap_bytes, 20);
	/* What is not free is used: the parts add up to the segments. */
	assert_int_equal(pieces.used_bytes, 280);
	memory_pieces_cap(&pieces, 0);
	assert_int_equal(pieces.split_bytes + pieces.empty_bytes + pieces.gap_bytes, 0);
}

static double number(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(*state >> 11) / 9007199254740992.0;
}

struct layout {
	const char *name;
	double filled;	/* part of each segment in use */
	double pieces;	/* of equal size that this is in; 0: one */
	double empty;	/* part of the segments without a block */
	uint64_t apart; /* between segments: none of the allocator's memory */
	bool fragmented;
};

static const struct layout layouts[] = {
	{"full", .filled = 1, .pieces = 4},
	{"full, segments far apart", .filled = 1, .pieces = 4, .apart = 4096 * MIB},
	{"nearly full", .filled = 0.95, .pieces = 6, .apart = 64 * MIB},
	{"half empty, to be given back", .filled = 1, .pieces = 4, .empty = 0.5, .apart = 64 * MIB},
	{"kept blocks in each segment", .filled = 0.5, .pieces = 5, .fragmented = true},
	{"the same, far apart", .filled = 0.5, .pieces = 5, .apart = 4096 * MIB, .fragmented = true},
	{"one small block pins each", .filled = 0.1, .pieces = 1, .apart = 64 * MIB, .fragmented = true},
};

struct laid {
	struct memory_segment segment[SEGMENTS];
	struct rt_memory_block block[BLOCKS];
	size_t blocks;
};

static void lay(const struct layout *layout, uint64_t *random, struct laid *ret)
{
	uint64_t address = 1ULL << 40;

	ret->blocks = 0;
	for (size_t i = 0; i < SEGMENTS; i++) {
		uint64_t bytes = (uint64_t)(20 + 2 * floor(number(random) * 30)) * MIB;
		uint64_t each = (uint64_t)((double)bytes * layout->filled / layout->pieces),
			 every = (uint64_t)((double)bytes / layout->pieces);
		bool empty = number(random) < layout->empty;

		ret->segment[i] = (struct memory_segment){.address = address, .bytes = bytes};
		for (uint64_t k = 0; !empty && k < (uint64_t)layout->pieces; k++)
			ret->block[ret->blocks++] =
				(struct rt_memory_block){.address = address + k * every, .bytes = each};
		address += bytes + layout->apart;
	}
}

/*
 * NeuTracer's score of fragmentation (MDTP): gaps between the blocks' addresses, whatever lies in them. Its index of
 * unusable memory is left out: it needs a request's size. Above 50 is its "high".
 */
static double neutracer(const struct laid *laid)
{
	double gaps = 0, largest = 0, small = 0, mean = 0, square = 0, range, n = (double)laid->blocks, external;

	for (size_t i = 0; i < laid->blocks; i++) {
		double bytes = (double)laid->block[i].bytes;

		mean += bytes / n;
		square += bytes * bytes / n;
		small += laid->block[i].bytes < 4 * MIB;
		if (i == 0)
			continue;
		range = (double)(laid->block[i].address - laid->block[i - 1].address - laid->block[i - 1].bytes);
		gaps += range;
		largest = fmax(largest, range);
	}
	range = (double)(laid->block[laid->blocks - 1].address + laid->block[laid->blocks - 1].bytes -
			 laid->block[0].address);
	external = gaps / range;
	return fmin(2 * external, 1) * 50 +
	       (0.6 * small / n + 0.4 * fmin(sqrt(fmax(square - mean * mean, 0)) / mean, 1)) * 10 +
	       (gaps > 0 ? largest / gaps : 0) * 25;
}

TEST(fragmentation_is_that_of_segments)
{
	static struct laid laid;
	unsigned theirs_wrong = 0;

	printf("%-30s %6s %10s  (said to be fragmented, of %d)\n", "layout", "ours", "NeuTracer", RUNS);
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		unsigned ours = 0, theirs = 0;

		for (uint64_t run = 1; run <= RUNS; run++) {
			struct memory_pieces pieces = {0};
			uint64_t random = run * 7919;

			lay(&layouts[i], &random, &laid);
			theirs += neutracer(&laid) >= 50;
			memory_segments_fill(laid.segment, SEGMENTS, laid.block, laid.blocks);
			for (size_t k = 0; k < SEGMENTS; k++)
				memory_pieces_add(&pieces, &laid.segment[k]);
			ours += memory_waste_remedy(&(struct memory_waste){.reserved = (double)pieces.bytes,
					.allocated = (double)pieces.used_bytes,
					.split = (double)pieces.split_bytes}) == MEMORY_REMEDY_EXPANDABLE;
		}
		printf("%-30s %6u %10u\n", layouts[i].name, ours, theirs);
		assert_int_equal(ours, layouts[i].fragmented ? RUNS : 0);
		theirs_wrong += theirs != (layouts[i].fragmented ? RUNS : 0);
	}
	assert_true(theirs_wrong > 0);
}

TEST(calls_count_as_far_as_memory_comes_back)
{
	static const struct {
		struct memory_calls calls;
		double again_ns;
	} cases[] = {
		{{.take_ns = 5, .take_bytes = 100, .give_ns = 7, .give_bytes = 100}, 12},
		{{.take_ns = 8, .take_bytes = 400, .give_ns = 7, .give_bytes = 100},
			9}, /* a pool that fills, for the most part */
		{{.take_ns = 8, .take_bytes = 100, .give_ns = 7, .give_bytes = 700}, 9},
		{{.take_ns = 5, .take_bytes = 100}, 0},
		{{.give_ns = 5, .give_bytes = 100}, 0},
		{{.take_ns = 5, .give_ns = 5}, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_float_equal(memory_calls_again_ns(&cases[i].calls), cases[i].again_ns, 1e-9);
}

/* Periods of 10 s; what is taken is given back again but for `kept`. */
TEST(calls_hold_a_rank_up_only_if_they_go_on)
{
	static const struct {
		double seconds[5], kept; /* in calls */
		bool stands;		 /* makes no steps */
		const char *found;
	} cases[] = {
		{{2, 2, 2, 0, 2}, 0, false, "..F.."}, /* of the first period the begin is not known */
		{{0, 2, 0, 2, 0}, 0, false, "....."}, /* once in a while */
		{{0.9, 0.9, 0.9, 0.9, 0.9}, 0, false, "....."},
		{{2, 2, 2, 2, 2}, 1, false, "....."}, /* a pool that fills */
		{{2, 2, 2, 2, 2}, 0, true, "....."},  /* as while weights are loaded */
		{{1, 1, 1, 1, 1}, 0, false, "..FFF"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct memory_calls_judge judge = {0};
		char found[6] = "";

		for (uint64_t period = 0; period < 5; period++) {
			double ns = cases[i].seconds[period] * 1e9;
			const struct memory_calls calls = {ns / 2, 100, ns / 2, 100 * (1 - cases[i].kept)};

			found[period] = memory_calls_judge(&judge, (period + 1) * 10000000000ULL,
						cases[i].stands ? 5 : period, &calls, 10)
						? 'F'
						: '.';
			if (found[period] == 'F')
				assert_int_equal(judge.since_ns, 10000000000ULL);
		}
		assert_string_equal(found, cases[i].found);
	}
}

TEST(a_setting_is_named_only_where_it_helps)
{
	static const struct {
		struct memory_waste waste;
		enum memory_remedy remedy;
	} cases[] = {
		{{.reserved = 100, .allocated = 95, .split = 5}, MEMORY_REMEDY_NONE},
		{{.reserved = 100, .allocated = 80, .split = 15}, MEMORY_REMEDY_EXPANDABLE},
		/* Needed at the peak, or it can be given back. */
		{{.reserved = 100, .allocated = 95, .split = 60}, MEMORY_REMEDY_NONE},
		{{.reserved = 100, .allocated = 50, .split = 5}, MEMORY_REMEDY_NONE},
		{{.reserved = 100, .allocated = 95, .split = 5, .calls_share = 0.02}, MEMORY_REMEDY_RETRIES},
		{{.calls_share = 0.005}, MEMORY_REMEDY_NONE},
		/* Most of the segments are from before L2 was on: unless the peak needs what is reserved. */
		{{.reserved = 100, .allocated = 80, .unseen_share = 0.6}, MEMORY_REMEDY_UNKNOWN},
		{{.reserved = 100, .allocated = 95, .unseen_share = 1}, MEMORY_REMEDY_NONE},
		{{.reserved = 100, .allocated = 80, .unseen_share = 0.4}, MEMORY_REMEDY_NONE},
		{{.reserved = 100, .allocated = 80, .split = 15, .unseen_share = 0.6}, MEMORY_REMEDY_EXPANDABLE},
		{{.unseen_share = 1}, MEMORY_REMEDY_NONE}, /* no reports */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum memory_remedy remedy = memory_waste_remedy(&cases[i].waste);

		assert_int_equal(remedy, cases[i].remedy);
		assert_int_equal(!*memory_remedy_text(remedy), remedy == MEMORY_REMEDY_NONE);
	}
}

TEST_MAIN(NULL, NULL)
