/* SPDX-License-Identifier: Apache-2.0 */
/* Leaks and failed requests: simulated allocators of many kinds, their recall and false alarms; causes of failures. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/memory/memory.h"
#include "bpf/memory.h"

#define RUNS 40
#define SECONDS 140	/* a row of memory_curve each */
#define STEPS_A_SECOND 3
#define MIB 1048576.0
#define BASE (2000 * MIB) /* weights and states of the optimizer */
#define STEP (800 * MIB)  /* activations of a step, whose allocations are 200 blocks */

static double number(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(*state >> 11) / 9007199254740992.0;
}

struct simulated {
	double leaked;	 /* part of a step's 200 blocks of 1 MiB that is never released */
	double fills_s;	 /* a cache that is full after so long; 0: none */
	double cache;	 /* its size */
	double ring;	 /* buffers that are replaced one after another */
	double loads_s;	 /* weights are loaded until then */
	double batch;	 /* activations vary by so much from step to step */
	double held_steps;   /* objects that live for up to so many steps */
};

/* Lows of a second: between steps nothing but what is kept is allocated. */
static void simulate(const struct simulated *kind, uint64_t seed, struct memory_series *series)
{
	uint64_t random = seed * 7919 + 12345;
	double leaked = 0, held = 0;

	for (unsigned second = 0; second < SECONDS; second++) {
		double low = INFINITY;

		for (unsigned i = 0; i < STEPS_A_SECOND; i++) {
			double kept = BASE;

			for (unsigned block = 0; block < 200; block++)
				leaked += number(&random) < kind->leaked ? MIB : 0;
			if (kind->loads_s > 0 && second < kind->loads_s)
				kept *= second / kind->loads_s;
			if (kind->fills_s > 0)
				kept += kind->cache * (1 - exp(-4.0 * second / kind->fills_s));
			if (kind->held_steps > 0)
				held += (number(&random) - held / kind->held_steps / MIB) * MIB;
			kept += kind->ring * number(&random);
			/* A part of the activations outlives the low. */
			kept += STEP * 0.02 * kind->batch * number(&random);
			if (kept + leaked + held < low)
				low = kept + leaked + held;
		}
		memory_series_add(series, (1000 + second) * MEMORY_BUCKET_NS, low);
	}
}

static const struct {
	const char *name;
	struct simulated kind;
	unsigned alarms; /* of RUNS */
} kinds[] = {
	{"100 % leak", {.leaked = 1, .batch = 1}, 40},
	{"20 % leak", {.leaked = 0.2, .batch = 1}, 40},
	{"5 % leak", {.leaked = 0.05, .batch = 1}, 40},
	{"1 % leak", {.leaked = 0.01, .batch = 1}, 40},
	{"1 % leak, batches vary 5-fold", {.leaked = 0.01, .batch = 5}, 40},
	{"1 % leak beside a cache", {.leaked = 0.01, .fills_s = 40, .cache = 500 * MIB}, 40},
	{"steady", {.batch = 1}, 0},
	{"steady, not a byte changes", {.batch = 0}, 0},
	{"weights are loaded", {.loads_s = 20, .batch = 1}, 0},
	{"a cache that fills", {.fills_s = 60, .cache = 1000 * MIB, .batch = 1}, 0},
	{"a cache that fills slowly", {.fills_s = 140, .cache = 1000 * MIB, .batch = 1}, 0},
	{"ring buffers", {.ring = 300 * MIB}, 0},
	{"batches vary", {.batch = 20}, 0},
	{"objects live for 60 steps", {.held_steps = 60, .batch = 1}, 0},
	/* They are not complete before half of the window: from the sum alone, a part of them is a leak until later. */
	{"objects live for 200 steps", {.held_steps = 200, .batch = 1}, 5},
};

static void leaks_are_found_and_nothing_else(void **state)
{
	(void)state;
	printf("%-32s %s\n", "kind", "alarms of 40");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		unsigned alarms = 0;

		for (uint64_t run = 1; run <= RUNS; run++) {
			struct memory_series series = {0};
			struct memory_trend trend;

			simulate(&kinds[i].kind, run, &series);
			assert_true(memory_trend(&series, &trend));
			alarms += trend.leaks;
		}
		printf("%-32s %u\n", kinds[i].name, alarms);
		assert_int_equal(alarms, kinds[i].alarms);
	}
}

