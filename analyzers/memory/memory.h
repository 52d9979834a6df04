/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of devices: does it leak, when will it run out, why did it run out, which error is it. Pure.
 *
 * A series keeps the lows of what is allocated: the least value of each of at most MEMORY_POINTS_MAX buckets of time,
 * whose length doubles when they are used up. A step's sawtooth has its low where nothing but what is kept is
 * allocated, so that the lows of steps compare.
 */
#ifndef RANKTRACE_MEMORY_MEMORY_H
#define RANKTRACE_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_POINTS_MAX 120u
#define MEMORY_POINTS_MIN 32u /* fewer are no trend: four quarters of six points, and the warm-up */
#define MEMORY_SPARSE_MIN 16u /* enough where they cover twice that time: windows 12 s apart have 32 only after 6 min */
#define MEMORY_NORMAL_95 1.96 /* standard deviations: 95 % of a normal distribution */
#define MEMORY_BUCKET_NS 1000000000ULL /* the first length; memory_curve has a row a second */

struct memory_point {
	uint64_t bucket; /* time divided by the length of a bucket */
	double bytes;
};

struct memory_series {
	uint64_t bucket_ns; /* 0: MEMORY_BUCKET_NS */
	size_t points;
	struct memory_point point[MEMORY_POINTS_MAX + 1];
};

/* Times ascend. */
void memory_series_add(struct memory_series *series, uint64_t time_ns, double low_bytes);

struct memory_trend {
	bool leaks;
	double z;			     /* Mann and Kendall's */
	double slope, slope_low, slope_high; /* bytes a second: Theil and Sen's, with a 95 % interval */
	double from_bytes, to_bytes;	     /* at the window's ends, on the line */
	double window_s;
};

/* False: too few points. The trend of all of it, or where that is none, of its second half: it began late, and
 * grows by more than the first half varies. */
bool memory_trend(const struct memory_series *series, struct memory_trend *ret);

/*
 * A device's curve: all of it, and its last one to two hours, so that a leak that begins after a day is seen soon.
 * What lives for long has a trend as well until as much is released as is allocated: a trend counts as a leak once it has held for as
 * long again as the curve was when it was first seen, or where the curve was an hour then.
 */
#define MEMORY_RECENT_NS 3600000000000ULL

struct memory_history {
	struct memory_series all, recent[2]; /* recent: begun anew every two hours, in turns */
	uint64_t start_ns, last_ns;
	uint64_t trend_ns; /* when its trend was first seen; 0: it has none */
};

/* Times ascend. */
void memory_history_add(struct memory_history *history, uint64_t time_ns, double low_bytes);
/* False: too few points. The trend of all of it, or where that is none, of its last hours. */
bool memory_history_trend(const struct memory_history *history, struct memory_trend *ret);
/* To be called again and again; true once the trend is a leak. */
bool memory_history_leaks(struct memory_history *history, uint64_t now_ns, struct memory_trend *ret);

/* Time until `free_bytes` more are allocated; low and high of the interval. INFINITY: never. */
struct memory_forecast {
	double seconds, low, high;
};

struct memory_forecast memory_forecast(const struct memory_trend *trend, double free_bytes);

/* The gauges of a card and of the processes on it (docs/gauges.md), as far as they are about memory; 0: not known. */
struct memory_card_gauges {
	double total, free, used, own;
};

/* object: the card, or "CARD/PID NAME". own is that of pid. */
void memory_card_gauge(
	struct memory_card_gauges *gauges, const char *object, const char *name, int64_t pid, double value);

/* A card at a time. */
struct memory_card {
	double total, free; /* total 0: nothing is known */
	double others;	    /* held by other processes; NAN: not known */
};

struct memory_card memory_card_of(const struct memory_card_gauges *gauges);

/* Why a request failed. */
enum memory_cause { MEMORY_FRAGMENTED, MEMORY_LEAKED, MEMORY_NEIGHBOUR, MEMORY_CAPACITY, MEMORY_CAUSE_MAX };

struct memory_failure {
	double asked, allocated, reserved;
	double leaked; /* growth of the lows by a leak; 0: none */
	struct memory_card card;
};

enum memory_cause memory_failure_cause(const struct memory_failure *failure);
const char *memory_cause_word(enum memory_cause cause);
/* What would have helped. */
const char *memory_cause_advice(enum memory_cause cause);

/* Name of what a function of a runtime or driver returned, as its header has it; "": unknown. */
const char *memory_error_name(const char *function, int64_t result);

#endif
