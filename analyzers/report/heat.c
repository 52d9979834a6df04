/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heat map: for each rank and bucket of time its own excess over the other ranks, as a share of its step. Own work
 * is the self time of the activities in which no rank waits for others; from it the median of the other ranks is taken.
 * Forward on a CPU is own work in some jobs, and waiting in others (sharded, pipeline): its excess counts beyond the
 * rank's usual one, and only where no other rank has an excess of own work that it would wait for. What stages do not
 * show (slow cards, hangs) comes from the findings of that rank and time.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "analyzers/report/judge.h"
#include "analyzers/base/array.h"
#include "analyzers/report/splits.h"

#define SHARE_MIN 0.02 /* of a step: below it no activity is named */
#define COVERED_MIN 3  /* steps that cover less than this part of a bucket are not significant */
/* An excess in forward is unusual from so many of its median deviations on: samples vary in length */
#define SCATTER_MIN 4
#define MIRROR_MIN 0.5 /* of an excess in forward: so much own excess of another rank explains it as waiting */

uint64_t report_round_step(uint64_t length_ns, unsigned most)
{
	static const uint32_t steps_s[] = {1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
		43200, 86400, 172800, 604800};
	uint64_t step_ns = 604800 * 1000000000ULL;

	for (size_t i = 0; i < sizeof(steps_s) / sizeof(steps_s[0]); i++)
		if (length_ns / (steps_s[i] * 1000000000ULL) < most)
			return steps_s[i] * 1000000000ULL;
	return length_ns / most + step_ns;
}

uint64_t report_round_time(uint64_t time_ns, uint64_t step_ns)
{
	time_t seconds = (time_t)(time_ns / 1000000000);
	struct tm tm;
	int64_t zone_ns = localtime_r(&seconds, &tm) ? tm.tm_gmtoff * 1000000000LL : 0;
	uint64_t local_ns = (uint64_t)((int64_t)time_ns + zone_ns);

	return (uint64_t)((int64_t)((local_ns + step_ns - 1) / step_ns * step_ns) - zone_ns);
}

struct report_heat *report_heat_free(struct report_heat *heat)
{
	for (size_t i = 0; heat && heat->row && i < heat->rows; i++)
		free(heat->row[i].cell);
	if (heat)
		free(heat->row);
	free(heat);
	return NULL;
}

/* The costliest jobs are drawn; of equal ones the first. */
static void heat_choose_jobs(struct report *report)
{
	double cost[REPORT_JOBS_MAX] = {0};

	for (size_t i = 0; i < report->findings; i++)
		cost[report->finding[i].job] += report->finding[i].is.cost_card_hours;
	for (size_t drawn = 0; drawn < REPORT_DRAWN_MAX && drawn < report->jobs; drawn++) {
		size_t best = SIZE_MAX;

		for (size_t job = 0; job < report->jobs; job++)
			if (!report->job[job].is_drawn && (best == SIZE_MAX || cost[job] > cost[best]))
				best = job;
		report->job[best].is_drawn = true;
	}
}

int report_heat_want(struct report *report, struct splits *splits, int window[REPORT_JOBS_MAX])
{
	heat_choose_jobs(report);
	for (uint32_t job = 0; job < report->jobs; job++) {
		struct split_window wanted = {.job = job, .also = -1};
		uint64_t step_ns, until_ns;

		window[job] = -1;
		report_job_span(report, job, &wanted.since_ns, &until_ns);
		if (!report->job[job].is_drawn || until_ns <= wanted.since_ns)
			continue;
		step_ns = report_round_step(until_ns - wanted.since_ns, SPLITS_BUCKETS_MAX - 1);
		/* Down to a round time. */
		wanted.since_ns = report_round_time(wanted.since_ns + 1, step_ns);
		wanted.since_ns -= wanted.since_ns > step_ns ? step_ns : 0;
		wanted.buckets = (uint32_t)((until_ns - wanted.since_ns + step_ns - 1) / step_ns);
		if (wanted.buckets > SPLITS_BUCKETS_MAX)
			wanted.buckets = SPLITS_BUCKETS_MAX;
		wanted.until_ns = wanted.since_ns + wanted.buckets * step_ns;
		wanted.stride = (int32_t)(report->job[job].world / REPORT_HEAT_RANKS_MAX + 1);
		window[job] = splits_add(splits, &wanted);
		if (window[job] < 0)
			return -ENOMEM;
	}
	return 0;
}

struct heat_value {
	double value;
	size_t rank;
};

static int heat_by_value(const void *a, const void *b)
{
	const struct heat_value *x = a, *y = b;

	return ORDER(x->value, y->value);
}

/* Median of n sorted values without the one at place out; n > 1. */
static double heat_median_without(const struct heat_value *sorted, size_t n, size_t out)
{
	size_t low = (n - 2) / 2, high = (n - 1) / 2;

	return (sorted[low + (low >= out)].value + sorted[high + (high >= out)].value) / 2;
}

