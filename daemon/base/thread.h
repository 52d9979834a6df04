/* SPDX-License-Identifier: Apache-2.0 */
/* Threads beside the loop, for calls that block long in the kernel. */
#ifndef RANKTRACE_DAEMON_BASE_THREAD_H
#define RANKTRACE_DAEMON_BASE_THREAD_H

/* Runs a detached thread with all signals blocked: the loop handles them. Negative errno. */
int thread_run(void *(*run)(void *arg), void *arg);

#endif
