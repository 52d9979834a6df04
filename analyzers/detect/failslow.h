/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fail-slow of one series of step times: robust CUSUM of log step times against a frozen reference, verified by
 * medians, with relief and ramps. Pure; O(1) amortised a step (medians of windows of fixed length), a few KiB a series.
 *
 *   y = ln t;  m = median of the reference (the last 200 quiet steps);  s = max(0.01, 1.4826 MAD)
 *   r = clip((y - m) / s, -3, 4);  k = max(0.5, 0.25 ln(1.1) / s);  S = max(0, S + r - k);  onset: where S last was 0
 *   alarm: S > 10, five steps since the onset, and both the median since the onset and that of the last 5 are above
 *   m + ln(1 + degree). Relief: the median of the last 10 is below m + ln(1 + degree / 2).
 *   ramp: Theil-Sen slope over the last 200 steps times 200 above degree.
 * The reference is refreshed every 10 quiet steps and frozen while S > 1 or in alarm. 3 warm-up steps are left out and
 * 30 are needed. Steps of another class (checkpoint, evaluation, first) are no evidence and no reference.
 */
#ifndef RANKTRACE_DETECT_FAILSLOW_H
#define RANKTRACE_DETECT_FAILSLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/detect/frame.h"

struct failslow_options {
	double degree;		/* 0.10 */
	unsigned suspect_steps; /* 3: median of that many above 1 + degree */
};

enum failslow_state { FAILSLOW_LEARNING, FAILSLOW_QUIET, FAILSLOW_SUSPECT, FAILSLOW_ALARM, FAILSLOW_STATE_MAX };

struct failslow_verdict {
	enum failslow_state state;
	bool changed;	       /* with this step */
	bool ramp;	       /* a slow rise rather than a jump */
	uint64_t onset_step;   /* of SUSPECT and ALARM: the first slow step */
	uint64_t onset_ns;     /* its end */
	uint64_t steps_since;  /* the onset */
	double ratio;	       /* median since the onset / reference; 1 else */
	uint64_t reference_ns; /* the reference's median, 0 while learning */
	double sigma;	       /* s */
};

struct failslow;

struct failslow *failslow_new(const struct failslow_options *options); /* NULL options: defaults; NULL: out of memory */
struct failslow *failslow_free(struct failslow *failslow);
/* A step of `step_ns` ended at end_ns. A step of length 0 is left out. */
void failslow_feed(struct failslow *failslow, uint64_t step, uint64_t end_ns, uint64_t step_ns, enum frame_class class,
	struct failslow_verdict *ret);

#endif
