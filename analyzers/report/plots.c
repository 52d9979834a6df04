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

#define PEERS_MAX 256
#define STORES_READ 8 /* for operations */
#define PAD 2	      /* margin on both sides: this part of the length */
#define PAD_NS_MIN 20000000000ULL

enum source { SOURCE_NONE, SOURCE_ACTIVITY, SOURCE_STEP, SOURCE_HOST, SOURCE_OPERATION, SOURCE_PROGRESS };

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
	uint8_t *stores; /* bit a store: read for operations */
	struct cell *cell;
	uint32_t rows[PEERS_MAX + 1]; /* of a rank, or steps with stages */
	enum activity activity;
	int window; /* of splits, for activities and for steps; -1: none */
};

struct plots {
	struct report *report;
	struct splits *splits;
	size_t count;
	struct gather gather[REPORT_PLOTS_MAX];
};

/* Source of each evidence's plot, by preference, where the finding names no activity. Units are the sentence's. */
static const struct row {
	const char *evidence, *what;
	enum source source;
	enum plot_host host;
	const char *unit;
} plot_rows[] = {
	{"run_delay", "run_delay", SOURCE_HOST, PLOT_RUN_DELAY, "ns a step"},
	{"throttled", "throttled", SOURCE_HOST, PLOT_THROTTLED, "ns a step"},
	{"major_faults", "major_faults", SOURCE_HOST, PLOT_FAULTS, "a step"},
	{"memory_stall", "memory_stall", SOURCE_HOST, PLOT_MEMORY_STALL, "ns a step"},
	{"transfer", "transfer", SOURCE_OPERATION, 0, "ns an operation"},
	{"step_time", "step_time", SOURCE_STEP, 0, "ns a step"},
	{"compute", "step_time", SOURCE_STEP, 0, "ns a step"},
	{"self_time", "step_time", SOURCE_STEP, 0, "ns a step"},
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
	for (size_t i = 0; i < sizeof(plot_rows) / sizeof(plot_rows[0]); i++)
		if (strcmp(plot_rows[i].evidence, judge_evidence_of(f->cause)) == 0 &&
			report_plots_evidence_of(f, plot_rows[i].evidence))
			return &plot_rows[i];
	for (size_t i = 0; i < sizeof(plot_rows) / sizeof(plot_rows[0]); i++)
		if (report_plots_evidence_of(f, plot_rows[i].evidence))
			return &plot_rows[i];
	return NULL;
}

/* The activity that the sentence names: the finding's, or that of its evidence in older stores. ACTIVITY_MAX: none that
 * stages show. */
static enum activity report_plots_activity_of(const struct finding *f)
{
	enum activity activity = finding_activity(f->activity, f->cause);

	if (f->kind != FINDING_SLOW_RANK && f->kind != FINDING_SLOW_JOB)
		return ACTIVITY_MAX;
	if (activity == ACTIVITY_MAX && !judge_evidence_of(f->cause)[0])
		for (size_t i = 0; activity == ACTIVITY_MAX && i < f->evidences; i++)
			activity = activity_parse(f->evidence[i].name);
	return activity == ACTIVITY_COMPUTE ? ACTIVITY_MAX : activity;
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

/* Its steps and their activities. */
static int report_plots_want_splits(struct plots *plots, struct gather *gather)
{
	const struct split_window window = {
		.since_ns = gather->since_ns,
		.until_ns = gather->until_ns,
		.buckets = REPORT_PLOT_BUCKETS,
		.job = gather->finding->job,
		.stride = gather->stride,
		.also = gather->finding->is.rank,
	};

	gather->window = gather->source == SOURCE_PROGRESS ? -1 : splits_add(plots->splits, &window);
	return gather->source != SOURCE_PROGRESS && gather->window < 0 ? -ENOMEM : 0;
}

static int report_plots_begin(
	struct plots *plots, struct report_finding *finding, const struct row *row, enum activity activity)
{
	const struct report *report = plots->report;
	struct gather *gather = &plots->gather[plots->count];
	uint64_t end_ns = finding->is.until_ns ? finding->is.until_ns : report->now_ns, pad;

	*gather = (struct gather){.finding = finding, .activity = activity, .merge = 1, .window = -1};
	if (activity < ACTIVITY_MAX) {
		gather->source = SOURCE_ACTIVITY;
		gather->what = activity_word(activity);
		gather->unit = "ns a step";
	} else {
		gather->source = row->source;
		gather->host = row->host;
		gather->what = row->what;
		gather->unit = row->unit;
	}
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
	return report_plots_want_splits(plots, gather);
}

struct plots *plots_new(struct report *report, struct splits *splits)
{
	struct plots *plots = calloc(1, sizeof(*plots));

