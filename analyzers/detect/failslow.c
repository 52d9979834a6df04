/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of failslow.h. */
#include "analyzers/detect/failslow.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NORMAL 1.4826 /* a normal distribution's deviation over its median deviation */
#define CLIP 3.0      /* spikes say nothing about persistence */
#define PHI_MAX 0.95

/* The first place whose value is not below; without branches that cannot be foretold. */
static size_t failslow_reference_index(const struct failslow_reference *reference, double value)
{
	const double *sorted = reference->sorted;
	size_t n = reference->count, at = 0;

	while (n > 1) {
		size_t half = n / 2;

		at += sorted[at + half - 1] < value ? half : 0;
		n -= half;
	}
	return at + (n == 1 && sorted[at] < value);
}

void failslow_reference_add(struct failslow_reference *reference, double value)
{
	double *sorted = reference->sorted;
	size_t at = failslow_reference_index(reference, value), old = reference->count;

	if (reference->count == FAILSLOW_REFERENCE)
		old = failslow_reference_index(reference, reference->value[reference->next]);
	else
		reference->count++;
	if (at > old) {
		at--;
		memmove(sorted + old, sorted + old + 1, (at - old) * sizeof(*sorted));
	} else {
		memmove(sorted + at + 1, sorted + at, (old - at) * sizeof(*sorted));
	}
	sorted[at] = value;
	reference->value[reference->next] = value;
	reference->next = (reference->next + 1) % FAILSLOW_REFERENCE;
}

/* The median distance from the median. The nearest `need` values are a stretch of the sorted ones; the middle distance
 * is that of its farther end. */
static double deviation(const struct failslow_reference *reference, double median)
{
	const double *sorted = reference->sorted;
	size_t need = (reference->count - 1) / 2 + 1, low = 0, high = reference->count - need;

	while (low < high) {
		size_t middle = (low + high) / 2;

		/* Further right as long as what would come in on the right is nearer than what leaves on the left. */
		if (sorted[middle + need] - median < median - sorted[middle])
			low = middle + 1;
		else
			high = middle;
	}
	return fmax(median - sorted[low], sorted[low + need - 1] - median);
}

/* How much of a value is still there in the next: the correlation of neighbours. */
static double persistence(const struct failslow_reference *reference, const struct failslow_past *past)
{
	size_t at = reference->count == FAILSLOW_REFERENCE ? reference->next : 0;
	double before = 0, products = 0, squares = 0, scale = 1 / past->sigma;

	for (size_t i = 0; i < reference->count; i++) {
		double x = (reference->value[at] - past->median) * scale;

		x = x > CLIP ? CLIP : x < -CLIP ? -CLIP : x;
		products += x * before;
		squares += x * x;
		before = x;
		at = at + 1 == FAILSLOW_REFERENCE ? 0 : at + 1;
	}
	return squares > 0 ? fmin(fmax(products / squares, 0), PHI_MAX) : 0;
}

void failslow_reference_read(const struct failslow_reference *reference, double floor, struct failslow_past *ret)
{
	size_t n = reference->count;

	ret->median = n > 0 ? (reference->sorted[(n - 1) / 2] + reference->sorted[n / 2]) / 2 : 0;
	ret->sigma = n > 0 ? fmax(floor, NORMAL * deviation(reference, ret->median)) : floor;
}

double failslow_reference_inflate(const struct failslow_reference *reference, const struct failslow_past *past)
{
	double phi = persistence(reference, past);

	return sqrt((1 + phi) / (1 - phi));
}

double failslow_median(double *value, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		double x = value[i];
		size_t k = i;

		for (; k > 0 && value[k - 1] > x; k--)
			value[k] = value[k - 1];
		value[k] = x;
	}
	return (value[(n - 1) / 2] + value[n / 2]) / 2;
}

#define BLOCKS FAILSLOW_RAMP_BLOCKS
#define PAIRS (BLOCKS * (BLOCKS - 1) / 2)
#define END 3 /* blocks at either end */

void failslow_ramp_reset(struct failslow_ramp *ramp, size_t every)
{
	*ramp = (struct failslow_ramp){.every = every};
}

