/* SPDX-License-Identifier: Apache-2.0 */
/* Inside findings: one finding's life, from its first opinion until it can no longer come back. */
#ifndef RANKTRACE_DETECT_FINDINGS_LIFE_H
#define RANKTRACE_DETECT_FINDINGS_LIFE_H

#include "analyzers/detect/findings.h"

struct lifecycle {
	struct finding finding; /* id 0: not told yet */
	double weight[CAUSE_MAX];
	double slowdowns, lost_ns; /* sums over confirmed opinions (over all while there is none) */
	double verdicts;	   /* so many */
	bool confirmed;		   /* once, in this episode */
	bool said, said_confirmed; /* in this round */
	bool lasting;		   /* in this round: would be confirmed, but must last longer */
	bool changed;		   /* worth telling */
	unsigned quiet;		   /* rounds without */
	unsigned unconfirmed;	   /* rounds since it was confirmed last, or since it was suspected */
	unsigned returns;	   /* so often it came back after it was closed */
	unsigned alone; /* slow_job: rounds in a row in which it was confirmed and nothing else explained it */
	uint64_t last_ns, last_step; /* of the last opinion */
	uint32_t node_ranks;	     /* of its node, in the job */
};

struct findings {
	struct detect_options options;
	struct findings_sink sink;
	uint64_t *next_id;
	char job[64];
	size_t ranks; /* of the job, in the last opinion */
	size_t lives;
	struct lifecycle *lifecycle[FINDINGS_MAX];
};

/* Told: suspected or open now. */
static inline bool lifecycle_is_up(const struct lifecycle *lifecycle)
{
	return lifecycle->finding.id && (lifecycle->finding.state == FINDING_SUSPECTED || lifecycle->finding.state == FINDING_OPEN);
}

/* Comes from looks, and ends with them. */
static inline bool lifecycle_of_snapshots(const struct lifecycle *lifecycle)
{
	return lifecycle->finding.kind == FINDING_HANG || lifecycle->finding.kind == FINDING_MISMATCH;
}

/* Takes an opinion in. index: of its rank in who, -1 none. */
void lifecycle_add(struct lifecycle *lifecycle, const struct verdict *verdict, uint32_t cards, enum frame_tier tier, uint64_t step,
	uint64_t now_ns);
/* What explains this slow_job: a more specific one that is up; NULL if nothing does. */
const struct lifecycle *findings_explain(const struct findings *findings, const struct lifecycle *job);
/* Other ranks of the node that are slow at the same time, where they are most of it; where it is sure of this one,
 * those of which it is. */
void findings_neighbours(const struct findings *findings, struct lifecycle *lifecycle);

#endif
