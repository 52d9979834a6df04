/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampled windows on launches, run by a thread beside the daemon's loop: attaching and detaching probes takes tens of
 * ms. Loop and worker share one slot: the loop puts in an order, the worker owns it until it returns the result, the
 * loop takes that. The worker touches nothing else of the daemon and does not log.
 */
#ifndef RANKTRACE_DAEMON_COLLECT_LAUNCH_H
#define RANKTRACE_DAEMON_COLLECT_LAUNCH_H

#include "bpf/launches.h"
#include "daemon/base/util.h"
#include "daemon/probes/table.h"

/*
 * One sampled window: attach, wait, detach, fetch the sums. launch_window_run() blocks (measured: up to tens of ms),
 * so the worker's thread runs it; it touches only its window and its arguments.
 */

struct context;
struct kernel;
struct launch_window;

#define LAUNCH_TARGETS_MAX 64 /* files per window */
#define LAUNCH_SITES_MAX 64   /* functions per file */

/* Functions of one file. */
struct launch_target {
	int fd; /* the file, open for reading; owned by the caller */
	size_t count;
	uint64_t offset[LAUNCH_SITES_MAX]; /* in the file */
	uint64_t cookie[LAUNCH_SITES_MAX]; /* API number, below RT_LAUNCH_APIS_MAX */
};

struct launch_thread {
	uint32_t pid, thread_id;
	struct rt_launch_sum api[RT_LAUNCH_APIS_MAX]; /* includes the gap cut off by the window's end */
};

struct launch_result {
	uint64_t start_ns;    /* CLOCK_MONOTONIC; start of counting */
	uint64_t duration_ns; /* 0: no window */
	unsigned attached;    /* functions */
	int error;	      /* of the first file that failed, 0 if none; others were probed */
	size_t threads;
	struct launch_thread *thread; /* free() */
};

/* Loads the program, attaches nothing. -EOPNOTSUPP: the kernel supports no uprobes. */
int launch_window_open(struct kernel *kernel, struct launch_window **ret);
struct launch_window *launch_window_close(struct launch_window *window);
/* Whether functions are distinguished; otherwise all count as API 0. */
bool launch_window_has_apis(const struct launch_window *window);

/* Waits until until_ns, or less if the window must end early. */
typedef void (*launch_wait)(void *arg, uint64_t until_ns);

/* Always fills ret. No probe is left on return. */
void launch_window_run(struct launch_window *window, const struct launch_target *target, size_t targets,
	uint64_t length_ns, launch_wait wait, void *arg, struct launch_result *ret);

struct launch_order {
	uint64_t at_ns; /* CLOCK_MONOTONIC; a past time starts at once */
	uint64_t length_ns;
	size_t targets;
	struct launch_target target[LAUNCH_TARGETS_MAX]; /* descriptors are owned by the order */
};

struct launch_order *launch_order_free(struct launch_order *order);

/*
 * Functions that launch kernels, and their sites in the libraries that ranks map: rows of the probe tables with the
 * level L1.launches, resolved as in the call engine. Attaches nothing; windows are given the sites.
 */

struct launch_sites;

struct quarantine;
struct workers;

/*
 * Takes over the table, truncated to RT_LAUNCH_APIS_MAX rows. -ENOMEM: the caller keeps it. Of the context: what
 * libraries.h needs.
 */
int launch_sites_new(struct probe_table *table, const struct context *context, struct launch_sites **ret);
/* Called at the end of each scan (libraries.h). */
typedef void (*launch_scanned)(void *arg, int64_t instance, int result, uint64_t cost_ns);
void launch_sites_observe(struct launch_sites *sites, launch_scanned scanned, void *arg);
struct launch_sites *launch_sites_free(struct launch_sites *sites);

/* A rank is new or may have mapped libraries: begins a scan. It has ended. */
void launch_sites_scan(struct launch_sites *sites, uint32_t pid, uint32_t uid, int64_t instance);
void launch_sites_forget(struct launch_sites *sites, int64_t instance);

/* Targets of a window: at most max files, with descriptors that the caller closes. */
size_t launch_sites_targets(struct launch_sites *sites, struct launch_target *ret, size_t max);
/* Whether this rank's libraries are all read and one has a launch function. */
bool launch_sites_are_known(struct launch_sites *sites, int64_t instance);
/* Functions and files that a window probes. */
void launch_sites_count(struct launch_sites *sites, unsigned *ret_functions, unsigned *ret_libraries);
/* What cannot be traced and why, "" if nothing. */
const char *launch_sites_reason(const struct launch_sites *sites);
/* The row's name; "" if out of range. */
const char *launch_sites_api(const struct launch_sites *sites, unsigned api);

struct launch_worker;

/* The window is owned by the caller and must outlive the worker. */
int launch_worker_start(struct launch_window *window, struct launch_worker **ret);
/* Takes over the order. -EBUSY: an order or result is pending; the caller keeps it. */
int launch_worker_order(struct launch_worker *worker, struct launch_order *order);
bool launch_worker_is_idle(struct launch_worker *worker);
/* True once per order; duration_ns is 0 if the window was cancelled before its start. */
bool launch_worker_take(struct launch_worker *worker, struct launch_result *ret);
/*
 * Ends the current window and the thread: no probe is left on return, and a result may still be taken. False: the
 * kernel has not let the thread go in this time (uprobe.h); worker and window are the thread's from here on.
 */
bool launch_worker_stop(struct launch_worker *worker, uint64_t wait_ns);
/* After a stop that was true. Accepts NULL. */
void launch_worker_free(struct launch_worker *worker);

#endif
