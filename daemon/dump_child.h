/* SPDX-License-Identifier: Apache-2.0 */
/* The process that writes a dump: started, listened to, and told apart when it has ended. Never waits. */
#ifndef RANKTRACE_DUMP_CHILD_H
#define RANKTRACE_DUMP_CHILD_H

#include <sys/types.h>
#include "daemon/util.h"

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

#endif
