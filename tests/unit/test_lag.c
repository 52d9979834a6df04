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

static void test_lag(void **state)
{
	struct lag lag = {0};
	uint64_t now_ns = 1000 * S;

	(void)state;
	assert_int_equal(lag_last_minute(&lag, now_ns), 0);
	assert_int_equal(lag_run(&lag, now_ns, PERIOD), 0); /* nothing came before */
	assert_int_equal(lag_run(&lag, now_ns += PERIOD, PERIOD), 0);
	assert_int_equal(lag_run(&lag, now_ns += PERIOD / 2, PERIOD), 0); /* early */
	assert_int_equal(lag_run(&lag, now_ns += PERIOD + 2 * S, PERIOD), 2 * S);
	assert_int_equal(lag_run(&lag, now_ns += PERIOD + 3 * MS, PERIOD), 3 * MS);
	assert_int_equal(lag_last_minute(&lag, now_ns), 2 * S);
	assert_int_equal(lag_last_minute(&lag, now_ns + 50 * S), 2 * S);
	assert_int_equal(lag_last_minute(&lag, now_ns + 61 * S), 0);
	for (int i = 0; i < 650; i++)
		(void)lag_run(&lag, now_ns += PERIOD + MS, PERIOD);
	assert_int_equal(lag_last_minute(&lag, now_ns), MS);
	assert_int_equal(lag.max_ns, 2 * S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lag),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
