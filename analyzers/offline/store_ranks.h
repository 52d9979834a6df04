/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a store and their places in communicators, for store_feed.c: read whole at the start; announced to
 * the aligner when the daemon had seen them, before their first row as it does, and ended when they ended. One whose
 * end nobody saw (the daemon was killed) ends where another process of the same job has its rank, if it has no row from
 * then on: jobs without a word that are alike may well run side by side. The reader does not know of which boot a
 * process is. Where the clock was set back over a reboot, the rows of what ran before seem to go on beside what runs
 * after it, and one whose end nobody saw does not end.
 */
#ifndef RANKTRACE_OFFLINE_STORE_RANKS_H
#define RANKTRACE_OFFLINE_STORE_RANKS_H

#include <stdbool.h>

#include "analyzers/coll/coll.h"
#include "analyzers/detect/preemptors.h"
#include "analyzers/offline/store_feed.h"
#include "analyzers/store/reader.h"

#define STORE_FROM_START_NS 5000000000ULL /* seen that soon after its start, steps are counted from the first */
#define STORE_PLACES_MAX 1048576	  /* rows of communicators */
#define STORE_CALLS_MAX 1048576		  /* calls in memory: 1,024 ranks on 16 communicators; 112 MiB */

/* Newest calls of a member, of one time, by number. */
struct store_calls {
	uint64_t time_ns;
	enum coll_seq_from seq_from;
	bool completion_known;
	uint64_t completed_seq;
	size_t count, capacity;
	struct coll_point *call;
};

struct store_place {
	char communicator[20];
	enum comm_kind kind;
	uint32_t members;
	int32_t member;		   /* -1: not known */
	uint32_t next;		   /* the one that was asked for after it, the last time */
	struct store_calls *calls; /* NULL: none known */
};

/* Launches on the device, in the window that is being read. */
struct store_window {
	uint64_t start_ns, duration_ns;
	uint64_t gap_ns, thread_gap_ns; /* of its threads so far, of this one; 0: none */
	uint32_t thread_id;
};

struct store_rank {
	int64_t instance;
	int process; /* the aligner's, -1: not announced, refused, or ended */
	int number;  /* the same, kept after its end */
	bool announced, ended;
	bool wanted; /* by the options */
	int32_t rank;
	uint32_t world_size;
	char job[64], host[64], card[32];
	uint32_t uid;	   /* ALIGN_UID_UNKNOWN */
	uint64_t launcher; /* as of align_rank */
	uint16_t port;
	uint64_t start_ns, first_seen_ns, seen_ns; /* seen_ns: last seen, or its end */
	uint64_t since_ns, until_ns;		   /* of its samples, steps and standings; 0: none */
	uint64_t row_ns;			   /* of its newest row */
	uint64_t progress_ns, step_end_ns, steps;  /* newest sign of life, of what was fed; steps so far */
	uint32_t pid, step_thread;
	struct standing
		standing; /* newest row of standings, that was written at standing_ns and holds so long; 0: none */
	uint64_t standing_ns, standing_until_ns;
	struct preemptors preemptors; /* of the waits that L3 saw since the sample before */
	bool waits;		      /* and whether it saw anything */
	struct store_window window;
	size_t places, places_capacity;
	struct store_place *place; /* by communicator */
	uint32_t place_last;	   /* that was asked for */
};

struct store_ranks;

/* Reads them by statements of its own. 0, or negative errno with the sentence. */
int store_ranks_open(struct reader *reader, const struct store_feed_options *options, struct store_ranks **ret,
	char *error, size_t error_size);
struct store_ranks *store_ranks_close(struct store_ranks *ranks);
/* As source_ops says. */
uint64_t store_ranks_known(const struct store_ranks *ranks, uint64_t *ret_end_ns);
/* When the next of them begins or ends; UINT64_MAX: none does. */
uint64_t store_ranks_next(const struct store_ranks *ranks);
/* Announces it. */
void store_ranks_step(struct store_ranks *ranks, struct align *align);
/* NULL: not known, or not wanted, or over. */
struct store_rank *store_ranks_find(struct store_ranks *ranks, int64_t instance, struct align *align);
/* As store_ranks_find(), also of a rank that is over. */
struct store_rank *store_ranks_find_ended(struct store_ranks *ranks, int64_t instance, struct align *align);
/* The rank by its place among all, for those who go through them; NULL past the last. */
struct store_rank *store_ranks_at(struct store_ranks *ranks, size_t i);
/* Its place in the communicator, NULL: not known. */
struct store_place *store_rank_place(const struct store_rank *rank, const char *communicator);
/* Adds a call of that time to its place; those of an earlier time are gone. What is too much is left out. */
void store_ranks_add_call(
	struct store_ranks *ranks, struct store_place *place, uint64_t time_ns, const struct coll_point *call);
/* Its number in the communicator, -1 not known. Cheapest where operations repeat. */
int32_t store_rank_member(struct store_rank *rank, const char *communicator);
/* Of those with rows, and those beyond STORE_FEED_RANKS_MAX. */
void store_ranks_counts(const struct store_ranks *ranks, uint64_t *ret_ranks, uint64_t *ret_left_out);

#endif
