/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths over time in bounded room: a histogram with bins of 1 % for each of a fixed number of buckets of time. Takes
 * any number of values; a quantile is the mean of all values of its bin.
 */
#ifndef RANKTRACE_REPORT_SERIES_H
#define RANKTRACE_REPORT_SERIES_H

#include <stddef.h>
#include <stdint.h>

#define SERIES_BUCKETS 240
#define SERIES_BINS 2500 /* of 1 %, from 1 us: to 17 h */

struct series;

/* NULL: out of memory. */
struct series *plot_series_new(uint64_t since_ns, uint64_t until_ns);
struct series *plot_series_free(struct series *series);
/* Values out of the time are left out. */
void plot_series_add(struct series *series, uint64_t time_ns, uint64_t value_ns);
/* q of 0 to 1 of a bucket, NaN where it is empty. */
double plot_series_quantile(const struct series *series, size_t bucket, double q);
/* Of all buckets together. */
double plot_series_quantile_all(const struct series *series, double q);
uint64_t plot_series_count(const struct series *series, size_t bucket);
/* -1: before or after. */
int plot_series_bucket(const struct series *series, uint64_t time_ns);

/* q of 0 to 1 of n values, sorted in place; NaN of none. */
double values_quantile(double *value, size_t n, double q);

#endif
