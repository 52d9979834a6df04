/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Launches of kernels on the device, summed by thread while a window is open. No record goes through the ring: the
 * daemon takes the sums out of the map `launches` when the probes of the window are gone.
 *
 * Which function was hit is the cookie of its probe: a number below RT_LAUNCH_APIS_MAX that the daemon gave it. Times
 * are CLOCK_MONOTONIC nanoseconds.
 */
#ifndef RANKTRACE_LAUNCHES_H
#define RANKTRACE_LAUNCHES_H

#include "bpf/event.h"

#define RT_LAUNCH_APIS_MAX 16
#define RT_LAUNCH_THREADS_MAX 4096 /* that launch in one window; a launch of one more is counted as a drop */

struct rt_launch_sum {
	uint64_t count;
	uint64_t longest_gap_ns; /* longest time of the thread without any launch that a launch of this API ended */
};

/* The value of the map `launches`; its key is the thread: tgid << 32 | thread. */
struct rt_launch_thread {
	uint64_t last_ns;  /* the newest launch of the thread */
	uint32_t last_api; /* its API */
	uint32_t pad0;
	struct rt_launch_sum api[RT_LAUNCH_APIS_MAX];
};

#endif
