/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of the frame that is on its way: what framer_groups.c, one record at a time, and framer_lanes.c share. */
#ifndef RANKTRACE_DETECT_FRAMER_GROUPS_H
#define RANKTRACE_DETECT_FRAMER_GROUPS_H

#include "analyzers/detect/framer_internal.h"

struct align_group_key {
	uint32_t seq, sides, comm;
	uint32_t last; /* rank that was added last: one is in a group once */
	uint32_t next; /* the group of this communicator that came after it with the rank before */
	uint16_t count;
	uint8_t tier;
	bool p2p;
};
_Static_assert(ALIGN_RANKS_MAX <= UINT16_MAX, "a group's count of ranks");

/* framer_groups.c */
/* Room for so many more groups and operations; false: out of memory. */
bool align_groups_room(struct align_scratch *scratch, size_t more);
/* The next group, as its first record has it. It is in the hash if all are. */
uint32_t align_groups_new(struct align_scratch *scratch, const struct align_job *job,
	const struct align_group_key *key, uint64_t bytes, uint16_t op);
/* Finds or makes; all groups must be in the hash. */
uint32_t align_groups_find(struct align_scratch *scratch, const struct align_job *job,
	const struct align_group_key *key, uint64_t bytes, uint16_t op);

/* framer_lanes.c: of a frame, one after the other */
void align_lanes_begin(struct align_scratch *scratch);
/* The whole step of a rank, that went by its plan; false: nothing was added, it is to be taken record by record. */
bool align_lanes_add(
	struct align_scratch *scratch, const struct align_job *job, const struct align_slot *slot, uint32_t rank);
void align_lanes_end(struct align_scratch *scratch);

#endif
