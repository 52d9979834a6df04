/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one case through detect.h and compares the findings with the injection. */
#ifndef RANKTRACE_SIM_ACCURACY_JUDGE_H
#define RANKTRACE_SIM_ACCURACY_JUDGE_H

#include "tests/sim/accuracy_case.h"
#include "tests/sim/accuracy_yardstick.h"

/* Cheaper faults need no report (detect_options.gain_min). */
#define JUDGE_GAIN_MIN 0.03

struct outcome {
	double gain;		       /* true cost as a part of the step; 0 of clean runs */
	double reported;	       /* the same by the culprits' last findings, summed */
	bool required;		       /* it costs enough to require a report */
	bool named;		       /* a right finding was reported */
	bool top;		       /* it has the largest reported cost */
	bool all;		       /* every culprit was named */
	unsigned causes, causes_right; /* of right findings */
	unsigned right, wrong;	       /* findings that name a rank or communicator; right: culprits */
	unsigned wrong_ranks;	       /* of wrong: slow ranks */
	unsigned wrong_others;	       /* false imbalances and slow jobs */
	unsigned culprits;	       /* to be named */
	double delay;	  /* frames that could show it from the onset to the first right finding; negative: none */
	double rank_days; /* job time analyzed */
	uint64_t ops;
	double detect_s; /* CPU time of detect_frame */
	struct yardstick_outcome theirs;
	char seen[400]; /* a wrong finding, or the first one */
};

/* 0, -ENOMEM. verbose: prints findings as reported. */
int judge_case(const struct case_spec *spec, bool verbose, struct outcome *ret);

#endif
