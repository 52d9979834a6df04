/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks against their classes over the last frames: see slow_rank_internal.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/robust.h"
#include "analyzers/detect/slow_rank_internal.h"

#define FAR 2.0			 /* of ln ratio: what is further out is cut */
#define DISTANCE_TO_SIGMA 1.0484 /* of the distance of two normal values: sigma by its median */
#define MIDDLE_OF_NOISE 0.45	 /* spread of the median of eight by that of one */
#define SPREAD_LEAST 0.005
#define NOISE_LEAST 0.001

void series_init(struct series *series, const struct detect_options *options)
{
	*series = (struct series){.ratio = options->slow_ratio, .z = options->slow_z, .since_loss = SERIES_OF_MAX};
	series->of = options->slow_of < 1 ? 1 : options->slow_of > SERIES_OF_MAX ? SERIES_OF_MAX : options->slow_of;
	series->frames_min = options->slow_frames < series->of ? options->slow_frames : series->of;
	if (series->frames_min < 1)
		series->frames_min = 1;
}

void series_free(struct series *series)
{
	free(series->rank);
	free(series->scratch);
	free(series->by_class);
	free(series->start);
	free(series->class);
	free(series->records);
	series->class = NULL;
	series->records = NULL;
	series->rank = NULL;
	series->scratch = NULL;
	series->by_class = series->start = NULL;
	series->ranks = 0;
}

static int slow_rank_series_reserve(struct series *series, size_t ranks)
{
	struct series_rank *rank;

	if (ranks <= series->ranks)
		return 0;
	rank = realloc(series->rank, ranks * sizeof(*rank));
	if (!rank)
		return -ENOMEM;
	series->rank = rank;
	memset(rank + series->ranks, 0, (ranks - series->ranks) * sizeof(*rank));
	for (size_t i = series->ranks; i < ranks; i++)
		rank[i].class = FRAME_NONE;
	series->ranks = ranks;
	free(series->scratch);
	free(series->by_class);
	free(series->start);
	free(series->class);
	free(series->records);
	series->records = calloc(ranks, sizeof(*series->records));
	series->class = calloc(ranks * FRAME_TIER_MAX, sizeof(*series->class));
	series->scratch = calloc(2 * ranks, sizeof(*series->scratch));
	series->by_class = calloc(ranks, sizeof(*series->by_class));
	series->start = calloc(ranks + 1, sizeof(*series->start));
	if (!series->records || !series->class || !series->scratch || !series->by_class || !series->start) {
		series_free(series);
		return -ENOMEM;
	}
	return 0;
}

static void slow_rank_series_forget(struct series_rank *rank, uint32_t class)
{
	*rank = (struct series_rank){.class = class};
}

static inline void slow_rank_series_order(float *a, float *b)
{
	float less = *a < *b ? *a : *b, more = *a > *b ? *a : *b;

	*a = less;
	*b = more;
}

/* A network of exchanges: which is the larger one is chance, and nothing here asks. */
static void sort_eight(float *v)
{
	static const uint8_t pairs[][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 1},
		{2, 3}, {4, 5}, {6, 7}, {2, 4}, {3, 5}, {1, 4}, {3, 6}, {1, 2}, {3, 4}, {5, 6}};

	_Pragma("GCC unroll 32") for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		slow_rank_series_order(&v[pairs[i][0]], &v[pairs[i][1]]);
}

static void sort_some(float *v, unsigned int n)
{
	for (unsigned int i = 1; i < n; i++) {
		float value = v[i];
		unsigned int at = i;

		for (; at > 0 && v[at - 1] > value; at--)
			v[at] = v[at - 1];
		v[at] = value;
	}
}

static void sort_out(struct series_rank *rank, unsigned int of)
{
	unsigned int n = rank->frames < of ? (unsigned int)rank->frames : of;
	float sorted[SERIES_OF_MAX];

	memcpy(sorted, rank->ring, sizeof(sorted));
	if (n == 8)
		sort_eight(sorted);
	else
		sort_some(sorted, n);
	rank->middle = sorted[(n - 1) / 2];
	rank->low = sorted[n / 4];
}

