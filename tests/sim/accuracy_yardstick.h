/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same case through sysTrace's rules (tests/yardstick/systrace_rules.h): step times of a rank through its step
 * rule; durations of all-gathers, reduce-scatters and all-reduces through its rules for slow ranks, over the whole run
 * at once, of tensor groups or, without tensor parallelism, data groups. Its rules do not order ranks: top means that
 * exactly the culprits are named.
 */
#ifndef RANKTRACE_SIM_ACCURACY_YARDSTICK_H
#define RANKTRACE_SIM_ACCURACY_YARDSTICK_H

#include "tests/sim/accuracy_case.h"

#define YARDSTICK_RANKS_MAX 1024 /* all operations are in memory: larger jobs are skipped */

struct yardstick_outcome {
	bool judged;	       /* the job is small enough */
	bool slow;	       /* the step rule detects it after the onset */
	unsigned right, wrong; /* ranks named */
	bool top;
};

struct yardstick;

/* NULL: out of memory, or too large. */
struct yardstick *yardstick_new(const struct case_spec *spec, const struct sim_options *options);
struct yardstick *yardstick_free(struct yardstick *yardstick);
void yardstick_step(struct yardstick *yardstick, const struct frame *frame);
void yardstick_judge(struct yardstick *yardstick, struct yardstick_outcome *ret);

#endif
