/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of failslow.h: what is reported, when, and what is not. Accuracy: tests/yardstick. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/detect/failslow.h"

#include <math.h>
#include <stdlib.h>

#define MS 1000000ULL
#define STEP (1000 * MS)

static struct failslow *failslow;
static struct failslow_verdict verdict;
static uint64_t step, now;
static unsigned alarms, suspicions;
static uint64_t random_state;

static int start(void **state)
{
	(void)state;
	failslow_free(failslow);
	failslow = failslow_new(NULL);
	assert_non_null(failslow);
	memset(&verdict, 0, sizeof(verdict));
	step = 0;
	now = 1;
	alarms = suspicions = 0;
	random_state = 1;
	return 0;
}

static int stop(void **state)
{
	(void)state;
	failslow = failslow_free(failslow);
	return 0;
}

static void feed(uint64_t ns, enum frame_class class)
{
	enum failslow_state before = verdict.state;

	now += ns;
	failslow_feed(failslow, step++, now, ns, class, &verdict);
	assert_true(isfinite(verdict.ratio) && verdict.ratio > 0);
	assert_int_equal(verdict.changed, before != verdict.state);
	alarms += verdict.changed && verdict.state == FAILSLOW_ALARM;
	suspicions += verdict.changed && verdict.state == FAILSLOW_SUSPECT;
}

/* Of one to two percent around it. */
static uint64_t near(uint64_t ns)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return ns - ns / 64 + (random_state >> 33) % (ns / 32 + 1);
}

static void feed_many(size_t n, uint64_t ns)
{
	for (size_t i = 0; i < n; i++)
		feed(near(ns), FRAME_TRAIN);
}

static void learns_and_is_quiet(void **state)
{
	(void)state;
	feed_many(32, STEP);
	assert_int_equal(verdict.state, FAILSLOW_LEARNING);
	assert_int_equal(verdict.reference_ns, 0);
	feed_many(1, STEP);
	assert_int_equal(verdict.state, FAILSLOW_QUIET);
	feed_many(2000, STEP);
	assert_int_equal(verdict.state, FAILSLOW_QUIET);
	assert_in_range(verdict.reference_ns, STEP - 10 * MS, STEP + 10 * MS);
	assert_int_equal(alarms + suspicions, 0);
}

static void a_jump_is_suspected_confirmed_closed(void **state)
{
	uint64_t onset;

	(void)state;
	feed_many(300, STEP);
	onset = step;
	feed_many(3, 1300 * MS);
	assert_int_equal(verdict.state, FAILSLOW_SUSPECT);
	feed_many(3, 1300 * MS);
	assert_int_equal(verdict.state, FAILSLOW_ALARM);
	assert_in_range(verdict.onset_step, onset - 1, onset + 1);
	assert_true(verdict.ratio > 1.27 && verdict.ratio < 1.33);
	assert_false(verdict.ramp);
	feed_many(500, 1300 * MS);
	assert_int_equal(verdict.state, FAILSLOW_ALARM);
	assert_in_range(verdict.steps_since, 505, 507);
	assert_in_range(verdict.reference_ns, STEP - 10 * MS, STEP + 10 * MS);
	feed_many(10, STEP);
	assert_int_equal(verdict.state, FAILSLOW_QUIET);
	assert_true(verdict.ratio == 1);
	assert_int_equal(verdict.onset_step, 0);
	feed_many(500, STEP);
	assert_int_equal(alarms, 1);
	/* And once more. */
	feed_many(8, 1300 * MS);
	assert_int_equal(alarms, 2);
}

static void ten_percent_is_found(void **state)
{
	(void)state;
	feed_many(300, STEP);
	feed_many(20, 1100 * MS);
	assert_int_equal(verdict.state, FAILSLOW_ALARM);
}