/* lost: share of its records that it lacks and its peers have. */
static void slow_rank_series_take(struct series *series, struct series_rank *rank, const struct measure_rank *measured, double lost)
{
	double doubt = lost > 0 && measured->self_ns
			       ? SERIES_DOUBT * lost * (double)measured->wait_ns / (double)measured->self_ns
			       : 0;
	double ratio = measured->ratio / (1 + doubt), value = ratio > 0 ? log(ratio) : -FAR;
	float *slot;

	rank->newest = rank->frames && rank->newest + 1U < series->of ? rank->newest + 1 : 0;
	slot = &rank->ring[rank->newest];
	if (isnan(value) || value < -FAR)
		value = -FAR;
	if (value > FAR)
		value = FAR;
	rank->distance = rank->frames >= series->of && series->since_tier > series->of
				 ? (float)fabs(value - (double)*slot)
				 : NAN;
	*slot = (float)value;
	rank->frames++;
	rank->slow = rank->slow << 1 | (ratio > series->ratio && measured->z > series->z);
	sort_out(rank, series->of);
}

static void slow_rank_series_date(
	struct series_rank *rank, const struct frame *frame, const struct frame_rank *of, double value, double noise)
{
	double drift = SERIES_DRIFT + noise, rise = value - drift;

	if (rise > 3 * drift)
		rise = 3 * drift;
	if (!(rank->cusum > 0)) {
		rank->since_step = frame->step;
		rank->since_ns = of->end_ns > of->step_ns ? of->end_ns - of->step_ns : 0;
	}
	rise += (double)rank->cusum;
	rank->cusum = (float)(rise < 0 ? 0 : rise > 1 ? 1 : rise);
}

static bool often(uint32_t slow, unsigned int of, unsigned int least)
{
	slow &= (1U << of) - 1;
	return (slow || !least) && (unsigned int)__builtin_popcount(slow) >= least;
}

static void slow_rank_series_average(double *mean, double value, uint32_t frames, double memory)
{
	*mean += (value - *mean) / fmin(frames, memory);
}

/* Of few ranks, those of a tensor group move together, so that the median of a frame may be of no two that differ; and
 * one that lost a record that held a wait is far out, in every other frame. The median of the last frames then: one
 * that is stepped towards each value. */
static void slow_rank_series_follow(double *median, double value, double step, bool longer)
{
	if (value <= *median)
		*median *= 1 - step;
	else if (!longer)
		*median *= 1 + step;
}

static void noise_of(struct series_class *class, double *distance, uint32_t n, uint32_t ranks, bool longer)
{
	double step = class->frames < SERIES_MEMORY ? SERIES_STEP_FAST : SERIES_STEP;

	class->frames++;
	if (ranks >= SERIES_SMALL) {
		double noise = DISTANCE_TO_SIGMA * robust_median(distance, n);

		slow_rank_series_average(&class->noise, noise, class->frames, SERIES_MEMORY);
		slow_rank_series_average(&class->fast, noise, class->frames, SERIES_MEMORY_FAST);
		return;
	}
	if (class->frames <= SERIES_NEW) {
		slow_rank_series_average(&class->noise, DISTANCE_TO_SIGMA * robust_median(distance, n), class->frames, SERIES_MEMORY);
		class->noise = fmax(class->noise, NOISE_LEAST);
		class->fast = class->noise;
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		slow_rank_series_follow(&class->noise, DISTANCE_TO_SIGMA * distance[i], step, longer);
		slow_rank_series_follow(&class->fast, DISTANCE_TO_SIGMA * distance[i], SERIES_STEP_FAST, longer);
	}
	class->noise = fmax(class->noise, NOISE_LEAST);
	class->fast = fmax(class->fast, NOISE_LEAST);
}

