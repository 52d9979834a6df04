/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread beside the daemon's loop: it runs windows on launches, because putting probes on and off waits for the
 * kernel for tens of ms, which the loop must not. Between the two there is one slot: the loop puts an order in, the
 * worker owns it until the result is there, the loop takes that. The worker touches nothing else of the daemon, and
 * does not log.
 */
#ifndef RANKTRACE_DAEMON_COLLECT_LAUNCH_H
#define RANKTRACE_DAEMON_COLLECT_LAUNCH_H

#include "bpf/launches.h"
#include "daemon/base/util.h"
#include "daemon/probes/table.h"

/*
 * One sampled window on launches: probes on, wait, probes off, sums out of the kernel. Attaching and detaching wait for
 * the kernel (measured: up to tens of ms), so launch_window_run() is for a thread that may wait (launch.h); it
 * touches nothing but its own window and what it is given.
 */

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

struct launch_order {
	uint64_t at_ns; /* CLOCK_MONOTONIC, when to begin; what is past begins at once */
	uint64_t length_ns;
	size_t targets;
	struct launch_target target[LAUNCH_TARGETS_MAX]; /* their descriptors are the order's */
};

struct launch_order *launch_order_free(struct launch_order *order);

/*
 * Which functions launch kernels, and where they are in the libraries that ranks map: rows of the probe tables with the
 * level L1.launches, found and placed as those of the call engine are. Attaches nothing; a window is given the places.
 */

struct launch_sites;

/* Takes the table over, rows past RT_LAUNCH_APIS_MAX are cut off it. -ENOMEM leaves it the caller's. */
int launch_sites_new(struct probe_table *table, struct launch_sites **ret);
struct launch_sites *launch_sites_free(struct launch_sites *places);

/* A rank is there, or it may have mapped something since; it has ended. */
void launch_sites_scan(struct launch_sites *places, uint32_t pid, int64_t instance);
void launch_sites_forget(struct launch_sites *places, int64_t instance);

/* What a window has to probe: at most max files, with descriptors of their own that the caller closes. */
size_t launch_sites_targets(struct launch_sites *places, struct launch_target *ret, size_t max);
/* Whether a function of it would be seen. */
bool launch_sites_has(struct launch_sites *places, int64_t instance);
/* Functions and files that a window probes. */
void launch_sites_count(struct launch_sites *places, unsigned *ret_functions, unsigned *ret_libraries);
/* What it cannot see and why, "" if nothing. */
const char *launch_sites_trouble(const struct launch_sites *places);
/* The row's name; "" for a number that is none. */
const char *launch_sites_api(const struct launch_sites *places, unsigned api);

struct launch_worker;

/* The window stays the caller's and must outlive the worker. */
int launch_worker_start(struct launch_window *window, struct launch_worker **ret);
/* The order is the worker's from here on. -EBUSY: it has one, or its result was not taken; then the order stays. */
int launch_worker_order(struct launch_worker *worker, struct launch_order *order);
bool launch_worker_is_idle(struct launch_worker *worker);
/* True once after each order; duration_ns is 0 where the window was given up before it began. */
bool launch_worker_take(struct launch_worker *worker, struct launch_result *ret);
/* Ends the window under way at once and the thread: when it returns no probe is left. A result may still be taken. */
void launch_worker_stop(struct launch_worker *worker);
/* Stops, if that was not done. Takes NULL. */
struct launch_worker *launch_worker_free(struct launch_worker *worker);

#endif
