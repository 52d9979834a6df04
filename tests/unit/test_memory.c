/* SPDX-License-Identifier: Apache-2.0 */
/* Leaks and failed requests: simulated allocators of many kinds, their recall and false alarms; causes of failures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/memory/held.h"
#include "analyzers/memory/memory.h"
#include "tests/test.h"

#define RUNS 40
#define SECONDS 140 /* a row of memory_curve each */
#define STEPS_A_SECOND 3
#define ONLINE_RUNS 5 /* longer ones, judged all the time, as the daemon does */
#define ONLINE_SECONDS 260
#define ONLINE_EACH 20 /* seconds */
#define MIB 1048576.0
#define BASE (2000 * MIB) /* weights and states of the optimizer */
#define STEP (800 * MIB)  /* activations of a step, whose allocations are 200 blocks */

static double number(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(*state >> 11) / 9007199254740992.0;
}

struct simulated {
	double leaked;	   /* part of a step's 200 blocks of 1 MiB that is never released */
	double fills_s;	   /* a cache that is full after so long; 0: none */
	double cache;	   /* its size */
	double ring;	   /* buffers that are replaced one after another */
	double loads_s;	   /* weights are loaded until then */
	double batch;	   /* activations vary by so much from step to step */
	double held_steps; /* objects that live for up to so many steps */
	double begins_s;   /* the leak does */
};

/* Blocks of a line, as a tracer of all of them counts. */
struct simulated_site {
	double allocs, frees;
};

enum { SITE_STEP, SITE_WEIGHTS, SITE_CACHE, SITE_RING, SITE_HELD, SITES };

/* Lows of a second, of one in `each`: between steps nothing but what is kept is allocated. */
static void simulate(const struct simulated *kind, uint64_t seed, unsigned seconds, unsigned each,
	struct memory_history *history, struct simulated_site ret[SITES], unsigned *ret_first_s)
{
	const double steps = seconds * STEPS_A_SECOND;
	uint64_t random = seed * 7919 + 12345;
	double leaked = 0, held = 0;