/* Of the last frames, by how each rank's value moved from one to the next: of few ranks it shows that noise has grown
 * before the running median does, as soon as half of these frames have it, and one that becomes slow moves once. */
static double noise_lately(const struct series *series, const uint32_t *rank, uint32_t ranks)
{
	double moved[SERIES_SMALL * SERIES_OF_MAX];
	size_t n = 0;

	for (uint32_t i = 0; i < ranks && i < SERIES_SMALL; i++) {
		const struct series_rank *of = &series->rank[rank[i]];
		size_t frames = of->frames < series->of ? (size_t)of->frames : series->of;

		for (size_t back = 1; back < frames; back++)
			moved[n++] = fabs(series_value(series, of, back - 1) - series_value(series, of, back));
	}
	return DISTANCE_TO_SIGMA * robust_median(moved, n);
}

/* By stages, of two: one has had more than the other, and never less. */
static bool is_one_sided(const struct series *series, const uint32_t *rank, uint32_t ranks)
{
	bool less = false, more = false;

	if (!series->by_stages || ranks != 2)
		return false;
	for (size_t back = 0; back < series->of && back < series->rank[rank[0]].frames; back++) {
		double value = series_value(series, &series->rank[rank[0]], back);

		less |= value < -SERIES_LEAST;
		more |= value > SERIES_LEAST;
	}
	return less != more;
}

static struct series_class *slow_rank_series_class_of(struct series *series, const uint32_t *rank)
{
	return &series->class[(size_t)series->rank[rank[0]].class * FRAME_TIER_MAX + series->tier];
}

/* Noise of the class, and the spread of its medians. */
static void spread_of(
	struct series *series, const uint32_t *rank, uint32_t ranks, double *ret_noise, double *ret_spread)
{
	struct series_class *class = slow_rank_series_class_of(series, rank);
	double *value = series->scratch, middle, spread;
	uint32_t n = 0;

	for (uint32_t i = 0; i < ranks; i++) {
		if (!isnan(series->rank[rank[i]].distance))
			value[n++] = (double)series->rank[rank[i]].distance;
	}
	if (2 * n > ranks)
		noise_of(class, value, n, ranks, series->longer);
	for (uint32_t i = 0; i < ranks; i++)
		value[i] = (double)series->rank[rank[i]].middle;
	middle = robust_median(value, ranks);
	spread = robust_spread(value, ranks, middle);
	if (2 * n > ranks)
		slow_rank_series_average(&class->spread, spread, class->frames, SERIES_MEMORY);
	*ret_noise = ranks > 2 ? fmax(class->noise, class->fast) : class->noise;
	if (ranks < SERIES_SMALL && !is_one_sided(series, rank, ranks))
		*ret_noise = fmax(*ret_noise, noise_lately(series, rank, ranks));
	*ret_spread = fmax(fmax(spread, class->spread), fmax(MIDDLE_OF_NOISE * *ret_noise, SPREAD_LEAST));
}

/* Frames that were slow, by the noise as it is known now. That of many ranks is known at once: only the newest then. */
static uint32_t still_slow(const struct series *series, const struct series_rank *rank, double noise, bool few)
{
	size_t frames = few ? series->of : 1;
	uint32_t slow = rank->slow;

	for (size_t back = 0; back < frames && back < rank->frames; back++) {
		if (series_value(series, rank, back) <= SERIES_NOISES * noise)
			slow &= ~(1U << back);
	}
	return slow;
}

/* Is half of a class of few slow at once? */
static bool is_divided(const struct series *series, const uint32_t *rank, uint32_t ranks)
{
	uint32_t n = 0;

	if (ranks <= 2 || ranks >= SERIES_SMALL)
		return false;
	for (uint32_t i = 0; i < ranks; i++)
		n += often(series->rank[rank[i]].slow, series->of, SERIES_DIVIDED);
	return 2 * n >= ranks;
}

