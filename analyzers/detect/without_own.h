/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks' own times between operations in a replay, and what of them is taken away. Part of detect/without.c. */
#ifndef RANKTRACE_DETECT_WITHOUT_OWN_H
#define RANKTRACE_DETECT_WITHOUT_OWN_H

#include "analyzers/detect/measure.h"
#include "analyzers/detect/replay.h"

/* The time of a rank before one of its operations, or before the end of its step. */
struct own_time {
	double own_ns;
	uint32_t op;   /* in the replay */
	uint32_t edge; /* that has it as its lag; REPLAY_NONE: it is the operation's first start */
};

struct whatif_own {
	uint32_t *first;     /* ranks + 2: of each rank's operations, and where the last ones end */
	uint32_t *own_first; /* ranks + 1: of each rank's own times */
	uint8_t *named;	     /* the rank's excess goes */
	struct own_time *time;
	double *over; /* of one rank: what may be taken of each */
	size_t ranks_capacity, times_capacity;
	size_t ranks, times;
};

void whatif_own_free(struct whatif_own *own);
/* -ENOMEM */
int whatif_own_begin(struct whatif_own *own, size_t ranks, size_t ops);
/* Ranks come one after the other, from 0; whatif_own_end() ends each. */
void whatif_own_add(struct whatif_own *own, double own_ns, uint32_t op, uint32_t edge);
void whatif_own_end(struct whatif_own *own, uint32_t rank);
/* The end of the rank's step, as an operation of the replay. */
uint32_t whatif_own_last(const struct whatif_own *own, size_t rank);
/* false: it is named already, or there is no such rank. */
bool whatif_own_name(struct whatif_own *own, uint32_t rank);
bool whatif_own_named(const struct whatif_own *own, size_t rank);
/* Shortens its times in the replay. Once a rank. measures: NULL: of no class. */
void whatif_own_take(struct whatif_own *own, struct replay *replay, const struct measures *measures, uint32_t rank,
	uint64_t excess_ns);
/* The time becomes so long in the replay. */
void whatif_own_set(struct replay *replay, struct own_time *time, double own_ns);
/* Takes excess_ns out of what is longer than the peer's. false: they cannot be compared. */
bool whatif_own_shorten(
	struct whatif_own *own, struct replay *replay, uint32_t rank, uint32_t peer, double excess_ns);
/* Brings indices of operations into the order of rank and start. -ENOMEM */
int whatif_own_sort(uint32_t *place, size_t places, const struct frame_op *op);

#endif
