/* SPDX-License-Identifier: Apache-2.0 */
/* See memory.h. */
#include "analyzers/memory/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP_PART 6 /* of the points: caches fill, the optimizer makes its state */
#define Z_MIN 4.0      /* one false alarm in 30,000 series of noise */
#define QUARTERS 4
/* Of the whole slope in each quarter, of the first half's in the second: what saturates grows less */
#define PART_SLOPE_MIN 0.7
#define GROWTH_MIN 0.01 /* of what is allocated, within the window: less is none of an operator's concern */
#define SPANS 8		/* of the points, whose means are compared */
/* Variance of the mean of SPANS - 1 differences against independent ones: those of a random walk */
#define SPAN_ERROR2 1.5
#define STUDENT_95 2.447 /* of SPANS - 2 degrees of freedom */
#define PAIRS_MAX (MEMORY_POINTS_MAX * (MEMORY_POINTS_MAX - 1) / 2)
#define NEIGHBOUR_MIN 0.1 /* of the device */
#define LEAKED_MIN 0.1	  /* of what is allocated: then the leak, not the model, filled the device */

static void memory_series_halve(struct memory_series *series)
{
	size_t kept = 0;

	series->bucket_ns *= 2;
	for (size_t i = 0; i < series->points; i++) {
		struct memory_point point = series->point[i];

		point.bucket /= 2;
		if (kept && series->point[kept - 1].bucket == point.bucket) {
			if (point.bytes < series->point[kept - 1].bytes)
				series->point[kept - 1].bytes = point.bytes;
		} else {
			series->point[kept++] = point;
		}
	}
	series->points = kept;
}

static void memory_series_put(struct memory_series *series, uint64_t bucket, double bytes)
{
	struct memory_point *last = series->points ? &series->point[series->points - 1] : NULL;

	if (last && bucket <= last->bucket) {
		if (bytes < last->bytes)
			last->bytes = bytes;
		return;
	}
	series->point[series->points++] = (struct memory_point){bucket, bytes};
}

void memory_series_add(struct memory_series *series, uint64_t time_ns, double low_bytes)
{
	if (!series->bucket_ns)
		series->bucket_ns = MEMORY_BUCKET_NS;
	/* A day of silence is no reason to halve for ever: 64 doublings cover all times. */
	while (series->points && time_ns / series->bucket_ns - series->point[0].bucket >= MEMORY_POINTS_MAX)
		memory_series_halve(series);
	memory_series_put(series, time_ns / series->bucket_ns, low_bytes);
}

static int memory_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Slopes of all pairs, in order; their number. */
static size_t memory_slopes(const struct memory_point *point, size_t count, double *ret)
{
	size_t pairs = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t j = i + 1; j < count; j++)
			ret[pairs++] = (point[j].bytes - point[i].bytes) / (double)(point[j].bucket - point[i].bucket);
	qsort(ret, pairs, sizeof(*ret), memory_compare);
	return pairs;
}

/* Mann and Kendall's z, and the standard deviation of its sum. Ties are few: sizes are bytes. */
static double memory_kendall(const struct memory_point *point, size_t count, double *ret_sigma)
{
	double n = (double)count, sum = 0, ties = 0;

	for (size_t i = 0; i < count; i++) {
		double same = 0;

		for (size_t j = 0; j < count; j++) {
			if (j > i)
				sum += memory_compare(&point[j].bytes, &point[i].bytes);
			same += j != i && point[j].bytes >= point[i].bytes && point[j].bytes <= point[i].bytes;
		}
		/* Each of a group of t equal ones adds (t - 1)(2t + 5). */
		ties += same * (2 * (same + 1) + 5);
	}
	*ret_sigma = sqrt(fmax(n * (n - 1) * (2 * n + 5) - ties, 1) / 18);
	if (fabs(sum) < 1)
		return 0;
	return (sum - copysign(1, sum)) / *ret_sigma;
}

static double memory_slope(const struct memory_point *point, size_t count, double *slopes)
{
	size_t pairs = memory_slopes(point, count, slopes);

	return pairs ? slopes[pairs / 2] : 0;
}

/* 95 %, on each side of the slope, where the errors of points add up: from how much it differs between spans of the
 * time. */