struct heat_bucket {
	size_t ranks;
	uint32_t buckets;
	struct split *split; /* a rank; stages 0: nothing to compare */
	struct heat_value *own;
	double *scratch;
	float *excess;	/* a rank: of the measure compared last, a share of its step */
	float *forward; /* a rank and bucket: excess in forward; NaN: none. NULL: ranks wait in it */
};

/* Own work in any job. */
static bool heat_is_own(size_t activity)
{
	return !activity_may_wait((enum activity)activity, true);
}

static double heat_own(const struct split *split)
{
	double own = 0;

	for (size_t a = 0; a < ACTIVITY_MAX; a++)
		own += heat_is_own(a) ? (double)split->self_ns[a] : 0;
	return own / split->steps;
}

/* The activity with most excess over the median rank. */
static enum activity heat_activity(const struct heat_bucket *bucket, const struct split *its)
{
	enum activity worst = ACTIVITY_MAX;
	double most = 0;

	for (size_t a = 0; a < ACTIVITY_MAX; a++) {
		size_t n = 0;
		double excess;

		if (!heat_is_own(a))
			continue;
		for (size_t i = 0; i < bucket->ranks; i++)
			if (&bucket->split[i] != its && bucket->split[i].stages)
				bucket->scratch[n++] = (double)bucket->split[i].self_ns[a] / bucket->split[i].steps;
		excess = (double)its->self_ns[a] / its->steps - values_quantile(bucket->scratch, n, 0.5);
		if (excess > most) {
			most = excess;
			worst = (enum activity)a;
		}
	}
	return worst;
}

/* Fills excess: of each rank's time in own work, or in forward, over the median of the others, signed. false: nothing
 * to compare. */
static bool heat_compare(struct heat_bucket *bucket, bool forward)
{
	size_t n = 0;

	for (size_t i = 0; i < bucket->ranks; i++) {
		const struct split *split = &bucket->split[i];

		if (split->stages)
			bucket->own[n++] = (struct heat_value){
				forward ? (double)split->self_ns[ACTIVITY_FORWARD] / split->steps : heat_own(split), i};
	}
	if (n < 2)
		return false;
	qsort(bucket->own, n, sizeof(*bucket->own), heat_by_value);
	for (size_t i = 0; i < n; i++) {
		const struct split *split = &bucket->split[bucket->own[i].rank];
		double excess = bucket->own[i].value - heat_median_without(bucket->own, n, i);

		bucket->excess[bucket->own[i].rank] =
			(float)(split->step_ns > 0 ? excess * split->steps / split->step_ns : 0);
	}
	return true;
}

/* Shares are signed until heat_settle(). */
static void heat_fill(struct report_heat *heat, uint32_t at, struct heat_bucket *bucket)
{
	if (!heat_compare(bucket, false))
		return;
	for (size_t i = 0; i < bucket->ranks; i++) {
		struct report_heat_cell *cell = &heat->row[i].cell[at];

		if (!bucket->split[i].stages)
			continue;
		cell->share = bucket->excess[i];
		if ((double)cell->share >= SHARE_MIN)
			cell->activity = heat_activity(bucket, &bucket->split[i]);
	}
	if (!bucket->forward || !heat_compare(bucket, true))
		return;
	for (size_t i = 0; i < bucket->ranks; i++)
		if (bucket->split[i].stages)
			bucket->forward[i * bucket->buckets + at] = bucket->excess[i];
}

/* The rank's usual excess in forward, and how far it usually is from that: medians over its buckets. */
static double heat_usual(struct heat_bucket *bucket, size_t rank, double *ret_scatter)
{
	double value[SPLITS_BUCKETS_MAX], usual;
	size_t n = 0;

	for (uint32_t at = 0; at < bucket->buckets; at++)
		if (isfinite(bucket->forward[rank * bucket->buckets + at]))
			value[n++] = (double)bucket->forward[rank * bucket->buckets + at];
	usual = values_quantile(value, n, 0.5);
	for (size_t i = 0; i < n; i++)
		value[i] = fabs(value[i] - usual);
	*ret_scatter = values_quantile(value, n, 0.5);
	return usual;
}

/* Adds what is unusual in forward, unless another rank's excess of own work explains it as waiting. */
static void heat_add_forward(
	struct report_heat *heat, struct heat_bucket *bucket, size_t rank, const float *most, const float *second)
{
	double scatter, usual = heat_usual(bucket, rank, &scatter);

