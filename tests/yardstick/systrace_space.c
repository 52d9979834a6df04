/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of ranks: DBSCAN on the rows of their distance matrix. */
#include "tests/yardstick/systrace_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_LEAST 4
#define NOISE (-1)

struct block {
	const double *value; /* scaled */
	size_t window, ranks;
	double *distance; /* ranks x ranks */
	int *cluster;
};

static void distances(const struct block *block)
{
	for (size_t i = 0; i < block->ranks; i++) {
		for (size_t j = 0; j < block->ranks; j++) {
			double squares = 0;

			for (size_t t = 0; t < block->window; t++) {
				double d = block->value[t * block->ranks + i] - block->value[t * block->ranks + j];

				squares += d * d;
			}
			block->distance[i * block->ranks + j] =
				round(sqrt(squares) / (double)block->window * 1e6) / 1e6;
		}
	}
}

static bool near(const struct block *block, size_t i, size_t j, double eps)
{
	double squares = 0;

	for (size_t k = 0; k < block->ranks; k++) {
		double d = block->distance[i * block->ranks + k] - block->distance[j * block->ranks + k];

		squares += d * d;
	}
	return squares <= eps * eps;
}

static size_t neighbours(const struct block *block, size_t i, double eps)
{
	size_t n = 0;

	for (size_t j = 0; j < block->ranks; j++)
		n += near(block, i, j, eps);
	return n;
}

/* Clusters are numbered by their first core rank; a rank on the border of two is in the first. */
static void cluster(const struct block *block, const struct systrace_metric *metric)
{
	size_t *stack = calloc(block->ranks, sizeof(*stack));
	int clusters = 0;

	for (size_t i = 0; i < block->ranks; i++)
		block->cluster[i] = NOISE;
	for (size_t i = 0; stack && i < block->ranks; i++) {
		size_t depth = 0;

		if (block->cluster[i] != NOISE || neighbours(block, i, metric->eps) < metric->min_samples)
			continue;
		block->cluster[i] = clusters;
		stack[depth++] = i;
		while (depth > 0) {
			size_t from = stack[--depth];

			if (neighbours(block, from, metric->eps) < metric->min_samples)
				continue;
			for (size_t j = 0; j < block->ranks; j++) {
				if (block->cluster[j] != NOISE || !near(block, from, j, metric->eps))
					continue;
				block->cluster[j] = clusters;
				stack[depth++] = j;
			}
		}
		clusters++;
	}
	free(stack);
}

/* The largest cluster; of equal ones that of the first rank; noise only if there is no cluster. */
static int majority(const struct block *block)
{
	int best = NOISE;
	size_t most = 0;

	for (size_t i = 0; i < block->ranks; i++) {
		size_t n = 0;

		if (block->cluster[i] == NOISE)
			continue;
		for (size_t j = 0; j < block->ranks; j++)
			n += block->cluster[j] == block->cluster[i];
		if (n > most) {
			most = n;
			best = block->cluster[i];
		}
	}
	return best;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Half of the range of the block over its median. */
static double spread(const struct block *block)
{
	size_t n = block->window * block->ranks;
	double *sorted = malloc(n * sizeof(*sorted)), median, result = 0;

	if (!sorted)
		return 0;
	memcpy(sorted, block->value, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare);
	median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
	if (median != 0)
		result = (sorted[n - 1] - sorted[0]) / (2 * fabs(median));
	free(sorted);
	return result;
}

static double *scale(const struct systrace_metric *metric, const double *value, size_t n)
{
	double *copy = malloc(n * sizeof(*copy)), high = -INFINITY, factor = 1;

	if (!copy)
		return NULL;
	for (size_t i = 0; i < n; i++)
		high = fmax(high, value[i]);
	if (metric->scaling && high > 0 && (high > 100 || high < 1))
		factor = pow(10, ceil(log10(high / 100)));
	for (size_t i = 0; i < n; i++)
		copy[i] = value[i] / factor;
	return copy;
}

static void judge(const struct block *block, const struct systrace_metric *metric, bool *label)
{
	int normal;

	distances(block);
	cluster(block, metric);
	normal = majority(block);
	for (size_t t = 0; t < block->window; t++) {
		for (size_t r = 0; r < block->ranks; r++)
			label[t * block->ranks + r] = block->cluster[r] != normal && spread(block) > metric->cv;
	}
}

bool systrace_space(const struct systrace_metric *metric, const double *value, size_t n, size_t ranks, bool *label)
{
	struct block block = {.window = metric->window, .ranks = ranks};
	double *scaled;
	bool can;

	if (ranks < RANKS_LEAST || n < metric->window || metric->window == 0)
		return false;
	scaled = scale(metric, value, n * ranks);
	block.distance = calloc(ranks * ranks, sizeof(*block.distance));
	block.cluster = calloc(ranks, sizeof(*block.cluster));
	can = scaled && block.distance && block.cluster;
	/* From the end; the oldest window begins at 0 and may overlap the next one. */
	for (size_t end = n; can && end > 0; end = end > metric->window ? end - metric->window : 0) {
		size_t begin = end > metric->window ? end - metric->window : 0;

		block.value = scaled + begin * ranks;
		judge(&block, metric, label + begin * ranks);
	}
	free(scaled);
	free(block.distance);
	free(block.cluster);
	return can;
}
