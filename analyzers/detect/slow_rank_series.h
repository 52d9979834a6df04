/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each rank stood against its class over the last frames. Pure; a few hundred bytes a rank. Inside slow_rank.c.
 *
 * A rank is slow in a frame where ratio > slow_ratio and z > slow_z, and ln ratio is above SERIES_NOISES times the
 * noise of the class. It is a candidate where it was slow in slow_frames of the last slow_of frames; or, for excesses
 * that the noise of single frames hides, where the median of ln ratio over slow_of frames was above SERIES_LEAST, and
 * above sqrt(2 ln n) + SERIES_BEYOND times the spread of these medians over the n ranks of the class (the largest of n
 * is that far out by chance), in SERIES_HELD frames in a row.
 *
 * Where records are lost (more than SERIES_LOSS of the operations), a lost wait of a rank looks like self time in that
 * frame: SERIES_LOSS_FRAMES more slow frames are asked for, the lower quartile takes the place of the median, and ratio
 * is taken down by SERIES_DOUBT times the waits that the rank lost if they were as long as its others: it lacks the
 * share of records by which it has fewer than the rank of its class that has most. (Not all of them: its peers lost
 * some too.)
 *
 * Noise of a class: median over its ranks of |ln ratio - ln ratio slow_of frames before|, as a standard deviation,
 * averaged over about SERIES_MEMORY frames; of less than SERIES_SMALL ranks, the running median over ranks and frames,
 * which is stepped by SERIES_STEP of itself (and a faster one by SERIES_STEP_FAST): a frame of few ranks in which one
 * lost a long wait says nothing about the others. In its first SERIES_MEMORY frames it is the faster one, as it begins
 * with what may be no noise: where operations are seen because a rank was slow, the first distances are to that time.
 * It does not grow in steps that are longer than usual: that ranks differ more in these is what is looked for.
 * The distance sees slow noise too, and a rank that becomes slow disturbs it only for slow_of frames; classes of two to
 * five have no other that can be trusted. The spread of medians is averaged likewise, as that of few ranks is a bad
 * estimate, and the larger one counts.
 *
 * That running median is late where noise grows at once (samples of unequal length begin): so in classes of less than
 * SERIES_SMALL the median over ranks and the last slow_of frames of |ln ratio - ln ratio one frame before| is a noise
 * too, and the largest counts; and frames that were slow by less noise than is known now are slow no more. Where half
 * of such a class of more than two was slow in SERIES_DIVIDED of these frames, it cannot be told which half it is that
 * differs (replicas whose samples happened to be longer for a while): all slow_of frames and the lower quartile are
 * asked for.
 *
 * Two ranks that share a machine are so noisy that one that takes half as long again is not above SERIES_NOISES times
 * the noise in most frames. But then the whole step is longer than it was before, which is measured by itself, hardly
 * moved by what these two differ by from step to step. Where steps have grown, and one of two is what they grew by, its
 * ratio has grown by as much at least, as its self time is no more than the step. So the median of a class of two is
 * then held to what chance makes of a median, with SERIES_BEYOND_GROWN; to SERIES_OF_GROWTH of that growth, which
 * samples of unequal length, in turn longer on one and the other, do not come to; and for SERIES_HELD_GROWN frames, as
 * the growth has been there for as many as the median needs.
 *
 * What stages that hold no wait tell is nobody's waiting, so that what it varies by is the excess itself rather than
 * noise around it: collections of 200 to 400 ms are never less than none. Of two ranks of which one had more in some of
 * the last slow_of frames, and less in none, how it moved is no noise.
 *
 * What stages tell and what operations tell are two measures of one rank, each with a noise of its own: noise is kept
 * by tier, and no distance is taken between two tiers.
 *
 * Of what is timed by itself (checkpoints), with no others' waits and no samples' lengths in it, a middle above
 * sqrt(2 ln n) + SERIES_BEYOND_TIMED times the spread is enough in classes of any size: what must be gained tells
 * chance apart, as only one rank can be the last.
 *
 * What a rank of a class of few has more in every frame, by about as much as its noise, the median of eight frames
 * tells too seldom. So where the mean of ln ratio (each new frame counts 1/SERIES_LASTING of it), over SERIES_LASTING
 * frames and more of one tier, is above SERIES_LEAST and above SERIES_LASTING_NOISES times the noise, and
 * SERIES_LASTING_MORE of these frames had more than half of SERIES_LEAST, it is a candidate, too: of noise that is as
 * long-lived as a few frames such a mean is spread by a third at most. It has been so since the mean was last below
 * half of that.
 *
 * Onset: the frame after which a cusum of ln ratio, less SERIES_DRIFT and the noise, was last zero.
 */