static double median_of(const double *block, size_t n)
{
	double copy[BLOCKS];

	memcpy(copy, block, n * sizeof(*copy));
	return failslow_median(copy, n);
}

static bool measure(const struct failslow_ramp *ramp, double least, struct failslow_rise *ret)
{
	double slope[PAIRS];
	size_t n = 0, rising = 0, first = 0;

	ret->base = median_of(ramp->block, END);
	ret->ends = median_of(ramp->block + BLOCKS - END, END) - ret->base;
	if (ret->ends <= least)
		return false;
	for (size_t i = 0; i < BLOCKS; i++) {
		for (size_t j = i + 1; j < BLOCKS; j++) {
			double rise = ramp->block[j] - ramp->block[i];

			rising += rise > 0;
			slope[n++] = rise / (double)(j - i);
		}
	}
	ret->rise = failslow_median(slope, n) * BLOCKS;
	ret->rising = (double)rising / PAIRS;
	/* It began with the last block that was still near the base. */
	for (size_t i = 0; i < BLOCKS; i++) {
		if (ramp->block[i] - ret->base < ret->ends / BLOCKS)
			first = i;
	}
	ret->step = ramp->step[first];
	ret->time_ns = ramp->time_ns[first];
	return true;
}

static void begin_block(struct failslow_ramp *ramp, uint64_t step, uint64_t time_ns)
{
	if (ramp->blocks == BLOCKS) {
		memmove(ramp->block, ramp->block + 1, (BLOCKS - 1) * sizeof(*ramp->block));
		memmove(ramp->step, ramp->step + 1, (BLOCKS - 1) * sizeof(*ramp->step));
		memmove(ramp->time_ns, ramp->time_ns + 1, (BLOCKS - 1) * sizeof(*ramp->time_ns));
		ramp->blocks--;
	}
	ramp->step[ramp->blocks] = step;
	ramp->time_ns[ramp->blocks] = time_ns;
}

bool failslow_ramp_add(struct failslow_ramp *ramp, double value, uint64_t step, uint64_t time_ns, double least,
	struct failslow_rise *ret)
{
	if (++ramp->skipped < ramp->every)
		return false;
	ramp->skipped = 0;
	if (ramp->samples == 0)
		begin_block(ramp, step, time_ns);
	ramp->sample[ramp->samples++] = value;
	if (ramp->samples < FAILSLOW_RAMP_SAMPLES)
		return false;
	ramp->samples = 0;
	ramp->block[ramp->blocks++] = failslow_median(ramp->sample, FAILSLOW_RAMP_SAMPLES);
	return ramp->blocks == BLOCKS && measure(ramp, least, ret);
}

#define WARM_UP 3
#define NEEDED 30
#define REFRESH 10
#define INFLATE_READS 4 /* how much neighbours hang together changes slowly */
#define SIGMA_MIN 0.01
#define CLIP_LOW -3.0
#define CLIP_HIGH 4.0
#define CLIP_LEAST 2.0 /* over the allowance: five such steps make an alarm, of the quietest jobs too */
#define SUM_MIN 10.0   /* h */
#define SUM_MAX 20.0   /* so that it forgets in time */
#define SUM_SUSPECT 4.0
#define SUSPECT_MAX 9
#define LATEST 5
#define EVEN_DEPTH 0.6 /* steps above this part of the excess are slow ones */
#define EVEN_PART 0.8  /* so many of those that verify it */
#define VERIFY 0.8     /* the part of the degree that the medians must show */
#ifndef Z_JUMP
#define Z_JUMP 4.0
#endif
#define Z_RAMP 5.0
#define RISING 0.8
#define MEDIAN_COST 1.25 /* a median's deviation over a mean's */
#define ABSORB 300	 /* steps of neither quiet nor alarm, and what is now is the reference */
#define RISE_STEPS 10	 /* before the onset */
#define RISE_EARLY 0.2	 /* of the excess */
#define RISE_LATE 200	 /* so long after the onset it may still rise */
#define RISE_ON 1.5	 /* and to this, over what was reported */
#define RELIEF 10
#define LONG 100   /* steps in alarm, from which its size is measured less often */
#define RECENT 256 /* a power of two, above the reference's size */
#define RAMPS 2

