/* SPDX-License-Identifier: Apache-2.0 */
/* Durations over time in bounded memory, see report.h. */
#include "analyzers/report/report.h"
#include "analyzers/base/array.h"

#include <math.h>
#include <stdlib.h>

#define BIN_RATIO 1.01
#define LEAST_NS 1000.0

struct series {
	uint64_t since_ns, until_ns;
	uint32_t count[SERIES_BUCKETS][SERIES_BINS];
	double sum_ns[SERIES_BINS]; /* of a bin, for its mean */
	uint64_t all[SERIES_BINS];
};

struct series *plot_series_new(uint64_t since_ns, uint64_t until_ns)
{
	struct series *series = until_ns > since_ns ? calloc(1, sizeof(*series)) : NULL;

	if (series) {
		series->since_ns = since_ns;
		series->until_ns = until_ns;
	}
	return series;
}

struct series *plot_series_free(struct series *series)
{
	free(series);
	return NULL;
}

int plot_series_bucket(const struct series *series, uint64_t time_ns)
{
	if (time_ns < series->since_ns || time_ns >= series->until_ns)
		return -1;
	return (int)((double)(time_ns - series->since_ns) / (double)(series->until_ns - series->since_ns) *
		       SERIES_BUCKETS) %
	       SERIES_BUCKETS;
}

static size_t bin_of(uint64_t value_ns)
{
	double bin = (double)value_ns > LEAST_NS ? log((double)value_ns / LEAST_NS) / log(BIN_RATIO) : 0;

	return bin < SERIES_BINS - 1 ? (size_t)bin : SERIES_BINS - 1;
}

static double report_series_value_of(const struct series *series, size_t bin)
{
	return series->sum_ns[bin] / (double)series->all[bin];
}

void plot_series_add(struct series *series, uint64_t time_ns, uint64_t value_ns)
{
	int bucket = plot_series_bucket(series, time_ns);
	size_t bin = bin_of(value_ns);

	if (bucket < 0 || series->count[bucket][bin] == UINT32_MAX)
		return;
	series->count[bucket][bin]++;
	series->sum_ns[bin] += (double)value_ns;
	series->all[bin]++;
}

uint64_t plot_series_count(const struct series *series, size_t bucket)
{
	uint64_t count = 0;

	for (size_t bin = 0; bin < SERIES_BINS; bin++)
		count += series->count[bucket][bin];
	return count;
}

/* Over buckets first to last. */
static double series_quantile(const struct series *series, size_t first, size_t last, double q)
{
	uint64_t count = 0, below = 0;

	for (size_t bucket = first; bucket <= last; bucket++)
		count += plot_series_count(series, bucket);
	for (size_t bin = 0; count && bin < SERIES_BINS; bin++) {
		for (size_t bucket = first; bucket <= last; bucket++)
			below += series->count[bucket][bin];
		if ((double)below > q * (double)(count - 1))
			return report_series_value_of(series, bin);
	}
	return NAN;
}

double plot_series_quantile(const struct series *series, size_t bucket, double q)
{
	return series_quantile(series, bucket, bucket, q);
}

double plot_series_quantile_all(const struct series *series, double q)
{
	return series_quantile(series, 0, SERIES_BUCKETS - 1, q);
}

double values_quantile(double *value, size_t n, double q)
{
	double at;
	size_t low;

	if (!n)
		return NAN;
	qsort(value, n, sizeof(*value), compare_double);
	at = q * (double)(n - 1);
	low = (size_t)at;
	return low + 1 < n ? value[low] + (at - (double)low) * (value[low + 1] - value[low]) : value[n - 1];
}
