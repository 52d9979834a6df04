/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of one job that take longer than they did. Pure. Fed with what a step with a checkpoint took beyond a
 * step without, so that what is written in the background counts for nothing.
 *
 * The reference is the last CHECKPOINTS_REFERENCE that were not slow, at least CHECKPOINTS_NEEDED. One is slow if it
 * is above 1.5 medians, above the median by 5 deviations (1.4826 MAD, at least a tenth of the median), and above it by
 * a twentieth of a step. One is a suspicion, two in a row are reported; one that is not slow is the end of it, and so are
 * twice the usual number of steps without any.
 */
#ifndef RANKTRACE_DETECT_CHECKPOINTS_H
#define RANKTRACE_DETECT_CHECKPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
