/* SPDX-License-Identifier: Apache-2.0 */
/* The detectors, and their default options. */
#include "analyzers/detect/detect_internal.h"

#define DETECTOR(name) extern const struct detector name;
#include "analyzers/detect/detectors.def"
#undef DETECTOR

static const struct detector *const table[] = {
#define DETECTOR(name) &name,
#include "analyzers/detect/detectors.def"
#undef DETECTOR
};

_Static_assert(sizeof(table) / sizeof(table[0]) <= DETECT_DETECTORS_MAX, "DETECT_DETECTORS_MAX is too small");

void detect_options_default(struct detect_options *ret)
{
	*ret = (struct detect_options){
		.slow_ratio = 1.05,
		.slow_z = 5,
		.slow_frames = 5,
		.warm_ns = 5000000000ULL,
		.slow_of = 8,
		.gain_min = 0.03,
		.hang_ns = 30000000000ULL,
		.hang_busy_ns = 600000000000ULL,
	};
	judge_options_default(&ret->judge);
}

struct detect *detect_new(const struct detect_options *options, const struct detect_sink *sink)
{
	return detect_new_with(options, sink, table, sizeof(table) / sizeof(table[0]));
}
