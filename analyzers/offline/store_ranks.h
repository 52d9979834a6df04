/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a store and their places in communicators, for store_feed.c: read whole at the start, told to the
 * framer with their first row, and ended when they ended. */
#ifndef RANKTRACE_OFFLINE_STORE_RANKS_H
#define RANKTRACE_OFFLINE_STORE_RANKS_H

#include <stdbool.h>

#include "analyzers/offline/store_feed.h"

#define STORE_WAITS_NS 30000000000ULL /* so long after a row of L3 its samples' run delay is left out */
#define STORE_PLACES_MAX 1048576      /* rows of communicators */

struct store_place {
	char communicator[20];
	enum comm_kind kind;
	uint32_t members;
	int32_t member; /* -1: not known */
};

struct store_rank {
	int64_t instance;
	int process; /* the framer's, -1: not told yet, or none of its */
	bool told, ended;
	int32_t rank;
	uint32_t world_size;
	char job[64], host[64], card[32];
	uint64_t start_ns, first_seen_ns, seen_ns; /* seen_ns: last seen, or its end */
	uint64_t waits_until_ns;
	uint32_t pid, step_thread;
	size_t places;
	struct store_place *place;
};

struct store_ranks;

int store_ranks_open(const char *state_dir, const struct store_feed_options *options, struct store_ranks **ret,
	char *error, size_t error_size);
struct store_ranks *store_ranks_close(struct store_ranks *ranks);
/* Tells of processes that ended before that time. */
void store_ranks_until(struct store_ranks *ranks, uint64_t time_ns, struct framer *framer);
/* NULL: not known, or not wanted. Tells the framer of it the first time. */
struct store_rank *store_ranks_find(struct store_ranks *ranks, int64_t instance, struct framer *framer);
/* Its number in the communicator, -1 not known. */
int32_t store_rank_member(const struct store_rank *rank, const char *communicator);
void store_ranks_counts(const struct store_ranks *ranks, uint64_t *ret_ranks, uint64_t *ret_left_out);

#endif
