/* SPDX-License-Identifier: Apache-2.0 */
/* How late a loop runs: ever, and in the last minute. */
#include "daemon/base/lag.h"

#include "tests/test.h"

#define MS 1000000ULL
#define S (1000 * MS)
#define PERIOD (100 * MS)

static uint64_t late_ns(struct lag *lag, uint64_t now_ns)
{
	return lag_run(lag, now_ns, PERIOD, &(struct lag_thread){0}).late_ns;
}

TEST(test_lag)
{
	struct lag lag = {0};
	uint64_t now_ns = 1000 * S;

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
TEST(test_lag_split)
{
	struct lag_thread thread = {.run_ns = 50 * S, .ready_ns = 7 * S};
	uint64_t now_ns = 1000 * S;
	struct lag lag = {0};
	struct lag_stop stop;

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

TEST_MAIN(NULL, NULL)
