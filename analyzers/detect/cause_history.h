/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What detect/cause.c remembers of parts of steps, and how two lots of them are compared. For detect/cause.c alone.
 */
#ifndef RANKTRACE_DETECT_CAUSE_HISTORY_H
#define RANKTRACE_DETECT_CAUSE_HISTORY_H

#include "analyzers/detect/cause.h"
#include "analyzers/detect/cause_parts.h"

#define CAUSE_BLOCK_FRAMES 8
#define CAUSE_BLOCKS 32
#define CAUSE_FRAMES_LEAST 3
#define CAUSE_CHECKPOINTS_LEAST 2 /* of these: as many as are enough to tell of them (slow_rank_checkpoint.h) */
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

#endif
