/* SPDX-License-Identifier: Apache-2.0 */
/* See analysis.h. */
#include "analyzers/analyze/analysis.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ULL

enum { SLOW_PERCENT, GAIN_PERCENT, JOB_PERCENT, HANG_AFTER, HANG_BUSY_AFTER };

const struct threshold thresholds[THRESHOLDS] = {
	[SLOW_PERCENT] = {"slow-percent", "a whole number from 1 to 1000", 1, 1000, false},
	[GAIN_PERCENT] = {"gain-percent", "a whole number from 1 to 100", 1, 100, false},
	[JOB_PERCENT] = {"job-percent", "a whole number from 1 to 1000", 1, 1000, false},
	[HANG_AFTER] = {"hang-after", "a length of time from 5s to 1d", 5 * SECOND, 86400 * SECOND, true},
	[HANG_BUSY_AFTER] = {"hang-busy-after", "a length of time from 5s to 7d", 5 * SECOND, 7 * 86400 * SECOND, true},
};

static const struct {
	const char *word;
	uint64_t ns;
} units[] = {
	{"", SECOND},
	{"ns", 1},
	{"us", 1000},
	{"ms", 1000000},
	{"s", SECOND},
	{"m", 60 * SECOND},
	{"h", 3600 * SECOND},
	{"d", 86400 * SECOND},
};

static int thresholds_parse(const struct threshold *threshold, const char *text, uint64_t *ret)
{
	uint64_t value, by = threshold->is_duration ? 0 : 1;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	for (size_t i = 0; threshold->is_duration && i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i].word) == 0)
			by = units[i].ns;
	if (!by || (!threshold->is_duration && *end) || value > threshold->max / by)
		return -EINVAL;
	*ret = value * by;
	return *ret < threshold->min ? -EINVAL : 0;
}

int threshold_set(size_t which, const char *text, struct detect_options *options)
{
	uint64_t value;

	if (which >= THRESHOLDS || thresholds_parse(&thresholds[which], text, &value) < 0)
		return -EINVAL;
	switch (which) {
	case SLOW_PERCENT:
		options->slow_ratio = 1 + (double)value / 100;
		break;
	case GAIN_PERCENT:
		options->gain_min = (double)value / 100;
		break;
	case JOB_PERCENT: /* accepted, without effect: the judge's grades replace it */
		break;
	case HANG_AFTER:
		options->hang_ns = value;
		break;
	default:
		options->hang_busy_ns = value;
	}
	return 0;
}
