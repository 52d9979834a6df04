/* SPDX-License-Identifier: Apache-2.0 */
/* See analysis.h. */
#include "analyzers/analyze/analysis.h"
#include "analyzers/base/units.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ULL

#define PERCENT "a whole number from 1 to 1000"
#define LENGTH "a length of time from 1s to 1d"

const struct threshold thresholds[THRESHOLDS] = {
	{"slow-percent", PERCENT, 1, 1000, false},
	{"gain-percent", "a whole number from 1 to 100", 1, 100, false},
	{"job-percent", PERCENT, 1, 1000, false},
	{"notice-percent", PERCENT, 1, 1000, false},
	{"notice-after", LENGTH, SECOND, 86400 * SECOND, true},
	{"warning-percent", PERCENT, 1, 1000, false},
	{"warning-after", LENGTH, SECOND, 86400 * SECOND, true},
	{"critical-percent", PERCENT, 1, 1000, false},
	{"critical-after", LENGTH, SECOND, 86400 * SECOND, true},
	{"hang-after", "a length of time from 5s to 1d", 5 * SECOND, 86400 * SECOND, true},
	{"hang-busy-after", "a length of time from 5s to 7d", 5 * SECOND, 7 * 86400 * SECOND, true},
};

/* Where each goes: a length to *ns, a percentage as a part of one to *part, or *part + 1. */
struct target {
	uint64_t *ns;
	double *part, base;
};

static struct target target_of(size_t which, struct detect_options *options)
{
	struct judge_grade *grade = options->judge.grade;
	const struct target targets[THRESHOLDS] = {
		{.part = &options->slow_ratio, .base = 1},
		{.part = &options->gain_min},
		{.part = &options->judge.job_growth},
		{.part = &grade[JUDGE_NOTICE].growth},
		{.ns = &grade[JUDGE_NOTICE].lasts_ns},
		{.part = &grade[JUDGE_WARNING].growth},
		{.ns = &grade[JUDGE_WARNING].lasts_ns},
		{.part = &grade[JUDGE_CRITICAL].growth},
		{.ns = &grade[JUDGE_CRITICAL].lasts_ns},
		{.ns = &options->hang_ns},
		{.ns = &options->hang_busy_ns},
	};

	return targets[which];
}

static int thresholds_parse(const struct threshold *threshold, const char *text, uint64_t *ret)
{
	uint64_t value;
	char *end;
	int r = 0;

	if (threshold->is_duration) {
		r = units_parse_duration(text, &value);
	} else {
		errno = 0;
		value = strtoull(text, &end, 10);
		if (!isdigit((unsigned char)text[0]) || errno || *end)
			r = -EINVAL;
	}
	if (r < 0 || value < threshold->min || value > threshold->max)
		return -EINVAL;
	*ret = value;
	return 0;
}

int threshold_set(size_t which, const char *text, struct detect_options *options)
{
	struct target target;
	uint64_t value;

	if (which >= THRESHOLDS || thresholds_parse(&thresholds[which], text, &value) < 0)
		return -EINVAL;
	target = target_of(which, options);
	if (target.ns)
		*target.ns = value;
	else
		*target.part = target.base + (double)value / 100;
	options->judge.grade[JUDGE_SUDDEN].growth = options->judge.grade[JUDGE_CRITICAL].growth;
	options->judge.grade[JUDGE_SOON].growth = options->judge.grade[JUDGE_CRITICAL].growth / 2;
	return 0;
}
