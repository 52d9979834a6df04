/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a rank's memory that wait for the names of their stacks: failed requests, and the snapshots that show what
 * filled the memory. They outlive the rank's process, which a failed request often ends: its stacks are named by what
 * was recorded of its functions then.
 */
#ifndef RANKTRACE_DAEMON_MEMORY_MEMORY_PENDING_H
#define RANKTRACE_DAEMON_MEMORY_MEMORY_PENDING_H

#include "daemon/memory/allocs.h"
#include "daemon/memory/memory_rows.h"
#include "daemon/ranks/ranks.h"
#include "daemon/stacks/profile_rank.h"

#define MEMORY_PENDING_FAILED_MAX 16   /* of a rank: one ends most programs */
#define MEMORY_PENDING_SNAPSHOTS_MAX 2 /* that of a failed request, and the last one; 0.1 MiB, at most 1 */

/* Of several ranks. */
struct memory_pending_counts {
	uint64_t rows, failures; /* put */
};

struct memory_pending {
	struct rank is; /* as it was when it was seen last */
	struct profile_rank names;
	bool failed_once; /* a request of its allocator: the first one is a finding */
	size_t failed_count;
	struct memory_failed {
		struct rt_memory_failed_event event; /* call_ns is UTC */
		struct steps_open at;
		uint64_t came_ns;
		struct memory_then then;
	} failed[MEMORY_PENDING_FAILED_MAX];
	struct list_link snapshots; /* struct memory_snapshot_pending, oldest first */
	size_t snapshot_count, snapshot_bytes;
	struct list_link calls; /* struct alloc_held, of a rank that has ended */
	struct list_link link;	/* the owner's */
	struct memory_pending_counts *put;
};

/* Asks for the layout of the rank's Python, too: names.laid_out. NULL: *ret_error says why. */
struct memory_pending *memory_pending_new(
	struct context *context, const struct rank *rank, struct memory_pending_counts *put, int *ret_error);
/* What waits is put as it is. NULL. */
struct memory_pending *memory_pending_free(struct memory_pending *pending);
struct memory_owner memory_pending_owner(const struct memory_pending *pending);
/* The rank's process has ended. */
void memory_pending_end(struct memory_pending *pending);
/* False: too many wait. */
bool memory_pending_fail(
	struct memory_pending *pending, const struct rt_memory_failed_event *event, const struct memory_then *then);
/* A snapshot, see memory_rows_live(); orders `line`. */
void memory_pending_live(struct memory_pending *pending, const struct rt_memory_rank *counts, struct memory_line *line,
	size_t lines, const double unseen[RT_MEMORY_DEVICES_MAX], uint64_t now_ns);
size_t memory_pending_bytes(const struct memory_pending *pending);
bool memory_pending_waits(const struct memory_pending *pending);
/* Puts what has its names, or will not have them. True: something waits. */
bool memory_pending_put(struct memory_pending *pending, uint64_t now_ns);

#endif
