/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a rank is slow: where its excess over its peers (or, where it has none, over its own past) sits. Pure. Feed every
 * frame; ask about a rank.
 *
 * The excess of each measured part (data loading, checkpoint, garbage collection, run delay, throttling, faults,
 * launches, the rest of forward, backward and optimizer) is its trimmed mean over the last CAUSE_FRAMES frames of the
 * newest frame's class, less the same of the class's other ranks. What explains most of the rank's excess self time,
 * and at least CAUSE_SHARE of it, is the cause; parts that lie in others (run delay within data loading; garbage
 * collection within forward) are the deeper cause and win where they explain that share of what they lie in
 * (cause.c). Where the parts that can be seen do not have it, the rest is computing; where nothing can be seen
 * beside steps, unknown. So it is where a rank that computes on the CPU used no more CPU than its peers: it waited for
 * something not seen here.
 */
#ifndef RANKTRACE_DETECT_CAUSE_H
#define RANKTRACE_DETECT_CAUSE_H

#include "analyzers/align/frame.h"
#include "analyzers/detect/measure.h"
#include "analyzers/finding/finding.h"

#include <stddef.h>

/*
 * The parts of a step that may hold the cause of an excess: one row a part. To know a further part, add its
 * row. For detect/cause.c alone.
 */

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
	PART_PREEMPTOR,      /* of PART_RUN_DELAY, what one other had */
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

/*
 * What detect/cause.c remembers of parts of steps, and how two lots of them are compared. For detect/cause.c alone.
 */

#define CAUSE_FRAMES 8
#define CAUSE_SHARE 0.5
#define CAUSE_BLOCK_FRAMES 8
#define CAUSE_BLOCKS 32
#define CAUSE_FRAMES_LEAST 3
#define CAUSE_CHECKPOINTS_LEAST 2 /* of these: enough of them for a verdict (slow_rank_internal.h) */
#define CAUSE_FLOOR 0.005	  /* deviations are at least that part of the step */

/* Means of blocks of frames: the past of one rank. */
struct cause_past {
	float block[CAUSE_BLOCKS][PART_MAX];
	uint64_t last_step[CAUSE_BLOCKS];
	double sum[PART_MAX];
	unsigned int count[PART_MAX];
	unsigned int frames; /* in the block that is being filled */
	uint64_t blocks;     /* so many were filled */
};

struct cause_series {
	float (*recent[CAUSE_FRAMES])[PART_MAX]; /* a frame: a rank */
	uint64_t step[CAUSE_FRAMES];
	size_t ranks;
	uint64_t frames;
	size_t least; /* frames since an onset that are enough */
};

/* A rank (or the job) beside what it is compared with. */
struct cause_compared {
	double value[PART_MAX], peers[PART_MAX], excess[PART_MAX];
	bool sure[PART_MAX];
	bool spins; /* its peers use the CPU while they wait for it */
	bool any;   /* there is something to compare with */
};

void cause_series_free(struct cause_series *series);
/* false: out of memory. New slots are NAN. */
bool cause_series_grow(struct cause_series *series, size_t ranks);
/* Makes *past where there is none; without memory nothing is kept. */
void cause_past_feed(struct cause_past **past, uint64_t step, const float part[PART_MAX]);
/* Of the frames that have it, from since_step on (all, where fewer than series->least are), without the smallest and
 * the largest where there are four: steps with the odd pause in them count, and one pause does not make a mean. NAN if
 * none has. */
double cause_series_middle(const struct cause_series *series, size_t rank, size_t part, uint64_t since_step);
/* Means of the blocks before since_step (0: none). past may be NULL. */
size_t cause_past_values(const struct cause_past *past, uint64_t since_step, size_t part, double ret[CAUSE_BLOCKS]);
/* Fills in what follows from a part's value and those of the n that it is compared with; other[] is changed. */
void cause_compare(struct cause_compared *ret, size_t part, double *other, size_t n);

/*
 * Which other process had a rank's CPUs, over several frames. Pure. A frame may have one, be it of a moment: the one that
 * is kept remains until another had at least half as much, and each frame in which another had less halves that.
 */

struct cause_preemptor {
	uint32_t pid; /* 0: none yet */
	uint64_t ns;
	char name[16]; /* as it came, perhaps without an end */
};

void cause_preemptor_feed(struct cause_preemptor *preemptor, const struct frame_host *host);
/* "stress-ng (pid 4711)"; "" if there is none. */
void cause_preemptor_text(const struct cause_preemptor *preemptor, char *ret, size_t size);

struct cause;

struct cause *cause_new(void);
/* For cause_of_job() alone: nothing is kept of single ranks. */
struct cause *cause_new_of_job(void);
struct cause *cause_free(struct cause *cause);
void cause_frame(struct cause *cause, const struct frame *frame, const struct measures *measures);
/* Writes cause and evidence of rank index rank into finding. excess_ns: of its self time, a step. A rank that can be
 * compared with no rank is compared with its own past before finding->since_step (0: all of it). */
void cause_of(const struct cause *cause, uint32_t rank, double excess_ns, struct finding *finding);
/* The same for all ranks together, against their past before since_step. */
void cause_of_job(const struct cause *cause, uint64_t since_step, double excess_ns, struct finding *finding);

#endif