	for (uint32_t at = 0; at < bucket->buckets; at++) {
		struct report_heat_cell *cell = &heat->row[rank].cell[at];
		double excess = (double)bucket->forward[rank * bucket->buckets + at] - usual;
		double of_others = (double)(cell->share >= most[at] ? second[at] : most[at]);

		if (!(excess >= fmax(SHARE_MIN, SCATTER_MIN * scatter)) || of_others >= MIRROR_MIN * excess)
			continue;
		if (excess > (double)cell->share)
			cell->activity = ACTIVITY_FORWARD;
		cell->share = (float)(fmax(0, (double)cell->share) + excess);
	}
}

/* From signed excess to what is shown. */
static void heat_settle(struct report_heat *heat, struct heat_bucket *bucket)
{
	float most[SPLITS_BUCKETS_MAX] = {0}, second[SPLITS_BUCKETS_MAX] = {0};

	for (uint32_t at = 0; at < bucket->buckets; at++)
		for (size_t i = 0; i < bucket->ranks; i++) {
			float share = heat->row[i].cell[at].share;

			if (share > most[at]) {
				second[at] = most[at];
				most[at] = share;
			} else if (share > second[at]) {
				second[at] = share;
			}
		}
	for (size_t i = 0; i < bucket->ranks; i++) {
		if (bucket->forward)
			heat_add_forward(heat, bucket, i, most, second);
		for (uint32_t at = 0; at < bucket->buckets; at++) {
			struct report_heat_cell *cell = &heat->row[i].cell[at];

			if (isfinite(cell->share))
				cell->share = fminf(1, fmaxf(0, cell->share));
		}
	}
}

/* Share of a step that a finding costs. */
static double heat_share_of(const struct finding *f)
{
	if (f->kind == FINDING_HANG)
		return 1;
	return f->slowdown > 1 ? 1 - 1 / f->slowdown : 0;
}

/* Stages show the time that such a finding is about. */
static bool heat_is_measured(const struct finding *f)
{
	enum activity activity = finding_activity(f->activity, f->cause);

	return f->kind == FINDING_SLOW_RANK && activity < ACTIVITY_MAX && activity != ACTIVITY_COMPUTE &&
	       heat_is_own(activity);
}

/* Findings of a rank, or of the job as a whole (rank -1), mark the buckets of their time. */
static void heat_mark(const struct report *report, uint32_t job, struct report_heat *heat, struct report_heat_row *row)
{
	for (size_t i = 0; i < report->findings; i++) {
		const struct report_finding *finding = &report->finding[i];
		uint64_t end_ns = finding->is.until_ns ? finding->is.until_ns : report->now_ns;

		if (finding->job != job || finding->remark || finding->is.rank != row->rank)
			continue;
		for (uint32_t at = 0; at < heat->buckets; at++) {
			uint64_t from_ns = heat->since_ns + at * heat->bucket_ns, to_ns = from_ns + heat->bucket_ns;
			uint64_t low_ns = finding->is.since_ns > from_ns ? finding->is.since_ns : from_ns;
			uint64_t high_ns = end_ns < to_ns ? end_ns : to_ns;
			struct report_heat_cell *cell = &row->cell[at];
			double share;

			if (low_ns >= high_ns)
				continue;
			share = heat_share_of(&finding->is) * (double)(high_ns - low_ns) / (double)heat->bucket_ns;
			if (cell->group == REPORT_NONE || finding->group < cell->group)
				cell->group = finding->group;
			/* What stages show is measured: a finding's mean does not replace it. */
			if (isfinite(cell->share) && heat_is_measured(&finding->is))
				continue;
			if (!(share <= (double)cell->share)) {
				cell->share = (float)share;
				cell->activity = finding_activity(finding->is.activity, finding->is.cause);
			}
		}
	}
	row->worst = 0;
	for (uint32_t at = 0; at < heat->buckets; at++)
		row->worst = row->cell[at].share > row->worst ? row->cell[at].share : row->worst;
}

static int heat_by_worst(const void *a, const void *b)
{
	const struct report_heat_row *x = a, *y = b;

	return ORDER(y->worst, x->worst) ?: ORDER(x->rank, y->rank);
}

static int heat_by_rank(const void *a, const void *b)
{
	const struct report_heat_row *x = a, *y = b;

	return ORDER(x->rank, y->rank);
}

/* Keeps the rows that are shown: chosen ranks, and of many the worst. */
static void heat_choose(const struct report *report, struct report_heat *heat)
{
	size_t kept = 0;

	for (size_t i = 0; i < heat->rows; i++) {
		struct report_heat_row *row = &heat->row[i];

		if (row->rank < 0 ? row->worst > 0 : report_wants_rank(report, row->rank, NULL))
			heat->row[kept++] = *row;
		else
			free(row->cell);
	}
	heat->rows = kept;
	if (kept > REPORT_HEAT_SHOWN_MAX) {
		qsort(heat->row, kept, sizeof(*heat->row), heat_by_worst);
		while (heat->rows > REPORT_HEAT_SHOWN_MAX ||
			(heat->rows > 1 && heat->row[heat->rows - 1].worst < SHARE_MIN))
			free(heat->row[--heat->rows].cell);
	}
	qsort(heat->row, heat->rows, sizeof(*heat->row), heat_by_rank);
}

