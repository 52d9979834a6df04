/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Launches of kernels on the device, summed by thread while a window is open. Bypasses the ring: the daemon reads the
 * map `launches` after detaching the window's probes.
 *
 * The probe's cookie identifies the function: a number below RT_LAUNCH_APIS_MAX assigned by the daemon. Times are
 * CLOCK_MONOTONIC nanoseconds.
 */
#ifndef RANKTRACE_LAUNCHES_H
#define RANKTRACE_LAUNCHES_H

#include "bpf/event.h"

#define RT_LAUNCH_APIS_MAX 16
#define RT_LAUNCH_THREADS_MAX 4096 /* per window; launches of further threads count as drops */

struct rt_launch_sum {
	uint64_t count;
	uint64_t longest_gap_ns; /* longest time of the thread without launches before a launch of this API */
};

/* Value of the map `launches`; the key is tgid << 32 | thread. */
struct rt_launch_thread {
	uint64_t last_ns;  /* newest launch of the thread */
	uint32_t last_api; /* its API */
	uint32_t pad0;
	struct rt_launch_sum api[RT_LAUNCH_APIS_MAX];
};

#endif
