/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that may become ranks, by the time of their next look: bounded, one entry a pid, all operations at most
 * logarithmic. Where it is full, the oldest entry without rank variables makes room, and is counted.
 */
#ifndef RANKTRACE_RANK_QUEUE_H
#define RANKTRACE_RANK_QUEUE_H

#include "daemon/util.h"

struct rank_candidate {
	uint32_t pid;
	bool has_env; /* its environment has a rank: never given up, never dropped for room */
	bool interpreter;
	bool known;		/* the fields below are from a look */
	bool from_exec;		/* seen within a second of its exec */
	uint64_t due_ns;	/* CLOCK_MONOTONIC; UINT64_MAX: given up, remembered only */
	uint64_t since_ns;	/* when it came here */
	uint64_t looked_ns;	/* last look, 0 if none */
	uint64_t interval_ns;	/* to the next look */
	uint64_t start_time_ns; /* identity, as in struct rank */
	char exe[64];		/* end of its path: a new image without an exec event shows here */
};

struct rank_queue;

int rank_queue_new(uint32_t entries_max, struct rank_queue **ret);
struct rank_queue *rank_queue_free(struct rank_queue *queue);
/* Adds or replaces the entry of candidate->pid. -ENOSPC: full of entries that may not be dropped. */
int rank_queue_put(struct rank_queue *queue, const struct rank_candidate *candidate);
bool rank_queue_get(const struct rank_queue *queue, uint32_t pid, struct rank_candidate *ret);
void rank_queue_remove(struct rank_queue *queue, uint32_t pid);
/* Takes the entry that is due first, if it is due at now_ns. */
bool rank_queue_pop(struct rank_queue *queue, uint64_t now_ns, struct rank_candidate *ret);
uint32_t rank_queue_count(const struct rank_queue *queue);
/* Entries that were still waiting for a look when they had to make room. */
uint64_t rank_queue_dropped(const struct rank_queue *queue);

#endif