/* Lengths over which an excess is verified: the smaller it is, the longer. */
static const unsigned verify_steps[] = {6, 8, 12, 16, 24, 32, 48, 64};
#define VERIFY_MAX 64

static const size_t ramp_every[RAMPS] = {1, 10}; /* over 200 and over 2000 steps */

struct point {
	double y;
	uint64_t step, time_ns;
};

struct failslow {
	double degree, verify, relief; /* logarithms */
	unsigned suspect_steps;
	enum failslow_state state;
	uint64_t seen;	/* steps in recent, ever */
	uint64_t since; /* steps since the onset, while the sum is above 0 or in alarm */
	unsigned fresh; /* reference values since it was read */
	double reported; /* the excess with which the alarm began */
	double sum;	/* S */
	unsigned reads;
	double inflate; /* f */
	struct failslow_past past;
	struct failslow_reference reference;
	struct failslow_ramp ramp[RAMPS];
	struct point recent[RECENT];
	struct failslow_verdict verdict;
};

struct failslow *failslow_new(const struct failslow_options *options)
{
	double degree = options && options->degree > 0 && options->degree < 10 ? options->degree : 0.10;
	unsigned steps = options && options->suspect_steps ? options->suspect_steps : 3;
	struct failslow *failslow = calloc(1, sizeof(*failslow));

	if (!failslow)
		return NULL;
	failslow->degree = log(1 + degree);
	failslow->verify = log(1 + VERIFY * degree);
	failslow->relief = log(1 + degree / 2);
	failslow->suspect_steps = steps < SUSPECT_MAX ? steps : SUSPECT_MAX;
	for (size_t i = 0; i < RAMPS; i++)
		failslow_ramp_reset(&failslow->ramp[i], ramp_every[i]);
	failslow->verdict.ratio = 1;
	return failslow;
}

struct failslow *failslow_free(struct failslow *failslow)
{
	free(failslow);
	return NULL;
}

/* The step so many before the newest one; 0: the newest. */
static const struct point *failslow_ago(const struct failslow *failslow, uint64_t steps)
{
	return &failslow->recent[(failslow->seen - 1 - steps) % RECENT];
}

/* Median of the last n steps over the reference; n at most VERIFY_MAX. */
static double excess(const struct failslow *failslow, uint64_t n)
{
	double value[VERIFY_MAX];

	for (uint64_t i = 0; i < n; i++)
		value[i] = failslow_ago(failslow, i)->y;
	return failslow_median(value, n) - failslow->past.median;
}

static void set_state(struct failslow *failslow, enum failslow_state state)
{
	failslow->verdict.changed = failslow->state != state;
	failslow->state = failslow->verdict.state = state;
}

static void read_reference(struct failslow *failslow)
{
	failslow_reference_read(&failslow->reference, SIGMA_MIN, &failslow->past);
	if (failslow->reads++ % INFLATE_READS == 0)
		failslow->inflate = failslow_reference_inflate(&failslow->reference, &failslow->past);
	failslow->fresh = 0;
	failslow->verdict.sigma = failslow->past.sigma;
	failslow->verdict.reference_ns = (uint64_t)llround(exp(failslow->past.median));
}

/* The last n steps have turned out to be quiet ones. */
static void admit(struct failslow *failslow, uint64_t n)
{
	if (n > FAILSLOW_REFERENCE)
		n = FAILSLOW_REFERENCE;
	for (uint64_t i = n; i > 0; i--)
		failslow_reference_add(&failslow->reference, failslow_ago(failslow, i - 1)->y);
	failslow->fresh += n;
	if (failslow->fresh >= REFRESH)
		read_reference(failslow);
}

static void be_quiet(struct failslow *failslow)
{
	failslow->sum = 0;
	failslow->since = 0;
	failslow->verdict.ratio = 1;
	failslow->verdict.ramp = false;
	failslow->verdict.onset_step = failslow->verdict.onset_ns = failslow->verdict.steps_since = 0;
	set_state(failslow, FAILSLOW_QUIET);
}

static void be_slow(struct failslow *failslow, enum failslow_state state, double excess_ln)
{
	failslow->verdict.ratio = exp(excess_ln);
	set_state(failslow, state);
}

