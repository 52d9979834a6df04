/* SPDX-License-Identifier: Apache-2.0 */
/* Threads beside the loop, for calls that block long in the kernel. All signals are blocked in them: the loop handles them. */
#ifndef RANKTRACE_DAEMON_BASE_THREAD_H
#define RANKTRACE_DAEMON_BASE_THREAD_H

#include <pthread.h>

/* A thread to be joined or detached by the caller. Negative errno. */
int thread_start(void *(*run)(void *arg), void *arg, pthread_t *ret);
/* A detached thread. Negative errno. */
int thread_run(void *(*run)(void *arg), void *arg);
/* A condition whose timed waits are by CLOCK_MONOTONIC. Negative errno. */
int thread_condition(pthread_cond_t *ret);
/*
 * Closes a descriptor in a thread: the last one of a deleted file frees its blocks, which takes as long as its owner has
 * scattered them. Beyond THREAD_CLOSES_MAX that wait, and where no thread can be started, it is closed here. -1: none.
 */
#define THREAD_CLOSES_MAX 256
void thread_close(int fd);

#endif