	for (unsigned second = 0; second < seconds; second++) {
		double low = INFINITY;

		for (unsigned i = 0; i < STEPS_A_SECOND; i++) {
			double kept = BASE;

			for (unsigned block = 0; block < 200; block++)
				leaked += number(&random) < kind->leaked && second >= kind->begins_s ? MIB : 0;
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
		if (second % each)
			continue;
		memory_history_add(history, (1000 + second) * MEMORY_BUCKET_NS, low);
		if (ret_first_s && !*ret_first_s && (each > 1 || second % ONLINE_EACH == ONLINE_EACH - 1)) {
			struct memory_trend trend;

			*ret_first_s =
				memory_history_leaks(history, (1000 + second) * MEMORY_BUCKET_NS, &trend) ? second : 0;
		}
	}
	ret[SITE_STEP] = (struct simulated_site){200 * steps, 200 * steps - leaked / MIB};
	ret[SITE_WEIGHTS] = (struct simulated_site){kind->loads_s > 0 ? BASE / MIB : 0, 0};
	ret[SITE_CACHE] = (struct simulated_site){kind->cache / MIB, 0};
	ret[SITE_RING] = (struct simulated_site){kind->ring > 0 ? steps : 0, steps - 1};
	ret[SITE_HELD] = (struct simulated_site){kind->held_steps > 0 ? steps : 0, steps - held / MIB};
}

/* NeuTracer's rule, which it calls Laplace's: beyond 0.95, a line leaks. Its bound of growth, 1 %, is always
 * exceeded. */
static bool neutracer(const struct simulated_site site[SITES])
{
	for (size_t i = 0; i < SITES; i++)
		if (site[i].allocs > 0 && 1 - (site[i].frees + 1) / (site[i].allocs - site[i].frees + 2) > 0.95)
			return true;
	return false;
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
	{"1 % leak that begins after 40 s", {.leaked = 0.01, .batch = 1, .begins_s = 40}, 39},
	{"steady", {.batch = 1}, 0},
	{"steady, not a byte changes", {.batch = 0}, 0},
	{"weights are loaded", {.loads_s = 20, .batch = 1}, 0},
	{"a cache that fills", {.fills_s = 60, .cache = 1000 * MIB, .batch = 1}, 0},
	{"a cache that fills slowly", {.fills_s = 140, .cache = 1000 * MIB, .batch = 1}, 0},
	{"ring buffers", {.ring = 300 * MIB}, 0},
	{"batches vary", {.batch = 20}, 0},
	{"objects live for 60 steps", {.held_steps = 60, .batch = 1}, 0},
	/* They are not complete before half of the window: the second half grows less than the first one. */
	{"objects live for 200 steps", {.held_steps = 200, .batch = 1}, 0},
};

TEST(leaks_are_found_and_nothing_else)
{
	unsigned theirs_wrong = 0;

	printf("%-32s %4s %10s  (alarms, of %d) findings of %d, after s\n", "kind", "ours", "NeuTracer", RUNS,
		ONLINE_RUNS);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		unsigned alarms = 0, theirs = 0, findings = 0, sum_s = 0;

		for (uint64_t run = 1; run <= RUNS; run++) {
			struct memory_history history = {.start_ns = 0};
			struct simulated_site site[SITES];
			struct memory_trend trend;

			simulate(&kinds[i].kind, run, SECONDS, 1, &history, site, NULL);
			assert_true(memory_history_trend(&history, &trend));
			alarms += trend.leaks;
			theirs += neutracer(site);
		}
		for (uint64_t run = 1; run <= ONLINE_RUNS; run++) {
			struct memory_history history = {.start_ns = 0};
			struct simulated_site site[SITES];
			unsigned first_s = 0;

			simulate(&kinds[i].kind, run, ONLINE_SECONDS, 1, &history, site, &first_s);
			findings += first_s > 0;
			sum_s += first_s;
		}
		printf("%-32s %4u %10u %31u %.0f\n", kinds[i].name, alarms, theirs, findings,
			findings ? (double)sum_s / findings : 0);
		assert_int_equal(alarms, kinds[i].alarms);
		assert_int_equal(findings, kinds[i].alarms ? ONLINE_RUNS : 0);
		theirs_wrong += theirs != kinds[i].alarms;
	}
	assert_true(theirs_wrong > 0);
}

/* Reports are seen in windows, one in WINDOW_EACH seconds: fewer points, of a longer time. */
#define WINDOW_EACH 12
#define WINDOW_SECONDS 900
#define WINDOW_RUNS 3
#define WINDOW_FOUND_S 400 /* for most kinds; batches that vary and a late begin take longer */

TEST(leaks_are_found_in_windows)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		unsigned findings = 0, sum_s = 0;

		for (uint64_t run = 1; run <= WINDOW_RUNS; run++) {
			struct memory_history history = {.start_ns = 0};
			struct simulated_site site[SITES];
			unsigned first_s = 0;

			simulate(&kinds[i].kind, run, WINDOW_SECONDS, WINDOW_EACH, &history, site, &first_s);
			findings += first_s > 0;
			sum_s += first_s;
			assert_true(!first_s || first_s <= WINDOW_FOUND_S || kinds[i].kind.batch > 1 ||
				    kinds[i].kind.begins_s > 0);
		}
		printf("%-32s %u of %u in windows, after %.0f s\n", kinds[i].name, findings, WINDOW_RUNS,
			findings ? (double)sum_s / findings : 0);
		assert_int_equal(findings, kinds[i].alarms ? WINDOW_RUNS : 0);
	}
}

