/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Medians of what is measured. Pure; linear on average. The arrays are reordered. Lower medians throughout: where half
 * of a class is slow (two of four), its other half is what it is measured by.
 */
#ifndef RANKTRACE_BASE_ROBUST_H
#define RANKTRACE_BASE_ROBUST_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROBUST_SIGMA 1.4826 /* standard deviation of a normal distribution by its median absolute deviation */

/* The middle one of three of value[low] to value[high - 1], as good as drawn. */
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

/* Those that are less than the pivot (or equal, too) come first. Returns where they end. Each value changes places with
 * the first one of the others, and that place moves on if it is less: which it is is chance, and nothing here guesses.
 */
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

/* The k-th smallest, from 0; k < n. Pivots are drawn by a generator with a fixed start: no input is slow on purpose.
 * Where one is no number, that may be what is returned. */
static inline double robust_kth(double *value, size_t n, size_t k)
{
	uint64_t draw = 0x9e3779b97f4a7c15ULL;
	size_t low = 0, high = n;

	while (high - low > 1) {
		double pivot = robust_pivot(value, low, high, &draw);
		size_t at = robust_part(value, low, high, pivot, false);

		if (at == low) {
			/* None is less: it comes first, as often as it is there. */
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

/* Median absolute deviation times ROBUST_SIGMA. */
static inline double robust_spread(double *value, size_t n, double median)
{
	for (size_t i = 0; i < n; i++)
		value[i] = fabs(value[i] - median);
	return ROBUST_SIGMA * robust_median(value, n);
}

#endif
