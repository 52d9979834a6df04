/* SPDX-License-Identifier: Apache-2.0 */
/* What a path that a rank names leads to, without waiting for ever: see timeout_call.h. */
#ifndef RANKTRACE_DAEMON_BASE_TIMEOUT_CALL_H
#define RANKTRACE_DAEMON_BASE_TIMEOUT_CALL_H

#include <stdint.h>
#include <sys/stat.h>

/*
 * Asking file systems without waiting for ever. One below a rank's paths may not answer: a server of files that is down
 * holds who asks it in the kernel, where no timeout and no signal but the last reaches. Then the job hangs, too, and that
 * is when the daemon's loop must not.
 */

struct timeout_call {
	/* Called by a thread of its own; its result is the answer. Touches nothing but the question. */
	int (*ask)(void *question);
	/* Of a question that was given up, when its answer has come after all: frees it and what the answer holds. */
	void (*forget)(void *question, int answer);
};

/* The answer; or negative errno: -ETIMEDOUT there was none for wait_ns, -EBUSY somebody's question of before is not
 * answered yet, so that nothing was asked. *question is from malloc(); it is the caller's again when this returns, or NULL
 * where it was given up. Of the loop's thread alone. */
int timeout_call_run(const struct timeout_call *within, void **question, uint64_t wait_ns);

/* As stat(). 0, or negative errno; what timeout_call_run() says, too. Of the loop's thread alone. */
int stat_timeout(const char *path, uint64_t wait_ns, struct stat *ret);

#endif
