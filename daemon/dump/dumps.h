/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs libexec/ranktrace/dump when the dump interval of a level ends that is on, or was since the last dump: a process
 * of its own at the lowest priority that reads the store. The loop never waits for it (child.h). One runs at a time,
 * for all levels due; it is killed after half an hour, which its files survive.
 */
#ifndef RANKTRACE_DAEMON_DUMP_DUMPS_H
#define RANKTRACE_DAEMON_DUMP_DUMPS_H

#include "analyzers/dump/dump_state.h"
#include "daemon/base/child.h"
#include "daemon/base/util.h"

struct context;
struct dumps;

struct dumps_status {
	struct dump_state state; /* without delays */
	bool running;
	uint64_t cpu_ns;
	char reason[DUMP_REASON_BYTES]; /* of the last dump, "" if none */
};

int dumps_new(struct context *context, struct dumps **ret);
/* Ends a running dump. */
struct dumps *dumps_free(struct dumps *dumps);

/* Called every second. dumps may be NULL. */
void dumps_tick(struct dumps *dumps, uint64_t now_ns);
void dumps_status(const struct dumps *dumps, struct dumps_status *ret);

#endif
