/* SPDX-License-Identifier: Apache-2.0 */
/* Reports that are seen in windows: what lines hold of a simulated training, against what they do hold. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/memory/held.h"

#include "tests/test.h"

#define RUNS 40
#define STEP_NS 5000000ULL
#define STEPS 6000 /* 30 s, the first 400 of them seen as a whole */
#define WHOLE_STEPS 400
#define WINDOW_NS 200000000ULL
#define PART 0.15
#define ADDRESSES 16384
#define SIZES 64
#define STEP_BLOCKS 100
#define RING 40
#define CACHE_STEPS 100 /* after so many, the cache is emptied */
#define BURSTS 12	/* lines that allocate once, all at a time: a window sees one or does not */
#define BURST_BLOCKS 5
#define BURST_STEPS ((STEPS - WHOLE_STEPS) / BURSTS)

enum {
	LINE_WEIGHTS,
	LINE_STATES,
	LINE_STEP,
	LINE_LEAK,
	LINE_OTHER_LEAK,
	LINE_SMALL_LEAK,
	LINE_RING,
	LINE_CACHE,
	LINE_BURST,
	LINES = LINE_BURST + BURSTS
};

static const char *const line_names[] = {"weights", "states of the optimizer", "the step", "a leak",
	"a leak in the step's sizes", "a leak of small blocks", "a ring", "a cache", "lines that allocate once"};

struct window_block {
	uint32_t id; /* its address; 0: none */
	uint32_t line;
	uint64_t bytes;
};

/* An allocator that hands out what was released last, as PyTorch's does, and the kernel's side of ours. */
struct window_world {
	uint64_t now_ns, random, allocated;
	bool open;
	struct rt_memory_rank rank;
	struct rt_memory_block followed[ADDRESSES]; /* by address; weight 0: none */
	uint32_t fresh, free[SIZES][ADDRESSES], frees[SIZES];
	double held[LINES];
	uint64_t seen, reports;
	/* The daemon's side. */
	uint64_t open_ns, close_ns, young_ns;
	struct rt_memory_block read[ADDRESSES];
	struct memory_held sum[ADDRESSES];
	double unseen[RT_MEMORY_DEVICES_MAX];
	struct memory_held estimate[LINES]; /* bytes 0: has no row */
};

static double window_number(struct window_world *world)
{
	world->random = world->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(world->random >> 11) / 9007199254740992.0;
}

static uint32_t window_size(uint64_t bytes)
{
	return (uint32_t)(bytes / 65536 % SIZES);
}

static uint64_t window_address(uint32_t id)
{
	return (uint64_t)id << 28;
}

static struct rt_memory_device *window_report(struct window_world *world, uint64_t bytes, int sign)
{
	struct rt_memory_device *device = &world->rank.device[0];
	struct rt_memory_class *class = &device->class[rt_memory_class(bytes)];

	world->allocated += (uint64_t)sign * bytes;
	world->reports++;
	if (!world->open)
		return NULL;
	world->seen++;
	world->rank.open_ns = world->rank.open_ns ? world->rank.open_ns : world->now_ns;
	device->allocated = world->allocated;
	class->live_bytes += sign * (int64_t)bytes;
	class->live_min = class->live_bytes < class->live_min ? class->live_bytes : class->live_min;
	return device;
}

static struct window_block window_alloc(struct window_world *world, uint32_t line, uint64_t bytes)
{
	uint32_t size = window_size(bytes),
		 id = world->frees[size] ? world->free[size][--world->frees[size]] : ++world->fresh;
	struct rt_memory_device *device = window_report(world, bytes, 1);
	uint64_t mean;

	assert_true(id < ADDRESSES);
	world->held[line] += (double)bytes;
	if (!device)
		return (struct window_block){id, line, bytes};
	world->followed[id].weight_bytes = 0;
	if (rt_memory_sample(
		    &world->rank, world->now_ns, bytes, line, (uint32_t)(window_number(world) * 4294967296.0), &mean))
		world->followed[id] = (struct rt_memory_block){.site = line,
			.address = window_address(id),
			.bytes = bytes,
			.weight_bytes = rt_memory_weight(bytes, mean),
			.class = (uint16_t)rt_memory_class(bytes),
			.window = world->rank.window,
			.is_part = world->rank.is_part,
			.born_ms = (uint32_t)(world->now_ns / 1000000)};
	if (mean > device->class[rt_memory_class(bytes)].mean_max)
		device->class[rt_memory_class(bytes)].mean_max = mean;
	return (struct window_block){id, line, bytes};
}

static void window_release(struct window_world *world, struct window_block *block)
{
	uint32_t size = window_size(block->bytes);

	if (!block->id)
		return;
	world->held[block->line] -= (double)block->bytes;
	if (window_report(world, block->bytes, -1))
		world->followed[block->id].weight_bytes = 0;
	world->free[size][world->frees[size]++] = block->id;
	block->id = 0;
}