	if (!plots)
		return NULL;
	plots->report = report;
	plots->splits = splits;
	for (size_t i = 0; i < report->groups && plots->count < REPORT_PLOTS_MAX; i++) {
		struct report_finding *finding = &report->finding[report->group[i].first];
		enum activity activity = report_plots_activity_of(&finding->is);
		const struct row *row = activity < ACTIVITY_MAX ? NULL : report_plots_row_of(&finding->is);

		if ((row || activity < ACTIVITY_MAX) && report_plots_begin(plots, finding, row, activity) < 0)
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

static void report_plots_add(
	struct gather *gather, const struct report_rank *rank, uint64_t time_ns, double value, uint32_t count)
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

		if (gather->source == SOURCE_STEP)
			report_plots_add(gather, rank, start_ns, (double)duration_ns, 1);
		else if (gather->source == SOURCE_PROGRESS)
			report_plots_add(gather, rank, start_ns + duration_ns, 1, 1);
	}
}

void plots_host(struct plots *plots, const struct report_rank *rank, const struct plots_sample *sample)
{
	uint32_t ms = (uint32_t)(sample->duration_ns / 1000000 < UINT32_MAX ? sample->duration_ns / 1000000 : 0);

	for (size_t i = 0; i < plots->count; i++)
		if (plots->gather[i].source == SOURCE_HOST && ms)
			report_plots_add(&plots->gather[i], rank, sample->start_ns,
				(double)sample->value[plots->gather[i].host], ms);
}

static bool plots_reads(const struct gather *gather, uint32_t store, enum source source)
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

