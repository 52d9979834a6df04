/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/failslow_reference.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define NORMAL 1.4826 /* a normal distribution's deviation over its median deviation */
#define CLIP 3.0      /* spikes say nothing about persistence */
#define PHI_MAX 0.95

/* The first place whose value is not below. */
static size_t place(const struct failslow_reference *reference, double value)
{
	size_t low = 0, high = reference->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (reference->sorted[middle] < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void failslow_reference_add(struct failslow_reference *reference, double value)
{
	double *sorted = reference->sorted;
	size_t at;

	if (reference->count == FAILSLOW_REFERENCE) {
		at = place(reference, reference->value[reference->next]);
		reference->count--;
		memmove(sorted + at, sorted + at + 1, (reference->count - at) * sizeof(*sorted));
	}
	at = place(reference, value);
	memmove(sorted + at + 1, sorted + at, (reference->count - at) * sizeof(*sorted));
	sorted[at] = value;
	reference->count++;
	reference->value[reference->next] = value;
	reference->next = (reference->next + 1) % FAILSLOW_REFERENCE;
}

/* The median distance from the median: the middle one of two sorted rows, those to its left and those to its right. */
static double deviation(const struct failslow_reference *reference, double median)
{
	size_t left = place(reference, median), right = left;
	double distance = 0;

	for (size_t i = 0; i <= (reference->count - 1) / 2; i++) {
		bool take_left = right == reference->count ||
				 (left > 0 && median - reference->sorted[left - 1] < reference->sorted[right] - median);

		distance = take_left ? median - reference->sorted[--left] : reference->sorted[right++] - median;
	}
	return distance;
}

/* How much of a value is still there in the next: the correlation of neighbours. */
static double persistence(const struct failslow_reference *reference, const struct failslow_past *past)
{
	size_t at = reference->count == FAILSLOW_REFERENCE ? reference->next : 0;
	double before = 0, products = 0, squares = 0, scale = 1 / past->sigma;

	for (size_t i = 0; i < reference->count; i++) {
		double x = (reference->value[at] - past->median) * scale;

		x = x > CLIP ? CLIP : x < -CLIP ? -CLIP : x;
		products += x * before;
		squares += x * x;
		before = x;
		at = at + 1 == FAILSLOW_REFERENCE ? 0 : at + 1;
	}
	return squares > 0 ? fmin(fmax(products / squares, 0), PHI_MAX) : 0;
}

void failslow_reference_read(const struct failslow_reference *reference, double floor, struct failslow_past *ret)
{
	size_t n = reference->count;
	double phi;

	*ret = (struct failslow_past){.sigma = floor, .inflate = 1};
	if (n == 0)
		return;
	ret->median = (reference->sorted[(n - 1) / 2] + reference->sorted[n / 2]) / 2;
	ret->sigma = fmax(floor, NORMAL * deviation(reference, ret->median));
	phi = persistence(reference, ret);
	ret->inflate = sqrt((1 + phi) / (1 - phi));
}

double failslow_median(double *value, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		double x = value[i];
		size_t k = i;

		for (; k > 0 && value[k - 1] > x; k--)
			value[k] = value[k - 1];
		value[k] = x;
	}
	return (value[(n - 1) / 2] + value[n / 2]) / 2;
}
