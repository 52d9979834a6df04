/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank's step is expected to be like. A job at work does the same operations each step, on the same
 * communicators, with numbers that rise by as much: where they come as they did before, only their times are kept, 8
 * bytes each.
 *
 * A shape is what steps have in common, also those of different ranks: its operations, each by its lane, the first
 * lane being that of the first operation, and so on. A lane is the operations of one communicator, or of one pair of
 * its members. A plan is a shape with a process's own communicators for its lanes.
 */
#ifndef RANKTRACE_DETECT_FRAMER_PLAN_H
#define RANKTRACE_DETECT_FRAMER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define ALIGN_SHAPE_MIN 8		       /* operations; shorter steps are not worth it */
#define ALIGN_SHAPE_MAX 16384		       /* operations */
#define ALIGN_LANES_MAX 64		       /* a shape */
#define ALIGN_ENTRIES_MAX (UINT32_C(1) << 18) /* of all shapes of a job: 6 MiB */
#define ALIGN_SHAPE_BUCKETS 64

struct align_entry {
	uint64_t bytes;
	uint32_t seq;  /* less that of the first one of its lane; they only rise */
	uint16_t what; /* as of a record */
	uint16_t lane;
	uint16_t nth; /* of its lane */
};

struct align_shape_lane {
	uint64_t like; /* equal for lanes of equal numbers and tiers */
	uint32_t count;
};

struct align_shape {
	struct align_shape *next; /* in its bucket */
	uint64_t key;
	uint32_t refs; /* plans */
	uint32_t count, lanes;
	struct align_shape_lane lane[ALIGN_LANES_MAX];
	struct align_entry entry[];
};

struct align_lane {
	uint32_t comm, sides;
	bool p2p;
};

struct align_template {
	uint32_t refs;	       /* slots, and the process */
	uint32_t count, lanes; /* the shape's */
	struct align_shape *shape;
	struct align_lane lane[];
};

struct align;
struct align_job;
struct align_process;
struct align_slot;

/* The records of the slot, which lie in the order of their starts, are what the next steps are expected to be like, or
 * nothing is where they cannot. */
void align_template_learn(struct align_job *job, struct align_process *process, const struct align_slot *slot);
void align_template_drop(struct align_job *job, struct align_template **plan);
/* An empty slot takes what comes by the plan of its process; false: it does not. */
bool align_template_begin(struct align_process *process, struct align_slot *slot);
/* The slot is of full records from now on. Without memory they are lost. */
void align_template_leave(
	struct align *align, struct align_job *job, struct align_process *process, struct align_slot *slot);

#endif
