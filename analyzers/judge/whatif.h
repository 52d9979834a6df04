/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits that no record shows, and that a rank would not have if the one it waits for were quicker. Part of
 * judge/whatif.c; after a replay of the frame as it is, which gives the times.
 *
 * Lost records: a rank of a communicator (it has records of it in this frame, or had in one before: known) that has
 * none of a group which others have. What it began next came after the group's end too; of its own time before that,
 * what is left is what it took from there.
 *
 * Operations that no rank records (a barrier over sockets, a library that is not seen): where the fastest of a class has
 * a self time below WITHOUT_FASTEST of the median, most of the class did not compute for longer but waited for it:
 * their own times over the fastest one's are such waits. Of classes of three or more, and of ranks whose excess is not
 * asked about.
 */
#ifndef RANKTRACE_DETECT_WHATIF_H
#define RANKTRACE_DETECT_WHATIF_H

#include "analyzers/align/frame.h"
#include "analyzers/judge/measure.h"
#include "analyzers/judge/replay.h"

/*
 * The what-if of measure_whatif() (judge/measure.h): how long a step had been if some ranks had not had their excess.
 * Pure. Replays a frame (judge/replay.h).
 *
 * An operation comes after what happened last on its rank before it began, the end or the start of another operation
 * (that overlaps it), or after the begin of the step; the time from there is the rank's own. The end of the step is one
 * more of these. Where sends overlap (struct measures), a point-to-point one that has not ended when the next one
 * begins is nothing that comes after; and one that begins as such a one ends was queued behind it. Members of a group
 * end together, transfer after the last has come; where fewer than half the members have a record, each one takes what
 * it took. All ranks begin the step at once, and the step ends when the last rank ends it: clocks are not compared, and
 * what a rank does after the last operation counts.
 *
 * The excess of a rank is taken out of its own times, first where they are longer than those of other ranks of its
 * class with as many operations (the median of WITHOUT_PEERS of them) by as much, in proportion; what is left, or all
 * where there are no such ranks, out of the longest, down to a common length.
 *
 * Cost: O(records), and O(records log records) where the operations of a rank overlap or are not in order.
 */

#define WHATIF_PEERS 15

struct whatif;

struct whatif *whatif_new(void);
struct whatif *whatif_free(struct whatif *whatif);
/* measures: of this frame; NULL: no classes are known, and of frames without operations there is no result. Ranks that
 * are named twice or are not in the frame are left out. Returns and *ret_as_is_ns (may be NULL; 0 too where it cannot
 * known): see measure_whatif(). */
uint64_t whatif_excess(struct whatif *whatif, const struct frame *frame, const struct measures *measures,
	const uint32_t *rank, const uint64_t *excess_ns, size_t ranks, uint64_t *ret_as_is_ns);

/*
 * Who is a member of which communicator, kept between frames: of a communicator that a rank uses once a step, one lost
 * record is all there was of it. For judge/whatif.c. The first WHATIF_KNOWN_MAX of a rank are kept; those of
 * point to point are not.
 */

#define WHATIF_KNOWN_MAX 8

struct whatif_known {
	uint64_t (*identity)[WHATIF_KNOWN_MAX]; /* of each rank, 0: no more */
	size_t ranks;
};

/* -ENOMEM. Operations with an index out of its range are left out. */
int whatif_known_add(struct whatif_known *known, const struct frame *frame);
uint64_t whatif_known_identity(const struct frame_comm *comm);
void whatif_known_free(struct whatif_known *known);

/* The ranks' own times between operations in a replay, and what of them is taken away. Part of judge/whatif.c. */

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

#define WHATIF_FASTEST 0.8

/* Of a group of the frame. */
struct whatif_group {
	uint64_t transfer_ns;
	uint32_t records;
	uint32_t index; /* in the replay, REPLAY_NONE: its members are alone */
	uint32_t op;	/* in the replay: one of its members */
};

/* So many records are lost: edges that whatif_lost() may add, at most. */
size_t whatif_count_lost(const struct frame *frame, const struct whatif_group *group);
/* place: operations rank by rank, see own->first. -ENOMEM; else how many waits it found. */
int whatif_lost(struct replay *replay, struct whatif_own *own, const struct frame *frame,
	const struct whatif_group *group, const uint32_t *place, const struct whatif_known *known);
/* How many ranks it found. */
int whatif_unrecorded(struct replay *replay, struct whatif_own *own, const struct measures *measures);

#endif
