/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sampled window on launches: probes on, wait, probes off, sums out of the kernel. Attaching and detaching wait for
 * the kernel (measured: up to tens of ms), so launch_window_run() is for a thread that may wait (launch_worker.h); it
 * touches nothing but its own window and what it is given.
 */
#ifndef RANKTRACE_LAUNCH_WINDOW_H
#define RANKTRACE_LAUNCH_WINDOW_H

#include "bpf/launches.h"
#include "daemon/util.h"

struct kernel;
struct launch_window;

#define LAUNCH_TARGETS_MAX 64 /* files in one window */
#define LAUNCH_PLACES_MAX 64  /* functions in one file */

/* Functions of one file. */
struct launch_target {
	int fd; /* of the file, open for reading; stays the caller's */
	size_t count;
	uint64_t offset[LAUNCH_PLACES_MAX]; /* in the file */
	uint64_t cookie[LAUNCH_PLACES_MAX]; /* number of the API, below RT_LAUNCH_APIS_MAX */
};

struct launch_thread {
	uint32_t pid, thread_id;
	struct rt_launch_sum api[RT_LAUNCH_APIS_MAX]; /* the gap that the window's end cut is in it */
};

struct launch_result {
	uint64_t start_ns;	       /* CLOCK_MONOTONIC; launches count from here */
	uint64_t duration_ns;	       /* for so long; 0: there was no window */
	uint64_t attach_ns, detach_ns; /* what the kernel took for it */
	unsigned attached;	       /* places */
	int error;		       /* of the first file that could not be probed, 0 if none; the others were */
	size_t error_target;	       /* which one */
	size_t threads;
	struct launch_thread *thread; /* free() */
};

/* Loads the program and attaches nothing. -EOPNOTSUPP: this kernel has no uprobes for us. */
int launch_window_open(struct kernel *kernel, struct launch_window **ret);
struct launch_window *launch_window_close(struct launch_window *window);
/* Whether functions can be told apart; where not, all count as API 0. */
bool launch_window_tells_apis(const struct launch_window *window);

/* How a window waits until until_ns, or less if it is to end early. */
typedef void (*launch_wait)(void *arg, uint64_t until_ns);

/* ret is filled in any case. When it returns no probe is left. */
void launch_window_run(struct launch_window *window, const struct launch_target *target, size_t targets,
	uint64_t length_ns, launch_wait wait, void *arg, struct launch_result *ret);

#endif
