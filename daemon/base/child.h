/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of ours that runs beside the daemon, at the lowest priority, and says a sentence or a line in the end. The
 * loop waits neither for its start nor for its end: it asks child_ended() from time to time.
 */
#ifndef RANKTRACE_DAEMON_BASE_CHILD_H
#define RANKTRACE_DAEMON_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_SAID_BYTES 256

struct spawner;
struct spawner_job;

/* All zeros: none. Does not move while it runs. */
struct child {
	bool running;		 /* or starting: until child_ended() was true */
	struct spawner *spawner; /* NULL: started by the caller, who waits for that (tests) */
	struct spawner_job *job; /* NULL: it has started, or failed to */
	pid_t pid;		 /* 0: it has not started */
	int error;		 /* why it did not start: negative errno */
	int fd;
	size_t used;
	char said[CHILD_SAID_BYTES]; /* the begin of it; the rest is discarded */
};

struct child_end {
	bool failed;
	char said[CHILD_SAID_BYTES];
	char why[CHILD_SAID_BYTES]; /* reason of a failure: what it said, else a clause of ours; "" if none */
	uint64_t cpu_ns;
};

/* argv[0] is the path; to: STDOUT_FILENO or STDERR_FILENO, what is kept of it. 0 or negative errno. */
int child_start(struct child *child, struct spawner *spawner, const char *const *argv, int to);
/* True once, at its end. */
bool child_ended(struct child *child, struct child_end *ret);
/* It ends soon. Whoever cannot wait for child_ended() forgets it with child_forget(). */
void child_kill(struct child *child);
void child_forget(struct child *child);

#endif