/* young_ns: 0: the next one begins at once. */
static void window_close(struct window_world *world, uint64_t young_ns)
{
	double share = 1;
	size_t blocks = 0, held;

	if (world->close_ns)
		share = (double)(world->rank.open_ns - world->open_ns) /
			(double)(world->close_ns - world->open_ns - world->young_ns);
	for (size_t i = 0; i < ADDRESSES; i++)
		if (world->followed[i].weight_bytes)
			world->read[blocks++] = world->followed[i];
	memory_held_gap(&world->rank, share, world->read, blocks);
	held = memory_held(&world->rank, world->read, blocks, world->sum, world->unseen);
	for (size_t line = 0; line < LINES; line++) {
		const struct memory_held *of = memory_held_find(world->sum, held, line);

		world->estimate[line] = of ? *of : (struct memory_held){.bytes = 0};
	}
	memory_held_carry(
		&world->rank, (uint32_t)(world->now_ns / 1000000), (uint32_t)(young_ns / 1000000), world->read, blocks);
	for (size_t i = 0; i < blocks; i++)
		world->followed[world->read[i].address >> 28] = world->read[i];
	world->open = false;
	world->open_ns = world->rank.open_ns;
	world->close_ns = world->now_ns;
	world->young_ns = young_ns;
}

static void window_open(struct window_world *world)
{
	world->rank.window++;
	world->rank.is_part = 1;
	world->rank.share = (uint64_t)((1 << RT_MEMORY_COUNT_SHIFT) / PART);
	world->rank.open_ns = 0;
	memset(world->rank.device[0].class, 0, sizeof(world->rank.device[0].class));
	world->open = true;
}

/* A step: activations, which the backward pass releases, with a temporary block each. */
static void window_step(struct window_world *world, unsigned i)
{
	static struct window_block step[STEP_BLOCKS], ring[RING], cache[CACHE_STEPS];

	if (i == 0) {
		memset(ring, 0, sizeof(ring));
		memset(cache, 0, sizeof(cache));
	}
	for (unsigned j = 0; j < STEP_BLOCKS; j++) {
		world->now_ns += STEP_NS / 2 / STEP_BLOCKS;
		step[j] = window_alloc(world, LINE_STEP, (1 + j % 24) * 65536);
	}
	if (i % 10 == 3)
		(void)window_alloc(world, LINE_LEAK, 29 * 65536);
	if (i % 10 == 7)
		(void)window_alloc(world, LINE_OTHER_LEAK, (1 + i / 10 % 24) * 65536);
	if (i % 10 == 5)
		(void)window_alloc(world, LINE_SMALL_LEAK, 4 * 65536);
	window_release(world, &ring[i % RING]);
	ring[i % RING] = window_alloc(world, LINE_RING, 37 * 65536);
	cache[i % CACHE_STEPS] = window_alloc(world, LINE_CACHE, 33 * 65536);
	for (unsigned j = STEP_BLOCKS; j-- > 0;) {
		struct window_block block = window_alloc(world, LINE_STEP, (1 + j % 24) * 65536);

		world->now_ns += STEP_NS / 2 / STEP_BLOCKS;
		window_release(world, &step[j]);
		window_release(world, &block);
	}
	for (unsigned j = 0; i == 0 && j < 400; j++, world->now_ns += 1000000)
		(void)window_alloc(world, LINE_STATES, 2 << 20);
	for (unsigned j = 0; i >= WHOLE_STEPS && i % BURST_STEPS == 0 && j < BURST_BLOCKS; j++)
		(void)window_alloc(world, LINE_BURST + i / BURST_STEPS % BURSTS, 2 << 20);
	for (unsigned j = 0; i % CACHE_STEPS == CACHE_STEPS - 1 && j < CACHE_STEPS; j++)
		window_release(world, &cache[j]);
}

static void window_run(struct window_world *world, uint64_t seed)
{
	uint64_t next_ns = 0;

	memset(world, 0, sizeof(*world));
	world->random = seed * 104729 + 7;
	world->now_ns = 1000000000000ULL;
	world->rank.shift_min = 20;
	world->rank.share = 1 << RT_MEMORY_COUNT_SHIFT;
	world->rank.window = 1;
	world->open = true;
	for (unsigned i = 0; i < 200; i++, world->now_ns += 5000000)
		(void)window_alloc(world, LINE_WEIGHTS, 4 << 20);
	for (unsigned i = 0; i < STEPS; i++) {
		window_step(world, i);
		if (i < WHOLE_STEPS || world->now_ns < next_ns)
			continue;
		if (world->open) {
			window_close(world, i == WHOLE_STEPS ? 0 : WINDOW_NS / MEMORY_YOUNG_PART);
			next_ns = world->now_ns + (uint64_t)(WINDOW_NS * (1 / PART - 1) * (0.5 + window_number(world)));
		}
		/* The first of them follows the time that was seen as a whole. */
		if (i == WHOLE_STEPS || world->now_ns >= next_ns) {
			window_open(world);
			next_ns = world->now_ns + WINDOW_NS;
		}
	}
	if (world->open)
		window_close(world, 0);
}

