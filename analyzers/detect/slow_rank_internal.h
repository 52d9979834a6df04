/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who keeps the others waiting, by frames of one class: who stands out (slow_rank_internal.h), what the step would be
 * without it (slow_rank_internal.h), and what is said of it. Pure. Inside slow_rank.c.
 *
 * Who stands out by all that is seen or by stages alone is checked; the what-if shows whether it costs anything. One
 * that is the only one costs at least what steps have grown by since its onset (slow_rank_internal.h). As one frame with
 * lost records may make a rank appear slow, WHATIFS_LOST of the last WHATIFS_LOST_OF what-ifs must have found something then
 * before a rank is reported.
 *
 * Where steps had grown before operations began to be seen, that something is wrong is known from many steps, and all
 * operations must still show the rank: EARLY_FRAMES of them are enough, if they are the first ones that show
 * more than those before, if one rank alone stands out and was slow in each of them, by EARLY_OF_GROWTH of what steps
 * have grown by and not by far more, which would be something older, and if what-ifs put EARLY_GAIN of the growth down
 * to it. Chance does not make one rank as slow as that, of all amounts, in each of these frames.
 */
#ifndef RANKTRACE_DETECT_SLOW_RANK_INTERNAL_H
#define RANKTRACE_DETECT_SLOW_RANK_INTERNAL_H

#include "analyzers/align/frame.h"
#include "analyzers/detect/cause.h"
#include "analyzers/detect/detector.h"
#include "analyzers/detect/measure.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * How each rank compares with its class over the last frames. Pure; a few hundred bytes a rank. Inside slow_rank.c.
 *
 * A rank is slow in a frame where ratio > slow_ratio and z > slow_z, and ln ratio is above SERIES_NOISES times the
 * noise of the class. It is a candidate where it was slow in slow_frames of the last slow_of frames; or, for excesses
 * that the noise of single frames hides, where the median of ln ratio over slow_of frames was above SERIES_LEAST, and
 * above sqrt(2 ln n) + SERIES_BEYOND times the spread of these medians over the n ranks of the class (the largest of n
 * is that far out by chance), in SERIES_HELD frames in a row.
 *
 * Where records are lost (more than SERIES_LOSS of the operations), a lost wait of a rank resembles self time in that
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
 * It does not grow in steps that are longer than usual: that ranks differ more in these is what is sought.
 * The distance sees slow noise too, and a rank that becomes slow disturbs it only for slow_of frames; classes of two to
 * five have no other that can be trusted. The spread of medians is averaged likewise, as that of few ranks is a bad
 * estimate, and the larger one counts.
 *
 * That running median is late where noise grows at once (samples of unequal length begin): so in classes of less than
 * SERIES_SMALL the median over ranks and the last slow_of frames of |ln ratio - ln ratio one frame before| is a noise
 * too, and the largest counts; and frames that were slow by less noise than is known now are slow no more. Where half
 * of such a class of more than two was slow in SERIES_DIVIDED of these frames, it is unknown which half it is that
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
 * What stages that hold no wait show is no rank's waiting, so that what it varies by is the excess itself rather than
 * noise around it: collections of 200 to 400 ms are never less than none. Of two ranks of which one had more in some of
 * the last slow_of frames, and less in none, how it moved is no noise.
 *
 * What stages show and what operations show are two measures of one rank, each with a noise of its own: noise is kept
 * by tier, and no distance is taken between two tiers.
 *
 * Of what is timed by itself (checkpoints), with no others' waits and no samples' lengths in it, a middle above
 * sqrt(2 ln n) + SERIES_BEYOND_TIMED times the spread is enough in classes of any size: the minimum gain decides
 * chance apart, as only one rank can be the last.
 *
 * What a rank of a class of few has more in every frame, by about as much as its noise, the median of eight frames
 * is reached too seldom. So where the mean of ln ratio (each new frame counts 1/SERIES_LASTING of it), over SERIES_LASTING
 * frames and more of one tier, is above SERIES_LEAST and above SERIES_LASTING_NOISES times the noise, and
 * SERIES_LASTING_MORE of these frames had more than half of SERIES_LEAST, it is a candidate, too: of noise that is as
 * long-lived as a few frames such a mean is spread by a third at most. It has been so since the mean was last below
 * half of that.
 *
 * Onset: the frame after which a cusum of ln ratio, less SERIES_DRIFT and the noise, was last zero.
 */

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
	bool by_stages;	   /* values are of stages that hold no wait: set after series_init() */
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

