/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Robust statistics. Pure; linear on average; arrays are reordered. Medians are lower medians: if half of a class is
 * slow (two of four), the other half is the reference.
 */
#ifndef RANKTRACE_BASE_ROBUST_H
#define RANKTRACE_BASE_ROBUST_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROBUST_SIGMA 1.4826 /* ratio of a normal distribution's standard deviation to its median absolute deviation */

/* Median of three pseudo-random values of value[low] to value[high - 1]. */
static inline double robust_pivot(const double *value, size_t low, size_t high, uint64_t *draw)
{
	double a, b, c, less, more;

	*draw = *draw * 6364136223846793005ULL + 1442695040888963407ULL;
	a = value[low + (*draw >> 32) % (high - low)];
	b = value[low + (*draw >> 12 & UINT32_MAX) % (high - low)];
	c = value[low + (high - low) / 2];
	less = a < b ? a : b;
	more = a < b ? b : a;
	return c < less ? less : c > more ? more : c;
}

/* Partitions: values less than the pivot (or equal, too) first. Returns their end. Branch-free, as the comparison is
 * unpredictable. */
static inline size_t robust_part(double *value, size_t low, size_t high, double pivot, bool equal)
{
	size_t at = low;

	for (size_t i = low; i < high; i++) {
		double swap = value[i];

		value[i] = value[at];
		value[at] = swap;
		at += equal ? swap <= pivot : swap < pivot;
	}
	return at;
}

/* The k-th smallest, from 0; k < n. Pivots are pseudo-random, against crafted input. With NaNs, it may return one. */
static inline double robust_kth(double *value, size_t n, size_t k)
{
	uint64_t draw = 0x9e3779b97f4a7c15ULL;
	size_t low = 0, high = n;

	while (high - low > 1) {
		double pivot = robust_pivot(value, low, high, &draw);
		size_t at = robust_part(value, low, high, pivot, false);

		if (at == low) {
			/* The pivot is the smallest. */
			at = robust_part(value, low, high, pivot, true);
			if (k < at || at == low)
				return pivot;
		}
		if (k < at)
			high = at;
		else
			low = at;
	}
	return value[low];
}

static inline double robust_median(double *value, size_t n)
{
	return n ? robust_kth(value, n, (n - 1) / 2) : 0;
}

/* Of all values but one, the median (the lower one) is one of two; 0 where there is no other. */
struct robust_middle {
	double low, high;
};

static inline struct robust_middle robust_middle_of(double *value, size_t n)
{
	struct robust_middle ret = {0, 0};

	if (n < 2)
		return ret;
	ret.low = robust_kth(value, n, (n - 2) / 2);
	ret.high = robust_kth(value, n, (n - 2) / 2 + 1);
	return ret;
}

static inline double robust_others(struct robust_middle of, double value)
{
	return value <= of.low ? of.high : of.low;
}

/* Median absolute deviation times ROBUST_SIGMA. */
static inline double robust_spread(double *value, size_t n, double median)
{
	for (size_t i = 0; i < n; i++)
		value[i] = fabs(value[i] - median);
	return ROBUST_SIGMA * robust_median(value, n);
}

#endif
