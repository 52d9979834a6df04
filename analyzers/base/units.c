/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/units.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#define UNITS_COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	uint64_t ns, part_ns;
	const char *name, *part;
} units_long[] = {
	{86400000000000ULL, 3600000000000ULL, "d", "h"},
	{3600000000000ULL, 60000000000ULL, "h", "min"},
	{60000000000ULL, 1000000000ULL, "min", "s"},
};

static const struct {
	double ns;
	const char *name;
} units_short[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};

const char *units_duration(uint64_t ns, char buffer[UNITS_BYTES])
{
	for (size_t i = 0; i < UNITS_COUNT(units_long); i++) {
		if (ns < units_long[i].ns)
			continue;
		snprintf(buffer, UNITS_BYTES, "%" PRIu64 " %s %" PRIu64 " %s", ns / units_long[i].ns,
			units_long[i].name, ns % units_long[i].ns / units_long[i].part_ns, units_long[i].part);
		return buffer;
	}
	for (size_t i = 0; i < UNITS_COUNT(units_short); i++) {
		double value = (double)ns / units_short[i].ns;

		if (value < 1)
			continue;
		if (value >= 100)
			snprintf(buffer, UNITS_BYTES, "%.0f %s", value, units_short[i].name);
		else
			snprintf(buffer, UNITS_BYTES, "%.3g %s", value, units_short[i].name);
		return buffer;
	}
	snprintf(buffer, UNITS_BYTES, "%" PRIu64 " ns", ns);
	return buffer;
}

const char *units_size(uint64_t bytes, char buffer[UNITS_BYTES])
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t i = 0;

	for (; value >= 1024 && i + 1 < UNITS_COUNT(names); i++)
		value /= 1024;
	snprintf(buffer, UNITS_BYTES, i ? "%.1f %s" : "%.0f %s", value, names[i]);
	return buffer;
}

const char *units_count(uint64_t n, char buffer[UNITS_BYTES])
{
	char digits[UNITS_BYTES];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			buffer[at++] = ',';
		buffer[at++] = digits[i];
	}
	buffer[at] = 0;
	return buffer;
}
