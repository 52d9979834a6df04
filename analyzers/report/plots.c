/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plot holds a sum and a count for each bucket and peer. Peers are ranks of the job, every stride-th one beyond
 * PEERS_MAX. The finding's own rank has the last slot.
 */
#include "analyzers/report/plots.h"
#include "analyzers/report/judge.h"
#include "analyzers/report/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
static double quantile(const struct series *series, size_t first, size_t last, double q)
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
	return quantile(series, bucket, bucket, q);
}

double plot_series_quantile_all(const struct series *series, double q)
{
	return quantile(series, 0, SERIES_BUCKETS - 1, q);
}

static int report_series_by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

double values_quantile(double *value, size_t n, double q)
{
	double at;
	size_t low;

	if (!n)
		return NAN;
	qsort(value, n, sizeof(*value), report_series_by_value);
	at = q * (double)(n - 1);
	low = (size_t)at;
	return low + 1 < n ? value[low] + (at - (double)low) * (value[low + 1] - value[low]) : value[n - 1];
}

#define PEERS_MAX 1024
#define STORES_READ 8 /* for stages and operations */
#define PAD 4	      /* margin on both sides: this part of the length */
#define PAD_NS_MIN 120000000000ULL

enum source { SOURCE_NONE, SOURCE_STAGE, SOURCE_STEP, SOURCE_HOST, SOURCE_OPERATION, SOURCE_PROGRESS };

struct cell {
	float sum;
	uint32_t count;
};

struct gather {
	struct report_finding *finding;
	enum source source;
	enum plot_host host;
	const char *what, *unit;
	uint64_t since_ns, until_ns;
	int32_t stride;
	size_t merge;	 /* gathered buckets a plotted one, so that none is empty */
	uint8_t *stores; /* bit a store: read for stages or operations */
	struct cell *cell;
	uint32_t rows[PEERS_MAX + 1], steps[PEERS_MAX + 1]; /* occurrences of the stage and of steps */
};

struct plots {
	struct report *report;
	size_t count;
	struct gather gather[REPORT_PLOTS_MAX];
};

/* Source of each evidence's plot, by preference. */
static const struct row {
	const char *evidence, *what;
	enum source source;
	enum plot_host host;
	const char *unit;
} rows[] = {
	{"dataloader", "dataloader", SOURCE_STAGE, 0, "ns a step"},
	{"checkpoint", "checkpoint", SOURCE_STAGE, 0, "ns each"},
	{"gc", "gc", SOURCE_STAGE, 0, "ns each"},
	{"run_delay", "run_delay", SOURCE_HOST, PLOT_RUN_DELAY, "ns a second"},
	{"throttled", "throttled", SOURCE_HOST, PLOT_THROTTLED, "ns a second"},
	{"major_faults", "major_faults", SOURCE_HOST, PLOT_FAULTS, "a second"},
	{"forward", "forward", SOURCE_STAGE, 0, "ns a step"},
	{"backward", "backward", SOURCE_STAGE, 0, "ns a step"},
	{"optimizer", "optimizer", SOURCE_STAGE, 0, "ns a step"},
	{"transfer", "transfer", SOURCE_OPERATION, 0, "ns an operation"},
	{"step_time", "step_time", SOURCE_STEP, 0, "ns a step"},
	{"compute", "forward", SOURCE_STAGE, 0, "ns a step"},
	{"self_time", "forward", SOURCE_STAGE, 0, "ns a step"},
};
static const struct row progress = {"", "steps finished", SOURCE_PROGRESS, 0, "steps"};

static const struct finding_evidence *report_plots_evidence_of(const struct finding *f, const char *name)
{
	for (size_t i = 0; i < f->evidences; i++)
		if (strcmp(f->evidence[i].name, name) == 0)
			return &f->evidence[i];
	return NULL;
}

static const struct row *report_plots_row_of(const struct finding *f)
{
	if (f->kind == FINDING_HANG || f->kind == FINDING_MISMATCH)
		return &progress;
	/* Prefer evidence of the cause. */
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(rows[i].evidence, judge_evidence_of(f->cause)) == 0 && report_plots_evidence_of(f, rows[i].evidence))
			return &rows[i];
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (report_plots_evidence_of(f, rows[i].evidence))
			return &rows[i];
	return NULL;
}

