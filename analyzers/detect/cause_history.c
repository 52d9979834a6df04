/* SPDX-License-Identifier: Apache-2.0 */
/* See cause_history.h. */
#include "analyzers/detect/cause_history.h"

#include "analyzers/detect/robust.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SURE_Z 3.0 /* a part counts if it is so many deviations above what it is compared with */

void cause_series_free(struct cause_series *series)
{
	for (size_t k = 0; k < CAUSE_FRAMES; k++)
		free(series->recent[k]);
	*series = (struct cause_series){.ranks = 0};
}

bool cause_series_grow(struct cause_series *series, size_t ranks)
{
	if (ranks <= series->ranks)
		return true;
	for (size_t k = 0; k < CAUSE_FRAMES; k++) {
		float(*recent)[PART_MAX] = realloc(series->recent[k], ranks * sizeof(*recent));

		if (!recent)
			return false;
		series->recent[k] = recent;
		for (size_t i = series->ranks; i < ranks; i++) {
			for (size_t p = 0; p < PART_MAX; p++)
				recent[i][p] = NAN;
		}
	}
	series->ranks = ranks;
	return true;
}

void cause_past_feed(struct cause_past **past, uint64_t step, const float part[PART_MAX])
{
	struct cause_past *to = *past ? *past : (*past = calloc(1, sizeof(*to)));

	if (!to)
		return;
	for (size_t p = 0; p < PART_MAX; p++) {
		if (!isnan(part[p])) {
			to->sum[p] += (double)part[p];
			to->count[p]++;
		}
	}
	if (++to->frames < CAUSE_BLOCK_FRAMES)
		return;
	for (size_t p = 0; p < PART_MAX; p++)
		to->block[to->blocks % CAUSE_BLOCKS][p] = to->count[p] > 0 ? (float)(to->sum[p] / to->count[p]) : NAN;
	to->last_step[to->blocks % CAUSE_BLOCKS] = step;
	to->blocks++;
	to->frames = 0;
	memset(to->sum, 0, sizeof(to->sum));
	memset(to->count, 0, sizeof(to->count));
}

/* The step from which frames count. */
static uint64_t from_step(const struct cause_series *series, uint64_t since_step)
{
	size_t n = 0;

	for (uint64_t k = 0; k < CAUSE_FRAMES && k < series->frames; k++)
		n += series->step[k] >= since_step;
	return n < series->least ? 0 : since_step;
}

double cause_series_middle(const struct cause_series *series, size_t rank, size_t part, uint64_t since_step)
{
	double sum = 0, min = INFINITY, max = -INFINITY;
	size_t n = 0;

	since_step = from_step(series, since_step);
	for (size_t k = 0; k < CAUSE_FRAMES; k++) {
		double value = (double)series->recent[k][rank][part];

		if (isnan(value) || series->step[k] < since_step)
			continue;
		sum += value;
		min = fmin(min, value);
		max = fmax(max, value);
		n++;
	}
	if (n < 4)
		return n > 0 ? sum / (double)n : NAN;
	return (sum - min - max) / (double)(n - 2);
}

void cause_compare(struct cause_compared *ret, size_t part, double *other, size_t n)
{
	double deviation;

	ret->peers[part] = NAN;
	ret->excess[part] = NAN;
	ret->sure[part] = false;
	if (n == 0)
		return;
	ret->peers[part] = robust_median(other, n);
	if (isnan(ret->value[part]))
		return;
	ret->any = true;
	ret->excess[part] = ret->value[part] - ret->peers[part];
	deviation = fmax(robust_spread(other, n, ret->peers[part]), CAUSE_FLOOR * ret->value[PART_STEP]);
	ret->sure[part] = ret->excess[part] > SURE_Z * deviation;
}

size_t cause_past_values(const struct cause_past *past, uint64_t since_step, size_t part, double ret[CAUSE_BLOCKS])
{
	size_t n = 0, blocks = past == NULL ? 0 : past->blocks < CAUSE_BLOCKS ? (size_t)past->blocks : CAUSE_BLOCKS;

	for (size_t b = 0; b < blocks; b++) {
		if (past->last_step[b] < since_step && !isnan(past->block[b][part]))
			ret[n++] = (double)past->block[b][part];
	}
	return n;
}
