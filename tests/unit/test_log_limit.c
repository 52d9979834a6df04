/* SPDX-License-Identifier: Apache-2.0 */
/* A flood of messages: a burst is logged, the rest is counted in one line, and another user's messages are not
 * touched. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "daemon/base/log_limit.h"

#include "tests/test.h"

static char last[512];
static unsigned logged;

void log_message(
	int level, const char *component, const char *file, int line, const char *func, const char *format, ...)
{
	va_list list;

	(void)level, (void)component, (void)file, (void)line, (void)func;
	va_start(list, format);
	vsnprintf(last, sizeof(last), format, list);
	va_end(list);
	logged++;
}

static int reset(void **state)
{
	log_limit_tick(UINT64_MAX);
	logged = 0;
	last[0] = 0;
	return 0;
}

static const struct log_limit_place place = {
	"a.c", "control", "refusing process %d of user %-*s: 100%% %lu", 7, LOG_INFO};

TEST_WITH(a_flood_is_a_burst_and_a_count, reset, NULL)
{
	unsigned passed = 0;

	for (unsigned i = 0; i < 10000; i++)
		passed += log_limit_pass(&place, 65534, 20, NSEC_PER_SEC + i);
	assert_int_equal(passed, 20);
	log_limit_tick(2 * NSEC_PER_SEC);
	assert_int_equal(logged, 0);
	log_limit_tick(NSEC_PER_SEC + LOG_LIMIT_PERIOD_NS);
	assert_int_equal(logged, 1);
	assert_string_equal(last, "9980 more messages of user 65534: \"refusing process ... of user ...: 100% ...\"");
	log_limit_tick(3 * LOG_LIMIT_PERIOD_NS);
	assert_int_equal(logged, 1);
	assert_true(log_limit_pass(&place, 65534, 20, 3 * LOG_LIMIT_PERIOD_NS));
}

TEST_WITH(a_period_without_a_flood_starts_anew, reset, NULL)
{
	for (unsigned period = 0; period < 5; period++)
		for (unsigned i = 0; i < 20; i++)
			assert_true(log_limit_pass(&place, 1, 20, (period + 1) * LOG_LIMIT_PERIOD_NS + i));
	log_limit_tick(UINT64_MAX);
	assert_int_equal(logged, 0);
}

TEST_WITH(users_and_places_have_their_own_bound, reset, NULL)
{
	static const struct log_limit_place other = {"b.c", "ranks", "other", 9, LOG_INFO};

	for (unsigned i = 0; i < 100; i++)
		(void)log_limit_pass(&place, 65534, 20, NSEC_PER_SEC);
	assert_true(log_limit_pass(&place, 1000, 20, NSEC_PER_SEC));
	assert_true(log_limit_pass(&other, 65534, 20, NSEC_PER_SEC));
}

/* More users than there are slots do not get a burst each. */
TEST_WITH(invented_users_share, reset, NULL)
{
	unsigned passed = 0;

	for (unsigned user = 0; user < 100000; user++)
		passed += log_limit_pass(&place, user, 1, NSEC_PER_SEC);
	assert_true(passed <= LOG_LIMIT_SLOTS);
	for (unsigned i = 0; i < 1000; i++)
		log_limit_tick(UINT64_MAX);
	assert_true(logged > 0 && logged <= LOG_LIMIT_SLOTS);
}

TEST_WITH(the_macro_logs_a_burst, reset, NULL)
{
	for (unsigned i = 0; i < 3 * LOG_LIMIT_BURST; i++)
		log_limited(LOG_WARNING, "control", 5, "number %u", i);
	assert_int_equal(logged, LOG_LIMIT_BURST);
}

TEST_MAIN(NULL, NULL)