static void five_percent_becomes_the_reference(void **state)
{
	(void)state;
	feed_many(300, STEP);
	feed_many(1000, 1050 * MS);
	assert_int_equal(alarms, 0);
	assert_in_range(verdict.reference_ns, 1040 * MS, 1060 * MS);
	/* 15 % above the first, but not above what it became. */
	feed_many(20, 1110 * MS);
	assert_int_equal(alarms, 0);
	feed_many(20, 1200 * MS);
	assert_int_equal(alarms, 1);
}

static void spikes_and_bursts_are_none(void **state)
{
	(void)state;
	feed_many(300, STEP);
	for (int i = 0; i < 50; i++) {
		feed(50 * STEP, FRAME_TRAIN);
		feed_many(20, STEP);
		feed_many(4, 1500 * MS);
		feed_many(30, STEP);
	}
	assert_int_equal(alarms, 0);
}

static void other_classes_are_nothing(void **state)
{
	static const enum frame_class others[] = {FRAME_FIRST, FRAME_CHECKPOINT, FRAME_EVALUATION};

	(void)state;
	for (int i = 0; i < 100; i++)
		feed(9 * STEP, others[i % 3]);
	assert_int_equal(verdict.state, FAILSLOW_LEARNING);
	feed_many(300, STEP);
	for (int i = 0; i < 100; i++)
		feed(9 * STEP, others[i % 3]);
	assert_int_equal(alarms + suspicions, 0);
	feed_many(10, 1500 * MS);
	assert_int_equal(verdict.state, FAILSLOW_ALARM);
	/* Nor relief. */
	for (int i = 0; i < 100; i++)
		feed(STEP, others[i % 3]);
	assert_int_equal(verdict.state, FAILSLOW_ALARM);
}

static void a_slow_rise_is_a_ramp(void **state)
{
	(void)state;
	feed_many(600, STEP);
	for (uint64_t i = 0; i < 2000; i++)
		feed(near(STEP + i * STEP / 8000), FRAME_TRAIN);
	assert_int_equal(alarms, 1);
	assert_int_equal(verdict.state, FAILSLOW_ALARM);
	assert_true(verdict.ramp);
	assert_true(verdict.ratio > 1.08);
	feed_many(20, STEP);
	assert_int_equal(verdict.state, FAILSLOW_QUIET);
	feed_many(2500, STEP);
	assert_int_equal(alarms, 1);
}

static void a_quick_rise_too(void **state)
{
	(void)state;
	feed_many(600, STEP);
	for (uint64_t i = 0; i < 150; i++)
		feed(near(STEP + i * STEP / 500), FRAME_TRAIN);
	feed_many(30, 1300 * MS);
	assert_int_equal(alarms, 1);
	assert_true(verdict.ramp);
	assert_in_range(verdict.onset_step, 600, 680);
}

static void for_good_is_in_alarm(void **state)
{
	(void)state;
	feed_many(300, STEP);
	feed_many(3000, 2 * STEP);
	assert_int_equal(alarms, 1);
	assert_int_equal(verdict.state, FAILSLOW_ALARM);
}

static void faster_is_no_fault(void **state)
{
	(void)state;
	feed_many(300, STEP);
	feed_many(1000, STEP / 2);
	assert_int_equal(alarms + suspicions, 0);
	assert_in_range(verdict.reference_ns, STEP / 2 - 10 * MS, STEP / 2 + 10 * MS);
	feed_many(10, 3 * STEP / 4);
	assert_int_equal(alarms, 1);
}

static void hostile_numbers(void **state)
{
	static const uint64_t lengths[] = {0, 1, UINT64_MAX, UINT64_MAX - 1, 0, 1};

	(void)state;
	for (int i = 0; i < 100000; i++) {
		random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
		failslow_feed(failslow, random_state, random_state * 3, lengths[(random_state >> 40) % 6],
			(enum frame_class)((random_state >> 50) % 8), &verdict);
		assert_true(isfinite(verdict.ratio) && isfinite(verdict.sigma));
	}
}