static void a_leak_has_its_size_and_forecast(void **state)
{
	const double true_slope = 0.05 * 200 * STEPS_A_SECOND * MIB;
	unsigned inside = 0;

	(void)state;
	for (uint64_t run = 1; run <= RUNS; run++) {
		struct memory_series series = {0};
		struct memory_trend trend;
		struct memory_forecast forecast;

		simulate(&(struct simulated){.leaked = 0.05, .batch = 1}, run, &series);
		assert_true(memory_trend(&series, &trend));
		assert_true(fabs(trend.slope - true_slope) < 0.1 * true_slope);
		inside += trend.slope_low <= true_slope && true_slope <= trend.slope_high;
		forecast = memory_forecast(&trend, 10000 * MIB);
		assert_true(fabs(forecast.seconds - 10000 * MIB / true_slope) < 0.2 * forecast.seconds);
		assert_true(forecast.low <= forecast.seconds && forecast.seconds <= forecast.high);
	}
	/* Errors of a random walk add up: the interval of independent points is too narrow for it, and said to be of the line. */
	assert_true(inside > 0);
	assert_true(isinf(memory_forecast(&(struct memory_trend){.slope = -1}, 5).seconds));
	assert_true(memory_forecast(&(struct memory_trend){.slope = 1}, -5).seconds <= 0);
}

static void a_series_is_bounded_and_keeps_lows(void **state)
{
	struct memory_series series = {0};
	struct memory_trend trend;

	(void)state;
	assert_false(memory_trend(&series, &trend));
	for (uint64_t i = 0; i < 100000; i++)
		memory_series_add(&series, i * MEMORY_BUCKET_NS, i % 10 == 3 ? 5 : 1000);
	assert_true(series.points <= MEMORY_POINTS_MAX && series.points >= MEMORY_POINTS_MAX / 4);
	for (size_t i = 0; i < series.points; i++)
		assert_true(series.point[i].bytes <= 5);
	/* The end of time, and a time before the last. */
	memory_series_add(&series, UINT64_MAX, 7);
	memory_series_add(&series, 0, 3);
	assert_true(series.points <= MEMORY_POINTS_MAX);
	/* A row after a long silence. */
	series = (struct memory_series){0};
	memory_series_add(&series, 1, 1);
	memory_series_add(&series, UINT64_MAX / 2, 2);
	assert_true(series.points <= 2);
}

