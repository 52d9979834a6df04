/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/yardstick/systrace_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NSIGMA 4.0
#define SIGMA_MIN 1e-4
#define BUFFER_LEAST 10 /* min_update */
#define BUFFER_MAX 64
#define RUN_LEAST 5
#define BUCKETS_MAX 4096
#define NOISE_EPS 0.1
#define NOISE_SAMPLES 10

const struct systrace_steps systrace_steps_config = {"sysTrace w10 k2 .2", 10, 2, 0.2};
const struct systrace_steps systrace_steps_readme = {"sysTrace w5 k3 .2", 5, 3, 0.2};

const struct systrace_metric systrace_metrics[SYSTRACE_METRICS] = {
	{"AllGather", 3, 0.9, true, 0.4, 0.03, 2, 22, false, 20, 0.1, 0, 0},
	{"AllGather_launch", 3, 0.9, true, 3.0, 0.03, 2, 20, true, 20, 0.1, 5, 0},
	{"ReduceScatter", 5, 0.9, true, 0.4, 0.03, 2, 100, false, 40, 0.1, 5, 50},
	{"BatchSendRecv", 5, 0.9, false, 0, 0, 0, 0, false, 20, 0.1, 0, 0},
	/* sysTrace sets no bucket length, so it has no values; 5 s, in its favour. */
	{"AllReduce", 5, 0.9, false, 0, 0, 0, 0, false, 20, 0.1, 0, 50},
};

static void mean_deviation(const double *value, size_t n, double *ret_mean, double *ret_deviation)
{
	double sum = 0, squares = 0;

	for (size_t i = 0; i < n; i++)
		sum += value[i];
	for (size_t i = 0; i < n; i++)
		squares += (value[i] - sum / (double)n) * (value[i] - sum / (double)n);
	*ret_mean = sum / (double)n;
	*ret_deviation = sqrt(squares / (double)n);
}