static void choose_stores(const struct report *report, struct gather *gather)
{
	const struct report_finding *finding = gather->finding;
	size_t last = report->stores, held = 0, step, at = 0;

	for (size_t i = 0; i < report->ranks; i++)
		if (report->rank[i].job == finding->job) {
			held += report->rank[i].store != last;
			last = report->rank[i].store;
			if (report->rank[i].card == finding->card)
				gather->stores[last / 8] |= (uint8_t)(1U << last % 8);
		}
	step = held / STORES_READ + 1;
	last = report->stores;
	for (size_t i = 0; i < report->ranks; i++)
		if (report->rank[i].job == finding->job && report->rank[i].store != last) {
			last = report->rank[i].store;
			if (at++ % step == 0)
				gather->stores[last / 8] |= (uint8_t)(1U << last % 8);
		}
}

static int report_plots_begin(struct plots *plots, struct report_finding *finding, const struct row *row)
{
	const struct report *report = plots->report;
	struct gather *gather = &plots->gather[plots->count];
	uint64_t end_ns = finding->is.until_ns ? finding->is.until_ns : report->now_ns, pad;

	*gather = (struct gather){
		.finding = finding, .source = row->source, .host = row->host, .what = row->what, .unit = row->unit};
	if (end_ns < finding->is.since_ns)
		end_ns = finding->is.since_ns;
	pad = (end_ns - finding->is.since_ns) / PAD;
	if (pad < PAD_NS_MIN)
		pad = PAD_NS_MIN;
	gather->since_ns =
		finding->is.since_ns > report->since_ns + pad ? finding->is.since_ns - pad : report->since_ns;
	gather->until_ns = end_ns + pad < report->until_ns ? end_ns + pad : report->until_ns;
	if (gather->until_ns <= gather->since_ns)
		return 0;
	gather->stride = (int32_t)(report->job[finding->job].world / PEERS_MAX + 1);
	gather->cell = calloc((size_t)REPORT_PLOT_BUCKETS * (PEERS_MAX + 1), sizeof(*gather->cell));
	gather->stores = calloc(1, report->stores / 8 + 1);
	if (!gather->cell || !gather->stores) {
		free(gather->cell);
		free(gather->stores);
		return -ENOMEM;
	}
	choose_stores(report, gather);
	plots->count++;
	return 0;
}

struct plots *plots_new(struct report *report)
{
	struct plots *plots = calloc(1, sizeof(*plots));

	if (!plots)
		return NULL;
	plots->report = report;
	for (size_t i = 0; i < report->findings && plots->count < REPORT_PLOTS_MAX; i++) {
		const struct row *row = report_plots_row_of(&report->finding[i].is);

		if (row && report_plots_begin(plots, &report->finding[i], row) < 0)
			return plots_free(plots);
	}
	return plots;
}

struct plots *plots_free(struct plots *plots)
{
	for (size_t i = 0; plots && i < plots->count; i++) {
		free(plots->gather[i].cell);
		free(plots->gather[i].stores);
	}
	free(plots);
	return NULL;
}

/* Slot of a rank, -1: not a peer. */
static int report_plots_place_of(const struct gather *gather, const struct report_rank *rank)
{
	if (rank->job != gather->finding->job || rank->rank < 0)
		return -1;
	if (rank->rank == gather->finding->is.rank)
		return PEERS_MAX;
	if (rank->rank % gather->stride || rank->rank / gather->stride >= PEERS_MAX)
		return -1;
	return rank->rank / gather->stride;
}

static void report_plots_add(struct gather *gather, const struct report_rank *rank, uint64_t time_ns, double value, uint32_t count)
{
	int place = report_plots_place_of(gather, rank);
	struct cell *cell;
	size_t bucket;

	if (place < 0 || time_ns < gather->since_ns || time_ns >= gather->until_ns)
		return;
	bucket = (size_t)((double)(time_ns - gather->since_ns) / (double)(gather->until_ns - gather->since_ns) *
			  REPORT_PLOT_BUCKETS);
	if (bucket >= REPORT_PLOT_BUCKETS)
		bucket = REPORT_PLOT_BUCKETS - 1;
	cell = &gather->cell[bucket * (PEERS_MAX + 1) + (size_t)place];
	cell->sum += (float)value;
	cell->count += count;
	gather->rows[place]++;
}