/* What a median has to be above, to be held; in *ret_held for how many frames. */
static double slow_rank_series_limit_of(const struct series *series, uint32_t ranks, double noise, double spread, unsigned int *ret_held)
{
	double chance = sqrt(2 * log((double)ranks));

	*ret_held = SERIES_HELD;
	if (ranks == 2 && series->grown > 0) {
		*ret_held = SERIES_HELD_GROWN;
		return fmax((chance + SERIES_BEYOND_GROWN) * spread,
			fmin(SERIES_NOISES * noise, SERIES_OF_GROWTH * series->grown));
	}
	chance = (chance + (series->timed ? SERIES_BEYOND_TIMED : SERIES_BEYOND)) * spread;
	return ranks < SERIES_SMALL && !series->timed ? fmax(chance, SERIES_NOISES * noise) : chance;
}

/* Of a class of few: has it had a little more for so long that noise does not make it? */
static bool lasts(const struct series *series, struct series_rank *rank, const struct frame *frame,
	const struct frame_rank *of, double value, double noise)
{
	double limit = fmax(SERIES_LEAST, SERIES_LASTING_NOISES * noise);

	if (series->since_tier == 1)
		rank->lasting_frames = 0;
	if (!rank->lasting_frames) {
		rank->lasting = 0;
		rank->more = 0;
	}
	rank->more = rank->more << 1 | (value > SERIES_LEAST / 2);
	rank->lasting_frames += rank->lasting_frames < SERIES_LASTING;
	rank->lasting += (float)((value - (double)rank->lasting) / rank->lasting_frames);
	if ((double)rank->lasting < SERIES_LEAST / 2) {
		rank->lasting_step = frame->step;
		rank->lasting_ns = of->end_ns;
	}
	return rank->lasting_frames == SERIES_LASTING && (double)rank->lasting > limit &&
	       (double)rank->middle > limit && !series->loss && often(rank->more, SERIES_LASTING, SERIES_LASTING_MORE);
}

static void judge_class(struct series *series, const struct frame *frame, const uint32_t *rank, uint32_t ranks)
{
	unsigned int frames_min = series->frames_min, held;
	double noise, spread, limit;
	bool divided;

	spread_of(series, rank, ranks, &noise, &spread);
	limit = slow_rank_series_limit_of(series, ranks, noise, spread, &held);
	for (uint32_t i = 0; i < ranks; i++)
		series->rank[rank[i]].slow = still_slow(series, &series->rank[rank[i]], noise, ranks < SERIES_SMALL);
	divided = is_divided(series, rank, ranks);
	if (divided)
		frames_min = series->of;
	else if (series->loss)
		frames_min =
			frames_min + SERIES_LOSS_FRAMES < series->of ? frames_min + SERIES_LOSS_FRAMES : series->of;
	for (uint32_t i = 0; i < ranks; i++) {
		struct series_rank *of = &series->rank[rank[i]];
		double value = series_value(series, of, 0), middle = (double)of->middle;
		double sure = series->loss || divided ? (double)of->low : middle;

		if (sure > SERIES_LEAST && sure > limit && of->frames >= series->of)
			of->held += of->held < SERIES_HELD;
		else
			of->held = 0;
		slow_rank_series_date(of, frame, &frame->rank[rank[i]], value, noise);
		of->suspect = often(of->slow, 4, 3);
		of->candidate = often(of->slow, series->of, frames_min) || of->held >= held;
		if (ranks < SERIES_SMALL && !series->timed &&
			lasts(series, of, frame, &frame->rank[rank[i]], value, noise) && !of->candidate) {
			of->candidate = true;
			of->since_step = of->lasting_step;
			of->since_ns = of->lasting_ns;
		}
		if (!of->slow && !of->held && middle < SERIES_DRIFT)
			of->cusum = 0;
	}
}