static void set_onset(struct failslow *failslow, uint64_t since)
{
	const struct point *first = failslow_ago(failslow, (since < RECENT ? since : RECENT) - 1);

	failslow->verdict.steps_since = since;
	failslow->verdict.onset_step = first->step;
	failslow->verdict.onset_ns = first->time_ns;
}

/* How far a median of n steps may be off the reference by chance: one deviation. */
static double chance(const struct failslow *failslow, double n)
{
	double reference = (double)failslow->reference.count;

	/* However much they hang together, a median varies no more than one step. */
	return failslow->past.sigma * fmin(1, MEDIAN_COST * failslow->inflate * sqrt(1 / n + 1 / reference));
}

/* Whether the last n steps are all of one slowness: so many of them lie above EVEN_DEPTH of what their median does. A
 * burst of four and the noise beside it are not. */
static bool even(const struct failslow *failslow, uint64_t n, double excess_ln)
{
	double least = failslow->past.median + fmax(excess_ln * EVEN_DEPTH, failslow->relief);
	uint64_t slow = 0;

	for (uint64_t i = 0; i < n; i++)
		slow += failslow_ago(failslow, i)->y > least;
	return (double)slow >= EVEN_PART * (double)n;
}

/* The shortest time over which the excess is large, sure and lasting; 0: none. */
static uint64_t verified(const struct failslow *failslow, double *ret_excess)
{
	if (failslow->sum <= SUM_MIN || failslow->since < verify_steps[0] ||
		excess(failslow, LATEST) <= failslow->verify)
		return 0;
	for (size_t i = 0; i < sizeof(verify_steps) / sizeof(verify_steps[0]) && verify_steps[i] <= failslow->since;
		i++) {
		uint64_t n = verify_steps[i];
		double found = excess(failslow, n);

		if (found > failslow->verify && found > Z_JUMP * chance(failslow, (double)n) &&
			even(failslow, n, found)) {
			*ret_excess = found;
			return n;
		}
	}
	return 0;
}

/* Where in the steps since the sum left 0 the slowness began: noise before it belongs to the past. The place that parts
 * them best into steps at the reference and steps at the excess (least squares of both, clipped by the midpoint's
 * sign). */
static uint64_t began(const struct failslow *failslow, uint64_t since, double excess_ln)
{
	double middle = failslow->past.median + excess_ln / 2, score = 0, best = 0;
	uint64_t at = 1;

	for (uint64_t i = 0; i < since; i++) {
		double x = (failslow_ago(failslow, i)->y - middle) / excess_ln;

		score += fmin(fmax(x, -1), 1);
		if (score > best) {
			best = score;
			at = i + 1;
		}
	}
	return at;
}

/* A rise rather than a jump: between the step at which the sum left 0 and the onset it was not at the reference. */
static bool rises(const struct failslow *failslow, uint64_t had, uint64_t since, double excess_ln)
{
	double early[VERIFY_MAX];
	uint64_t n = had - since < VERIFY_MAX ? had - since : VERIFY_MAX;

	if (n < RISE_STEPS)
		return false;
	for (uint64_t i = 0; i < n; i++)
		early[i] = failslow_ago(failslow, since + i)->y;
	return failslow_median(early, n) - failslow->past.median > RISE_EARLY * excess_ln;
}

static void failslow_find_ramps(struct failslow *failslow)
{
	const struct point *now = failslow_ago(failslow, 0);

	for (size_t i = 0; i < RAMPS; i++) {
		struct failslow_rise rise;

		if (!failslow_ramp_add(&failslow->ramp[i], now->y, now->step, now->time_ns, failslow->verify, &rise))
			continue;
		if (rise.rise <= failslow->degree || rise.rising < RISING ||
			rise.ends <= Z_RAMP * chance(failslow, 3 * FAILSLOW_RAMP_SAMPLES))
			continue;
		/* What was before the rise is the reference until it is over. */
		failslow->past.median = rise.base;
		failslow->verdict.reference_ns = (uint64_t)llround(exp(rise.base));
		failslow->verdict.ramp = true;
		failslow->verdict.onset_step = rise.step;
		failslow->verdict.onset_ns = rise.time_ns;
		failslow->since = failslow->verdict.steps_since =
			FAILSLOW_RAMP_BLOCKS * FAILSLOW_RAMP_SAMPLES * ramp_every[i];
		failslow->reported = rise.ends;
		be_slow(failslow, FAILSLOW_ALARM, rise.ends);
		return;
	}
}