/*
 * Ranks against their classes, by all that is seen of them and by what their stages alone show (struct measures). Pure.
 * Inside slow_rank.c. Who stands out by stages, and not by all, is seen as stages show, first as those
 * do that hold no wait; everybody else as all does.
 * What stages show goes on from tier to tier, with operations or without.
 */

struct view {
	struct series series, staged[MEASURE_STAGED_KINDS];
	bool has_staged[MEASURE_STAGED_KINDS]; /* of the newest frame */
};

void view_init(struct view *view, const struct detect_options *options);
void view_free(struct view *view);
/* As series_frame(), of which grown is set in view->series. */
int view_frame(struct view *view, const struct frame *frame, const struct measures *measures);
/* Of a rank in view->series. */
const struct series_rank *view_rank(const struct view *view, size_t rank);
const struct measure_rank *view_measured(const struct view *view, const struct measures *measures, size_t rank);

/*
 * What ranks took for a checkpoint, beside each other. Pure. Inside slow_rank.c: from the measures of a frame with a
 * checkpoint it makes such that slow_rank_series.c can judge, with checkpoints for frames.
 *
 * Only the checkpoint's own stage counts, and of it no more than the rank's self time is over its class's:
 *   excess_r = min(checkpoint_r - median of its class, self_r - median of its class)
 * so that neither waits within it (gathering the state) nor what is slow elsewhere in the step is laid to the
 * checkpoint. ratio = 1 + excess / median self time; z is by the spread of the stage in the class.
 *
 * What one rank writes for others is no fault: where less than half of a class write, or one of them writes
 * CHECKPOINT_APART times as long as the middle one (the model, where the others write the state of their random
 * numbers), only that counts by which it is over what it took itself in its first CHECKPOINT_TYPICAL checkpoints, and
 * only from CHECKPOINT_MORE times of that on. The first rank of a class or of a node may have more to write than the
 * others (indices, what is replicated), and others of its role have that too: of these only that counts by which they
 * are over what they were in their first CHECKPOINT_TYPICAL checkpoints, or over CHECKPOINT_ROLE times what the middle
 * one of its role is, whichever is less. Of the role of a class's first rank are those of the other classes, of a
 * node's first rank all that are first anywhere: who has more duties may take longer. The job's first rank has no peer.
 *
 * Checkpoints are rare, so that to wait for five of them takes long. One is far where it took CHECKPOINT_MORE times
 * what the longest of this rank's last CHECKPOINT_RECENT took (CHECKPOINT_KNOWN at least; without its very first, which
 * finds nothing prepared), and what the middle one of its class takes; where its excess is CHECKPOINT_FAR_Z times the
 * spread; and where that much of it that is also above the longest of the others' costs the job CHECKPOINT_COSTS of its
 * time. CHECKPOINT_IN_A_ROW far ones are enough. One never is: storage has hiccups, and one that was far once counts
 * among what is usual of the rank. Nothing is far where more than a CHECKPOINT_PART-th of those that write take that
 * much longer than they did (their storage is slow); of whoever writes for others (CHECKPOINT_LIKE), who has no peer;
 * and where each step has a checkpoint, as two steps in a row may be of one hiccup.
 */

