/* SPDX-License-Identifier: Apache-2.0 */
/* Test cases for verdicts, determined by kind of injection, size, severity, tier and seed. */
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
	uint32_t weight; /* one case in `weight` is run */
};

struct case_kind {
	double severity[CASE_SEVERITIES_MAX];
	unsigned severities;
	bool several; /* also with two and three culprits */
	bool rank;    /* a rank is the culprit */
	enum finding_kind expected;
	enum finding_cause cause[CASE_CAUSES_MAX]; /* accepted causes, ended by UNKNOWN */
};

struct case_spec {
	enum sim_inject inject;
	unsigned size, severity, culprits;
	enum frame_tier tier;
	uint64_t seed;
};

extern const struct case_size case_sizes[CASE_SIZES];
extern const struct case_kind case_kinds[SIM_INJECT_MAX];

/* Whether the case is possible. */
bool case_makes_sense(const struct case_spec *spec);
/* Options of its run; returns the number of steps. */
unsigned case_options(const struct case_spec *spec, struct sim_options *ret);
/* The class of step frames that show it. */
enum frame_class case_class(const struct case_spec *spec);

#endif
