/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The past that steps are compared with: median, spread and persistence of the last FAILSLOW_REFERENCE values. Pure.
 * The values are kept sorted, so that one more costs a search and a move, and the median and the median deviation a
 * short walk.
 */
#ifndef RANKTRACE_DETECT_FAILSLOW_REFERENCE_H
#define RANKTRACE_DETECT_FAILSLOW_REFERENCE_H

#include <stddef.h>

#define FAILSLOW_REFERENCE 200

struct failslow_reference {
	size_t count, next;		  /* how many; where in value the next one goes */
	double value[FAILSLOW_REFERENCE]; /* in the order of their coming, a ring */
	double sorted[FAILSLOW_REFERENCE];
};

struct failslow_past {
	double median;
	double sigma; /* 1.4826 times the median deviation, at least the floor that was asked for */
};

/* value: finite. */
void failslow_reference_add(struct failslow_reference *reference, double value);
/* Of an empty one: 0 and the floor. */
void failslow_reference_read(const struct failslow_reference *reference, double floor, struct failslow_past *ret);
/* By what a mean of many varies more than if they were independent: sqrt((1 + phi) / (1 - phi)). Walks all values. */
double failslow_reference_inflate(const struct failslow_reference *reference, const struct failslow_past *past);
/* Median of n values, which are put in order. n > 0; small n. */
double failslow_median(double *value, size_t n);

#endif
