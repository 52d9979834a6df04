/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the room of ranks: what ranks.c (who is looked at when), rank_look.c (what a process is), rank_card.c (which card
 * it has) and rank_table.c (who is tracked, who is told) share. Nobody else includes this, but the room's own tests.
 */
#ifndef RANKTRACE_RANK_ROOM_H
#define RANKTRACE_RANK_ROOM_H

#include "daemon/rank_queue.h"
#include "daemon/ranks.h"

#define RANK_ANCESTORS_MAX 32
#define RANK_OBSERVERS_MAX 16
#define RANK_OTHERS_MAX 16384 /* children and launchers */
#define RANK_BUCKETS 4096
#define RANK_NO_SLOT UINT32_MAX

/* What is known of its card while it is looked for. */
struct tracked_card {
	char picked[16];    /* what the last look told, "" for nothing */
	uint64_t picked_ns; /* since when it tells so */
	uint64_t first_ns;  /* since when it is looked for */
	uint64_t due_ns;
};

/* A process with a role. */
struct tracked {
	struct rank rank;
	struct tracked *next;
	uint64_t start_utc_ns;
	uint64_t checked_ns;  /* last look whether it lives, CLOCK_MONOTONIC */
	uint64_t children_ns; /* last look at its children */
	uint64_t stored_ns;
	uint32_t cursor; /* see procfs_children() */
	bool missing;	 /* was not there at the last look */
	struct tracked_card card;
};

struct ranks {
	struct context *context;
	char proc_root[128];
	struct rank_queue *queue;
	struct tracked *bucket[RANK_BUCKETS];
	size_t count[RANK_ROLE_MAX];
	struct tracked **slot;
	uint32_t slots;
	struct {
		ranks_observer callback;
		void *arg;
	} observer[RANK_OBSERVERS_MAX];
	size_t observers;
	uint32_t card_slot; /* that was looked at last for its card */
	int card_fds;	    /* that may be read for it now */
	bool full_told;
	bool others_full_told;
};

/* rank_table.c */
struct tracked *tracked_find(const struct ranks *ranks, uint32_t pid);
/*
 * Takes over a copy of *rank: slot, filter, instance and row for a RANK; tells the observers. -ENOSPC: as many as may
 * be (one sentence in the log until there is room again).
 */
int tracked_add(struct ranks *ranks, const struct rank *rank, uint64_t now_ns, struct tracked **ret);
/* A RANK turns out to be something else. */
void tracked_become(struct ranks *ranks, struct tracked *tracked, enum rank_role role, int64_t parent_instance);
/* Tells, stores, frees. */
void tracked_end(struct ranks *ranks, struct tracked *tracked);
void tracked_store(struct ranks *ranks, struct tracked *tracked);
/* Its environment named no card: this is it. Stores and tells. */
void tracked_card_found(struct ranks *ranks, struct tracked *tracked, const char *card);

/* rank_look.c */
enum snapshot { LOOK_GONE, LOOK_AGAIN, LOOK_NEVER, LOOK_DECIDED };

/* Looks at a candidate and, where it has a training library, decides its role and tracks it. */
enum snapshot rank_look(struct ranks *ranks, struct rank_candidate *candidate, uint64_t now_ns);

/* rank_card.c: looks for the cards of ranks that are not known yet, a few ranks at a time. */
void rank_card_tick(struct ranks *ranks, uint64_t now_ns);

/* ranks.c; for tests: where procfs is. */
void ranks_set_proc_root(struct ranks *ranks, const char *root);

#endif
