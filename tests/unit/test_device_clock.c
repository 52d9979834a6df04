/* SPDX-License-Identifier: Apache-2.0 */
/* A device's clock against the host's: intervals that hold over simulated months, and times that cannot be wrong. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/coll/device_clock.h"

#include "tests/test.h"

#define US 1000LL
#define MS 1000000LL
#define SECOND 1000000000LL
#define DAY (86400 * SECOND)
#define EPOCH 1795220846000000000LL /* of the device's clock at host time 0 */
#define ERRORS_MAX 100000

/* The truth: offset at host time `now`, which the clock under test never sees. */
struct world {
	uint64_t random;
	int64_t now;
	double offset, base, wander, ntp, slew; /* ns; the others in ns per ns */
	double warm;				/* drift of a device that warms up */
	int64_t ntp_next, slew_next, slew_end, step_next, load_next, load_end;
	unsigned steps;
};

struct tally {
	uint64_t operations, kept, inside, drift_inside, sign_wrong;
	size_t errors;
	double error_us[ERRORS_MAX], width_us[ERRORS_MAX]; /* of a sample */
};

static struct device_clock tested;
static struct tally tally;

static double uniform(struct world *world)
{
	world->random ^= world->random << 13;
	world->random ^= world->random >> 7;
	world->random ^= world->random << 17;
	return (double)(world->random >> 11) / 9007199254740992.0;
}

static double exponential(struct world *world, double mean)
{
	return -mean * log(1 - uniform(world));
}

static double drift_of(const struct world *world)
{
	double day = 2e-6 * sin(6.2831853 * (double)world->now / (double)DAY);

	return world->base + day + world->wander + world->ntp + world->slew + world->warm;
}

/* What happens to clocks: temperature, NTP's corrections of frequency, its slews, steps of either. */
static void pass(struct world *world, int64_t ns)
{
	double seconds = (double)ns / (double)SECOND;

	world->offset += drift_of(world) * (double)ns;
	world->now += ns;
	world->wander += 0.01e-6 * sqrt(seconds) * (uniform(world) - 0.5) - world->wander * seconds / 10000;
	world->warm += (3e-6 - world->warm) * (1 - exp(-seconds / 100));
	if (world->now >= world->ntp_next) {
		world->ntp = 0.9 * world->ntp + 0.4e-6 * (uniform(world) - 0.5);
		world->ntp_next = world->now + 256 * SECOND;
	}
	if (world->now >= world->slew_next) {
		world->slew = uniform(world) < 0.5 ? -20e-6 : 20e-6;
		world->slew_end = world->now + (int64_t)((10 + 50 * uniform(world)) * (double)SECOND);
		world->slew_next = world->now + (int64_t)(uniform(world) * (double)DAY);
	}
	if (world->now >= world->slew_end)
		world->slew = 0;
	if (world->now >= world->step_next) {
		double size = exp(log(1e5) + uniform(world) * log(1e5)); /* 100 us to 10 s */

		world->offset += uniform(world) < 0.5 ? -size : size;
		world->step_next = world->now + (int64_t)(2 * uniform(world) * (double)DAY);
		world->steps++;
	}
	if (world->now >= world->load_end && world->now >= world->load_next) {
		world->load_end = world->now + (int64_t)((5 + 25 * uniform(world)) * (double)SECOND);
		world->load_next = world->load_end + (int64_t)(uniform(world) * 600 * (double)SECOND);
	}
}

/* Threads are late by up to 10 ms, more often under load. */
static double late(struct world *world, double usual_ns)
{
	double often = world->now < world->load_end ? 0.3 : 0.01;

	return exponential(world, usual_ns) + (uniform(world) < often ? uniform(world) * 10 * MS : 0);
}

/* Of the moment host_ns, which is near now. */
static uint64_t device_time(const struct world *world, double host_ns)
{
	return EPOCH + (uint64_t)(int64_t)(host_ns + world->offset + drift_of(world) * (host_ns - (double)world->now));
}

