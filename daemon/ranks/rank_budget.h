/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One account of the memory that the daemon keeps for ranks: by part, rank and user. If all ranks together exceed the
 * bound (LIMIT_RANK_STATE_MIB), the rank with the most bytes, of the user with the most bytes, loses its state, and its
 * records are refused and counted for RANK_BUDGET_FROZEN_NS. A user who has no more than the bound divided by the
 * number of users therefore never loses anything.
 *
 * An owner of state names its part with rank_budget_part(), asks rank_budget_admits() before it takes a record, and
 * reports the size of the rank's state with rank_budget_set() after each change. rank_budget_set() may call shed() of
 * any part and rank, this one included, so it comes last.
 */
#ifndef RANKTRACE_DAEMON_RANKS_RANK_BUDGET_H
#define RANKTRACE_DAEMON_RANKS_RANK_BUDGET_H

#include "daemon/ranks/ranks.h"

#define RANK_BUDGET_FROZEN_NS (60 * NSEC_PER_SEC)

enum rank_budget_part {
	RANK_BUDGET_STEPS,
	RANK_BUDGET_COLL,
	RANK_BUDGET_ALLOCS,
	RANK_BUDGET_ENDS,
	RANK_BUDGET_MEMORY, /* the kernel's maps included */
	RANK_BUDGET_PARTS
};

struct rank_budget;

/* Of a rank, for `tracectl ranks`. */
struct rank_budget_use {
	uint64_t bytes;
	uint64_t refused; /* records, while frozen */
	bool frozen;
};

/* bytes_max 0: LIMIT_RANK_STATE_MIB. */
int rank_budget_new(struct context *context, uint64_t bytes_max, struct rank_budget **ret);
struct rank_budget *rank_budget_free(struct rank_budget *budget);

/* shed frees the part's state of a slot; it may call rank_budget_set(). */
void rank_budget_part(
	struct rank_budget *budget, enum rank_budget_part part, void (*shed)(void *arg, uint32_t slot), void *arg);
/* May a record of this rank be taken? Counts it as refused if not. budget NULL: yes. */
bool rank_budget_admits(struct rank_budget *budget, const struct rank *rank);
/* Is the rank frozen? As rank_budget_admits(), without counting. */
bool rank_budget_is_frozen(const struct rank_budget *budget, const struct rank *rank);
/* Has the rank's state been dropped since its start? What begins anew did not begin with the rank. */
bool rank_budget_was_frozen(const struct rank_budget *budget, const struct rank *rank);
void rank_budget_set(struct rank_budget *budget, enum rank_budget_part part, const struct rank *rank, uint64_t bytes);
void rank_budget_use(const struct rank_budget *budget, const struct rank *rank, struct rank_budget_use *ret);
uint64_t rank_budget_bytes(const struct rank_budget *budget);
uint64_t rank_budget_bytes_max(const struct rank_budget *budget);
/* Ranks frozen now, and records refused so far. */
void rank_budget_counts(const struct rank_budget *budget, uint32_t *ret_frozen, uint64_t *ret_refused);

#endif
