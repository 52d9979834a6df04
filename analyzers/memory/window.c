/* SPDX-License-Identifier: Apache-2.0 */
/* See window.h. */
#include "analyzers/memory/window.h"

uint64_t memory_pace_step_ns(struct memory_pace *pace, uint64_t steps, uint64_t end_ns, uint64_t now_ns)
{
	struct memory_pace before = *pace;

	*pace = (struct memory_pace){.steps = steps, .end_ns = end_ns};
	if (!before.end_ns)
		return 0;
	if (steps > before.steps && end_ns > before.end_ns)
		return (end_ns - before.end_ns) / (steps - before.steps);
	return now_ns > before.end_ns ? now_ns - before.end_ns : 0;
}

uint64_t memory_window_ns(uint64_t step_ns)
{
	if (!step_ns)
		return MEMORY_WINDOW_NO_STEP_NS;
	if (step_ns < MEMORY_WINDOW_MIN_NS / MEMORY_WINDOW_STEPS)
		return MEMORY_WINDOW_MIN_NS;
	return step_ns < MEMORY_WINDOW_MAX_NS / MEMORY_WINDOW_STEPS ? step_ns * MEMORY_WINDOW_STEPS
								    : MEMORY_WINDOW_MAX_NS;
}
