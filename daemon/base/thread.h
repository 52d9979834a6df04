/* SPDX-License-Identifier: Apache-2.0 */
/* Threads beside the loop, for what may wait long in the kernel. */
#ifndef RANKTRACE_DAEMON_BASE_THREAD_H
#define RANKTRACE_DAEMON_BASE_THREAD_H

/* Runs it in a thread that nobody joins and that no signal reaches: those are the loop's. Negative errno. */
int thread_run(void *(*run)(void *arg), void *arg);

#endif
