/* SPDX-License-Identifier: Apache-2.0 */
/* Threads beside the loop, for calls that block long in the kernel. All signals are blocked in them: the loop handles
 * them. */
#ifndef RANKTRACE_DAEMON_BASE_THREAD_H
#define RANKTRACE_DAEMON_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rusage;

/* A thread to be joined or detached by the caller. Negative errno. */
int thread_start(void *(*run)(void *arg), void *arg, pthread_t *ret);
/* A detached thread. Negative errno. */
int thread_run(void *(*run)(void *arg), void *arg);
/* A condition whose timed waits are by CLOCK_MONOTONIC. Negative errno. */
int thread_condition(pthread_cond_t *ret);
/* Waits for such a condition, with the lock held. False: until_ns has passed. */
bool thread_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns);
/* Calls of each kind below that wait for their thread. Beyond that, or without a thread, the caller makes the call. */
#define THREAD_CALLS_MAX 256
/*
 * Closes a descriptor in a thread: the last one of a deleted file frees its blocks, which takes as long as its owner
 * has scattered them. -1: none.
 */
void thread_close(int fd);
/*
 * Reaps a child that has ended or was killed, in a thread: the kernel lets its parent wait for other processes that
 * open its files in /proc.
 */
void thread_reap(pid_t pid);
/* True: the child has ended, status and usage are as from wait4(), and a thread reaps it. ret_usage may be NULL. */
bool thread_child_ended(pid_t pid, int *ret_status, struct rusage *ret_usage);

#endif
