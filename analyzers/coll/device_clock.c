/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/coll/device_clock.h"

#include <stddef.h>
#include <string.h>

#define WINDOW_NS (DEVICE_CLOCK_BUCKETS * DEVICE_CLOCK_BUCKET_NS)

static double drift_least(const struct device_clock *clock)
{
	return clock->drift_known ? clock->drift_min : -DEVICE_CLOCK_DRIFT_MAX;
}

static double drift_most(const struct device_clock *clock)
{
	return clock->drift_known ? clock->drift_max : DEVICE_CLOCK_DRIFT_MAX;
}

/* Offset at device_ns if it drifted by `later` per ns since the bound, or by `earlier` towards it from before. */
static int64_t device_clock_moved(
	const struct device_clock_bound *bound, int64_t device_ns, double earlier, double later, double most)
{
	int64_t x = device_ns - bound->device_ns;
	double near = x > WINDOW_NS ? WINDOW_NS : x < -WINDOW_NS ? -WINDOW_NS : (double)x;
	double far = (double)x - near;

	return bound->offset_ns + (int64_t)(near * (x < 0 ? earlier : later) + far * (x < 0 ? -most : most));
}

static int64_t lower_at(const struct device_clock *clock, int64_t device_ns)
{
	return device_clock_moved(
		&clock->lower, device_ns, drift_most(clock), drift_least(clock), -DEVICE_CLOCK_DRIFT_MAX);
}

static int64_t upper_at(const struct device_clock *clock, int64_t device_ns)
{
	return device_clock_moved(
		&clock->upper, device_ns, drift_least(clock), drift_most(clock), DEVICE_CLOCK_DRIFT_MAX);
}

static void forget_drift(struct device_clock *clock)
{
	clock->drift_known = false;
	memset(clock->bucket, 0, sizeof(clock->bucket));
}

static void begin_anew(struct device_clock *clock, int64_t device_ns)
{
	forget_drift(clock);
	clock->lower.known = clock->upper.known = false;
	clock->looser = 0;
	clock->newest_ns = device_ns;
	clock->steps++;
}

/* The new bound is on the wrong side of the other one. */
static void device_clock_contradicted(struct device_clock *clock, int64_t device_ns, int64_t offset_ns, bool is_lower)
{
	forget_drift(clock);
	if (is_lower ? offset_ns <= upper_at(clock, device_ns) : offset_ns >= lower_at(clock, device_ns)) {
		clock->drift_changes++;
		return;
	}
	begin_anew(clock, device_ns);
}

/* Mean drift between the earlier and the later bound; the caller compares. False: the bounds are too close in time. */
static bool device_clock_slope(
	const struct device_clock_bound *earlier, const struct device_clock_bound *later, double *ret)
{
	int64_t x = later->device_ns - earlier->device_ns;

	if (!earlier->known || !later->known || x < DEVICE_CLOCK_BUCKET_NS)
		return false;
	*ret = (double)(later->offset_ns - earlier->offset_ns) / (double)x;
	return true;
}

static double device_clock_limited(double drift)
{
	return drift > DEVICE_CLOCK_DRIFT_MAX	 ? DEVICE_CLOCK_DRIFT_MAX
	       : drift < -DEVICE_CLOCK_DRIFT_MAX ? -DEVICE_CLOCK_DRIFT_MAX
						 : drift;
}

/* Drift of the lower bounds themselves, from the oldest bucket to the newest. */
static bool lower_drift(const struct device_clock *clock, double *ret)
{
	const struct device_clock_bound *oldest = NULL, *newest = NULL;

	for (size_t i = 0; i < DEVICE_CLOCK_BUCKETS; i++) {
		const struct device_clock_bound *bound = &clock->bucket[i].lower;

		if (!bound->known)
			continue;
		if (!oldest || bound->device_ns < oldest->device_ns)
			oldest = bound;
		if (!newest || bound->device_ns > newest->device_ns)
			newest = bound;
	}
	return oldest && device_clock_slope(oldest, newest, ret);
}