#define CHECKPOINT_APART 8
#define CHECKPOINT_TYPICAL 4
#define CHECKPOINT_MORE 1.5
#define CHECKPOINT_ROLE 2
#define CHECKPOINT_RECENT 16
#define CHECKPOINT_KNOWN 3
#define CHECKPOINT_LIKE 2 /* times the middle one of its class: who usually takes more writes for others */
#define CHECKPOINT_FAR_Z 5
#define CHECKPOINT_COSTS 0.1
#define CHECKPOINT_PART 4
#define CHECKPOINT_IN_A_ROW 2
/* Of the stage: one in a frame that is that far out says little, most of eight in a row do. It is timed by itself and
 * nothing that others do is in it, so that less is asked for than of a step's self time. */
#define CHECKPOINT_Z 2

/* Of what it is the first rank. */
enum checkpoint_lead { CHECKPOINT_LEADS_NONE, CHECKPOINT_LEADS_NODE, CHECKPOINT_LEADS_CLASS, CHECKPOINT_LEADS_JOB };

struct checkpoint_rank {
	float typical[CHECKPOINT_TYPICAL];	 /* excess of its first ones, as a share of the class's self time */
	float own[CHECKPOINT_TYPICAL];	 /* its first ones, as a share of the class's self time */
	float recent[CHECKPOINT_RECENT]; /* its last ones, ns, n-th at n % CHECKPOINT_RECENT */
	float once;			 /* the newest, if it was far and the one before it was not: ns; 0: not */
	uint32_t recents;		 /* so many were kept */
	uint32_t far;			 /* so many were far, up to the newest */
	/* of this frame */
	double share;	     /* excess, as a share of the class's self time; NAN: not compared */
	double self, spread; /* of its class, ns */
	double middle;	     /* checkpoint of its class, ns */
	bool is_long;	     /* by what is usual of it */
	bool begun;	     /* it wrote one before */
	uint8_t seen, seen_own;
	uint8_t lead; /* enum checkpoint_lead */
};

struct slow_rank_checkpoint {
	struct measures measures;
	struct measure_rank *measured;
	struct checkpoint_rank *rank;
	double *self, *stage;	    /* of a class; then of first ranks' shares, sorted: of nodes, of classes */
	size_t leads, class_leads;  /* of these */
	uint32_t *start, *by_class; /* ranks, class by class; also scratch */
	size_t ranks;
	uint64_t last_step, distance; /* of the last one; the most steps between two, 0: not known */
	bool any;
};

void checkpoint_free(struct slow_rank_checkpoint *checkpoint);
/* Of a frame of class FRAME_CHECKPOINT: its measures, with those of ranks by their checkpoints. step_ns: of steps
 * without, 0 not known. NULL: out of memory. Valid until the next call. */
const struct measures *checkpoint_measures(struct slow_rank_checkpoint *checkpoint, const struct frame *frame,
	const struct measures *measures, double step_ns);
/* The last ones of this rank were far, as many as are enough. */
bool checkpoint_is_far(const struct slow_rank_checkpoint *checkpoint, size_t rank);
/* For how long the others could not but wait for this rank's checkpoint: what it is over the longest of those that are
 * not among the n of set, which are in the order of their numbers, ns; 0 if it is not. */
double checkpoint_lead_ns(const struct frame *frame, const uint32_t *set, size_t n, uint32_t rank);
/* Is what was seen at the last checkpoint too long ago to be said still, at this step? */
bool checkpoint_past(const struct slow_rank_checkpoint *checkpoint, uint64_t step);
/* How much longer the job takes, where a checkpoint, of so long a step, loses lost_ns: steps between are of step_ns. */
double checkpoint_slowdown(
	const struct slow_rank_checkpoint *checkpoint, double lost_ns, double checkpoint_ns, double step_ns);

