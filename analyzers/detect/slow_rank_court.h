/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who keeps the others waiting, by frames of one class: who stands out (slow_rank_view.h), what the step would be
 * without it (slow_rank_gain.h), and what is said of it. Pure. Inside slow_rank.c.
 *
 * Who stands out by all that is seen or by stages alone is looked at; the what-if says whether it costs anything. One
 * that is the only one costs at least what steps have grown by since its onset (slow_rank_growth.h). As one frame with
 * lost records may make a rank look slow, LOOKS_LOST of the last LOOKS_LOST_OF what-ifs must have found something then
 * before anybody is told.
 */
#ifndef RANKTRACE_DETECT_SLOW_RANK_COURT_H
#define RANKTRACE_DETECT_SLOW_RANK_COURT_H

#include "analyzers/detect/cause.h"
#include "analyzers/detect/detector.h"
#include "analyzers/detect/slow_rank_checkpoint.h"
#include "analyzers/detect/slow_rank_gain.h"
#include "analyzers/detect/slow_rank_growth.h"
#include "analyzers/detect/slow_rank_view.h"

struct court_verdict {
	float gain;		   /* share of the step */
	struct growth_onset onset; /* while it is open */
	uint16_t looks;
	uint8_t found;	 /* what-ifs that found half of gain_min, newest in bit 0 */
	bool open, said; /* said: of this frame */
};

struct court {
	struct detect_options options;
	struct view view;
	struct court_verdict *verdict;
	size_t ranks;
	uint32_t set[GAIN_SET_MAX]; /* looked at last */
	size_t n_set;
	uint64_t frames, next_look;
	struct cause *cause;
	const struct growth *growth;		       /* NULL: not of these. Set after court_init(), as what follows */
	double *scratch;			       /* a rank */
	const struct slow_rank_checkpoint *checkpoint; /* NULL: of steps without */
	bool lost;				       /* of checkpoints, records of this frame */
};

/* cause: borrowed. */
void court_init(struct court *court, const struct detect_options *options, struct cause *cause);
void court_free(struct court *court);
/* One frame, measured. True if so many stand out that they have something in common; *ret_said: something was said. */
bool court_hold(struct court *court, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const struct detector_out *out, bool *ret_said);

#endif