TEST(a_leak_has_its_size_and_forecast)
{
	const double true_slope = 0.05 * 200 * STEPS_A_SECOND * MIB;
	unsigned inside = 0;

	for (uint64_t run = 1; run <= RUNS; run++) {
		struct memory_history history = {.start_ns = 0};
		struct memory_trend trend;
		struct simulated_site site[SITES];
		struct memory_forecast forecast;

		simulate(&(struct simulated){.leaked = 0.05, .batch = 1}, run, SECONDS, 1, &history, site, NULL);
		assert_true(memory_history_trend(&history, &trend));
		assert_true(fabs(trend.slope - true_slope) < 0.1 * true_slope);
		inside += trend.slope_low <= true_slope && true_slope <= trend.slope_high;
		forecast = memory_forecast(&trend, 10000 * MIB);
		assert_true(fabs(forecast.seconds - 10000 * MIB / true_slope) < 0.2 * forecast.seconds);
		assert_true(forecast.low <= forecast.seconds && forecast.seconds <= forecast.high);
	}
	/* Which block is kept is chance, so that errors add up. */
	printf("the slope is within its interval in %u of %u\n", inside, RUNS);
	assert_true(inside >= RUNS * 9 / 10);
	assert_true(isinf(memory_forecast(&(struct memory_trend){.slope = -1}, 5).seconds));
	assert_true(memory_forecast(&(struct memory_trend){.slope = 1}, -5).seconds <= 0);
}

/* Three hours without, then 1 % of a step's blocks: found within two hours, though it is a small part of the curve. */
TEST(a_leak_that_begins_late_is_found)
{
	const unsigned begin_s = 3 * 3600, end_s = 6 * 3600;

	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct memory_history *history = calloc(1, sizeof(*history));
		uint64_t random = seed * 7919 + 12345;
		double leaked = 0;
		unsigned found_s = 0;

		for (unsigned second = 0; second < end_s && !found_s; second++) {
			uint64_t time_ns = (seed * 1800 + second) * MEMORY_BUCKET_NS;
			struct memory_trend trend;

			leaked += second >= begin_s && number(&random) < 0.01 * 200 * STEPS_A_SECOND / 6 ? 6 * MIB : 0;
			memory_history_add(history, time_ns, BASE + leaked + STEP * 0.02 * number(&random));
			if (second % 60 == 59 && memory_history_leaks(history, time_ns, &trend))
				found_s = second;
		}
		printf("after %d s\n", (int)found_s - (int)begin_s);
		assert_true(found_s > begin_s && found_s <= begin_s + 2 * 3600);
		free(history);
	}
}

