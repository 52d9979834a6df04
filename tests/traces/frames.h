/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace's steps as step frames of tier DEVICE: operations of several ranks, without computing. A rank's step lasts
 * from its first operation to its last one's end, and its times are relative to that: common clocks are not used.
 */
#ifndef RANKTRACE_TRACES_FRAMES_H
#define RANKTRACE_TRACES_FRAMES_H

#include "analyzers/align/frame.h"
#include "tests/traces/trace.h"

struct frames;

struct frames *frames_new(const struct trace *trace);
struct frames *frames_free(struct frames *frames);
/* The frame of a step, from 0; valid until the next call. */
const struct frame *frames_step(struct frames *frames, size_t step);

#endif