void plots_step(struct plots *plots, const struct report_rank *rank, uint64_t start_ns, uint64_t duration_ns)
{
	for (size_t i = 0; i < plots->count; i++) {
		struct gather *gather = &plots->gather[i];
		int place = report_plots_place_of(gather, rank);

		if (gather->source == SOURCE_STEP)
			report_plots_add(gather, rank, start_ns, (double)duration_ns, 1);
		else if (gather->source == SOURCE_PROGRESS)
			report_plots_add(gather, rank, start_ns + duration_ns, 1, 1);
		else if (place >= 0 && start_ns >= gather->since_ns && start_ns < gather->until_ns)
			gather->steps[place]++;
	}
}

void plots_host(struct plots *plots, const struct report_rank *rank, const struct plots_sample *sample)
{
	uint32_t ms = (uint32_t)(sample->duration_ns / 1000000 < UINT32_MAX ? sample->duration_ns / 1000000 : 0);

	for (size_t i = 0; i < plots->count; i++)
		if (plots->gather[i].source == SOURCE_HOST && ms)
			report_plots_add(&plots->gather[i], rank, sample->start_ns,
				(double)sample->value[plots->gather[i].host] * 1000, ms);
}

static bool reads(const struct gather *gather, uint32_t store, enum source source)
{
	return gather->source == source && (gather->stores[store / 8] >> store % 8 & 1);
}

/* Time range over all plots of that source. */
static bool report_plots_want(
	const struct plots *plots, uint32_t store, enum source source, uint64_t *ret_since_ns, uint64_t *ret_until_ns)
{
	uint64_t since_ns = UINT64_MAX, until_ns = 0;

	for (size_t i = 0; i < plots->count; i++) {
		const struct gather *gather = &plots->gather[i];

		if (!reads(gather, store, source))
			continue;
		since_ns = gather->since_ns < since_ns ? gather->since_ns : since_ns;
		until_ns = gather->until_ns > until_ns ? gather->until_ns : until_ns;
	}
	if (until_ns <= since_ns)
		return false;
	*ret_since_ns = since_ns;
	*ret_until_ns = until_ns;
	return true;
}

bool plots_want_stages(const struct plots *plots, uint32_t store, uint64_t *ret_since_ns, uint64_t *ret_until_ns)
{
	return report_plots_want(plots, store, SOURCE_STAGE, ret_since_ns, ret_until_ns);
}

void plots_stage(
	struct plots *plots, const struct report_rank *rank, const char *stage, uint64_t start_ns, uint64_t duration_ns)
{
	for (size_t i = 0; i < plots->count; i++)
		if (reads(&plots->gather[i], rank->store, SOURCE_STAGE) && strcmp(plots->gather[i].what, stage) == 0)
			report_plots_add(&plots->gather[i], rank, start_ns, (double)duration_ns, 1);
}

bool plots_want_operations(const struct plots *plots, uint32_t store, uint64_t *ret_since_ns, uint64_t *ret_until_ns)
{
	return report_plots_want(plots, store, SOURCE_OPERATION, ret_since_ns, ret_until_ns);
}

/* A finding without a communicator matches none. */
static bool reads_communicator(const struct gather *gather, uint32_t store, const char *communicator)
{
	const char *its = gather->finding->is.communicator;

	return reads(gather, store, SOURCE_OPERATION) && its[0] && strcmp(its, communicator) == 0;
}

bool plots_want_communicator(const struct plots *plots, uint32_t store, const char *communicator)
{
	for (size_t i = 0; i < plots->count; i++)
		if (reads_communicator(&plots->gather[i], store, communicator))
			return true;
	return false;
}

void plots_operation(struct plots *plots, const struct report_rank *rank, const char *communicator, uint64_t start_ns,
	uint64_t duration_ns)
{
	for (size_t i = 0; i < plots->count; i++)
		if (reads_communicator(&plots->gather[i], rank->store, communicator))
			report_plots_add(&plots->gather[i], rank, start_ns, (double)duration_ns, 1);
}

