/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a step that the cause of an excess is looked for in: one row a part. To know a further part, add its
 * row. For detect/cause.c alone.
 */
#ifndef RANKTRACE_DETECT_CAUSE_PARTS_H
#define RANKTRACE_DETECT_CAUSE_PARTS_H

#include "analyzers/detect/finding.h"
#include "analyzers/detect/frame.h"
#include "analyzers/detect/measure.h"

/* No public figure fits all: an NVMe disk answers a fault in 0.1 ms, a disk or a network file system in 5 to 10 ms. */
#define CAUSE_FAULT_NS 1000000.0F

enum cause_part {
	PART_STEP,
	PART_DATALOADER,
	PART_CHECKPOINT,
	PART_GC,
	PART_RUN_DELAY,
	PART_THROTTLED,
	PART_FAULTS,
	PART_LAUNCH,
	PART_FORWARD,
	PART_ZERO_GRAD,
	PART_BACKWARD,
	PART_OPTIMIZER,
	PART_SYNC,
	PART_CPU,
	PART_HOG,      /* of PART_RUN_DELAY, what one other had */
	PART_SELF,     /* of struct measures */
	PART_TRANSFER, /* of the job alone: what no member of an operation waited for another */
	PART_REST,     /* self time that lies in no other outer part; not stored */
	PART_MAX
};

/* How a part of all ranks becomes one of the job. The slowest rank makes the step, so what can hold no wait counts with
 * its largest; of what can, only the shortest is free of waits; what the host does is averaged, as its noise would make
 * the largest of many. */
enum cause_reduce { REDUCE_MAX, REDUCE_MIN, REDUCE_MEAN, REDUCE_NONE, REDUCE_MAX_KIND };

#define PART_BIT(part) (1U << (part))
#define PART_NO_OFFSET ((size_t)-1)

struct cause_part_row {
	const char *name; /* of its evidence */
	const char *unit;
	size_t offset;		  /* of a uint64_t in struct frame_rank */
	float scale;		  /* to ns */
	float most;		  /* at most so many times the step */
	enum finding_cause cause; /* CAUSE_MAX: evidence, never a cause by itself */
	bool outer;		  /* lies in the self time itself; outer ones do not overlap */
	uint32_t within;	  /* parts that it may lie in, and is the deeper cause of */
	double of_rest;		  /* the share of PART_REST that it must explain; of others CAUSE_SHARE */
	enum cause_reduce reduce;
};

extern const struct cause_part_row cause_parts[PART_MAX];

/* All stored parts of a rank in ns, NAN where not measured. measures may be NULL. */
void cause_parts_read(const struct frame *frame, const struct measures *measures, size_t rank, float ret[PART_MAX]);
/* The same for all ranks together, as each part is reduced. */
struct cause_sum {
	float most[PART_MAX]; /* or least, as the part is reduced; infinite: of none yet */
	double sum[PART_MAX];
	uint32_t count[PART_MAX];
	size_t ranks;
};

void cause_sum_begin(struct cause_sum *sum);
void cause_sum_add(struct cause_sum *sum, const float part[PART_MAX]);
void cause_sum_end(
	const struct cause_sum *sum, const struct frame *frame, const struct measures *measures, float ret[PART_MAX]);

#endif