/*
 * How long the job's steps are, and were. Pure; 64 steps. Inside slow_rank.c.
 *
 * Steps have grown where the median of the last GROWTH_NEW is more than that of those from GROWTH_FROM back by a factor
 * of GROWTH_LEAST, and by GROWTH_SPREADS times their spread. It is so for about as many steps as half of those that are
 * remembered: long enough to find the rank.
 *
 * What one rank costs, where it alone is slow: the what-if leaves what operations themselves take, which may be the
 * same rank's fault. A process that computes on the same card takes it away from the operations' part, too, which all
 * members then wait for as if it were a transfer. So by how much steps have grown since the rank became slow is the
 * least that it costs, if they did so then, and neither before nor later: the median of the GROWTH_BEFORE steps before
 * its onset, of which the newer half is no longer than the older one, to that of the first GROWTH_NEW from its onset
 * on.
 *
 * Operations are often watched only since steps are longer, so that who it is shows later than that it is so. Of a rank
 * that was slow in the first frames that show more than those before (of a better tier), nothing says that it was not
 * slow before: then the steps may have grown earlier, by up to GROWTH_UNSEEN steps of the tier that shows less. Since
 * they did, it is slow.
 *
 * For levels to be raised, three longer steps in a row are enough, or GROWTH_FAR_STEPS whose longest rank took longer
 * than any did in the GROWTH_RECENT steps before: by a factor of GROWTH_FAR over their median, and by
 * GROWTH_FAR_SPREADS times their spread. (The longest rank: where ranks wait for each other within the next step only,
 * the others' first longer step comes one later.) Two that have nothing to do with each other are not that far out.
 */

#define GROWTH_STEPS 64
#define GROWTH_RECENT 32 /* of them, for what is usual */
#define GROWTH_MIN 16
#define GROWTH_NEW 5 /* as many as it takes the median of eight to follow */
#define GROWTH_FROM 8
#define GROWTH_LEAST 1.05
#define GROWTH_SPREADS 3
#define GROWTH_BEFORE 16
#define GROWTH_AFTER 8
#define GROWTH_UNSEEN 16
#define GROWTH_FIRST 2 /* frames of a tier that are its first ones */
#define GROWTH_FAR_STEPS 2
#define GROWTH_FAR 1.1
#define GROWTH_FAR_SPREADS 6

struct growth {
	double step[GROWTH_STEPS], longest[GROWTH_STEPS]; /* median of the ranks', and the longest */
	uint64_t number[GROWTH_STEPS];
	uint64_t steps;
	enum frame_tier tier;	  /* of the newest */
	uint64_t of_tier, unseen; /* steps of it in a row; and before, of one that shows less */
};

/* Of the steps around an onset, in ns; before_ns 0: they did not grow then, or too few are known. */
struct growth_onset {
	float before_ns, after_ns;
	uint64_t steps; /* since the first one that was longer, and its number */
	uint64_t step;
	uint64_t earlier_ns; /* so long before the rank's onset it began, in steps of a tier that shows less */
};

/* Numbers rise. longest_ns: of a rank. */
void growth_step(struct growth *growth, uint64_t number, uint64_t step_ns, uint64_t longest_ns, enum frame_tier tier);
/* Median of the last ones; 0: there is none yet. */
double growth_typical(const struct growth *growth);
/* Is the newest one longer than is usual, by GROWTH_FAR? */
bool growth_is_long(const struct growth *growth);
/* Each of the last three is longer than those before by GROWTH_LEAST, or the last GROWTH_FAR_STEPS are far out. */
bool growth_slower(const struct growth *growth);
/* ln of the factor; 0 where they have not, or too few are known. */
double growth_ln(const struct growth *growth);
/* Of the rank's onset. After GROWTH_NEW steps from then on, and before so many have gone that those before it are
 * forgotten. */
struct growth_onset growth_since(const struct growth *growth, uint64_t onset);
/* Of the step as it is now, the share by which it has grown; not more than it did then. */
double growth_share(const struct growth *growth, const struct growth_onset *onset);