struct window_sum {
	double bias, error2, held; /* means */
	unsigned rows, inside;	   /* inside: of its 95 % interval */
};

static void window_add(struct window_sum *sum, const struct memory_held *of, double held)
{
	double off = of->bytes - held;

	sum->bias += off;
	sum->error2 += off * off;
	sum->held += held;
	if (!(of->bytes > 0))
		return;
	sum->rows++;
	sum->inside += of->low <= held + 1 && held <= of->high + 1;
}

TEST(lines_are_estimated_from_windows)
{
	struct window_world *world = calloc(1, sizeof(*world));
	struct window_sum sum[LINE_BURST + 1] = {0};
	double seen = 0;

	assert_non_null(world);
	for (uint64_t seed = 1; seed <= RUNS; seed++) {
		double all = 0;

		window_run(world, seed);
		seen += (double)world->seen / (double)world->reports / RUNS;
		for (size_t i = 0; i < LINES; i++) {
			all += world->estimate[i].bytes;
			window_add(&sum[i < LINE_BURST ? i : LINE_BURST], &world->estimate[i], world->held[i]);
		}
		assert_true(all <= (double)world->rank.device[0].allocated * 1.000001);
	}
	printf("%.0f %% of the reports were seen\n%-28s %8s %8s %8s  within the interval\n", 100 * seen, "MB", "held",
		"bias", "error");
	for (size_t i = 0; i <= LINE_BURST; i++) {
		double runs = i < LINE_BURST ? RUNS : RUNS * BURSTS;

		sum[i].held /= runs;
		sum[i].bias /= runs;
		sum[i].error2 /= runs;
		printf("%-28s %8.1f %8.1f %8.1f  %u of %u rows\n", line_names[i], sum[i].held / 1e6, sum[i].bias / 1e6,
			sqrt(sum[i].error2) / 1e6, sum[i].inside, sum[i].rows);
	}
	assert_true(seen < 0.25);
	/* Allocated before there were windows: as exact as before. */
	assert_true(sqrt(sum[LINE_WEIGHTS].error2) < 0.001 * sum[LINE_WEIGHTS].held);
	assert_true(sqrt(sum[LINE_STATES].error2) < 0.15 * sum[LINE_STATES].held);
	assert_true(sqrt(sum[LINE_LEAK].error2) < 0.2 * sum[LINE_LEAK].held);
	assert_true(sqrt(sum[LINE_OTHER_LEAK].error2) < 0.3 * sum[LINE_OTHER_LEAK].held);
	/* Of most windows none of them is sampled: those of others stand for them. */
	assert_true(fabs(sum[LINE_SMALL_LEAK].bias) < 0.15 * sum[LINE_SMALL_LEAK].held);
	/* Its blocks are released between windows, which is seen late. */
	assert_true(sum[LINE_CACHE].bias < 0.25 * sum[LINE_LEAK].held);
	for (size_t i = 0; i <= LINE_BURST; i++)
		assert_true(i == LINE_CACHE || sum[i].inside * 100 >= sum[i].rows * 93);
	free(world);
}

/* A program starts for a minute, and the level has been on for an hour: neither is a step's. */
TEST(length_of_steps_does_not_count_what_was_before_the_first_one)
{
	uint64_t now_ns = 3600 * NSEC_PER_SEC;
	struct memory_pace pace = {0};

	assert_int_equal(memory_pace_step_ns(&pace, 0, 0, now_ns), 0);
	now_ns += 60 * NSEC_PER_SEC;
	assert_int_equal(memory_pace_step_ns(&pace, 0, 0, now_ns), 0);
	assert_int_equal(memory_pace_step_ns(&pace, 1, now_ns, now_ns + 50), 0);
	assert_int_equal(memory_pace_step_ns(&pace, 201, now_ns + NSEC_PER_SEC, now_ns + NSEC_PER_SEC), STEP_NS);
	/* One that has not ended is at least as long as until now. */
	assert_int_equal(
		memory_pace_step_ns(&pace, 201, now_ns + NSEC_PER_SEC, now_ns + 4 * NSEC_PER_SEC), 3 * NSEC_PER_SEC);
	/* A rank that is counted anew. */
	assert_int_equal(memory_pace_step_ns(&pace, 0, 0, now_ns + 5 * NSEC_PER_SEC), 4 * NSEC_PER_SEC);
	assert_int_equal(memory_pace_step_ns(&pace, 3, now_ns + 6 * NSEC_PER_SEC, now_ns + 6 * NSEC_PER_SEC), 0);
}

TEST(a_window_is_of_some_steps)
{
	assert_int_equal(memory_window_ns(0), NSEC_PER_SEC);
	assert_int_equal(memory_window_ns(STEP_NS), WINDOW_NS);
	assert_int_equal(memory_window_ns(300000000), 1200000000);
	assert_int_equal(memory_window_ns(UINT64_MAX), 60 * NSEC_PER_SEC);
}

TEST_MAIN(NULL, NULL)