#ifndef RANKTRACE_DETECT_SLOW_RANK_SERIES_H
#define RANKTRACE_DETECT_SLOW_RANK_SERIES_H

#include "analyzers/detect/detector.h"

#define SERIES_OF_MAX 16
#define SERIES_NOISES 2.5
#define SERIES_LEAST 0.025
#define SERIES_BEYOND 1.5
#define SERIES_BEYOND_GROWN 2.2
#define SERIES_BEYOND_TIMED 1
#define SERIES_HELD 3
#define SERIES_HELD_GROWN 2
#define SERIES_MEMORY 32
#define SERIES_MEMORY_FAST 4
#define SERIES_DRIFT 0.02
#define SERIES_LOSS 0.001
#define SERIES_LOSS_FRAMES 2
#define SERIES_DOUBT 0.8
#define SERIES_ABSENT 32 /* frames without it in a row, and it begins anew */
#define SERIES_NEW 4	 /* frames with a distance */
#define SERIES_LASTING 24
#define SERIES_LASTING_MORE 20
#define SERIES_LASTING_NOISES 1
#define SERIES_STEP 0.03
#define SERIES_STEP_FAST 0.1
#define SERIES_OF_GROWTH 0.75
#define SERIES_DIVIDED 3 /* frames that were slow of half of a class */
#define SERIES_SMALL 6	 /* ranks: below, a class has no spread to speak of */

struct series_rank {
	float ring[SERIES_OF_MAX]; /* ln ratio of frame n of this rank at n % of; the newest at `newest` */
	float middle, low;	   /* median and lower quartile of the ring */
	float distance;		   /* of the newest to that slow_of frames before */
	float cusum;
	uint32_t slow; /* its frames, newest in bit 0 */
	uint32_t class;
	uint16_t held, absent; /* frames */
	bool here, suspect, candidate;
	uint8_t newest;
	uint64_t frames;
	uint64_t since_step, since_ns;
	uint64_t lasting_step, lasting_ns; /* frame in which lasting was last low */
	float lasting;			   /* mean of ln ratio, of classes of few */
	uint32_t more;			   /* its frames that had more, newest in bit 0 */
	uint16_t lasting_frames;
};

/* Means over frames, of a class of this index, in frames of one tier. */
struct series_class {
	double noise, fast, spread; /* fast: of the last few frames */
	uint32_t frames;
};

struct series {
	struct series_class *class; /* FRAME_TIER_MAX a class */
	struct series_rank *rank;
	size_t ranks;
	unsigned int of, frames_min;
	bool timed;  /* what is measured is timed by itself */
	bool loss;   /* records were lost in one of the last `of` frames */
	double lost; /* share of the records of this frame */
	unsigned int since_loss;
	enum frame_tier tier;
	unsigned int since_tier; /* frames of it, SERIES_OF_MAX + 1 at most */
	double ratio, z;
	double grown;
	bool longer;	   /* this step than is usual: set before series_frame(), as grown is */
	bool by_stages;	   /* what is told is of stages that hold no wait: set after series_init() */
	double *scratch;   /* ranks of them, twice */
	uint32_t *records; /* of each rank, in this frame */
	uint32_t *by_class, *start;
};

/* ln ratio so many frames before its newest, fewer than `of`. */
static inline double series_value(const struct series *series, const struct series_rank *rank, size_t back)
{
	size_t newest = rank->newest;

	return (double)rank->ring[newest >= back ? newest - back : newest + series->of - back];
}

void series_init(struct series *series, const struct detect_options *options);
void series_free(struct series *series);
/* Takes a frame of training; grown is set before: ln of how much longer steps are than they were, 0 where they are not.
 * -ENOMEM. */
int series_frame(struct series *series, const struct frame *frame, const struct measures *measures);
/* Of this frame: a rank of which more is known than it shows is a candidate as it is in the newest frame, if it was
 * slow in the last `frames`. */
void series_choose(struct series *series, size_t rank, unsigned int frames);

#endif
