/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits that no record shows, and that a rank would not have if the one it waits for were quicker. Part of
 * detect/without.c; after a replay of the frame as it is, whose times tell when everything was.
 *
 * Lost records: a rank of a communicator (it has records of it in this frame, or had in one before: known) that has
 * none of a group which others have. What it began next came after the group's end too; of its own time before that,
 * what is left is what it took from there.
 *
 * Operations that nobody records (a barrier over sockets, a library that is not seen): where the fastest of a class has
 * a self time below WITHOUT_FASTEST of the median, most of the class did not compute for longer but waited for it:
 * their own times over the fastest one's are such waits. Of classes of three or more, and of ranks whose excess is not
 * asked about.
 */
#ifndef RANKTRACE_DETECT_WITHOUT_HIDDEN_H
#define RANKTRACE_DETECT_WITHOUT_HIDDEN_H

#include "analyzers/detect/without_known.h"
#include "analyzers/detect/without_own.h"

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
