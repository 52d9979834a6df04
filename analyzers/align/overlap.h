/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When an operation that seems to begin before another has ended did wait for it. Both are timed beside what they do,
 * and on streams of their own: in the public trace AR (tests/traces) a rank's next operation begins up to 140 us before
 * the recorded end of the one that held it, of 25 s. So what begins in the last 64th of an operation, or in its last 10
 * us, but not more than 1 ms early, comes after it.
 */
#ifndef RANKTRACE_ALIGN_OVERLAP_H
#define RANKTRACE_ALIGN_OVERLAP_H

#include <stdint.h>

#define OVERLAP_SLACK_NS 10000
#define OVERLAP_SLACK_MAX_NS 1000000
#define OVERLAP_SLACK_PART 64

/* So much before its end it may be taken to have ended. */
static inline int64_t overlap_slack_ns(uint64_t duration_ns)
{
	uint64_t slack_ns = duration_ns / OVERLAP_SLACK_PART;

	if (slack_ns < OVERLAP_SLACK_NS)
		return OVERLAP_SLACK_NS;
	return slack_ns < OVERLAP_SLACK_MAX_NS ? (int64_t)slack_ns : OVERLAP_SLACK_MAX_NS;
}

#endif
