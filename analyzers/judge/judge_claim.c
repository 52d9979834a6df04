/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow-downs that are no rank's: a communicator, or work that is divided unevenly. Detectors measure what a frame lost
 * by them, and open episodes of ranks do not explain it; evidence, episodes and grades are those of ranks (judge_episode.c). One episode is of one kind and
 * communicator, of an imbalance also of one cause: whether a link, a node or all is slow may show only later.
 */
#include "analyzers/judge/judge_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOST_MAX_S 1e6 /* eleven days in one step are no measure */
#define NS 1e-9

static bool claim_is(const struct judge_claim *claim, const struct finding *of)
{
	return claim->newest.kind == of->kind &&
	       (of->kind != FINDING_IMBALANCE || claim->newest.cause == of->cause) &&
	       strncmp(claim->newest.communicator, of->communicator, sizeof(of->communicator) - 1) == 0;
}

/* NULL: all are open, or out of memory. */
static struct judge_claim *claim_find(struct judge *judge, const struct finding *of)
{
	struct judge_claim *idle = NULL;

	for (size_t i = 0; i < judge->claims; i++) {
		if (claim_is(&judge->claim[i], of))
			return &judge->claim[i];
		if (!judge->claim[i].watch.open &&
			(!idle || judge->claim[i].watch.evidence < idle->watch.evidence))
			idle = &judge->claim[i];
	}
	if (!judge->claim)
		judge->claim = calloc(JUDGE_CLAIMS_MAX, sizeof(*judge->claim));
	if (!judge->claim)
		return NULL;
	if (judge->claims < JUDGE_CLAIMS_MAX)
		idle = &judge->claim[judge->claims++];
	if (!idle)
		return NULL;
	free(idle->watch.episode);
	*idle = (struct judge_claim){.watch.of = &idle->worst};
	return idle;
}

void judge_claim(struct judge *judge, const struct finding *of, double lost_ns)
{
	struct judge_claim *claim;
	double lost = isfinite(lost_ns) ? fmin(fmax(lost_ns * NS, 0), LOST_MAX_S) : 0;

	if ((size_t)of->kind >= FINDING_KIND_MAX || (size_t)of->cause >= CAUSE_MAX || !(lost > 0) || !judge->counted)
		return;
	claim = claim_find(judge, of);
	if (!claim)
		return;
	claim->newest = *of;
	claim->newest.communicator[sizeof(of->communicator) - 1] = 0;
	claim->newest.evidences = of->evidences < FINDING_EVIDENCE_MAX ? of->evidences : FINDING_EVIDENCE_MAX;
	claim->lost += lost;
	if (lost >= claim->most) {
		claim->most = lost;
		claim->worst = claim->newest;
	}
}

void judge_claims(struct judge *judge)
{
	for (size_t i = 0; i < judge->claims; i++) {
		struct judge_claim *claim = &judge->claim[i];
		double named = claim->newest.kind == FINDING_IMBALANCE ? judge->named : 0;
		double lost = fmin(fmax(0, claim->lost - named), judge->real), without = judge->real - lost;
		static const double none[ACTIVITY_MAX];

		claim->lost = 0;
		judge_watch_add(judge, &claim->watch, NULL, lost, lost, without, none);
		if (!claim->watch.open && !(claim->watch.evidence > 0))
			claim->most = 0;
	}
}
