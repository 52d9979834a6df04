/* SPDX-License-Identifier: Apache-2.0 */
/* One case through detect.h, and what came of it against what is true. */
#ifndef RANKTRACE_SIM_ACCURACY_JUDGE_H
#define RANKTRACE_SIM_ACCURACY_JUDGE_H

#include "tests/sim/accuracy_case.h"
#include "tests/sim/accuracy_yardstick.h"

/* What it costs as little as that need not be told (detect_options.gain_min). */
#define JUDGE_GAIN_MIN 0.03

struct outcome {
	double gain;   /* by the simulator: the part of the step that the injection costs, 0 of clean runs */
	double told;   /* the same by what was told last of culprits, summed */
	bool required; /* it costs enough, so it has to be told */
	bool named;    /* something right was told */
	bool top;      /* and it was what was told to cost most */
	bool all;      /* every culprit was named */
	unsigned causes, causes_right; /* of right findings */
	unsigned right, wrong;	       /* findings that accuse: a rank or a communicator; of right: culprits */
	unsigned wrong_ranks;	       /* of wrong: slow ranks */
	unsigned wrong_others;	       /* imbalances where there is none, slow jobs where nothing is slow */
	unsigned culprits;	       /* to be named */
	double delay;	  /* frames in which it could show from the onset to the first right finding; negative: none */
	double rank_days; /* of job time looked at */
	uint64_t ops;
	double detect_s; /* CPU time of detect_frame */
	struct yardstick_outcome theirs;
	char seen[400]; /* what was told wrongly, or the first finding */
};

/* -ENOMEM. verbose: findings are printed as they come. */
int judge_case(const struct case_spec *spec, bool verbose, struct outcome *ret);

#endif