/* Value of a slot in a plotted bucket. A stage that occurs several times a step counts as their sum. */
static double report_plots_value_of(const struct gather *gather, size_t bucket, size_t place)
{
	double sum = 0, count = 0;

	for (size_t i = bucket * gather->merge; i < (bucket + 1) * gather->merge; i++) {
		sum += (double)gather->cell[i * (PEERS_MAX + 1) + place].sum;
		count += gather->cell[i * (PEERS_MAX + 1) + place].count;
	}
	if (gather->source == SOURCE_PROGRESS)
		return count;
	if (!(count > 0))
		return NAN;
	if (gather->source == SOURCE_STAGE && gather->steps[place] && strcmp(gather->unit, "ns a step") == 0)
		return sum / count * gather->rows[place] / gather->steps[place];
	return sum / count;
}

/* Share of buckets with rows; for progress, with two or more steps. */
static double filled(const struct gather *gather, size_t place)
{
	size_t first = REPORT_PLOT_BUCKETS, last = 0, some = 0, n = REPORT_PLOT_BUCKETS / gather->merge;

	for (size_t bucket = 0; bucket < n; bucket++) {
		double value = report_plots_value_of(gather, bucket, place);

		if (!isfinite(value) || (gather->source == SOURCE_PROGRESS && value < 2))
			continue;
		first = first == REPORT_PLOT_BUCKETS ? bucket : first;
		last = bucket;
		some++;
	}
	return some ? (double)some / (double)(last - first + 1) : 0;
}

static void choose_merge(struct gather *gather)
{
	static const size_t merges[] = {1, 2, 3, 4, 6, 8, 12};
	double enough = gather->source == SOURCE_PROGRESS ? 0.4 : 0.95; /* hangs have empty buckets */
	size_t place = PEERS_MAX;

	while (place && !gather->rows[place])
		place--;
	for (size_t i = 0; i < sizeof(merges) / sizeof(merges[0]); i++) {
		gather->merge = merges[i];
		if (filled(gather, place) >= enough)
			return;
	}
}

/* Slow communication affects all members: plotted as their median beside the previous value. */
static bool of_one(const struct gather *gather)
{
	return gather->finding->is.rank >= 0 && gather->finding->is.kind != FINDING_SLOW_COMMUNICATION;
}

/* Quantiles of the peers of a bucket, or of all ranks without a single one. */
static void finish_bucket(const struct gather *gather, size_t bucket, struct report_plot *plot)
{
	double value[PEERS_MAX + 1];
	size_t n = 0;

	for (size_t place = 0; place < PEERS_MAX + (size_t)!of_one(gather); place++) {
		double one = gather->rows[place] ? report_plots_value_of(gather, bucket, place) : NAN;

		if (isfinite(one))
			value[n++] = one;
	}
	plot->middle[bucket] = values_quantile(value, n, 0.5);
	plot->low[bucket] = values_quantile(value, n, 0.1);
	plot->high[bucket] = values_quantile(value, n, 0.9);
	plot->own[bucket] = gather->rows[PEERS_MAX] ? report_plots_value_of(gather, bucket, PEERS_MAX) : NAN;
	if (of_one(gather))
		return;
	plot->own[bucket] = plot->middle[bucket];
	plot->middle[bucket] = plot->low[bucket] = plot->high[bucket] = NAN;
}

static int report_plots_finish(struct gather *gather)
{
	const struct finding_evidence *evidence = report_plots_evidence_of(&gather->finding->is, gather->what);
	struct report_plot *plot;
	size_t points = 0;

	plot = calloc(1, sizeof(*plot));
	if (!plot)
		return -ENOMEM;
	plot->since_ns = gather->since_ns;
	plot->until_ns = gather->until_ns;
	strncpy(plot->what, gather->what, sizeof(plot->what) - 1);
	plot->unit = gather->unit;
	choose_merge(gather);
	plot->buckets = (uint32_t)(REPORT_PLOT_BUCKETS / gather->merge);
	plot->before = evidence && !of_one(gather) ? evidence->peers : NAN;
	for (size_t place = 0; place < PEERS_MAX; place++)
		plot->peers += gather->rows[place] > 0;
	for (size_t bucket = 0; bucket < plot->buckets; bucket++) {
		finish_bucket(gather, bucket, plot);
		points += isfinite(plot->own[bucket]);
	}
	if (points < 2 || (of_one(gather) && !gather->rows[PEERS_MAX]))
		free(plot);
	else
		gather->finding->plot = plot;
	return 0;
}

int plots_finish(struct plots *plots)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < plots->count; i++)
		r = report_plots_finish(&plots->gather[i]);
	return r;
}
