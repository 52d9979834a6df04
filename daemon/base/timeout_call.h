/* SPDX-License-Identifier: Apache-2.0 */
/* Calls into file systems with a time limit: a slow disk or an unreachable file server must not stop the daemon's loop. */
#ifndef RANKTRACE_DAEMON_BASE_TIMEOUT_CALL_H
#define RANKTRACE_DAEMON_BASE_TIMEOUT_CALL_H

#include <stdint.h>

struct timeout_call {
	/* Runs in a thread of its own; its result is returned. Touches only its argument. */
	int (*ask)(void *question);
	/* Called when an abandoned call returns: frees the argument and what the result holds. */
	void (*forget)(void *question, int answer);
};

/*
 * Returns the call's result, or: -ETIMEDOUT after wait_ns, -EBUSY if an abandoned call is still running (nothing was
 * called). *arg is from malloc(); the caller owns it again on return, or it is NULL if abandoned. From the loop's
 * thread only.
 */
int timeout_call_run(const struct timeout_call *within, void **question, uint64_t wait_ns);

#endif
