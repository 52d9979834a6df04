/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

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

int units_parse_duration(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"", 1000000000},
		{"ns", 1},
		{"us", 1000},
		{"ms", 1000000},
		{"s", 1000000000},
		{"m", 60000000000},
		{"min", 60000000000},
		{"h", 3600000000000},
		{"d", 86400000000000},
	};
	uint64_t whole = 0, ns;
	double part = 0, weight = 0.1;
	const char *p = text;
	bool too_long = false;

	for (; *p >= '0' && *p <= '9'; p++)
		too_long |= __builtin_mul_overflow(whole, 10, &whole) ||
			    __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole);
	if (p == text)
		return -EINVAL;
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++, weight /= 10)
			part += weight * (*p - '0');
	if (p[strspn(p, " \t")])
		p += strspn(p, " \t");
	for (size_t i = 0; i < UNITS_COUNT(units); i++) {
		if (strcmp(p, units[i].name) != 0)
			continue;
		if (too_long || __builtin_mul_overflow(whole, units[i].ns, &ns) ||
			__builtin_add_overflow(ns, (uint64_t)(part * (double)units[i].ns + 0.5), &ns))
			return -ERANGE;
		*ret_ns = ns;
		return 0;
	}
	return -EINVAL;
}
