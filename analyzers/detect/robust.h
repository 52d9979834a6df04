/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Medians of what is measured. Pure; linear on average. The arrays are reordered. Lower medians throughout: where half
 * of a class is slow (two of four), its other half is what it is measured by.
 */
#ifndef RANKTRACE_DETECT_ROBUST_H
#define RANKTRACE_DETECT_ROBUST_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define ROBUST_SIGMA 1.4826 /* standard deviation of a normal distribution by its median absolute deviation */

/* The k-th smallest, from 0; k < n. Pivots are drawn by a generator with a fixed start: no input is slow on purpose. */
static inline double robust_kth(double *value, size_t n, size_t k)
{
	uint64_t draw = 0x9e3779b97f4a7c15ULL;
	size_t low = 0, high = n - 1;

	while (low < high) {
		size_t i = low, j = high;
		double pivot;

		draw = draw * 6364136223846793005ULL + 1442695040888963407ULL;
		pivot = value[low + (draw >> 33) % (high - low + 1)];
		for (;;) {
			double swap;

			while (value[i] < pivot)
				i++;
			while (value[j] > pivot)
				j--;
			if (i > j)
				break;
			swap = value[i];
			value[i] = value[j];
			value[j] = swap;
			i++;
			if (j == low)
				break;
			j--;
			if (i > j)
				break;
		}
		if (k <= j && j < i)
			high = j;
		else if (k >= i)
			low = i;
		else
			break;
	}
	return value[k];
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
