/* SPDX-License-Identifier: Apache-2.0 */
/* How long a window of the allocator's reports is: by the steps of the ranks. Pure. Times are of one clock. */
#ifndef RANKTRACE_MEMORY_WINDOW_H
#define RANKTRACE_MEMORY_WINDOW_H

#include <stdint.h>

#include "analyzers/base/clock.h"

#define MEMORY_WINDOW_STEPS \
	4 /* blocks of a step die within the next, and half of a window is there to see that they do */
#define MEMORY_WINDOW_MIN_NS (200 * NSEC_PER_MSEC) /* two ticks */
#define MEMORY_WINDOW_MAX_NS (60 * NSEC_PER_SEC)
#define MEMORY_WINDOW_NO_STEP_NS NSEC_PER_SEC /* where no rank has steps */

/* Of a rank, when its steps were last counted. All 0: it had none. */
struct memory_pace {
	uint64_t steps, end_ns; /* how many had ended, the end of the newest */
};

/*
 * Mean length of the steps since the last call, `steps` of which have ended until now_ns, the newest at end_ns. If none
 * has, the time since the last one did. 0: unknown. A program has loaded its model and its data before its first step,
 * so time begins at the end of one.
 */
uint64_t memory_pace_step_ns(struct memory_pace *pace, uint64_t steps, uint64_t end_ns, uint64_t now_ns);

/* step_ns: of the slowest rank, 0: unknown. */
uint64_t memory_window_ns(uint64_t step_ns);

#endif
