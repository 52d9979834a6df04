/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fail-slow of one series of step times: robust CUSUM of log step times, verified by medians, with relief and ramps.
 * Pure; O(1) amortised a step (medians of windows of fixed length), 16 KiB a series.
 *
 *   y = ln t;  m = median of the reference (the last 200 quiet steps);  s = max(0.01, 1.4826 MAD)
 *   k = max(0.5, 0.25 ln(1 + degree) / s);  r = clip((y - m) / s, -3, max(4, k + 2));  S = min(20, max(0, S + r - k))
 *   f = sqrt((1 + phi) / (1 - phi)), phi the correlation of neighbouring reference steps (clipped at 3 s)
 *   alarm: S > 10, and for one n of 6, 8, 12, 16, 24, 32, 48, 64, no more than the steps since S was 0, all of
 *     e = median of the last n - m > ln(1 + 0.8 degree), and so the median of the last 5
 *     e > 4 s min(1, 1.25 f sqrt(1/n + 1/size of the reference))
 *     at least 80 % of the n lie above m + max(0.6 e, ln(1 + degree / 2))
 *   relief: six of the last 10 are below m + ln(1 + degree / 2).
 *
 * Why these: a slowdown of just `degree` shows a median above it only half of the time, hence 0.8; a lower bound needs
 * surer medians, and where neighbours hang together a median of few steps is worth less: small excesses and restless
 * jobs are verified for longer; and the third keeps bursts of four, whose median over six is high, from counting. On
 * the 600 reported runs of tests/yardstick: 0.22 false alarms a day (17,280 steps) and all slowdowns of 10 % and more
 * found; the plain rule (medians since the onset and of the last 5 above ln(1 + degree), reference only of S <= 1): 2.2
 * and 82 %.
 *
 * Onset: among the steps since S was 0, the one that parts them best into steps below and above half the excess.
 * Steps become reference once S is back at 0; those that led to an alarm never do. (Only steps of S = 0 would not do:
 * they are the quicker ones of any job, and the reference would lie too low.) S that stays above 0 for 300 steps
 * without an alarm is a small change for good and becomes the reference.
 *
 * Ramp: medians of blocks of 20 steps, the last 10 of them; their Theil-Sen slope times 10 is above ln(1 + degree), the
 * last three are above the first three by ln(1 + 0.8 degree) and by 5 times what chance gives (as above, n = 60), and
 * 80 % of all pairs rise. The same with every tenth step: over 200 and over 2,000 steps. A slower rise is not told. An
 * alarm of the sum is called a ramp where the steps between S = 0 and the onset lie above a fifth of the excess, or
 * where it grows by half within 200 steps.
 *
 * 3 warm-up steps are left out and 30 are needed. Steps of another class (checkpoint, evaluation, first) are no
 * evidence and no reference; unnamed ones are single spikes to it. Suspicion: S > 4 and the median of the last 3 is
 * above 1 + degree; it lasts while that median is above 1 + degree / 2.
 *
 * A job that is slower for good (say, a larger batch from now on) stays in alarm until it ends: what it was before is
 * still what it was, and nothing here knows that it was meant. Step numbers and times are only passed on.
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
	uint64_t onset_ns;     /* the time that came with it */
	uint64_t steps_since;  /* the onset */
	double ratio;	       /* median since the onset, at most of the last 64, over the reference; 1 else */
	uint64_t reference_ns; /* the reference's median, 0 while learning */
	double sigma;	       /* s */
};

struct failslow;

struct failslow *failslow_new(const struct failslow_options *options); /* NULL options: defaults; NULL: out of memory */
struct failslow *failslow_free(struct failslow *failslow);
/* A step that took step_ns; time_ns is for onset_ns. A step of length 0 is left out. */
void failslow_feed(struct failslow *failslow, uint64_t step, uint64_t time_ns, uint64_t step_ns, enum frame_class class,
	struct failslow_verdict *ret);

#endif