static double memory_slope_reach(const struct memory_point *point, size_t count)
{
	double sum = 0, square = 0, time_before = 0, bytes_before = 0;

	for (size_t i = 0; i < SPANS; i++) {
		size_t from = count * i / SPANS, to = count * (i + 1) / SPANS;
		double time = 0, bytes = 0, slope;

		for (size_t k = from; k < to; k++) {
			time += (double)(point[k].bucket - point[0].bucket) / (double)(to - from);
			bytes += point[k].bytes / (double)(to - from);
		}
		slope = i ? (bytes - bytes_before) / (time - time_before) : 0;
		sum += slope;
		square += slope * slope;
		time_before = time;
		bytes_before = bytes;
	}
	square = fmax(square - sum * sum / (SPANS - 1), 0) / (SPANS - 2);
	return STUDENT_95 * sqrt(square * SPAN_ERROR2 / (SPANS - 1));
}

/* Objects that live long are complete only then. The halves differ most, and have more points than quarters. */
static bool memory_halves_grow(const struct memory_point *point, size_t count, double *slopes)
{
	double first = memory_slope(point, count / 2, slopes);

	return memory_slope(point + count / 2, count - count / 2, slopes) > PART_SLOPE_MIN * first;
}

static bool memory_quarters_grow(const struct memory_point *point, size_t count, double slope, double *slopes)
{
	for (size_t i = 0; i < QUARTERS; i++) {
		size_t from = count * i / QUARTERS, to = count * (i + 1) / QUARTERS;

		if (memory_slope(point + from, to - from, slopes) <= PART_SLOPE_MIN * slope)
			return false;
	}
	return true;
}

static bool memory_is_enough(const struct memory_series *series, size_t from)
{
	size_t count = series->points - from;
	uint64_t buckets = count ? series->point[series->points - 1].bucket - series->point[from].bucket : 0;

	return count >= MEMORY_POINTS_MIN ||
	       (count >= MEMORY_SPARSE_MIN && buckets * series->bucket_ns >= 2 * MEMORY_POINTS_MIN * MEMORY_BUCKET_NS);
}

/* Of the series from the point `from` on. */
static bool memory_trend_from(const struct memory_series *series, size_t from, struct memory_trend *ret)
{
	size_t skipped = from + (series->points - from) / WARM_UP_PART, count = series->points - skipped, pairs, low,
	       high;
	const struct memory_point *point = series->point + skipped;
	double slopes[PAIRS_MAX], sigma, reach, seconds = (double)series->bucket_ns / 1e9, lows[MEMORY_POINTS_MAX];
	double middle;

	*ret = (struct memory_trend){0};
	if (!memory_is_enough(series, from))
		return false;
	ret->z = memory_kendall(point, count, &sigma);
	pairs = memory_slopes(point, count, slopes);
	ret->slope = slopes[pairs / 2];
	reach = MEMORY_NORMAL_95 * sigma;
	low = (double)pairs > reach ? (size_t)(((double)pairs - reach) / 2) : 0;
	high = pairs - 1 - low;
	reach = memory_slope_reach(point, count);
	ret->slope_low = fmin(slopes[low], ret->slope - reach) / seconds;
	ret->slope_high = fmax(slopes[high], ret->slope + reach) / seconds;
	ret->window_s = (double)(point[count - 1].bucket - point[0].bucket) * seconds;
	/* The line goes through the medians. */
	for (size_t i = 0; i < count; i++)
		lows[i] = point[i].bytes - ret->slope * (double)(point[i].bucket - point[0].bucket);
	qsort(lows, count, sizeof(*lows), memory_compare);
	middle = lows[count / 2];
	ret->leaks = ret->z > Z_MIN && ret->slope > 0 && memory_quarters_grow(point, count, ret->slope, slopes) &&
		     memory_halves_grow(point, count, slopes);
	ret->slope /= seconds;
	ret->from_bytes = middle;
	ret->to_bytes = middle + ret->slope * ret->window_s;
	ret->leaks &= ret->to_bytes - ret->from_bytes >= GROWTH_MIN * fabs(middle);
	return true;
}

/* How much the first half varies, after the warm-up. */
static double memory_range(const struct memory_series *series)
{
	double low = INFINITY, high = -INFINITY;

	for (size_t i = series->points / 2 / WARM_UP_PART; i < series->points / 2; i++) {
		low = fmin(low, series->point[i].bytes);
		high = fmax(high, series->point[i].bytes);
	}
	return high - low;
}

bool memory_trend(const struct memory_series *series, struct memory_trend *ret)
{
	struct memory_trend late;
	bool known = memory_trend_from(series, 0, ret);

	/* What saturates grows less than before. */
	if (known && !ret->leaks && memory_trend_from(series, series->points / 2, &late) && late.leaks &&
		late.to_bytes - late.from_bytes > memory_range(series))
		*ret = late;
	return known;
}

