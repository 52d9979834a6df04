/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a program of ours. */
#ifndef RANKTRACE_DAEMON_BASE_SPAWN_H
#define RANKTRACE_DAEMON_BASE_SPAWN_H

#include <sys/types.h>

/* argv[0] is the path. Its standard descriptors are /dev/null; `to` (may be one of them) is a copy of fd; all others of ours
 * are CLOEXEC. Signals are reset. The caller reaps it. 0 or negative errno. */
int spawn_program(char *const *argv, char *const *environment, int fd, int to, pid_t *ret);

#endif