TEST(a_series_is_bounded_and_keeps_lows)
{
	struct memory_series series = {0};
	struct memory_trend trend;

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

#define CARD(held) \
	{ \
		.total = 1000, .others = held \
	}

TEST(failures_have_causes)
{
	static const struct {
		struct memory_failure failure;
		enum memory_cause cause;
	} cases[] = {
		/* The allocator has enough in pieces. */
		{{.asked = 100, .allocated = 600, .reserved = 900, .card = CARD(0)}, MEMORY_FRAGMENTED},
		{{.asked = 100, .allocated = 600, .reserved = 700}, MEMORY_FRAGMENTED},
		{{.asked = 101, .allocated = 600, .reserved = 700}, MEMORY_CAPACITY},
		{{.asked = 300, .allocated = 850, .reserved = 900, .card = CARD(NAN)}, MEMORY_CAPACITY},
		{{.asked = 300, .allocated = 850, .reserved = 900, .card = CARD(0), .leaked = 85}, MEMORY_LEAKED},
		{{.asked = 300, .allocated = 850, .reserved = 900, .card = CARD(0), .leaked = 84}, MEMORY_CAPACITY},
		{{.asked = 300, .allocated = 650, .reserved = 700, .card = CARD(100)}, MEMORY_NEIGHBOUR},
		{{.asked = 300, .allocated = 850, .reserved = 900, .card = CARD(99)}, MEMORY_CAPACITY},
		/* An allocator that reports no reserve. */
		{{.asked = 300, .allocated = 850}, MEMORY_CAPACITY},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(
			memory_cause_word(memory_failure_cause(&cases[i].failure)), memory_cause_word(cases[i].cause));
	for (enum memory_cause cause = 0; cause < MEMORY_CAUSE_MAX; cause++)
		assert_true(*memory_cause_advice(cause));
}

TEST(the_gauges_of_a_card_say_what_others_hold)
{
	struct memory_card_gauges gauges = {.total = 0};
	struct memory_card card;

	memory_card_gauge(&gauges, "GPU-1", "memory_total", 4711, 80);
	memory_card_gauge(&gauges, "GPU-1", "memory_used", 4711, 60);
	memory_card_gauge(&gauges, "GPU-1", "memory_free", 4711, 19);
	memory_card_gauge(&gauges, "GPU-1/471 python", "process_memory", 4711, 9);
	memory_card_gauge(&gauges, "GPU-1/4711 python", "processes", 4711, 2);
	card = memory_card_of(&gauges);
	assert_float_equal(card.total, 80, 0);
	assert_float_equal(card.free, 19, 0);
	assert_true(isnan(card.others));
	memory_card_gauge(&gauges, "GPU-1/4711 python", "process_memory", 4711, 50);
	assert_float_equal(memory_card_of(&gauges).others, 10, 0);
	memory_card_gauge(&gauges, "GPU-1/4711 python", "process_memory", 4711, 61);
	assert_float_equal(memory_card_of(&gauges).others, 0, 0);
}

/* Blocks are sampled: lines of a launch-bound training, whose step allocates and releases 530 KB blocks of 24 sizes. */

#define SAMPLED_STEPS_A_SECOND 230
#define SAMPLED_SECONDS 13
#define SAMPLED_RUNS 200
#define SAMPLED_BLOCKS 104	       /* of a step */
#define SAMPLED_SHALLOW 0x7f0000001000 /* stack pointers */
#define SAMPLED_DEEP 0x7f0000000f00

enum sampled_line {
	LINE_STEP, /* what it holds is in use for a step */
	LINE_OWN,  /* keeps blocks in sizes of its own */
	LINE_DEEP, /* keeps blocks in sizes of the step, from another depth of the stack */
	LINE_SAME, /* the same, from the same depth */
	LINES
};

struct sampled {
	struct rt_memory_rank rank;
	struct rt_memory_block block[RT_MEMORY_BLOCKS_MAX];
	struct memory_held held[RT_MEMORY_BLOCKS_MAX];
	double unseen[RT_MEMORY_DEVICES_MAX];
	size_t blocks;
	uint64_t random, stacks;
	double true_bytes[LINES];
};

static void sampled_alloc(struct sampled *run, enum sampled_line line, uint64_t now_ns, uint64_t bytes, bool kept)
{
	uint64_t stack_pointer = line == LINE_DEEP ? SAMPLED_DEEP : SAMPLED_SHALLOW;
	struct rt_memory_class *class = &run->rank.device[0].class[rt_memory_class(bytes)];
	uint32_t random = (uint32_t)(number(&run->random) * 4294967296.0);
	uint64_t mean;
	bool sampled = rt_memory_sample(&run->rank, now_ns, bytes, stack_pointer, random, &mean);

	run->stacks += sampled;
	if (mean > class->mean_max)
		class->mean_max = mean;
	if (!kept)
		return;
	class->live_bytes += (int64_t)bytes;
	run->rank.device[0].allocated += bytes;
	run->true_bytes[line] += (double)bytes;
	if (sampled)
		run->block[run->blocks++] = (struct rt_memory_block){.site = line,
			.bytes = bytes,
			.weight_bytes = rt_memory_weight(bytes, mean),
			.class = rt_memory_class(bytes)};
}

/* The snapshot is in the middle of a step. */
static void sampled_run(struct sampled *run, uint64_t seed)
{
	const uint64_t steps = (uint64_t)SAMPLED_STEPS_A_SECOND * SAMPLED_SECONDS;

	memset(run, 0, sizeof(*run));
	run->rank.shift_min = 20;
	run->rank.share = 1 << RT_MEMORY_COUNT_SHIFT;
	run->random = seed * 104729 + 7;
	for (uint64_t i = 0; i < steps; i++) {
		uint64_t now_ns = 1000 * MEMORY_BUCKET_NS + i * MEMORY_BUCKET_NS / SAMPLED_STEPS_A_SECOND;

		for (uint64_t block = 0; block < SAMPLED_BLOCKS; block++)
			sampled_alloc(run, LINE_STEP, now_ns, 524288 + block % 24 * 512,
				i == steps - 1 && block < SAMPLED_BLOCKS / 2);
		if (i % 10)
			continue;
		sampled_alloc(run, LINE_OWN, now_ns, (50000 + 997 * (i / 10 % 50)) / 128 * 512, true);
		sampled_alloc(run, LINE_DEEP, now_ns, 524288 + i / 10 % 24 * 512, true);
		sampled_alloc(run, LINE_SAME, now_ns, 524288 + i / 10 % 24 * 512, true);
	}
}

struct sampled_sum {
	double bias, error2, stated2; /* means */
	double held;
	unsigned rows, inside; /* inside: of its 95 % interval */
};

static bool held_inside(const struct memory_held *held, double true_bytes)
{
	return held->low <= true_bytes * 1.000001 && true_bytes <= held->high * 1.000001;
}

static void sampled_add(struct sampled_sum *sum, const struct sampled *run, size_t lines, enum sampled_line line)
{
	const struct memory_held *held = memory_held_find(run->held, lines, line);
	double off = (held ? held->bytes : 0) - run->true_bytes[line], error2 = held ? held->error2 : 0;

	sum->rows += held != NULL;
	sum->inside += held && held_inside(held, run->true_bytes[line]);
	sum->held = run->true_bytes[line];
	sum->bias += off / SAMPLED_RUNS;
	sum->error2 += off * off / SAMPLED_RUNS;
	sum->stated2 += error2 / SAMPLED_RUNS;
}

TEST(held_bytes_are_right_within_their_error)
{
	static const char *const names[LINES] = {
		"the step", "sizes of their own", "the step's sizes, deeper", "the step's sizes"};
	struct sampled *run = malloc(sizeof(*run));
	struct sampled_sum sum[LINES] = {0};
	double most = 0;

	assert_non_null(run);
	for (uint64_t seed = 1; seed <= SAMPLED_RUNS; seed++) {
		double held = 0, live = 0;
		size_t lines;

		sampled_run(run, seed);
		lines = memory_held(&run->rank, run->block, run->blocks, run->held, run->unseen);
		for (size_t i = 0; i < LINES; i++) {
			sampled_add(&sum[i], run, lines, i);
			live += run->true_bytes[i];
		}
		for (size_t i = 0; i < lines; i++)
			held += run->held[i].bytes;
		assert_true(held <= live * 1.000001);
		most = fmax(most, (double)run->stacks / SAMPLED_SECONDS);
	}
	printf("%-26s %8s %8s %8s %8s  within the interval\n", "MB", "held", "bias", "error", "stated");
	for (size_t i = 0; i < LINES; i++)
		printf("%-26s %8.1f %8.1f %8.1f %8.1f  %u of %u rows\n", names[i], sum[i].held / 1e6, sum[i].bias / 1e6,
			sqrt(sum[i].error2) / 1e6, sqrt(sum[i].stated2) / 1e6, sum[i].inside, sum[i].rows);
	printf("%.0f stacks a second\n", most);
	for (size_t i = 0; i < LINES; i++)
		assert_true(sum[i].rows >= SAMPLED_RUNS / 4 && sum[i].inside * 10 >= sum[i].rows * 9);
	assert_true(sqrt(sum[LINE_OWN].error2) < 0.12 * sum[LINE_OWN].held);
	assert_true(sqrt(sum[LINE_DEEP].error2) < 0.25 * sum[LINE_DEEP].held);
	assert_true(most < RT_MEMORY_READS_MAX * 10);
	free(run);
}

/* Of calls of the driver so many stacks are read, and blocks have the fewer. Those that fail have their own, and no
 * more than that. */
TEST(stacks_of_calls_are_bounded)
{
	struct rt_memory_rank *rank = calloc(1, sizeof(*rank));
	unsigned read = 0;

	assert_non_null(rank);
	rank->share = 1 << RT_MEMORY_COUNT_SHIFT;
	for (uint64_t now_ns = 0; now_ns < 10 * RT_MEMORY_READS_TURN_NS; now_ns += RT_MEMORY_READS_TURN_NS / 1000)
		read += rt_memory_call(rank, now_ns, 0);
	assert_int_equal(read, 10 * RT_MEMORY_READS_MAX);
	for (unsigned i = 0; i < 1000; i++)
		read += rt_memory_call(rank, 10 * RT_MEMORY_READS_TURN_NS - 1, 1);
	assert_int_equal(read, 11 * RT_MEMORY_READS_MAX);
	assert_int_equal(rank->reads, read);
	free(rank);
}

/* Lines of all sizes share classes, and what is sampled of them goes from one block to thousands. */

#define INTERVAL_LINES 60
#define INTERVAL_RUNS 200
#define INTERVAL_MEAN 20 /* shift of the sampled size */

static const struct {
	unsigned sampled;
	double least, most; /* parts of the rows whose interval has the truth */
} intervals[] = {{1, 0.9, 1}, {4, 0.9, 1}, {16, 0.93, 0.999}, {64, 0.93, 0.99}, {UINT32_MAX, 0.93, 0.98}};

#define INTERVALS (sizeof(intervals) / sizeof(intervals[0]))

/* One line: blocks of a size of its own, or of one that other lines have, too. Some are released again. */
static void interval_line(struct sampled *run, uint64_t line, unsigned *ret_sampled, double *ret_true)
{
	uint64_t bytes = (uint64_t)exp2(9 + 9 * number(&run->random)),
		 count = (uint64_t)exp2(12 * number(&run->random));

	for (uint64_t i = 0; i < count; i++) {
		struct rt_memory_class *class = &run->rank.device[0].class[rt_memory_class(bytes)];
		bool sampled = number(&run->random) < (double)bytes / (1 << INTERVAL_MEAN);

		class->mean_max = 1 << INTERVAL_MEAN;
		if (number(&run->random) < 0.3)
			continue;
		class->live_bytes += (int64_t)bytes;
		run->rank.device[0].allocated += bytes;
		*ret_true += (double)bytes;
		if (!sampled)
			continue;
		++*ret_sampled;
		run->block[run->blocks++] = (struct rt_memory_block){.site = line,
			.bytes = bytes,
			.weight_bytes = rt_memory_weight(bytes, 1 << INTERVAL_MEAN),
			.class = rt_memory_class(bytes)};
	}
}

TEST(intervals_have_the_truth_as_often_as_they_say)
{
	struct sampled *run = malloc(sizeof(*run));
	unsigned rows[INTERVALS] = {0}, inside[INTERVALS] = {0};
	double width[INTERVALS] = {0};

	assert_non_null(run);
	for (uint64_t seed = 1; seed <= INTERVAL_RUNS; seed++) {
		unsigned sampled[INTERVAL_LINES] = {0};
		double true_bytes[INTERVAL_LINES] = {0};
		size_t lines;

		memset(run, 0, sizeof(*run));
		run->random = seed * 15485863 + 3;
		for (uint64_t i = 0; i < INTERVAL_LINES; i++)
			interval_line(run, i, &sampled[i], &true_bytes[i]);
		lines = memory_held(&run->rank, run->block, run->blocks, run->held, run->unseen);
		for (size_t i = 0; i < lines; i++) {
			const struct memory_held *held = &run->held[i];
			size_t at = 0;

			while (sampled[held->site] > intervals[at].sampled)
				at++;
			rows[at]++;
			inside[at] += held_inside(held, true_bytes[held->site]);
			width[at] += (held->high - held->low) / held->bytes;
		}
	}
	printf("%-20s %8s %8s %s\n", "sampled, at most", "rows", "inside", "mean width, % of what is held");
	for (size_t i = 0; i < INTERVALS; i++) {
		double part = (double)inside[i] / rows[i];

		printf("%-20u %8u %7.1f%% %.0f\n", intervals[i].sampled, rows[i], 100 * part, 100 * width[i] / rows[i]);
		assert_true(rows[i] >= 500);
		assert_true(part >= intervals[i].least && part <= intervals[i].most);
	}
	free(run);
}

/* Blocks from before are only seen released; a class without samples, and one whose blocks are all sampled. */
TEST(held_bytes_follow_the_exact_sums)
{
	struct rt_memory_block block[] = {
		{.site = 7, .bytes = 100, .weight_bytes = 400, .class = 6},
		{.site = 5, .bytes = 100, .weight_bytes = 400, .class = 6},
		{.site = 5, .bytes = 300, .weight_bytes = 300, .class = 8},
	};
	struct rt_memory_rank *rank = calloc(1, sizeof(*rank));
	struct rt_memory_class *class = rank->device[0].class;
	struct memory_held held[3];
	double unseen[RT_MEMORY_DEVICES_MAX];

	rank->device[0].allocated = 10000;
	class[6] = (struct rt_memory_class){.live_bytes = 400, .live_min = -200, .mean_max = 400};
	class[8] = (struct rt_memory_class){.live_bytes = 300, .mean_max = 256};
	class[9] = (struct rt_memory_class){.live_bytes = 5000, .mean_max = 1024};
	assert_int_equal(memory_held(rank, block, 3, held, unseen), 2);
	assert_int_equal(held[0].site, 5);
	assert_true(fabs(held[0].bytes - 600) < 1e-9 && fabs(held[0].blocks - 4) < 1e-9);
	assert_true(fabs(held[1].bytes - 300) < 1e-9 && held[1].error2 > 0);
	assert_null(memory_held_find(held, 2, 6));
	/* The 5,000 bytes of the class without samples may be any line's, but not one's of which each block was
	 * sampled. */
	assert_true(fabs(unseen[0] - 5000) < 1e-9);
	memory_held_raise(&held[0], &(struct rt_memory_site){.alloc_count = 5 << RT_MEMORY_COUNT_SHIFT, .sampled = 2},
		rank->device, unseen[0]);
	assert_true(held[0].high >= 5600 && held[0].high <= 10000);
	memory_held_raise(&held[1], &(struct rt_memory_site){.alloc_count = 2 << RT_MEMORY_COUNT_SHIFT, .sampled = 2},
		rank->device, unseen[0]);
	assert_true(held[1].high < 5000);
	/* More than the weights: a part of it is in blocks that nobody has seen. */
	class[6].live_bytes = 1000;
	assert_int_equal(memory_held(rank, block, 3, held, unseen), 2);
	assert_true(held[1].bytes > 400 && held[1].bytes < 600 && held[0].bytes + held[1].bytes < 1500);
	/* Each block was sampled. */
	block[0] = (struct rt_memory_block){.site = 9, .bytes = 300, .weight_bytes = 300, .class = 8};
	assert_int_equal(memory_held(rank, block, 1, held, unseen), 1);
	assert_true(fabs(held[0].bytes - 300) < 1e-9 && held[0].error2 <= 0 && held[0].high <= held[0].low);
	assert_int_equal(memory_held(rank, block, 0, held, unseen), 0);
	for (uint64_t bytes = 1; bytes; bytes *= 2)
		assert_true(rt_memory_class(bytes) < RT_MEMORY_CLASSES &&
			    rt_memory_class(bytes) <= rt_memory_class(bytes * 2 - 1));
	free(rank);
}

/* A leak beside weights, which are older, and blocks of steps and of a ring, which are younger. */
TEST(what_grew_is_of_the_window_and_not_new)
{
	const uint32_t now_ms = 100; /* the clock of blocks has just begun anew */
	struct rt_memory_block block[] = {
		{.site = 3, .weight_bytes = 900, .born_ms = (uint32_t)-50000},
		{.site = 2, .weight_bytes = 40, .born_ms = now_ms - 9000},
		{.site = 4, .weight_bytes = 500, .born_ms = now_ms - 2400},
		{.site = 2, .weight_bytes = 40, .born_ms = now_ms - 3000},
		{.site = 5, .weight_bytes = 70, .born_ms = now_ms - 5000},
		{.site = 6, .weight_bytes = 800, .born_ms = now_ms - 5000, .device = 1},
	};

	assert_int_equal(memory_held_grown(block, 6, 0, now_ms, 10000), 2);
	assert_int_equal(memory_held_grown(block, 6, 1, now_ms, 10000), 6);
	assert_int_equal(memory_held_grown(block, 6, 0, now_ms, 60000), 3);
	assert_int_equal(memory_held_grown(block, 6, 2, now_ms, 10000), 0);
	assert_int_equal(memory_held_grown(block, 0, 0, now_ms, 10000), 0);
}

/* Each block replaces one from before, whose release hides it in the sums; at most what is allocated is held. */
TEST(a_ring_holds_what_was_sampled_of_it)
{
	struct rt_memory_block block[40];
	struct rt_memory_rank *rank = calloc(1, sizeof(*rank));
	struct memory_held held[40];
	double unseen[RT_MEMORY_DEVICES_MAX];

	rank->device[0].allocated = 100000;
	rank->device[0].class[6] = (struct rt_memory_class){.live_bytes = 0, .live_min = -100, .mean_max = 400};
	for (size_t i = 0; i < 40; i++)
		block[i] = (struct rt_memory_block){.site = 7, .bytes = 100, .weight_bytes = 400, .class = 6};
	assert_int_equal(memory_held(rank, block, 40, held, unseen), 1);
	assert_true(fabs(held->bytes - 16000) < 1e-9 && held->low < 15000 && held->high > 17000);
	rank->device[0].allocated = 15000;
	assert_int_equal(memory_held(rank, block, 40, held, unseen), 1);
	assert_true(fabs(held->bytes - 15000) < 1e-9 && held->low < 14000 && held->high <= 15000);
	/* One: it may be all that there is, or nearly all of what is allocated. */
	assert_int_equal(memory_held(rank, block, 1, held, unseen), 1);
	assert_true(held->low >= 100 && held->low < 101 && held->high > 1000);
	free(rank);
}

TEST(errors_have_the_names_of_their_library)
{
	assert_string_equal(memory_error_name("cudaMalloc", 2), "cudaErrorMemoryAllocation");
	assert_string_equal(memory_error_name("cuMemAlloc_v2", 2), "CUDA_ERROR_OUT_OF_MEMORY");
	assert_string_equal(memory_error_name("hipMalloc", 2), "hipErrorOutOfMemory");
	assert_string_equal(memory_error_name("aclrtMalloc", 207001), "ACL_ERROR_RT_MEMORY_ALLOCATION");
	assert_string_equal(memory_error_name("cudaMalloc", 12345), "");
	assert_string_equal(memory_error_name("halMemAlloc", 2), "");
}

TEST_MAIN(NULL, NULL)
