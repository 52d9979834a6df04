/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thresholds of the detectors as options of a program: each is called as its key in [findings] of ranktrace.conf (with
 * - for _), takes what that takes, within its limits (a test compares them).
 */
#ifndef RANKTRACE_ANALYZE_THRESHOLDS_H
#define RANKTRACE_ANALYZE_THRESHOLDS_H

#include "analyzers/detect/detector.h"

#define THRESHOLDS 5

struct threshold {
	const char *name;     /* "slow-percent" */
	const char *expected; /* in a sentence: "a whole number from 1 to 1000" */
	uint64_t min, max;    /* percent, or ns */
	bool is_duration;
};

extern const struct threshold thresholds[THRESHOLDS];

/* Of thresholds[which]: 0, or -EINVAL and nothing is set. */
int threshold_set(size_t which, const char *text, struct detect_options *options);

#endif
