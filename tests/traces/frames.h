/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace's steps as frames of tier DEVICE: the operations that several ranks take part in, nothing of what was
 * computed. A rank's step is from its own first operation to its own last one's end, and its times count from there:
 * clocks that agree are not used.
 */
#ifndef RANKTRACE_TRACES_FRAMES_H
#define RANKTRACE_TRACES_FRAMES_H

#include "analyzers/align/frame.h"
#include "tests/traces/trace.h"

struct frames;

struct frames *frames_new(const struct trace *trace);
struct frames *frames_free(struct frames *frames);
/* Of a step, from 0; until the next call. */
const struct frame *frames_step(struct frames *frames, size_t step);

#endif