static void count_one(struct world *world, uint64_t device_start, double start, double given, uint64_t host,
	const struct device_clock_estimate *estimate)
{
	int64_t offset_ns = (int64_t)(device_start - (uint64_t)start);
	/* From the end of the host's call, 40 us after its begin: it shows whether the host is ahead. */
	double lead = start - given - 40 * US, lead_seen = (double)host - given - 40 * US;
	double width = (double)estimate->offset_max_ns - (double)estimate->offset_min_ns;

	tally.inside += estimate->offset_min_ns - 2 <= offset_ns && offset_ns <= estimate->offset_max_ns + 2;
	tally.drift_inside += estimate->drift_min <= drift_of(world) && drift_of(world) <= estimate->drift_max;
	tally.sign_wrong += fabs(lead_seen) > width && (lead > 0) != (lead_seen > 0);
	if (tally.operations % 149 == 0 && tally.errors < ERRORS_MAX) {
		tally.error_us[tally.errors] = fabs((double)host - start) / US;
		tally.width_us[tally.errors++] = width / US;
	}
}

/* The host runs ahead of the device by up to ahead_ns. */
static void operate(struct world *world, double ahead_ns)
{
	double given = (double)world->now, start = given + 12 * US + late(world, 20 * US) + ahead_ns * uniform(world);
	double length = 40 * US + exponential(world, 2 * MS), heard = start + length + 4 * US + late(world, 8 * US);
	uint64_t device_start = device_time(world, start), device_stop = device_time(world, start + length), host;
	struct device_clock_estimate estimate;

	device_clock_add(&tested, device_start, device_stop, (uint64_t)given, (uint64_t)heard);
	assert_true(device_clock_at(&tested, device_start, &estimate));
	host = device_clock_host_ns(
		&tested, device_start, device_stop - device_start, (uint64_t)given, (uint64_t)heard);
	tally.operations++;
	/* The clocks' drift within the operation shows in its length. */
	tally.kept += host >= (uint64_t)given && host + (device_stop - device_start) <= (uint64_t)heard + 1 * US;
	count_one(world, device_start, start, given, host, &estimate);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(double *values, double q)
{
	qsort(values, tally.errors, sizeof(*values), compare);
	return values[(size_t)((double)(tally.errors - 1) * q)];
}

/* A month of training steps of 2 s, of 4 operations each, with pauses between jobs. */
static void live(double base, double ahead_ns)
{
	struct world world = {.random = 88172645463325252ULL, .base = base, .step_next = DAY / 2};

	memset(&tested, 0, sizeof(tested));
	memset(&tally, 0, sizeof(tally));
	world.now = 100 * SECOND;
	while (world.now < 30 * DAY) {
		for (unsigned i = 0; i < 4; i++) {
			pass(&world, 100 * MS);
			operate(&world, ahead_ns);
		}
		pass(&world, 1600 * MS);
		if (uniform(&world) < 1e-4) { /* the next job */
			for (unsigned i = 0; i < 60; i++)
				pass(&world, (int64_t)(uniform(&world) * 120 * (double)SECOND));
			world.warm = 0;
		}
	}
	printf("drift %+.0f ppm, host ahead by up to %.0f ms: %llu operations, kept %.4f %%; within the interval: "
	       "offset "
	       "%.4f %%, drift %.4f %%; error median %.1f us, 99th percentile %.1f; interval median %.1f us, 99th "
	       "percentile %.1f; wrong signs %llu; %u steps, noticed %llu, and %llu changes of drift\n",
		base * 1e6, ahead_ns / MS, (unsigned long long)tally.operations,
		100.0 * (double)tally.kept / (double)tally.operations,
		100.0 * (double)tally.inside / (double)tally.operations,
		100.0 * (double)tally.drift_inside / (double)tally.operations, quantile(tally.error_us, 0.5),
		quantile(tally.error_us, 0.99), quantile(tally.width_us, 0.5), quantile(tally.width_us, 0.99),
		(unsigned long long)tally.sign_wrong, world.steps, (unsigned long long)tested.steps,
		(unsigned long long)tested.drift_changes);
	assert_int_equal(tally.kept, tally.operations);
	assert_true((double)tally.inside >= 0.999 * (double)tally.operations);
	assert_true((double)tally.drift_inside >= 0.99 * (double)tally.operations);
	assert_true((double)tally.sign_wrong <= 0.0001 * (double)tally.operations);
	assert_true(quantile(tally.error_us, 0.5) < 5);
	assert_true(quantile(tally.error_us, 0.99) < 50);
	/* Steps of hundreds of microseconds may hide in the interval of a host that runs ahead. */
	assert_true(tested.steps <= world.steps + 2 && tested.steps >= world.steps / 2);
}

TEST(a_month_of_a_host_that_waits)
{
	live(50e-6, 0);
	assert_true(quantile(tally.width_us, 0.5) < 50);
}

TEST(a_month_of_a_host_that_runs_ahead)
{
	live(-50e-6, 60 * MS);
	assert_true(quantile(tally.width_us, 0.5) < 1000);
}

/* An operation of 100 us every 100 ms, 20 us after its call, heard of 10 us after its end. */
static void run(int64_t *now, int64_t offset_ns, double drift, unsigned operations)
{
	int64_t from = *now;

	for (unsigned i = 0; i < operations; i++, *now += 100 * MS) {
		int64_t start = *now + 20 * US + offset_ns + (int64_t)(drift * (double)(*now - from));

		device_clock_add(&tested, (uint64_t)start, (uint64_t)(start + 100 * US), (uint64_t)*now,
			(uint64_t)(*now + 130 * US));
	}
}

static struct device_clock_estimate newest(void)
{
	struct device_clock_estimate ret;

	assert_true(device_clock_at(&tested, (uint64_t)tested.newest_ns, &ret));
	return ret;
}

static int forget(void **state)
{
	memset(&tested, 0, sizeof(tested));
	return 0;
}

TEST_WITH(nothing_is_known_at_first, forget, NULL)
{
	struct device_clock_estimate estimate;

	assert_false(device_clock_at(&tested, 5, &estimate));
	assert_int_equal(device_clock_host_ns(&tested, 5, 1, 0, 0), 0);
	device_clock_add(&tested, 7 * SECOND, 0, 2 * SECOND, 0);
	assert_true(device_clock_at(&tested, 7 * SECOND, &estimate));
	assert_int_equal(estimate.offset_max_ns, 5 * SECOND + DEVICE_CLOCK_RESOLUTION_NS);
	assert_true(estimate.offset_min_ns == INT64_MIN);
	device_clock_add(&tested, 0, 8 * SECOND, 0, 3 * SECOND + 40 * US);
	assert_true(device_clock_at(&tested, 8 * SECOND, &estimate));
	assert_int_equal(estimate.offset_min_ns, 5 * SECOND - 40 * US);
	assert_int_equal(estimate.offset_ns, estimate.offset_min_ns + DEVICE_CLOCK_HEARD_NS);
	assert_false(tested.drift_known);
}

TEST_WITH(the_drift_is_learned, forget, NULL)
{
	int64_t now = 10 * SECOND;

	run(&now, EPOCH, 30e-6, 300);
	assert_true(newest().drift_max - newest().drift_min < 60e-6);
	run(&now, newest().offset_ns, 30e-6, 2560);
	assert_true(fabs(newest().drift - 30e-6) < 1e-6);
	assert_true(newest().drift_min <= 30e-6 && 30e-6 <= newest().drift_max);
	assert_true(newest().drift_max - newest().drift_min < 2 * DEVICE_CLOCK_WANDER + 1e-6);
	assert_int_equal(tested.steps, 0);
	/* A host that runs ahead then: without the drift, the interval would be 3 ms. */
	{
		int64_t at_ns = tested.newest_ns + 30 * SECOND;
		struct device_clock_estimate estimate;

		assert_true(device_clock_at(&tested, (uint64_t)at_ns, &estimate));
		assert_true(estimate.offset_max_ns - newest().offset_max_ns < 30 * 42 * US);
	}
	/* Another drift that the limit allows is no step. */
	run(&now, newest().offset_ns, -60e-6, 600);
	assert_int_equal(tested.steps, 0);
	assert_true(tested.drift_changes > 0);
	assert_true(newest().drift < -20e-6);
}

TEST_WITH(a_step_of_either_clock_begins_anew, forget, NULL)
{
	static const int64_t step_ns[] = {
		1 * MS, -1 * MS, 500 * MS, -500 * MS, 86400 * SECOND, -86400 * SECOND, -EPOCH + SECOND};
	int64_t now = 10 * SECOND, offset_ns = EPOCH;

	run(&now, offset_ns, 0, 300);
	for (unsigned i = 0; i < sizeof(step_ns) / sizeof(*step_ns); i++) {
		offset_ns = i == 6 ? SECOND : offset_ns + step_ns[i];
		run(&now, offset_ns, 0, 1);
		assert_int_equal(tested.steps, i + 1);
		assert_in_range(newest().offset_ns - offset_ns + MS, MS - 20 * US, MS + 20 * US);
		run(&now, offset_ns, 0, 300);
		assert_int_equal(tested.steps, i + 1);
		assert_int_equal(device_clock_host_ns(&tested, (uint64_t)(now + offset_ns), 0, 0, 0) / (100 * US),
			now / (100 * US));
	}
}

/* Without calls, or behind a host far ahead, nothing contradicts a step back: it is found all the same. */
TEST_WITH(a_hidden_step_back_is_forgotten, forget, NULL)
{
	int64_t now = 10 * SECOND;

	for (unsigned i = 0; i < 600; i++, now += 100 * MS) {
		int64_t offset_ns = EPOCH - (i < 300 ? 0 : 3 * MS), start = now + 20 * MS + offset_ns;

		device_clock_add(&tested, (uint64_t)start, (uint64_t)(start + 100 * US), (uint64_t)now,
			(uint64_t)(now + 20 * MS + 110 * US));
		if (i == 299)
			assert_in_range(newest().offset_ns - EPOCH + MS, MS - 20 * US, MS + 20 * US);
	}
	assert_in_range(newest().offset_ns - EPOCH + 4 * MS, MS - 20 * US, MS + 20 * US);
	assert_int_equal(tested.steps, 0);
}

/* Ten minutes on the device while others go on: no step of a clock. */
TEST_WITH(a_long_wait_on_the_device, forget, NULL)
{
	int64_t now = 10 * SECOND, given = now;
	uint64_t start = (uint64_t)(now + 20 * US + EPOCH), host;

	run(&now, EPOCH, 2e-6, 6000);
	device_clock_add(&tested, start, (uint64_t)(now + EPOCH + 1200 * US), (uint64_t)given, (uint64_t)now + 10 * US);
	assert_int_equal(tested.steps, 0);
	host = device_clock_host_ns(
		&tested, start, (uint64_t)now - (uint64_t)given, (uint64_t)given, (uint64_t)now + 2 * MS);
	assert_in_range(host, given, given + 2 * MS);
}

/* Whatever a process says: nothing overflows, and times are between the call and the notice. */
TEST_WITH(lies, forget, NULL)
{
	static const uint64_t odd[] = {
		0, 1, INT64_MAX / 3, INT64_MAX, UINT64_MAX, (uint64_t)INT64_MAX + 1, EPOCH, 1 * SECOND};
	struct world world = {.random = 1234567};

	for (unsigned i = 0; i < 300000; i++) {
		uint64_t value[4];

		for (unsigned k = 0; k < 4; k++)
			value[k] = uniform(&world) < 0.5 ? odd[(size_t)(uniform(&world) * 8)]
							 : (uint64_t)(uniform(&world) * 3e18);
		device_clock_add(&tested, value[0], value[2], value[1], value[3]);
		if (value[1] > 0 && value[1] < value[3] && value[3] <= DEVICE_CLOCK_TIME_MAX) {
			uint64_t host = device_clock_host_ns(&tested, value[0], 0, value[1], value[3]);

			assert_true(!host || (host >= value[1] && host <= value[3]));
		}
	}
}

TEST_MAIN(NULL, NULL)
