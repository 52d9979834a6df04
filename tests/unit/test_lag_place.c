/* SPDX-License-Identifier: Apache-2.0 */
/* Where a late thread waits: another thread sees it sleep. */
#include <unistd.h>
#include "daemon/base/lag.h"

#include "tests/test.h"

TEST(test_place_of_sleep)
{
	char seen[LAG_PLACE_BYTES] = "";
	struct lag_place *place;

	if (access("/proc/self/wchan", R_OK) < 0)
		skip();
	assert_int_equal(lag_place_new(&place), 0);
	lag_place_turn(place, 0, seen);
	assert_string_equal(seen, ""); /* nothing before the first turn */
	/* Under load the other thread may have no CPU for a while. */
	for (int i = 0; i < 20 && !strstr(seen, "sleep"); i++) {
		usleep(5 * LAG_PLACE_NS / NSEC_PER_USEC);
		lag_place_turn(place, 0, seen);
	}
	assert_non_null(strstr(seen, "sleep"));
	lag_place_turn(place, 60 * NSEC_PER_SEC, seen);
	usleep(5 * LAG_PLACE_NS / NSEC_PER_USEC);
	lag_place_turn(place, 0, seen);
	assert_string_equal(seen, ""); /* not overdue */
	assert_null(lag_place_free(place));
	assert_null(lag_place_free(NULL));
}

TEST(test_no_place)
{
	char seen[LAG_PLACE_BYTES] = "x";

	lag_place_turn(NULL, 0, seen);
	assert_string_equal(seen, "");
}

TEST_MAIN(NULL, NULL)
