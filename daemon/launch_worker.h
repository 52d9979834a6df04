/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread beside the daemon's loop: it runs windows on launches, because putting probes on and off waits for the
 * kernel for tens of ms, which the loop must not. Between the two there is one slot: the loop puts an order in, the
 * worker owns it until the result is there, the loop takes that. The worker touches nothing else of the daemon, and
 * does not log.
 */
#ifndef RANKTRACE_LAUNCH_WORKER_H
#define RANKTRACE_LAUNCH_WORKER_H

#include "daemon/launch_window.h"

struct launch_order {
	uint64_t at_ns; /* CLOCK_MONOTONIC, when to begin; what is past begins at once */
	uint64_t length_ns;
	size_t targets;
	struct launch_target target[LAUNCH_TARGETS_MAX]; /* their descriptors are the order's */
};

struct launch_order *launch_order_free(struct launch_order *order);

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