static void watch(struct failslow *failslow)
{
	double found = 0, sigma = failslow->past.sigma, r = (failslow_ago(failslow, 0)->y - failslow->past.median) / sigma;
	double allowance = fmax(0.5, 0.25 * failslow->degree / sigma);

	failslow->since++;
	failslow->sum = fmin(
		failslow->sum + fmin(fmax(r, CLIP_LOW), fmax(CLIP_HIGH, allowance + CLIP_LEAST)) - allowance, SUM_MAX);
	if (failslow->sum <= 0 || failslow->since > ABSORB) {
		admit(failslow, failslow->since);
		be_quiet(failslow);
	} else if (verified(failslow, &found)) {
		uint64_t had = failslow->since < RECENT ? failslow->since : RECENT, since = began(failslow, had, found);

		failslow->verdict.ramp = rises(failslow, had, since, found);
		failslow->reported = found;
		set_onset(failslow, since);
		failslow->since = since;
		be_slow(failslow, FAILSLOW_ALARM, found);
		return;
	} else if (failslow->since >= failslow->suspect_steps &&
		   (failslow->sum > SUM_SUSPECT || failslow->state == FAILSLOW_SUSPECT)) {
		double last = excess(failslow, failslow->suspect_steps);

		if (failslow->state == FAILSLOW_SUSPECT ? last > failslow->relief : last > failslow->degree) {
			set_onset(failslow, failslow->since);
			be_slow(failslow, FAILSLOW_SUSPECT, last);
		} else if (failslow->state == FAILSLOW_SUSPECT) {
			set_state(failslow, FAILSLOW_QUIET);
			failslow->verdict.ratio = 1;
		}
	}
	failslow_find_ramps(failslow);
}

/* More than half of the last steps are: their median is. */
static bool relieved(const struct failslow *failslow)
{
	unsigned quick = 0;

	for (uint64_t i = 0; i < RELIEF; i++)
		quick += failslow_ago(failslow, i)->y - failslow->past.median < failslow->relief;
	return quick > RELIEF / 2;
}

static void await_relief(struct failslow *failslow)
{
	uint64_t since = ++failslow->since;

	failslow->verdict.steps_since = since;
	if (since >= RELIEF && relieved(failslow)) {
		read_reference(failslow);
		be_quiet(failslow);
		for (size_t i = 0; i < RAMPS; i++)
			failslow_ramp_reset(&failslow->ramp[i], ramp_every[i]);
	} else if (since % (since < LONG ? RELIEF : LONG) == 0) {
		double found = excess(failslow, since < VERIFY_MAX ? since : VERIFY_MAX);

		failslow->verdict.ratio = exp(found);
		failslow->verdict.ramp |= since <= RISE_LATE && found > RISE_ON * failslow->reported;
	}
}

static void failslow_learn(struct failslow *failslow)
{
	if (failslow->seen <= WARM_UP)
		return;
	failslow_reference_add(&failslow->reference, failslow_ago(failslow, 0)->y);
	if (failslow->reference.count < NEEDED)
		return;
	read_reference(failslow);
	be_quiet(failslow);
}

void failslow_feed(struct failslow *failslow, uint64_t step, uint64_t time_ns, uint64_t step_ns, enum frame_class class,
	struct failslow_verdict *ret)
{
	failslow->verdict.changed = false;
	if (class == FRAME_TRAIN && step_ns > 0) {
		failslow->recent[failslow->seen++ % RECENT] = (struct point){log((double)step_ns), step, time_ns};
		if (failslow->state == FAILSLOW_LEARNING)
			failslow_learn(failslow);
		else if (failslow->state == FAILSLOW_ALARM)
			await_relief(failslow);
		else
			watch(failslow);
	}
	*ret = failslow->verdict;
}
