/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs libexec/ranktrace/dump when the dump interval of a level ends that is on, or was since the last dump: a process
 * of its own at the lowest priority that reads the store. The loop only spawns it and never waits. One runs at a time,
 * for all levels due; it is killed after half an hour, which its files survive.
 */
#ifndef RANKTRACE_DAEMON_DUMP_DUMPS_H
#define RANKTRACE_DAEMON_DUMP_DUMPS_H

#include "analyzers/dump/dump_state.h"
#include "daemon/base/util.h"

#include <sys/types.h>

/* Process that writes a dump: started, read from, and reaped without blocking. */

#define DUMP_SAID_BYTES 256

struct dump_child {
	pid_t pid; /* 0: none */
	int said_fd;
	size_t said_used;
	char said[DUMP_SAID_BYTES]; /* start of its stderr */
};

struct dump_end {
	bool failed;
	char why[DUMP_SAID_BYTES]; /* reason of a failure, else a warning, "" if none */
	uint64_t cpu_ns;
};

/* argv[0] is the path. */
int dump_child_start(struct dump_child *child, const char *const *argv);
/* True once, at its end. */
bool dump_child_ended(struct dump_child *child, struct dump_end *ret);
/* Kills it and waits for its end. */
void dump_child_kill(struct dump_child *child);

struct context;
struct dumps;

struct dumps_status {
	struct dump_state state; /* without delays */
	bool running;
	uint64_t cpu_ns;
	char trouble[DUMP_TROUBLE_BYTES]; /* of the last dump, "" if none */
};

int dumps_new(struct context *context, struct dumps **ret);
/* Ends a running dump. */
struct dumps *dumps_free(struct dumps *dumps);

/* Called every second. dumps may be NULL. */
void dumps_tick(struct dumps *dumps, uint64_t now_ns);
void dumps_status(const struct dumps *dumps, struct dumps_status *ret);

#endif
