/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gauges/gauges_internal.h"

#include <math.h>

struct series {
	const struct gauge *gauge;
	unsigned group;
	char object[GAUGE_OBJECT_BYTES];
	uint64_t seen_ns;  /* of the last sample; 0: none yet */
	double counter;	   /* of a rate, the last sample as read */
	uint64_t start_ns; /* of the open row */
	uint64_t samples;  /* in it; 0: no row is open */
	double sum, least, most;
	double newest;	/* NAN: none, as of a rate that begins */
	uint64_t round; /* of the batch that had it */
};

struct gauge_series_set {
	struct gauge_sink sink;
	unsigned rows_per_second;
	double rows_left; /* that may be written now */
	uint64_t time_ns; /* of the last batch */
	uint64_t round, rows, left_out;
	size_t count, capacity, max;
	size_t next; /* batches repeat: where the next sample's series is */
	struct series *series;
};

struct gauge_series_set *gauge_series_set_new(unsigned rows_per_second, size_t max, const struct gauge_sink *sink)
{
	struct gauge_series_set *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->sink = *sink;
	set->rows_per_second = rows_per_second;
	set->rows_left = (double)rows_per_second * GAUGE_BURST_S;
	set->max = max;
	return set;
}

static void gauge_series_end_row(struct gauge_series_set *set, struct series *series)
{
	if (!series->samples)
		return;
	set->sink.row(set->sink.arg, &(struct gauge_row){
					     .gauge = series->gauge,
					     .object = series->object,
					     .start_ns = series->start_ns,
					     .duration_ns = series->seen_ns - series->start_ns,
					     .value = series->sum / (double)series->samples,
					     .least = series->least,
					     .most = series->most,
				     });
	series->samples = 0;
	set->rows++;
	set->rows_left--;
}

void gauge_series_set_end(struct gauge_series_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		gauge_series_end_row(set, &set->series[i]);
	set->count = 0;
	set->next = 0;
}

struct gauge_series_set *gauge_series_set_free(struct gauge_series_set *set)
{
	if (!set)
		return NULL;
	gauge_series_set_end(set);
	free(set->series);
	free(set);
	return NULL;
}

static bool gauge_series_is(const struct series *series, const struct gauge_read *read)
{
	return series->gauge == read->gauge && streq(series->object, read->object);
}

static struct series *gauge_series_add(struct gauge_series_set *set, const struct gauge_read *read)
{
	struct series *series;

	if (!array_reserve((void **)&set->series, &set->capacity, set->count + 1, sizeof(*series), set->max))
		return NULL;
	series = &set->series[set->count++];
	*series = (struct series){.gauge = read->gauge, .group = read->group, .newest = NAN};
	(void)copy_text(series->object, sizeof(series->object), read->object);
	return series;
}

static struct series *gauge_series_of(struct gauge_series_set *set, const struct gauge_read *read)
{
	for (size_t n = 0; n < set->count; n++) {
		size_t i = (set->next + n) % set->count;

		if (!gauge_series_is(&set->series[i], read))
			continue;
		set->next = i + 1;
		return &set->series[i];
	}
	return gauge_series_add(set, read);
}

/* The increase a second; false: the first sample, or the counter began again. */
static bool gauge_series_rate(struct series *series, uint64_t time_ns, double counter, double *ret)
{
	double before = series->counter;
	bool known = series->seen_ns && time_ns > series->seen_ns && counter >= before;

	series->counter = counter;
	if (known)
		*ret = (counter - before) * 1e9 / (double)(time_ns - series->seen_ns);
	return known;
}

/* Does a new row begin with this sample? */
static bool gauge_series_is_over(
	const struct gauge_series_set *set, const struct series *series, uint64_t time_ns, double value)
{
	double mean = series->sum / (double)series->samples;
	uint64_t covered_ns = time_ns - series->start_ns;

	/* Changes beyond the rows of a second lengthen rows; 1: one row is left. */
	if (set->rows_left < 1)
		return false;
	return fabs(value - mean) > series->gauge->step || covered_ns > GAUGE_STEADY_NS ||
	       (covered_ns > GAUGE_ROW_NS &&
		       (series->least < series->most || value < series->least || value > series->most));
}

static void gauge_series_feed(struct gauge_series_set *set, struct series *series, uint64_t time_ns, double value)
{
	uint64_t before_ns = series->seen_ns;

	if (gauge_is_rate(series->gauge) && !gauge_series_rate(series, time_ns, value, &value)) {
		gauge_series_end_row(set, series);
		series->seen_ns = time_ns;
		series->newest = NAN;
		return;
	}
	if (set->sink.sample)
		set->sink.sample(set->sink.arg, time_ns, series->gauge, series->object, value);
	if (series->samples && gauge_series_is_over(set, series, time_ns, value))
		gauge_series_end_row(set, series);
	if (!series->samples) {
		series->start_ns = before_ns ? before_ns : time_ns;
		series->sum = 0;
		series->least = series->most = value;
	}
	series->samples++;
	series->newest = value;
	series->sum += value;
	series->least = fmin(series->least, value);
	series->most = fmax(series->most, value);
	series->seen_ns = time_ns;
}

/* The order is kept: the next batch has most of them in it. What was not read, as its group is not due, remains. */
static void gauge_series_set_forget(struct gauge_series_set *set, unsigned groups)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->count; i++) {
		if (set->series[i].round == set->round || !(groups >> set->series[i].group & 1)) {
			if (kept < i)
				set->series[kept] = set->series[i];
			kept++;
		} else {
			gauge_series_end_row(set, &set->series[i]);
		}
	}
	set->count = kept;
}

void gauge_series_set_feed(struct gauge_series_set *set, const struct gauge_batch *batch)
{
	double rows_max = (double)set->rows_per_second * GAUGE_BURST_S;
	double passed_s = set->time_ns ? (double)(batch->time_ns - set->time_ns) / 1e9 : 0;

	set->rows_left = fmin(rows_max, set->rows_left + passed_s * set->rows_per_second);
	set->time_ns = batch->time_ns;
	set->left_out += batch->left_out;
	set->round++;
	set->next = 0;
	for (size_t i = 0; i < batch->count; i++) {
		struct series *series = gauge_series_of(set, &batch->read[i]);

		if (!series) {
			set->left_out++;
			continue;
		}
		series->round = set->round;
		gauge_series_feed(set, series, batch->time_ns, batch->read[i].value);
	}
	if (set->count > batch->count)
		gauge_series_set_forget(set, batch->groups);
}

void gauge_series_set_each(
	const struct gauge_series_set *set, const struct gauge_source *source, gauges_newest newest, void *arg)
{
	for (size_t i = 0; i < set->count; i++)
		if (!isnan(set->series[i].newest))
			newest(arg, source, set->series[i].gauge, set->series[i].object, set->series[i].newest);
}

size_t gauge_series_set_count(const struct gauge_series_set *set)
{
	return set->count;
}

uint64_t gauge_series_set_rows(const struct gauge_series_set *set)
{
	return set->rows;
}

uint64_t gauge_series_set_left_out(const struct gauge_series_set *set)
{
	return set->left_out;
}
