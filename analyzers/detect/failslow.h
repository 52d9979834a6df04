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
 * they are the quicker ones of any job, and the reference would be too low.) S that remains above 0 for 300 steps
 * without an alarm is a small change for good and becomes the reference.
 *
 * Ramp: medians of blocks of 20 steps, the last 10 of them; their Theil-Sen slope times 10 is above ln(1 + degree), the
 * last three are above the first three by ln(1 + 0.8 degree) and by 5 times what chance gives (as above, n = 60), and
 * 80 % of all pairs rise. The same with every tenth step: over 200 and over 2,000 steps. A slower rise is not reported. An
 * alarm of the sum is called a ramp where the steps between S = 0 and the onset lie above a fifth of the excess, or
 * where it grows by half within 200 steps.
 *
 * 3 warm-up steps are left out and 30 are needed. Steps of another class (checkpoint, evaluation, first) are no
 * evidence and no reference; unnamed ones are single spikes to it. Suspicion: S > 4 and the median of the last 3 is
 * above 1 + degree; it lasts while that median is above 1 + degree / 2.
 *
 * A job that is slower for good (say, a larger batch from now on) remains in alarm until it ends: what it was before is
 * still what it was, and nothing here knows that it was meant. Step numbers and times are only passed on.
 */
#ifndef RANKTRACE_DETECT_FAILSLOW_H
#define RANKTRACE_DETECT_FAILSLOW_H

#include "analyzers/align/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The past that steps are compared with: median, spread and persistence of the last FAILSLOW_REFERENCE values. Pure.
 * The values are kept sorted, so that one more costs a search and a move, and the median and the median deviation a
 * short walk.
 */

#define FAILSLOW_REFERENCE 200

struct failslow_reference {
	size_t count, next;		  /* how many; where in value the next one goes */
	double value[FAILSLOW_REFERENCE]; /* in the order of their coming, a ring */
	double sorted[FAILSLOW_REFERENCE];
};

struct failslow_past {
	double median;
	double sigma; /* 1.4826 times the median deviation, at least the floor that was asked for */
};

/* value: finite. */
void failslow_reference_add(struct failslow_reference *reference, double value);
/* Of an empty one: 0 and the floor. */
void failslow_reference_read(const struct failslow_reference *reference, double floor, struct failslow_past *ret);
/* By what a mean of many varies more than if they were independent: sqrt((1 + phi) / (1 - phi)). Walks all values. */
double failslow_reference_inflate(const struct failslow_reference *reference, const struct failslow_past *past);
/* Median of n values, which are put in order. n > 0; small n. */
double failslow_median(double *value, size_t n);

/*
 * A slow rise of a series, which a reference that follows would swallow: medians of blocks of steps, and the Theil-Sen
 * slope (the median slope of all pairs) of the last FAILSLOW_RAMP_BLOCKS of them. Pure.
 */

#define FAILSLOW_RAMP_BLOCKS 10
#define FAILSLOW_RAMP_SAMPLES 20 /* a block: of longer ones every so manieth step */

struct failslow_ramp {
	size_t every;			 /* one sample of so many steps: a block is 20 times that */
	size_t skipped, samples, blocks; /* blocks: as many as there are, the oldest first */
	double sample[FAILSLOW_RAMP_SAMPLES];
	double block[FAILSLOW_RAMP_BLOCKS];
	uint64_t step[FAILSLOW_RAMP_BLOCKS], time_ns[FAILSLOW_RAMP_BLOCKS]; /* of each block's first sample */
};

struct failslow_rise {
	double rise;		/* slope times the length of all blocks */
	double ends;		/* median of the last three blocks less that of the first three */
	double base;		/* the median of the first three */
	double rising;		/* the part of the pairs of blocks that rise */
	uint64_t step, time_ns; /* where it began */
};

void failslow_ramp_reset(struct failslow_ramp *ramp, size_t every);
/* True: a block was completed, there are enough of them, their ends are more than `least` apart, and ret was written.
 */
bool failslow_ramp_add(struct failslow_ramp *ramp, double value, uint64_t step, uint64_t time_ns, double least,
	struct failslow_rise *ret);

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

/*
 * Checkpoints of one job that take longer than they did. Pure. Fed with what a step with a checkpoint took beyond a
 * step without, so that what is written in the background counts for nothing.
 *
 * The reference is the last CHECKPOINTS_REFERENCE that were not slow, at least CHECKPOINTS_NEEDED. One is slow if it
 * is above 1.5 medians, above the median by 5 deviations (1.4826 MAD, at least a tenth of the median), and above it by
 * a twentieth of a step. One is a suspicion, two in a row are reported; one that is not slow is the end of it, and so are
 * twice the usual number of steps without any.
 */

#define CHECKPOINTS_REFERENCE 15
#define CHECKPOINTS_NEEDED 5

struct checkpoints {
	size_t count, next;
	double excess_ns[CHECKPOINTS_REFERENCE];
	bool any; /* last_step is one */
	uint64_t last_step;
	uint64_t distance;	       /* the most steps between two; 0 not known */
	size_t slow;		       /* in a row, up to the last one */
	uint64_t onset_step, onset_ns; /* of the first of them; the time that came with it */
	double median_ns;	       /* of the reference, when the last one came */
	double last_ns;		       /* the last one's */
};

/* step_ns: a step without. Both finite, not negative. */
void checkpoints_feed(
	struct checkpoints *checkpoints, uint64_t step, uint64_t time_ns, double excess_ns, double step_ns);
/* A step without: forgets slow ones that are too long ago. */
void checkpoints_pass(struct checkpoints *checkpoints, uint64_t step);

#endif
