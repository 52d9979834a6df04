/* SPDX-License-Identifier: Apache-2.0 */
/* How late a loop runs: ever, and in the last minute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "daemon/base/lag.h"

#define MS 1000000ULL
#define S (1000 * MS)
#define PERIOD (100 * MS)

static uint64_t late_ns(struct lag *lag, uint64_t now_ns)
{
	return lag_run(lag, now_ns, PERIOD, &(struct lag_thread){0}).late_ns;
}

static void test_lag(void **state)
{
	struct lag lag = {0};
	uint64_t now_ns = 1000 * S;

	(void)state;
	assert_int_equal(lag_last_minute(&lag, now_ns), 0);
	assert_int_equal(late_ns(&lag, now_ns), 0); /* nothing came before */
	assert_int_equal(late_ns(&lag, now_ns += PERIOD), 0);
	assert_int_equal(late_ns(&lag, now_ns += PERIOD / 2), 0); /* early */
	assert_int_equal(late_ns(&lag, now_ns += PERIOD + 2 * S), 2 * S);
	assert_int_equal(late_ns(&lag, now_ns += PERIOD + 3 * MS), 3 * MS);
	assert_int_equal(lag_last_minute(&lag, now_ns), 2 * S);
	assert_int_equal(lag_last_minute(&lag, now_ns + 50 * S), 2 * S);
	assert_int_equal(lag_last_minute(&lag, now_ns + 61 * S), 0);
	for (int i = 0; i < 650; i++)
		(void)late_ns(&lag, now_ns += PERIOD + MS);
	assert_int_equal(lag_last_minute(&lag, now_ns), MS);
	assert_int_equal(lag.max.late_ns, 2 * S);
}

/* What a thread did meanwhile, of which its usual time in a period is no part of the delay. */
static void test_lag_split(void **state)
{
	struct lag_thread thread = {.run_ns = 50 * S, .ready_ns = 7 * S};
	uint64_t now_ns = 1000 * S;
	struct lag lag = {0};
	struct lag_stop stop;

	(void)state;
	(void)lag_run(&lag, now_ns, PERIOD, &thread);
	thread.run_ns += 20 * MS;
	thread.ready_ns += 600 * MS;
	stop = lag_run(&lag, now_ns += PERIOD + 800 * MS, PERIOD, &thread);
	assert_int_equal(stop.late_ns, 800 * MS);
	assert_int_equal(stop.thread.run_ns, 20 * MS);
	assert_int_equal(stop.thread.ready_ns, 600 * MS);
	thread.ready_ns += 160 * MS;
	stop = lag_run(&lag, now_ns += PERIOD + 70 * MS, PERIOD, &thread);
	assert_int_equal(stop.thread.run_ns, 0);
	assert_int_equal(stop.thread.ready_ns, 70 * MS); /* the rest was due before */
	stop = lag_run(&lag, now_ns += PERIOD + 900 * MS, PERIOD, &(struct lag_thread){0}); /* cannot be read */
	assert_int_equal(stop.thread.ready_ns, 0);
	assert_int_equal(lag.max.late_ns, 900 * MS);
	assert_int_equal(lag.max.thread.ready_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lag),
		cmocka_unit_test(test_lag_split),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