		if (!plots_reads(gather, store, source))
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

bool plots_want_operations(const struct plots *plots, uint32_t store, uint64_t *ret_since_ns, uint64_t *ret_until_ns)
{
	return report_plots_want(plots, store, SOURCE_OPERATION, ret_since_ns, ret_until_ns);
}

/* A finding without a communicator matches none. */
static bool reads_communicator(const struct gather *gather, uint32_t store, const char *communicator)
{
	const char *its = gather->finding->is.communicator;

	return plots_reads(gather, store, SOURCE_OPERATION) && its[0] && strcmp(its, communicator) == 0;
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

static int32_t report_plots_rank_at(const struct gather *gather, size_t place)
{
	return place == PEERS_MAX ? gather->finding->is.rank : (int32_t)place * gather->stride;
}

/* Value of a slot over buckets [first, first + n). */
static double report_plots_value_over(
	const struct plots *plots, const struct gather *gather, size_t first, size_t n, size_t place)
{
	double sum = 0, count = 0;
	struct split split = {0};

	if (gather->source == SOURCE_ACTIVITY || gather->source == SOURCE_HOST)
		splits_at(plots->splits, gather->window, report_plots_rank_at(gather, place), (uint32_t)first,
			(uint32_t)n, &split);
	if (gather->source == SOURCE_ACTIVITY)
		return split.stages ? (double)split.self_ns[gather->activity] / split.steps : NAN;
	for (size_t i = first; i < first + n; i++) {
		sum += (double)gather->cell[i * (PEERS_MAX + 1) + place].sum;
		count += gather->cell[i * (PEERS_MAX + 1) + place].count;
	}
	if (gather->source == SOURCE_PROGRESS)
		return count;
	if (!(count > 0))
		return NAN;
	/* Samples, counted in ms, over the length of a step. */
	if (gather->source == SOURCE_HOST)
		return split.steps ? sum / (count * 1e6) * split.step_ns / split.steps : NAN;
	return sum / count;
}

/* The value in a plotted bucket. */
static double report_plots_value_of(const struct plots *plots, const struct gather *gather, size_t bucket, size_t place)
{
	return report_plots_value_over(plots, gather, bucket * gather->merge, gather->merge, place);
}

/* Steps with stages count as rows. */
static void report_plots_count(const struct plots *plots, struct gather *gather)
{
	const int32_t *rank;
	size_t ranks;

	if (gather->source != SOURCE_ACTIVITY)
		return;
	ranks = splits_ranks(plots->splits, gather->window, &rank);
	for (size_t i = 0; i < ranks; i++) {
		size_t place = rank[i] == gather->finding->is.rank ? PEERS_MAX : (size_t)(rank[i] / gather->stride);
		struct split split;

		splits_at(plots->splits, gather->window, rank[i], 0, REPORT_PLOT_BUCKETS, &split);
		if (place <= PEERS_MAX)
			gather->rows[place] = split.stages;
	}
}

/* Share of buckets with rows; for progress, with two or more steps. */
static double plots_filled(const struct plots *plots, const struct gather *gather, size_t place)
{
	size_t first = REPORT_PLOT_BUCKETS, last = 0, some = 0, n = REPORT_PLOT_BUCKETS / gather->merge;

	for (size_t bucket = 0; bucket < n; bucket++) {
		double value = report_plots_value_of(plots, gather, bucket, place);

		if (!isfinite(value) || (gather->source == SOURCE_PROGRESS && value < 2))
			continue;
		first = first == REPORT_PLOT_BUCKETS ? bucket : first;
		last = bucket;
		some++;
	}
	return some ? (double)some / (double)(last - first + 1) : 0;
}

static void choose_merge(const struct plots *plots, struct gather *gather)
{
	static const size_t merges[] = {1, 2, 3, 4, 6, 8, 12};
	double enough = gather->source == SOURCE_PROGRESS ? 0.4 : 0.95; /* hangs have empty buckets */
	size_t place = PEERS_MAX;

	while (place && !gather->rows[place])
		place--;
	for (size_t i = 0; i < sizeof(merges) / sizeof(merges[0]); i++) {
		gather->merge = merges[i];
		if (plots_filled(plots, gather, place) >= enough)
			return;
	}
}

/* Slow communication affects all members: plotted as their median beside the previous value. */
static bool of_one(const struct gather *gather)
{
	return gather->finding->is.rank >= 0 && gather->finding->is.kind != FINDING_SLOW_COMMUNICATION;
}

/* Quantiles of the peers of a bucket, or of all ranks without a single one. */
static void finish_bucket(
	const struct plots *plots, const struct gather *gather, size_t bucket, struct report_plot *plot)
{
	double value[PEERS_MAX + 1];
	size_t n = 0;

	for (size_t place = 0; place < PEERS_MAX + (size_t)!of_one(gather); place++) {
		double one = gather->rows[place] ? report_plots_value_of(plots, gather, bucket, place) : NAN;

		if (isfinite(one))
			value[n++] = one;
	}
	plot->middle[bucket] = values_quantile(value, n, 0.5);
	plot->low[bucket] = values_quantile(value, n, 0.1);
	plot->high[bucket] = values_quantile(value, n, 0.9);
	plot->own[bucket] = gather->rows[PEERS_MAX] ? report_plots_value_of(plots, gather, bucket, PEERS_MAX) : NAN;
	if (of_one(gather))
		return;
	plot->own[bucket] = plot->middle[bucket];
	plot->middle[bucket] = plot->low[bucket] = plot->high[bucket] = NAN;
}

/* Buckets of the finding's time within the plot; at least one. */
static void report_plots_found(const struct plots *plots, const struct gather *gather, size_t *ret_first, size_t *ret_n)
{
	const struct finding *f = &gather->finding->is;
	uint64_t end_ns = f->until_ns ? f->until_ns : plots->report->now_ns,
		 bucket_ns = (gather->until_ns - gather->since_ns) / REPORT_PLOT_BUCKETS + 1;
	size_t first = f->since_ns > gather->since_ns ? (size_t)((f->since_ns - gather->since_ns) / bucket_ns) : 0;
	size_t last = end_ns > gather->since_ns ? (size_t)((end_ns - gather->since_ns) / bucket_ns) : 0;

	/* Not the buckets in which it begins and ends, which are partly without it. */
	first += first + 2 < last;
	last -= first + 1 < last;
	*ret_first = first < REPORT_PLOT_BUCKETS ? first : REPORT_PLOT_BUCKETS - 1;
	last = last < REPORT_PLOT_BUCKETS ? last : REPORT_PLOT_BUCKETS - 1;
	*ret_n = last >= *ret_first ? last - *ret_first + 1 : 1;
}

static void report_plots_means(const struct plots *plots, const struct gather *gather, struct report_plot *plot)
{
	double value[PEERS_MAX + 1];
	size_t first, count, n = 0;

	report_plots_found(plots, gather, &first, &count);
	plot->found_own = plot->found_peers = NAN;
	if (gather->source == SOURCE_PROGRESS)
		return;
	for (size_t place = 0; place < PEERS_MAX + (size_t)!of_one(gather); place++) {
		double one = gather->rows[place] ? report_plots_value_over(plots, gather, first, count, place) : NAN;

		if (isfinite(one))
			value[n++] = one;
	}
	if (!of_one(gather)) {
		plot->found_own = values_quantile(value, n, 0.5);
		plot->found_peers = plot->before;
		return;
	}
	plot->found_own = report_plots_value_over(plots, gather, first, count, PEERS_MAX);
	plot->found_peers = values_quantile(value, n, 0.5);
}

/* Own work and waiting of each activity, of the rank and of the median of the others. */
struct gather_bars {
	size_t n;
	struct split own, peer[PEERS_MAX];
};

static double report_bars_mean(const struct split *split, size_t activity)
{
	return (double)split->self_ns[activity] / split->steps;
}

/* named: activity of the finding, in which the rank itself is slow. */
static void report_bars_fill(const struct gather_bars *all, bool cards, enum activity named, struct report_bars *bars)
{
	double step_ns = all->own.step_ns / all->own.steps;

	for (size_t a = 0; a < ACTIVITY_MAX; a++) {
		double work[PEERS_MAX], waiting[PEERS_MAX], own = report_bars_mean(&all->own, a), least = own;
		struct report_bar bar = {.activity = (enum activity)a};
		bool waits = activity_may_wait((enum activity)a, cards);

		for (size_t i = 0; i < all->n; i++)
			least = fmin(least, report_bars_mean(&all->peer[i], a));
		/* What the others have more than a slow rank is how they wait for it, as in operations that the script
		 * itself calls. */
		waits = waits || (a != (size_t)named && own <= least);
		for (size_t i = 0; i < all->n; i++) {
			double mean = report_bars_mean(&all->peer[i], a);

			work[i] = waits ? least : mean;
			waiting[i] = waits ? mean - least : 0;
		}
		bar.own_ns = waits && a != named ? least : own;
		bar.waiting_ns = own - bar.own_ns;
		bar.peers_own_ns = values_quantile(work, all->n, 0.5);
		bar.peers_waiting_ns = values_quantile(waiting, all->n, 0.5);
		/* Below a hundredth of the step it is not seen in a bar. */
		if (bar.own_ns + bar.waiting_ns >= 0.01 * step_ns ||
			bar.peers_own_ns + bar.peers_waiting_ns >= 0.01 * step_ns)
			bars->bar[bars->bars++] = bar;
	}
}

static int report_bars_make(const struct plots *plots, const struct gather *gather)
{
	struct report_finding *finding = gather->finding;
	struct gather_bars *all;
	const int32_t *rank;
	size_t ranks, first, count;

	if (gather->window < 0 || finding->is.rank < 0)
		return 0;
	all = calloc(1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	report_plots_found(plots, gather, &first, &count);
	ranks = splits_ranks(plots->splits, gather->window, &rank);
	for (size_t i = 0; i < ranks && all->n < PEERS_MAX; i++) {
		struct split *split = rank[i] == finding->is.rank ? &all->own : &all->peer[all->n];

		splits_at(plots->splits, gather->window, rank[i], (uint32_t)first, (uint32_t)count, split);
		all->n += split != &all->own && split->stages;
	}
	if (all->own.stages && all->n) {
		finding->bars = calloc(1, sizeof(*finding->bars));
		if (finding->bars) {
			finding->bars->peers = (uint32_t)all->n;
			report_bars_fill(all, plots->report->job[finding->job].cards, gather->activity, finding->bars);
		}
	}
	free(all);
	return 0;
}

static int report_plots_finish(const struct plots *plots, struct gather *gather)
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
	plot->activity = gather->activity;
	report_plots_count(plots, gather);
	choose_merge(plots, gather);
	plot->buckets = (uint32_t)(REPORT_PLOT_BUCKETS / gather->merge);
	plot->before = evidence && !of_one(gather) ? evidence->peers : NAN;
	for (size_t place = 0; place < PEERS_MAX; place++)
		plot->peers += gather->rows[place] > 0;
	for (size_t bucket = 0; bucket < plot->buckets; bucket++) {
		finish_bucket(plots, gather, bucket, plot);
		points += isfinite(plot->own[bucket]);
	}
	report_plots_means(plots, gather, plot);
	if (points < 2 || (of_one(gather) && !gather->rows[PEERS_MAX]))
		free(plot);
	else
		gather->finding->plot = plot;
	return report_bars_make(plots, gather);
}

int plots_finish(struct plots *plots)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < plots->count; i++)
		r = report_plots_finish(plots, &plots->gather[i]);
	return r;
}
