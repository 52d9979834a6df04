/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow-downs that are no rank's: a communicator, or work that is divided unevenly. Detectors measure what a frame lost
 * by them, and open episodes of ranks do not explain it; what came after the usual was learned costs at most what the
 * steps have grown. Evidence, episodes and grades are those of ranks (judge_episode.c). One episode is of one kind and
 * communicator, of an imbalance also of one cause: whether a link, a node or all is slow may show only later.
 */
#include "analyzers/judge/judge_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOST_MAX_S 1e6 /* eleven days in one step are no measure */

static bool claim_is(const struct judge_claim *claim, const struct finding *of)
{
	return claim->newest.kind == of->kind && (of->kind != FINDING_IMBALANCE || claim->newest.cause == of->cause) &&
	       strncmp(claim->newest.communicator, of->communicator, sizeof(of->communicator) - 1) == 0;
}

/* NULL: all are open, or out of memory. */
static struct judge_claim *claim_find(struct judge *judge, const struct finding *of)
{
	struct judge_claim *idle = NULL;

	for (size_t i = 0; i < judge->claims; i++) {
		if (claim_is(&judge->claim[i], of))
			return &judge->claim[i];
		if (!judge->claim[i].watch.open && (!idle || judge->claim[i].watch.evidence < idle->watch.evidence))
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
	*idle = (struct judge_claim){.watch = {.kind = WATCH_CLAIM, .of = &idle->worst}};
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

/* Began after the usual was learned: the steps have grown by it. */
static bool claim_grew(const struct judge *judge, const struct judge_claim *claim)
{
	return claim->newest.kind == FINDING_SLOW_COMMUNICATION &&
	       (!claim->newest.since_ns || claim->newest.since_ns > judge->learned_ns);
}

double judge_claimed(const struct judge *judge)
{
	double sum = 0;

	for (size_t i = 0; i < judge->claims; i++)
		if (judge->claim[i].watch.open && claim_grew(judge, &judge->claim[i]))
			sum += judge->claim[i].lost;
	return sum;
}

bool judge_claims_quiet(const struct judge *judge)
{
	for (size_t i = 0; i < judge->claims; i++)
		if (judge->claim[i].watch.open && claim_grew(judge, &judge->claim[i]))
			return false;
	return true;
}

void judge_claims(struct judge *judge)
{
	double unnamed = fmax(0, judge->elapsed_s - judge->usual * judge->steps - judge->named);

	for (size_t i = 0; i < judge->claims; i++) {
		struct judge_claim *claim = &judge->claim[i];
		bool grew = claim_grew(judge, claim);
		double named = claim->newest.kind == FINDING_IMBALANCE ? judge->named : 0;
		double lost = fmin(fmax(0, claim->lost - named), grew ? unnamed : judge->elapsed_s),
		       without = judge->elapsed_s - lost;
		static const double none[ACTIVITY_MAX];

		unnamed -= grew ? lost : 0;
		claim->lost = 0;
		judge_watch_add(judge, &claim->watch, NULL, &(struct judge_loss){lost, lost, without, none});
		if (!claim->watch.open && !(claim->watch.evidence > 0))
			claim->most = 0;
	}
}
