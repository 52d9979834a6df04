/* SPDX-License-Identifier: Apache-2.0 */
/* detect.h with detectors of the caller's choice: for its tests. */
#ifndef RANKTRACE_DETECT_INTERNAL_H
#define RANKTRACE_DETECT_INTERNAL_H

#include "analyzers/detect/detect.h"

#define DETECT_DETECTORS_MAX 16

/* The table must stay as long as what is returned. NULL: out of memory, or more than DETECT_DETECTORS_MAX. */
struct detect *detect_new_with(const struct detect_options *options, const struct detect_sink *sink,
	const struct detector *const *detectors, size_t count);

#endif