size_t systrace_steps(const struct systrace_steps *rule, const double *ms, size_t n, bool *slow)
{
	size_t found = 0;

	memset(slow, 0, n * sizeof(*slow));
	for (size_t i = rule->window; i + 1 < n; i++) {
		double mean, deviation, bound;

		mean_deviation(ms + i - rule->window, rule->window, &mean, &deviation);
		bound = rule->k * deviation;
		slow[i] = ms[i] - mean > bound && (ms[i] - mean) / mean > rule->degree && ms[i + 1] - mean > bound &&
			  (ms[i + 1] - mean) / rule->degree > rule->degree;
		found += slow[i];
	}
	return found;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* numpy's percentile: linear between neighbours. Sorts value. */
static double percentile(double *value, size_t n, double part)
{
	double at = part * (double)(n - 1);
	size_t low = (size_t)at;

	qsort(value, n, sizeof(*value), compare);
	return low + 1 < n ? value[low] + (at - (double)low) * (value[low + 1] - value[low]) : value[n - 1];
}

/* DBSCAN of one dimension: the cluster of each value, -1 noise. Clusters are numbered by their first value in order. */
static void clusters_of_line(const double *value, size_t n, int *cluster)
{
	bool *core = calloc(n, sizeof(*core));

	for (size_t i = 0; core && i < n; i++) {
		size_t near = 0;

		for (size_t j = 0; j < n; j++)
			near += fabs(value[i] - value[j]) <= NOISE_EPS;
		core[i] = near >= NOISE_SAMPLES;
		cluster[i] = core[i] ? (int)i : -1;
	}
	for (bool changed = core != NULL; changed;) {
		changed = false;
		for (size_t i = 0; i < n; i++) {
			for (size_t j = 0; core[i] && j < n; j++) {
				if (fabs(value[i] - value[j]) > NOISE_EPS || cluster[j] == cluster[i] ||
					(!core[j] && cluster[j] >= 0))
					continue;
				if (cluster[j] < 0 || cluster[j] > cluster[i]) {
					cluster[j] = cluster[i];
					changed = true;
				}
			}
		}
	}
	free(core);
}

/* Scaled values outside of the most common cluster are noise, excluded from training. */
static void noise_of(const double *value, size_t n, bool *noise)
{
	double scaled[BUCKETS_MAX], low = INFINITY, high = -INFINITY;
	int cluster[BUCKETS_MAX], best = -1;
	size_t most = 0;

	for (size_t i = 0; i < n; i++) {
		low = fmin(low, value[i]);
		high = fmax(high, value[i]);
	}
	for (size_t i = 0; i < n; i++)
		scaled[i] = high > low ? (value[i] - low) / (high - low) : 0;
	clusters_of_line(scaled, n, cluster);
	for (size_t i = 0; i < n; i++) {
		size_t count = 0;

		for (size_t j = 0; j < n; j++)
			count += cluster[j] == cluster[i];
		if (count > most) {
			most = count;
			best = cluster[i];
		}
	}
	for (size_t i = 0; i < n; i++)
		noise[i] = cluster[i] != best;
}

static double upper_bound(const struct systrace_metric *metric, const double *buffer, size_t n)
{
	double sorted[BUFFER_MAX], mean, deviation, bound, offset;

	memcpy(sorted, buffer, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare);
	if (n >= BUFFER_LEAST)
		mean_deviation(sorted + 1, n - 2, &mean, &deviation);
	else
		mean_deviation(sorted, n, &mean, &deviation);
	bound = mean + NSIGMA * (deviation > 0 ? deviation : SIGMA_MIN);
	offset = metric->bias * bound;
	if (metric->abs_bias > 0)
		offset = fmax(offset, metric->abs_bias);
	return fmax(bound + offset, metric->min_expert_upper);
}

void systrace_time(const struct systrace_metric *metric, const double *value, size_t n, bool *label)
{
	double buffer[BUFFER_MAX];
	bool noise[BUCKETS_MAX];
	size_t had = 0, at = 1;

	memset(label, 0, n * sizeof(*label));
	if (n > BUCKETS_MAX || n == 0)
		return;
	noise_of(value, n, noise);
	for (size_t i = 0; i < n; i++) {
		if (had < BUFFER_LEAST) {
			if (!noise[i])
				buffer[had++] = value[i];
			continue;
		}
		label[i] = value[i] >= upper_bound(metric, buffer, had);
		if (label[i])
			continue;
		if (had < metric->train) {
			buffer[had++] = value[i];
		} else { /* overwriting starts at the second value */
			buffer[at] = value[i];
			at = (at + 1) % metric->train;
		}
	}
}

void systrace_filter(bool *label, size_t n, size_t stride, size_t least)
{
	for (size_t i = 0; i < n;) {
		size_t end = i;

		while (end < n && label[end * stride])
			end++;
		for (size_t k = i; end - i < least && k < end; k++)
			label[k * stride] = false;
		i = end + (end == i);
	}
}

/* One rank's buckets from first_ms, common to all ranks: empty ones are dropped, as in sysTrace. */
static size_t buckets_of(const struct systrace_metric *metric, const struct systrace_op *op, size_t ops,
	double first_ms, double *value, double *durations)
{
	size_t n = 0, begin = 0, from = ops / 5;

	for (size_t i = from; i <= ops; i++) {
		if (i < ops)
			durations[i] = op[i].duration_ms;
		if (i > from &&
			(i == ops || floor((op[i].start_ms - first_ms) / (1000 * metric->during_s)) !=
					     floor((op[i - 1].start_ms - first_ms) / (1000 * metric->during_s)))) {
			if (n < BUCKETS_MAX)
				value[n++] = percentile(durations + begin, i - begin, metric->percentile);
			begin = i;
		} else if (i == from) {
			begin = from;
		}
	}
	return n;
}

/* value[t * ranks + rank], for the number of buckets common to all ranks. */
static double *series_of(const struct systrace_metric *metric, const struct systrace_op *const *op, const size_t *ops,
	size_t ranks, size_t *ret_n)
{
	double first_ms = INFINITY, *value = calloc(BUCKETS_MAX * ranks, sizeof(*value)),
	       *own = calloc(BUCKETS_MAX, sizeof(*own));
	size_t most = 1;

	*ret_n = BUCKETS_MAX;
	for (size_t r = 0; r < ranks; r++) {
		most = ops[r] > most ? ops[r] : most;
		if (ops[r] > 0)
			first_ms = fmin(first_ms, op[r][ops[r] / 5].start_ms);
	}
	double *durations = calloc(most + 1, sizeof(*durations));

	for (size_t r = 0; value && own && durations && r < ranks; r++) {
		size_t n = buckets_of(metric, op[r], ops[r], first_ms, own, durations);

		for (size_t t = 0; t < n; t++)
			value[t * ranks + r] = own[t];
		*ret_n = n < *ret_n ? n : *ret_n;
	}
	free(durations);
	free(own);
	return value;
}

int systrace_slow_ranks(const struct systrace_metric *metric, const struct systrace_op *const *op, const size_t *ops,
	size_t ranks, bool *abnormal)
{
	size_t n;
	double *value = series_of(metric, op, ops, ranks, &n), own[BUCKETS_MAX];
	bool *label = calloc(BUCKETS_MAX * ranks, sizeof(*label)), alone[BUCKETS_MAX];
	int found = 0;

	memset(abnormal, 0, ranks * sizeof(*abnormal));
	if (value && label && n > 0 && !(metric->space && systrace_space(metric, value, n, ranks, label))) {
		for (size_t r = 0; r < ranks; r++) {
			for (size_t t = 0; t < n; t++)
				own[t] = value[t * ranks + r];
			systrace_time(metric, own, n, alone);
			for (size_t t = 0; t < n; t++)
				label[t * ranks + r] = alone[t];
		}
	}
	for (size_t r = 0; value && label && r < ranks; r++) {
		systrace_filter(label + r, n, ranks, RUN_LEAST);
		for (size_t t = 0; t < n; t++)
			abnormal[r] |= label[t * ranks + r];
		found += abnormal[r];
	}
	found = n < BUFFER_LEAST || !value || !label ? -1 : found;
	free(value);
	free(label);
	return found;
}
