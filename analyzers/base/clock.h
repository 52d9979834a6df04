/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks in ns. What judges has none: it is given times. */
#ifndef RANKTRACE_BASE_CLOCK_H
#define RANKTRACE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000ULL
#define NSEC_PER_MSEC 1000000ULL

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t = {0};

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

#endif
