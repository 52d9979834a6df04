/* SPDX-License-Identifier: Apache-2.0 */
/* Durations as people write them. */
#include "analyzers/base/units.h"

#include <errno.h>

#include "tests/test.h"

TEST(test_durations)
{
	static const struct {
		const char *text;
		int r;
		uint64_t ns;
	} rows[] = {
		{"90", 0, 90000000000},
		{"0", 0, 0},
		{"1.5h", 0, 5400000000000},
		{"0.25", 0, 250000000},
		{"2.", 0, 2000000000},
		{"10 min", 0, 600000000000},
		{"10m", 0, 600000000000},
		{"7d", 0, 604800000000000},
		{"5ms", 0, 5000000},
		{"5us", 0, 5000},
		{"18446744073709551615ns", 0, UINT64_MAX},
		{"18446744073709551616ns", -ERANGE, 0},
		{"99999999d", -ERANGE, 0},
		{"18446744073.9", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"m", -EINVAL, 0},
		{".5", -EINVAL, 0},
		{"-5", -EINVAL, 0},
		{"+5", -EINVAL, 0},
		{" 5", -EINVAL, 0},
		{"5 ", -EINVAL, 0},
		{"5m ", -EINVAL, 0},
		{"5x", -EINVAL, 0},
		{"1e3", -EINVAL, 0},
		{"0x10", -EINVAL, 0},
		{"2026-11-22", -EINVAL, 0},
		{"99999999999999999999x", -EINVAL, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t ns = 0;

		if (units_parse_duration(rows[i].text, &ns) != rows[i].r || ns != rows[i].ns)
			fail_msg("%s: %llu", rows[i].text, (unsigned long long)ns);
	}
}

TEST_MAIN(NULL, NULL)