static struct report_heat *heat_new(const struct split_window *window, const int32_t *rank, size_t ranks)
{
	struct report_heat *heat = calloc(1, sizeof(*heat));

	if (!heat)
		return NULL;
	*heat = (struct report_heat){
		.since_ns = window->since_ns,
		.bucket_ns = (window->until_ns - window->since_ns) / window->buckets,
		.buckets = window->buckets,
		.ranks = ranks,
		.row = calloc(ranks + 1, sizeof(*heat->row)),
	};
	for (; heat->row && heat->rows <= ranks; heat->rows++) {
		struct report_heat_row *row = &heat->row[heat->rows];

		row->rank = heat->rows < ranks ? rank[heat->rows] : -1;
		row->cell = calloc(window->buckets, sizeof(*row->cell));
		if (!row->cell)
			return report_heat_free(heat);
		for (uint32_t i = 0; i < window->buckets; i++)
			row->cell[i] = (struct report_heat_cell){NAN, ACTIVITY_MAX, REPORT_NONE};
	}
	return heat->row ? heat : report_heat_free(heat);
}

/* A step that lasts longer than a bucket counts where it began: the buckets that it covers show the same. */
static void heat_stretch(struct report_heat *heat, struct splits *splits, int window, size_t row)
{
	for (uint32_t at = 0; at < heat->buckets; at++) {
		const struct report_heat_cell *cell = &heat->row[row].cell[at];
		struct split split, next;

		if (!splits_at(splits, window, heat->row[row].rank, at, 1, &split))
			continue;
		for (uint32_t to = at + 1; to < heat->buckets && (double)((to - at) * heat->bucket_ns) < split.step_ns;
			to++) {
			if (splits_at(splits, window, heat->row[row].rank, to, 1, &next))
				break;
			heat->row[row].cell[to] = *cell;
		}
	}
}

static bool heat_bucket_new(struct heat_bucket *bucket, bool cards)
{
	size_t ranks = bucket->ranks;

	bucket->split = calloc(ranks, sizeof(*bucket->split));
	bucket->own = calloc(ranks, sizeof(*bucket->own));
	bucket->scratch = calloc(ranks, sizeof(*bucket->scratch));
	bucket->excess = calloc(ranks, sizeof(*bucket->excess));
	if (!activity_may_wait(ACTIVITY_FORWARD, cards)) {
		bucket->forward = calloc(ranks * bucket->buckets, sizeof(*bucket->forward));
		for (size_t i = 0; bucket->forward && i < ranks * bucket->buckets; i++)
			bucket->forward[i] = NAN;
	}
	return bucket->split && bucket->own && bucket->scratch && bucket->excess &&
	       (bucket->forward || activity_may_wait(ACTIVITY_FORWARD, cards));
}

static int heat_make(struct report *report, struct splits *splits, int window, uint32_t job)
{
	const struct split_window *span = splits_window_of(splits, window);
	const int32_t *rank;
	size_t ranks = splits_ranks(splits, window, &rank);
	struct heat_bucket bucket = {.ranks = ranks, .buckets = span->buckets};
	struct report_heat *heat = ranks ? heat_new(span, rank, ranks) : NULL;

	if (!ranks)
		return 0;
	if (heat && heat_bucket_new(&bucket, report->job[job].cards)) {
		for (uint32_t at = 0; at < heat->buckets; at++) {
			for (size_t i = 0; i < ranks; i++) {
				splits_at(splits, window, rank[i], at, 1, &bucket.split[i]);
				if (bucket.split[i].step_ns * COVERED_MIN < (double)heat->bucket_ns)
					bucket.split[i].stages = 0;
			}
			heat_fill(heat, at, &bucket);
		}
		heat_settle(heat, &bucket);
		for (size_t i = 0; i < ranks; i++)
			heat_stretch(heat, splits, window, i);
		for (size_t i = 0; i < heat->rows; i++)
			heat_mark(report, job, heat, &heat->row[i]);
		heat_choose(report, heat);
		report->job[job].heat = heat;
	} else {
		heat = report_heat_free(heat);
	}
	free(bucket.split);
	free(bucket.own);
	free(bucket.scratch);
	free(bucket.excess);
	free(bucket.forward);
	return heat ? 0 : -ENOMEM;
}

int report_heat_make(struct report *report, struct splits *splits, const int window[REPORT_JOBS_MAX])
{
	int r = 0;

	for (uint32_t job = 0; r == 0 && job < report->jobs; job++)
		if (window[job] >= 0)
			r = heat_make(report, splits, window[job], job);
	return r;
}