static void drift_interval(const struct device_clock *clock, double *ret_least, double *ret_most)
{
	double least = -DEVICE_CLOCK_DRIFT_MAX, most = DEVICE_CLOCK_DRIFT_MAX, drift;

	for (size_t i = 0; i < DEVICE_CLOCK_BUCKETS; i++)
		for (size_t j = 0; j < DEVICE_CLOCK_BUCKETS; j++) {
			const struct device_clock_bucket *earlier = &clock->bucket[i], *later = &clock->bucket[j];

			if (device_clock_slope(&earlier->upper, &later->lower, &drift) && drift > least)
				least = drift;
			if (device_clock_slope(&earlier->lower, &later->upper, &drift) && drift < most)
				most = drift;
		}
	/* Where it changed within the window, they are in the other order. */
	*ret_least = device_clock_limited(least < most ? least : most);
	*ret_most = device_clock_limited(least < most ? most : least);
}

static void learn_drift(struct device_clock *clock)
{
	double least, most;

	clock->drift_known = lower_drift(clock, &clock->drift);
	if (!clock->drift_known)
		return;
	drift_interval(clock, &least, &most);
	if (clock->drift < least || clock->drift > most)
		clock->drift = clock->drift < least ? least : most;
	clock->drift_min = device_clock_limited(least - DEVICE_CLOCK_WANDER);
	clock->drift_max = device_clock_limited(most + DEVICE_CLOCK_WANDER);
}

/* NULL: older than the window. */
static struct device_clock_bucket *bucket_of(struct device_clock *clock, int64_t device_ns)
{
	int64_t number = device_ns / DEVICE_CLOCK_BUCKET_NS;
	struct device_clock_bucket *bucket = &clock->bucket[number % DEVICE_CLOCK_BUCKETS];

	if (bucket->number > number)
		return NULL;
	if (bucket->number == number)
		return bucket;
	for (size_t i = 0; i < DEVICE_CLOCK_BUCKETS; i++)
		if (clock->bucket[i].number <= number - DEVICE_CLOCK_BUCKETS)
			clock->bucket[i] = (struct device_clock_bucket){0};
	learn_drift(clock);
	bucket->number = number;
	return bucket;
}

static double drift_usual(const struct device_clock *clock)
{
	return clock->drift_known ? clock->drift : 0;
}

/* The tighter one of the two, the known drift taken into account. */
static void keep_tighter(const struct device_clock *clock, struct device_clock_bound *kept,
	const struct device_clock_bound *bound, bool is_lower)
{
	double drift = drift_usual(clock);
	int64_t kept_ns = kept->known ? device_clock_moved(kept, bound->device_ns, drift, drift, drift) : 0;

	if (!kept->known || (is_lower ? bound->offset_ns >= kept_ns : bound->offset_ns <= kept_ns))
		*kept = *bound;
}

/* Within bounds, differences of times cannot overflow. */
static bool device_clock_times_hold(uint64_t device_ns, uint64_t host_ns)
{
	return device_ns > 0 && device_ns <= DEVICE_CLOCK_TIME_MAX && host_ns > 0 && host_ns <= DEVICE_CLOCK_TIME_MAX;
}

static void bound_is_known(struct device_clock *clock, const struct device_clock_bound *bound, bool is_lower)
{
	struct device_clock_bucket *bucket = bucket_of(clock, bound->device_ns);

	if (bucket)
		keep_tighter(clock, is_lower ? &bucket->lower : &bucket->upper, bound, is_lower);
	if (bound->device_ns > clock->newest_ns)
		clock->newest_ns = bound->device_ns;
	clock->bounds++;
}

static void add_given(struct device_clock *clock, uint64_t device_ns, uint64_t given_ns)
{
	struct device_clock_bound bound = {.known = true, .device_ns = (int64_t)device_ns};

	/* An operation that waited for longer is too old. */
	if (!device_clock_times_hold(device_ns, given_ns) || bound.device_ns < clock->newest_ns - WINDOW_NS)
		return;
	bound.offset_ns = bound.device_ns + DEVICE_CLOCK_RESOLUTION_NS - (int64_t)given_ns;
	if (clock->lower.known && bound.offset_ns < lower_at(clock, bound.device_ns))
		device_clock_contradicted(clock, bound.device_ns, bound.offset_ns, false);
	if (!clock->upper.known || bound.offset_ns <= upper_at(clock, bound.device_ns))
		clock->upper = bound;
	bound_is_known(clock, &bound, false);
}

