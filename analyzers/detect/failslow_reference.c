/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/failslow_reference.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define NORMAL 1.4826 /* a normal distribution's deviation over its median deviation */
#define CLIP 3.0      /* spikes say nothing about persistence */
#define PHI_MAX 0.95

/* The first place whose value is not below; without branches that cannot be foretold. */
static size_t failslow_reference_place(const struct failslow_reference *reference, double value)
{
	const double *sorted = reference->sorted;
	size_t n = reference->count, at = 0;

	while (n > 1) {
		size_t half = n / 2;

		at += sorted[at + half - 1] < value ? half : 0;
		n -= half;
	}
	return at + (n == 1 && sorted[at] < value);
}

void failslow_reference_add(struct failslow_reference *reference, double value)
{
	double *sorted = reference->sorted;
	size_t at = failslow_reference_place(reference, value), old = reference->count;

	if (reference->count == FAILSLOW_REFERENCE)
		old = failslow_reference_place(reference, reference->value[reference->next]);
	else
		reference->count++;
	if (at > old) {
		at--;
		memmove(sorted + old, sorted + old + 1, (at - old) * sizeof(*sorted));
	} else {
		memmove(sorted + at + 1, sorted + at, (old - at) * sizeof(*sorted));
	}
	sorted[at] = value;
	reference->value[reference->next] = value;
	reference->next = (reference->next + 1) % FAILSLOW_REFERENCE;
}

/* The median distance from the median. The nearest `need` values are a stretch of the sorted ones; the middle distance
 * is that of its farther end. */
static double deviation(const struct failslow_reference *reference, double median)
{
	const double *sorted = reference->sorted;
	size_t need = (reference->count - 1) / 2 + 1, low = 0, high = reference->count - need;

	while (low < high) {
		size_t middle = (low + high) / 2;

		/* Further right as long as what would come in on the right is nearer than what leaves on the left. */
		if (sorted[middle + need] - median < median - sorted[middle])
			low = middle + 1;
		else
			high = middle;
	}
	return fmax(median - sorted[low], sorted[low + need - 1] - median);
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

	ret->median = n > 0 ? (reference->sorted[(n - 1) / 2] + reference->sorted[n / 2]) / 2 : 0;
	ret->sigma = n > 0 ? fmax(floor, NORMAL * deviation(reference, ret->median)) : floor;
}

double failslow_reference_inflate(const struct failslow_reference *reference, const struct failslow_past *past)
{
	double phi = persistence(reference, past);

	return sqrt((1 + phi) / (1 - phi));
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