void memory_history_add(struct memory_history *history, uint64_t time_ns, double low_bytes)
{
	memory_series_add(&history->all, time_ns, low_bytes);
	for (size_t i = 0; i < 2; i++) {
		struct memory_series *recent = &history->recent[i];
		uint64_t shift_ns = i * MEMORY_RECENT_NS, turn = (time_ns + shift_ns) / (2 * MEMORY_RECENT_NS);

		if (recent->points && turn != (history->last_ns + shift_ns) / (2 * MEMORY_RECENT_NS))
			*recent = (struct memory_series){0};
		memory_series_add(recent, time_ns, low_bytes);
	}
	history->start_ns = history->start_ns ? history->start_ns : time_ns;
	history->last_ns = time_ns;
}

bool memory_history_trend(const struct memory_history *history, struct memory_trend *ret)
{
	size_t older = history->last_ns / MEMORY_RECENT_NS % 2 ? 0 : 1;
	struct memory_trend recent;
	bool known = memory_trend(&history->all, ret);

	/* Within the first hour they are the same. */
	if (known && !ret->leaks && history->last_ns - history->start_ns >= MEMORY_RECENT_NS &&
		memory_trend(&history->recent[older], &recent) && recent.leaks)
		*ret = recent;
	return known;
}

/* Once it has lasted as long again as it took to be seen: half as long takes 20 s less, and what lives for 200 steps is called a
 * leak 15 times as often (docs/benchmarks.md). */
bool memory_history_leaks(struct memory_history *history, uint64_t now_ns, struct memory_trend *ret)
{
	uint64_t seen_ns;

	if (!memory_history_trend(history, ret) || !ret->leaks) {
		history->trend_ns = 0;
		return false;
	}
	if (!history->trend_ns)
		history->trend_ns = now_ns;
	seen_ns = history->trend_ns - history->start_ns;
	return seen_ns >= MEMORY_RECENT_NS || now_ns - history->trend_ns >= seen_ns;
}

static double memory_time(double free_bytes, double slope)
{
	return slope > 0 ? fmax(free_bytes, 0) / slope : INFINITY;
}

struct memory_forecast memory_forecast(const struct memory_trend *trend, double free_bytes)
{
	return (struct memory_forecast){memory_time(free_bytes, trend->slope),
		memory_time(free_bytes, trend->slope_high), memory_time(free_bytes, trend->slope_low)};
}

void memory_card_gauge(
	struct memory_card_gauges *gauges, const char *object, const char *name, int64_t pid, double value)
{
	const char *process = strchr(object, '/');

	if (process) {
		if (strcmp(name, "process_memory") == 0 && strtoll(process + 1, NULL, 10) == pid)
			gauges->own = value;
	} else if (strcmp(name, "memory_total") == 0) {
		gauges->total = value;
	} else if (strcmp(name, "memory_free") == 0) {
		gauges->free = value;
	} else if (strcmp(name, "memory_used") == 0) {
		gauges->used = value;
	}
}

struct memory_card memory_card_of(const struct memory_card_gauges *gauges)
{
	return (struct memory_card){.total = gauges->total,
		.free = gauges->free,
		.others = gauges->own > 0 ? fmax(gauges->used - gauges->own, 0) : NAN};
}

static const struct {
	const char *word, *advice;
} memory_causes[MEMORY_CAUSE_MAX] = {
	[MEMORY_FRAGMENTED] = {"fragmentation",
		"the allocator has enough, but in pieces: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or "
		"max_split_size_mb below the size of what failed"},
	[MEMORY_LEAKED] = {"leak", "what is kept grows from step to step: tracectl memory leaks names the lines"},
	[MEMORY_NEIGHBOUR] = {"neighbour",
		"other processes hold a part of the device: one job a card, or fewer processes"},
	[MEMORY_CAPACITY] = {"capacity",
		"a step needs more than the device has: a smaller batch, activation checkpointing, or sharded states"},
};

enum memory_cause memory_failure_cause(const struct memory_failure *failure)
{
	double pieces = failure->reserved - failure->allocated;

	/*
	 * The allocator has given back whole segments before it reports: what it still has is in split ones. What is
	 * free on the device does not count: the driver has just refused it.
	 */
	if (failure->reserved > 0 && pieces >= failure->asked)
		return MEMORY_FRAGMENTED;
	if (failure->leaked >= fmax(LEAKED_MIN * failure->allocated, 1))
		return MEMORY_LEAKED;
	if (failure->card.total > 0 && failure->card.others >= NEIGHBOUR_MIN * failure->card.total)
		return MEMORY_NEIGHBOUR;
	return MEMORY_CAPACITY;
}

const char *memory_cause_word(enum memory_cause cause)
{
	return memory_causes[cause].word;
}

const char *memory_cause_advice(enum memory_cause cause)
{
	return memory_causes[cause].advice;
}