static void add_heard(struct device_clock *clock, uint64_t device_ns, uint64_t heard_ns)
{
	struct device_clock_bound bound = {.known = true, .device_ns = (int64_t)device_ns};

	if (!device_clock_times_hold(device_ns, heard_ns))
		return;
	bound.offset_ns = bound.device_ns - (int64_t)heard_ns;
	if (bound.device_ns < clock->newest_ns - WINDOW_NS)
		begin_anew(clock, bound.device_ns);
	else if (clock->upper.known && bound.offset_ns > upper_at(clock, bound.device_ns))
		device_clock_contradicted(clock, bound.device_ns, bound.offset_ns, true);
	clock->looser++;
	if (!clock->lower.known || bound.offset_ns >= lower_at(clock, bound.device_ns) ||
		(clock->looser >= DEVICE_CLOCK_LOWER_OPS &&
			bound.device_ns - clock->lower.device_ns >= DEVICE_CLOCK_LOWER_NS)) {
		clock->lower = bound;
		clock->looser = 0;
	}
	bound_is_known(clock, &bound, true);
}

void device_clock_add(
	struct device_clock *clock, uint64_t start_ns, uint64_t stop_ns, uint64_t given_ns, uint64_t heard_ns)
{
	uint64_t steps;

	add_heard(clock, stop_ns, heard_ns);
	steps = clock->steps;
	add_given(clock, start_ns, given_ns);
	if (clock->steps != steps) /* which took the lower bound away */
		add_heard(clock, stop_ns, heard_ns);
}

bool device_clock_at(const struct device_clock *clock, uint64_t device_ns, struct device_clock_estimate *ret)
{
	int64_t at_ns = (int64_t)device_ns, half_ns, usual_ns;

	if ((!clock->lower.known && !clock->upper.known) || !device_clock_times_hold(device_ns, 1))
		return false;
	*ret = (struct device_clock_estimate){
		.offset_min_ns = clock->lower.known ? lower_at(clock, at_ns) : INT64_MIN,
		.offset_max_ns = clock->upper.known ? upper_at(clock, at_ns) : INT64_MAX,
		.drift = drift_usual(clock),
		.drift_min = drift_least(clock),
		.drift_max = drift_most(clock),
	};
	if (!clock->lower.known) {
		ret->offset_ns = ret->offset_max_ns;
		return true;
	}
	/* Before the newest bounds, the interval may be wider than it was: the lower bound counts. */
	if (ret->offset_max_ns < ret->offset_min_ns)
		ret->offset_max_ns = ret->offset_min_ns;
	usual_ns = device_clock_moved(&clock->lower, at_ns, drift_usual(clock), drift_usual(clock), 0);
	if (usual_ns > ret->offset_max_ns)
		usual_ns = ret->offset_min_ns;
	half_ns = clock->upper.known ? (ret->offset_max_ns - usual_ns) / 2 : DEVICE_CLOCK_HEARD_NS;
	ret->offset_ns = usual_ns + (half_ns < DEVICE_CLOCK_HEARD_NS ? half_ns : DEVICE_CLOCK_HEARD_NS);
	return true;
}

uint64_t device_clock_host_ns(
	const struct device_clock *clock, uint64_t start_ns, uint64_t duration_ns, uint64_t given_ns, uint64_t heard_ns)
{
	struct device_clock_estimate estimate;
	int64_t host_ns;

	if (!device_clock_at(clock, start_ns, &estimate))
		return 0;
	host_ns = (int64_t)start_ns - estimate.offset_ns;
	/* Not after it was heard of, and not before it was given: the latter counts where both cannot be. */
	if (heard_ns && heard_ns <= DEVICE_CLOCK_TIME_MAX && duration_ns <= DEVICE_CLOCK_TIME_MAX &&
		host_ns > (int64_t)heard_ns - (int64_t)duration_ns)
		host_ns = (int64_t)heard_ns - (int64_t)duration_ns;
	if (given_ns && given_ns <= DEVICE_CLOCK_TIME_MAX && host_ns < (int64_t)given_ns)
		host_ns = (int64_t)given_ns;
	return host_ns > 0 ? (uint64_t)host_ns : 0;
}