/*
 * What the step would be without the excess of those who stand out, in one frame. Pure. Inside slow_rank.c.
 *
 * Several at once: where two are equally slow, one alone gains nothing, so the set is judged, gain = 1 - T(all without
 * their excess) / T; and each one's share of it goes by what it would cost if the others alone were repaired. One that
 * costs nothing then is idle rather than slow, and is not reported.
 *
 * Where records were lost, the replay misses waits and finds less or nothing. Then what others waited for the rank as
 * the last to come, beyond what they did for its peers, counts by LOST_SHARE (some of that hides in others' slack), up
 * to all of its excess. Of a checkpoint it is the time by which it was longer than anybody else's that counts.
 */

#define GAIN_SET_MAX 8 /* judged at once: the slowest ones */

enum gain_loss { GAIN_WHOLE, GAIN_LOST_WAITS, GAIN_LOST_CHECKPOINT };

struct gain_set {
	const struct frame *frame;
	const struct measures *measures;
	struct measure *measure;
	enum gain_loss loss;
	double least; /* share of the step that one must gain */
	size_t n;
	const uint32_t *rank;	/* n, GAIN_SET_MAX at most */
	const uint64_t *excess; /* of each, ns */
	double *scratch;	/* space for as many values as there are ranks */
};

/* Of each of the set, its share of the step. */
void gain_of_set(const struct gain_set *set, double *ret);

/*
 * Do those who stand out have something in common that is not seen? Pure. Of frames of stages alone: what makes forward
 * longer on more than a few ranks (samples of unequal length, a tensor group that waits for one of its own) cannot be
 * distinguished there, so more than COMMON_FEW ranks and more than a COMMON_PART-th of the job are not accused. Of a rank
 * whose excess is for COMMON_LOADING of it or more in loading data or in collecting garbage it is seen what it does,
 * and that no other rank does it at that time: it does not count among them.
 */

#define COMMON_FEW 2
#define COMMON_PART 8
#define COMMON_LOADING 0.5

/* set: n of the `all` that stand out. scratch: space for as many values as there are ranks. */
bool slow_rank_common(const struct frame *frame, const struct measures *measures, const uint32_t *set, size_t n,
	size_t all, double *scratch);

#define EARLY_FRAMES 3
#define EARLY_WITHIN 8	 /* frames that show more */
#define EARLY_UNSEEN 2	 /* longer steps at least, before them */
#define EARLY_LEAST 0.09 /* of the step, by which it has grown at least */
#define EARLY_OF_GROWTH SERIES_OF_GROWTH
#define EARLY_BEYOND 2
#define EARLY_GAIN 0.5

struct candidate_verdict {
	float gain;		   /* share of the step */
	struct growth_onset onset; /* while it is open */
	uint16_t checks;
	uint8_t found;	 /* what-ifs that found half of gain_min, newest in bit 0 */
	bool open, reported; /* said: of this frame */
	bool explains;	 /* growth since the onset */
};

struct candidate {
	struct detect_options options;
	struct view view;
	struct candidate_verdict *verdict;
	size_t ranks;
	uint32_t set[GAIN_SET_MAX]; /* checked last */
	size_t n_set;
	uint64_t frames, next_check;
	struct cause *cause;
	const struct growth *growth;		       /* NULL: not of these. Set after candidate_init(), as what follows */
	double *scratch;			       /* a rank */
	const struct slow_rank_checkpoint *checkpoint; /* NULL: of steps without */
	bool lost;				       /* of checkpoints, records of this frame */
};

/* cause: borrowed. */
void candidate_init(struct candidate *candidate, const struct detect_options *options, struct cause *cause);
void candidate_free(struct candidate *candidate);
/* One frame, measured. True if so many stand out that they have something in common; *ret_said: something was said. */
bool candidate_hold(struct candidate *candidate, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const struct detector_out *out, bool *ret_said);

#endif
