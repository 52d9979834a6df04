/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs libexec/ranktrace/dump when the interval of a level that is on is over, or was on since the last dump: a process
 * of its own, below everybody's priority, that reads the store. It costs the loop a spawn; what it does, how long it
 * takes and how it ends is nothing to the loop. One at a time, for all levels that are due; one that takes longer than
 * half an hour is killed, which its files survive.
 */
#ifndef RANKTRACE_DAEMON_DUMP_DUMPS_H
#define RANKTRACE_DAEMON_DUMP_DUMPS_H

#include "analyzers/dump/dump_state.h"
#include "daemon/base/util.h"

#include <sys/types.h>

/* The process that writes a dump: started, listened to, and told apart when it has ended. Never waits. */

#define DUMP_SAID_BYTES 256

struct dump_child {
	pid_t pid; /* 0: none */
	int said_fd;
	size_t said_used;
	char said[DUMP_SAID_BYTES]; /* what it has written on stderr so far: the first lines */
};

struct dump_end {
	bool failed;
	char why[DUMP_SAID_BYTES]; /* of a failure; else what it warned of, "" if nothing */
	uint64_t cpu_ns;
};

/* argv[0] is the path. */
int dump_child_start(struct dump_child *child, const char *const *argv);
/* True once, when it has ended. */
bool dump_child_ended(struct dump_child *child, struct dump_end *ret);
/* Kills it and waits for its end. */
void dump_child_kill(struct dump_child *child);
/* The folder of programs that are verbs: RANKTRACE_LIBEXEC, or what is beside this program, or the installed one. */
void dump_child_program(const char *name, char *ret, size_t size);

struct context;
struct dumps;

struct dumps_status {
	struct dump_state state; /* without delays */
	bool running;
	uint64_t cpu_ns;
	char trouble[DUMP_TROUBLE_BYTES]; /* of the last dump, "" if none */
};

int dumps_new(struct context *context, struct dumps **ret);
/* Ends a dump that runs. */
struct dumps *dumps_free(struct dumps *dumps);

/* Called every second. room NULL: nothing. */
void dumps_tick(struct dumps *dumps, uint64_t now_ns);
void dumps_status(const struct dumps *dumps, struct dumps_status *ret);

#endif
