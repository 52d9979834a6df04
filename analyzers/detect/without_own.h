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

struct without_own {
	uint32_t *first;     /* ranks + 2: of each rank's operations, and where the last ones end */
	uint32_t *own_first; /* ranks + 1: of each rank's own times */
	uint8_t *named;	     /* the rank's excess goes */
	struct own_time *time;
	double *over; /* of one rank: what may be taken of each */
	size_t ranks_room, times_room;
	size_t ranks, times;
};

void without_own_free(struct without_own *own);
/* -ENOMEM */
int without_own_begin(struct without_own *own, size_t ranks, size_t ops);
/* Ranks come one after the other, from 0; without_own_end() ends each. */
void without_own_add(struct without_own *own, double own_ns, uint32_t op, uint32_t edge);
void without_own_end(struct without_own *own, uint32_t rank);
/* The end of the rank's step, as an operation of the replay. */
uint32_t without_own_last(const struct without_own *own, size_t rank);
/* false: it is named already, or there is no such rank. */
bool without_own_name(struct without_own *own, uint32_t rank);
bool without_own_named(const struct without_own *own, size_t rank);
/* Shortens its times in the replay. Once a rank. measures: NULL: of no class. */
void without_own_take(struct without_own *own, struct replay *replay, const struct measures *measures, uint32_t rank,
	uint64_t excess_ns);
/* Brings indices of operations into the order of rank and start. -ENOMEM */
int without_own_sort(uint32_t *place, size_t places, const struct frame_op *op);

#endif
