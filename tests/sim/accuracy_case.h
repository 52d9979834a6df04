/* SPDX-License-Identifier: Apache-2.0 */
/* The cases that verdicts are tried on: a kind of injection, a size, a severity, a tier and a seed, from which all else
 * follows. */
#ifndef RANKTRACE_SIM_ACCURACY_CASE_H
#define RANKTRACE_SIM_ACCURACY_CASE_H

#include "analyzers/finding/finding.h"
#include "tests/sim/sim.h"

#define CASE_SEVERITIES_MAX 5
#define CASE_SIZES 9
#define CASE_CAUSES_MAX 3

struct case_size {
	const char *name;
	uint32_t tp, pp, dp, ep, chunks;
	uint32_t weight; /* a case in so many is run */
};

struct case_kind {
	double severity[CASE_SEVERITIES_MAX];
	unsigned severities;
	bool several; /* two and three culprits too */
	bool rank;    /* a rank is behind it, to be named */
	enum finding_kind expected;
	enum finding_cause cause[CASE_CAUSES_MAX]; /* each of them is right; UNKNOWN: no further one */
};

struct case_spec {
	enum sim_inject inject;
	unsigned size, severity, culprits;
	enum frame_tier tier;
	uint64_t seed;
};

extern const struct case_size case_sizes[CASE_SIZES];
extern const struct case_kind case_kinds[SIM_INJECT_MAX];

/* Can there be such a case? */
bool case_makes_sense(const struct case_spec *spec);
/* Its run, and how many steps of it. */
unsigned case_options(const struct case_spec *spec, struct sim_options *ret);
/* The class of frames in which it shows. */
enum frame_class case_class(const struct case_spec *spec);

#endif
