/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who keeps the others waiting, by frames of one class: who stands out (slow_rank_view.h), what the step would be
 * without it (slow_rank_gain.h), and what is said of it. Pure. Inside slow_rank.c.
 *
 * Who stands out by all that is seen or by stages alone is looked at; the what-if says whether it costs anything. One
 * that is the only one costs at least what steps have grown by since its onset (slow_rank_growth.h). As one frame with
 * lost records may make a rank look slow, LOOKS_LOST of the last LOOKS_LOST_OF what-ifs must have found something then
 * before anybody is told.
 *
 * Where steps had grown before operations began to be seen, that something is wrong is known from many steps, and all
 * that operations must still tell is who it is: EARLY_FRAMES of them are enough, if they are the first ones that tell
 * more than those before, if one rank alone stands out and was slow in each of them, by EARLY_OF_GROWTH of what steps
 * have grown by and not by far more, which would be something older, and if what-ifs put EARLY_GAIN of the growth down
 * to it. Chance does not make one rank as slow as that, of all amounts, in each of these frames.
 */
#ifndef RANKTRACE_DETECT_SLOW_RANK_COURT_H
#define RANKTRACE_DETECT_SLOW_RANK_COURT_H

#include "analyzers/detect/cause.h"
#include "analyzers/detect/detector.h"
#include "analyzers/detect/slow_rank_checkpoint.h"
#include "analyzers/detect/slow_rank_gain.h"
#include "analyzers/detect/slow_rank_growth.h"
#include "analyzers/detect/slow_rank_view.h"

#define EARLY_FRAMES 3
#define EARLY_WITHIN 8	 /* frames that tell more */
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
	bool open, said; /* said: of this frame */
	bool explains;	 /* growth since the onset */
};

struct candidate {
	struct detect_options options;
	struct view view;
	struct candidate_verdict *verdict;
	size_t ranks;
	uint32_t set[GAIN_SET_MAX]; /* looked at last */
	size_t n_set;
	uint64_t frames, next_look;
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