static void failures_have_causes(void **state)
{
	static const struct {
		struct memory_failure failure;
		enum memory_cause cause;
	} cases[] = {
		/* The allocator has enough in pieces. */
		{{.asked = 100, .allocated = 600, .reserved = 900, .device = 1000}, MEMORY_FRAGMENTED},
		{{.asked = 100, .allocated = 600, .reserved = 700}, MEMORY_FRAGMENTED},
		{{.asked = 101, .allocated = 600, .reserved = 700}, MEMORY_CAPACITY},
		{{.asked = 300, .allocated = 850, .reserved = 900, .device = 1000}, MEMORY_CAPACITY},
		{{.asked = 300, .allocated = 850, .reserved = 900, .device = 1000, .leaked = 85}, MEMORY_LEAKED},
		{{.asked = 300, .allocated = 850, .reserved = 900, .device = 1000, .leaked = 84}, MEMORY_CAPACITY},
		{{.asked = 300, .allocated = 650, .reserved = 700, .device = 1000, .others = 200}, MEMORY_NEIGHBOUR},
		{{.asked = 300, .allocated = 850, .reserved = 900, .device = 1000, .others = 99}, MEMORY_CAPACITY},
		/* An allocator that reports no reserve. */
		{{.asked = 300, .allocated = 850}, MEMORY_CAPACITY},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(
			memory_cause_word(memory_failure_cause(&cases[i].failure)), memory_cause_word(cases[i].cause));
	for (enum memory_cause cause = 0; cause < MEMORY_CAUSE_MAX; cause++)
		assert_true(*memory_cause_advice(cause));
}

/* Blocks are sampled: lines of a launch-bound training, whose step allocates and releases 530 KB blocks of 24 sizes. */

#define SAMPLED_STEPS_A_SECOND 230
#define SAMPLED_SECONDS 13
#define SAMPLED_RUNS 200
#define SAMPLED_KIB 1024.0

struct line {
	double held, estimate, variance, last, blocks; /* what is true; estimates; sampled blocks */
};

static void sampled_alloc(struct rt_memory_rank *rank, uint64_t *random, uint64_t now_ns, uint64_t bytes, bool kept, struct line *line)
{
	struct rt_memory_block block = {.bytes = bytes};
	uint64_t mean = rt_memory_sample(rank, now_ns, bytes, (uint32_t)(number(random) * 4294967296.0));

	line->held += kept ? (double)bytes : 0;
	if (!mean)
		return;
	rt_memory_weigh(&block, mean);
	line->blocks++;
	if (!kept)
		return;
	line->estimate += (double)block.weight_bytes;
	line->last = (double)block.variance * SAMPLED_KIB * SAMPLED_KIB;
	line->variance += line->last;
}

/* keep: sizes of its own; same: kept blocks of a size that the step uses, too; step: all released. */
static void sampled_run(uint64_t seed, struct line *keep, struct line *same, struct line *step)
{
	struct rt_memory_rank *rank = calloc(1, sizeof(*rank));
	uint64_t random = seed * 104729 + 7;

	assert_non_null(rank);
	rank->shift_min = 20;
	*keep = *same = *step = (struct line){0};
	for (uint64_t i = 0; i < (uint64_t)SAMPLED_STEPS_A_SECOND * SAMPLED_SECONDS; i++) {
		uint64_t now_ns = 1000 * MEMORY_BUCKET_NS + i * MEMORY_BUCKET_NS / SAMPLED_STEPS_A_SECOND;

		for (uint64_t block = 0; block < 104; block++)
			sampled_alloc(rank, &random, now_ns, 524288 + block % 24 * 512, false, step);
		if (i % 10)
			continue;
		sampled_alloc(rank, &random, now_ns, (50000 + 997 * (i / 10 % 50)) / 128 * 512, true, keep);
		sampled_alloc(rank, &random, now_ns, 524288 + i / 10 % 24 * 512, true, same);
	}
	free(rank);
}

struct sampled_sum {
	double bias, error2, stated2, held; /* means */
	unsigned inside;		    /* of two stated errors */
};

static void sampled_add(struct sampled_sum *sum, const struct line *line)
{
	double off = line->estimate - line->held;

	sum->held = line->held;
	sum->bias += off / SAMPLED_RUNS;
	sum->error2 += off * off / SAMPLED_RUNS;
	sum->stated2 += line->variance / SAMPLED_RUNS;
	/* As stated in memory_live: with one block more than was sampled. */
	sum->inside += fabs(off) <= 2 * sqrt(line->variance + (line->estimate > 0 ? line->last : 0));
}

static void held_bytes_are_right_within_their_error(void **state)
{
	struct sampled_sum keep = {0}, same = {0};
	double most = 0;

	(void)state;
	for (uint64_t run = 1; run <= SAMPLED_RUNS; run++) {
		struct line keep_line, same_line, step_line;

		sampled_run(run, &keep_line, &same_line, &step_line);
		sampled_add(&keep, &keep_line);
		sampled_add(&same, &same_line);
		most = fmax(most, (keep_line.blocks + same_line.blocks + step_line.blocks) / SAMPLED_SECONDS);
	}
	printf("held %.0f MB in sizes of their own: error %.1f MB, stated %.1f, within two of it in %u runs of %d\n", keep.held / 1e6,
		sqrt(keep.error2) / 1e6, sqrt(keep.stated2) / 1e6, keep.inside, SAMPLED_RUNS);
	printf("held %.0f MB in sizes of the step: error %.1f MB, stated %.1f, within two of it in %u runs; %.0f stacks a second\n",
		same.held / 1e6, sqrt(same.error2) / 1e6, sqrt(same.stated2) / 1e6, same.inside, most);
	assert_true(fabs(keep.bias) < 0.03 * keep.held && fabs(same.bias) < 0.15 * same.held);
	assert_true(fabs(sqrt(keep.error2 / keep.stated2) - 1) < 0.15 && fabs(sqrt(same.error2 / same.stated2) - 1) < 0.15);
	assert_true(keep.inside >= SAMPLED_RUNS * 9 / 10 && same.inside >= SAMPLED_RUNS * 4 / 5);
	/* Whatever the step does, what has sizes of its own is followed. */
	assert_true(sqrt(keep.error2) < 0.12 * keep.held);
	assert_true(most < RT_MEMORY_READS_MAX * 10);
}

static void errors_have_the_names_of_their_library(void **state)
{
	(void)state;
	assert_string_equal(memory_error_name("cudaMalloc", 2), "cudaErrorMemoryAllocation");
	assert_string_equal(memory_error_name("cuMemAlloc_v2", 2), "CUDA_ERROR_OUT_OF_MEMORY");
	assert_string_equal(memory_error_name("hipMalloc", 2), "hipErrorOutOfMemory");
	assert_string_equal(memory_error_name("aclrtMalloc", 207001), "ACL_ERROR_RT_MEMORY_ALLOCATION");
	assert_string_equal(memory_error_name("cudaMalloc", 12345), "");
	assert_string_equal(memory_error_name("halMemAlloc", 2), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(held_bytes_are_right_within_their_error),
		cmocka_unit_test(leaks_are_found_and_nothing_else),
		cmocka_unit_test(a_leak_has_its_size_and_forecast),
		cmocka_unit_test(a_series_is_bounded_and_keeps_lows),
		cmocka_unit_test(failures_have_causes),
		cmocka_unit_test(errors_have_the_names_of_their_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