/* How many records each rank has, where some are missing. */
static void count_records(struct series *series, const struct frame *frame, size_t ranks)
{
	memset(series->records, 0, ranks * sizeof(*series->records));
	for (size_t i = 0; series->lost > 0 && i < frame->ops; i++) {
		if (frame->op[i].rank < ranks)
			series->records[frame->op[i].rank]++;
	}
}

static void take_class(struct series *series, const struct measures *measures, const uint32_t *rank, uint32_t ranks)
{
	double most = 0;

	for (uint32_t i = 0; series->lost > 0 && i < ranks; i++)
		most = fmax(most, series->records[rank[i]]);
	for (uint32_t i = 0; i < ranks; i++)
		slow_rank_series_take(series, &series->rank[rank[i]], &measures->rank[rank[i]],
			most > 0 ? 1 - series->records[rank[i]] / most : 0);
}

static void series_read_tier(struct series *series, const struct frame *frame)
{
	enum frame_tier tier = frame->tier < FRAME_TIER_MAX ? frame->tier : FRAME_TIER_STAGES;

	if (tier != series->tier)
		series->since_tier = 0;
	series->tier = tier;
	series->since_tier += series->since_tier <= SERIES_OF_MAX;
}

static void series_read_loss(struct series *series, const struct frame *frame, const struct measures *measures)
{
	series->lost = frame->ops ? fmin((double)measures->lost / (double)frame->ops, 1) : 0;
	series->since_loss += series->since_loss < SERIES_OF_MAX;
	if (series->lost > SERIES_LOSS)
		series->since_loss = 0;
	series->loss = series->since_loss < series->of;
}

/* Is it in this frame, and of which class? */
static bool slow_rank_series_is_here(
	struct series_rank *rank, const struct measure_rank *measured, const struct measures *measures, size_t ranks)
{
	rank->here =
		measured->class < measures->classes && measured->class < ranks && measured->wait_ns != FRAME_UNKNOWN;
	if (rank->here) {
		if (rank->class != measured->class)
			slow_rank_series_forget(rank, measured->class);
		rank->here = true;
		rank->absent = 0;
		return true;
	}
	rank->absent += rank->absent < SERIES_ABSENT;
	rank->suspect = rank->candidate = false;
	if (rank->absent == SERIES_ABSENT)
		slow_rank_series_forget(rank, FRAME_NONE);
	return false;
}

int series_frame(struct series *series, const struct frame *frame, const struct measures *measures)
{
	size_t ranks = measures->ranks < frame->ranks ? measures->ranks : frame->ranks;
	uint32_t *start;
	int r = slow_rank_series_reserve(series, ranks);

	if (r < 0)
		return r;
	start = series->start;
	series_read_tier(series, frame);
	series_read_loss(series, frame, measures);
	count_records(series, frame, ranks);
	memset(start, 0, (ranks + 1) * sizeof(*start));
	for (size_t i = 0; i < ranks; i++) {
		if (slow_rank_series_is_here(&series->rank[i], &measures->rank[i], measures, ranks))
			start[series->rank[i].class + 1]++;
	}
	for (size_t c = 0; c < ranks; c++)
		start[c + 1] += start[c];
	for (uint32_t i = 0; i < ranks; i++) {
		if (series->rank[i].here)
			series->by_class[start[series->rank[i].class]++] = i;
	}
	/* Each start now is the next one's. */
	for (size_t c = 0, from = 0; c < ranks && c < measures->classes; from = start[c++]) {
		if (start[c] == from)
			continue;
		take_class(series, measures, series->by_class + from, start[c] - (uint32_t)from);
		judge_class(series, frame, series->by_class + from, start[c] - (uint32_t)from);
	}
	return 0;
}

void series_choose(struct series *series, size_t rank, unsigned int frames)
{
	struct series_rank *of = rank < series->ranks ? &series->rank[rank] : NULL;

	if (!of || !of->here || frames < 1 || !often(of->slow, frames, frames))
		return;
	of->candidate = true;
	of->middle = fmaxf(of->middle, (float)series_value(series, of, 0));
}
