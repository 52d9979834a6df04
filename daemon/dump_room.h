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
struct dump_room;

struct dump_room_status {
	struct dump_state state; /* without delays */
	bool running;
	uint64_t cpu_ns;
	char trouble[DUMP_TROUBLE_BYTES]; /* of the last dump, "" if none */
};

int dump_room_new(struct context *context, struct dump_room **ret);
/* Ends a dump that runs. */
struct dump_room *dump_room_free(struct dump_room *dumps);

/* Called every second. room NULL: nothing. */
void dump_room_tick(struct dump_room *dumps, uint64_t now_ns);
void dump_room_status(const struct dump_room *dumps, struct dump_room_status *ret);

#endif
