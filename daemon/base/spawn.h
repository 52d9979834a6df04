/* SPDX-License-Identifier: Apache-2.0 */
/* Starts programs of ours. */
#ifndef RANKTRACE_DAEMON_BASE_SPAWN_H
#define RANKTRACE_DAEMON_BASE_SPAWN_H

#include <sys/types.h>

/* argv[0] is the path. Its standard descriptors are /dev/null; `to` (may be one of them) is a copy of fd; all others of
 * ours are CLOEXEC. Signals are reset. The caller reaps it. 0 or negative errno. */
int spawn_program(char *const *argv, char *const *environment, int fd, int to, pid_t *ret);

/*
 * Starts programs in a thread. The caller of fork() waits until the child executes its program, and both wait where the
 * kernel holds every fork of the node (uprobes being attached, a move between control groups): the loop may not.
 */

struct event_base;
struct spawner;
struct spawner_job;

/* From the loop, once a job. result: pid, which the caller waits for, or negative errno. */
typedef void (*spawner_done)(void *arg, pid_t result);

int spawner_new(struct event_base *base, struct spawner **ret);
/* Waits for nothing; what has not started does not start. No callback is called. Children of a worker end with the
 * thread. */
struct spawner *spawner_free(struct spawner *spawner);

/* As spawn_program(); everything is copied, fd duplicated. */
int spawner_start(struct spawner *spawner, char *const *argv, char *const *environment, int fd, int to,
	spawner_done done, void *arg, struct spawner_job **ret);
/* The callback is not called any more; the child is killed if it started. Only before the callback. */
void spawner_cancel(struct spawner *spawner, struct spawner_job *job);

#endif