static void zeros_and_clocks_that_step_are_left_out(void **state)
{
	(void)state;
	for (int i = 0; i < 400; i++) {
		feed(near(STEP), FRAME_TRAIN);
		feed(0, FRAME_TRAIN);
		now = i % 50 ? now : now / 2;
		step += i % 7;
	}
	assert_int_equal(alarms + suspicions, 0);
	assert_int_equal(verdict.state, FAILSLOW_QUIET);
	step = 3;
	feed_many(10, 2 * STEP);
	assert_int_equal(verdict.state, FAILSLOW_ALARM);
	assert_in_range(verdict.onset_step, 3, 4);
}

static void options_have_limits(void **state)
{
	static const struct failslow_options odd[] = {{NAN, 0}, {-1, 1}, {1e300, UINT32_MAX}, {0, 3}};

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		failslow_free(failslow);
		failslow = failslow_new(&odd[i]);
		assert_non_null(failslow);
		memset(&verdict, 0, sizeof(verdict));
		feed_many(300, STEP);
		feed_many(20, 3 * STEP / 2);
		assert_int_equal(verdict.state, FAILSLOW_ALARM);
	}
	failslow_free(failslow);
	failslow = failslow_new(&(struct failslow_options){.degree = 0.5});
	memset(&verdict, 0, sizeof(verdict));
	alarms = 0;
	feed_many(300, STEP);
	feed_many(300, 1300 * MS);
	assert_int_equal(alarms, 0);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double slow_median(double *value, size_t n)
{
	qsort(value, n, sizeof(*value), compare);
	return (value[(n - 1) / 2] + value[n / 2]) / 2;
}

/* Beside the same the plain way, over values with many that are equal. */
static void the_reference_is_what_it_says(void **state)
{
	static struct failslow_reference reference;
	static double last[3000];

	(void)state;
	memset(&reference, 0, sizeof(reference));
	for (size_t i = 0; i < 3000; i++) {
		double copy[FAILSLOW_REFERENCE], median;
		size_t n = i + 1 < FAILSLOW_REFERENCE ? i + 1 : FAILSLOW_REFERENCE;
		struct failslow_past past;

		last[i] = (double)(near(640) % (i % 3 ? 37 : 1000)) / 8;
		failslow_reference_add(&reference, last[i]);
		failslow_reference_read(&reference, 0.01, &past);
		memcpy(copy, last + i + 1 - n, n * sizeof(*copy));
		median = slow_median(copy, n);
		assert_true(fabs(past.median - median) < 1e-12);
		for (size_t k = 0; k < n; k++)
			copy[k] = fabs(copy[k] - median);
		qsort(copy, n, sizeof(*copy), compare);
		assert_true(fabs(past.sigma - fmax(0.01, 1.4826 * copy[(n - 1) / 2])) < 1e-9);
		assert_true(failslow_reference_inflate(&reference, &past) >= 1 &&
			    failslow_reference_inflate(&reference, &past) < 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(learns_and_is_quiet, start),
		cmocka_unit_test_setup(a_jump_is_suspected_confirmed_closed, start),
		cmocka_unit_test_setup(ten_percent_is_found, start),
		cmocka_unit_test_setup(five_percent_becomes_the_reference, start),
		cmocka_unit_test_setup(spikes_and_bursts_are_none, start),
		cmocka_unit_test_setup(other_classes_are_nothing, start),
		cmocka_unit_test_setup(a_slow_rise_is_a_ramp, start),
		cmocka_unit_test_setup(a_quick_rise_too, start),
		cmocka_unit_test_setup(for_good_is_in_alarm, start),
		cmocka_unit_test_setup(faster_is_no_fault, start),
		cmocka_unit_test_setup(hostile_numbers, start),
		cmocka_unit_test_setup(zeros_and_clocks_that_step_are_left_out, start),
		cmocka_unit_test_setup(options_have_limits, start),
		cmocka_unit_test(the_reference_is_what_it_says),
	};

	return cmocka_run_group_tests(tests, NULL, stop);
}
