/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the report of one day, of a store in `dir`, in UTC. */
#ifndef RANKTRACE_TESTS_REPORT_DAY_H
#define RANKTRACE_TESTS_REPORT_DAY_H

#include "tests/unit/store_fixture.h"

#include "analyzers/report/render.h"
#include "tests/report/report_script.h"

#define UNTIL (1795240800ULL * NSEC_PER_SEC) /* Sat 21 Nov 06:00 UTC */

static inline int report_day_setup(void **state)
{
	setenv("TZ", "UTC", 1);
	tzset();
	return store_setup(state);
}

/* ranks: "0,3-7"; NULL: all. */
static inline struct report *report_day_read(const char *ranks)
{
	struct stores stores = {0};
	struct report_options how = {
		.since_ns = UNTIL - SCRIPT_DAY, .until_ns = UNTIL, .now_ns = UNTIL, .stores = &stores};
	struct report *report = NULL;
	char error[512] = "";

	assert_int_equal(stores_add(&stores, dir, error, sizeof(error)), 0);
	if (ranks)
		assert_int_equal(ranges_parse(ranks, &how.ranks), 0);
	if (report_read(&how, &report, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	stores_free(&stores);
	return report;
}

#endif
