/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs libexec/ranktrace/dump when the interval of a level that is on is over, or was on since the last dump: a process
 * of its own, below everybody's priority, that reads the store. It costs the loop a spawn; what it does, how long it
 * takes and how it ends is nothing to the loop. One at a time, for all levels that are due; one that takes longer than
 * half an hour is killed, which its files survive.
 */
#ifndef RANKTRACE_DUMP_ROOM_H
#define RANKTRACE_DUMP_ROOM_H

#include "analyzers/dump/dump_state.h"
#include "daemon/util.h"

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
