/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same case through sysTrace's rules (tests/yardstick/systrace_rules.h): the step times of a rank through its step
 * rule, and of the groups that it looks at (data groups where there is no tensor parallelism, tensor groups else) the
 * durations of all-gathers, reduce-scatters and all-reduces through its rules for slow ranks, over the whole run at
 * once. Its rules rank nobody: top is where all culprits are accused, and nobody else.
 */
#ifndef RANKTRACE_SIM_ACCURACY_YARDSTICK_H
#define RANKTRACE_SIM_ACCURACY_YARDSTICK_H

#include "tests/sim/accuracy_case.h"

#define YARDSTICK_RANKS_MAX 1024 /* its operations are all kept: larger jobs are left out */

struct yardstick_outcome {
	bool judged;	       /* it is small enough */
	bool slow;	       /* the step rule says so from the onset on */
	unsigned right, wrong; /* ranks accused */
	bool top;
};

struct yardstick;

/* NULL: out of memory, or too large. */
struct yardstick *yardstick_new(const struct case_spec *spec, const struct sim_options *options);
struct yardstick *yardstick_free(struct yardstick *yardstick);
void yardstick_step(struct yardstick *yardstick, const struct frame *frame);
void yardstick_judge(struct yardstick *yardstick, struct yardstick_outcome *ret);

#endif
