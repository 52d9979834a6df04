/* SPDX-License-Identifier: Apache-2.0 */
/* The name with most time counts, and once. */
#include "daemon/base/lag.h"

#include "tests/test.h"

TEST(test_most)
{
	static char name[LAG_WORK_NAMES_MAX + 1][4];
	uint64_t took_ns = 1;

	assert_null(lag_work_take(&took_ns));
	assert_int_equal(took_ns, 0);
	lag_work_add(name[0], 5);
	lag_work_add(name[1], 3);
	lag_work_add(name[1], 4);
	assert_ptr_equal(lag_work_take(&took_ns), name[1]);
	assert_int_equal(took_ns, 7);
	assert_null(lag_work_take(&took_ns));
	for (unsigned i = 0; i <= LAG_WORK_NAMES_MAX; i++)
		lag_work_add(name[i], 1 + i);
	assert_ptr_equal(lag_work_take(&took_ns), name[LAG_WORK_NAMES_MAX - 1]); /* one is too many */
	assert_int_equal(took_ns, LAG_WORK_NAMES_MAX);
}

TEST_MAIN(NULL, NULL)
