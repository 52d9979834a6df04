/* SPDX-License-Identifier: Apache-2.0 */
/* What opinions add up to over a finding's life. See findings.h. */
#include "analyzers/detect/findings_life.h"

#include <math.h>
#include <string.h>

#define WEIGHT_LEAST 0.05
#define WEIGHT_UNKNOWN 0.25 /* a cause that is seen wins soon over one that is not */
#define CHANGE 1.25	    /* so much heavier must another cause be */
#define FADING 0.25	    /* what is said while it costs half of what it did, or less */
#define LOST_NS_MAX 1e15    /* eleven days in one opinion are no measure */

static double within(double value, double least, double most, double otherwise)
{
	return isfinite(value) ? fmin(fmax(value, least), most) : otherwise;
}

/* True if the finding's cause is the opinion's. */
static bool weigh(struct lifecycle *lifecycle, const struct finding *said, bool fading)
{
	double weight = within(said->confidence, WEIGHT_LEAST, 1, WEIGHT_LEAST) * (fading ? FADING : 1);
	enum finding_cause now = lifecycle->finding.cause;

	lifecycle->weight[said->cause] += said->cause == CAUSE_UNKNOWN ? weight * WEIGHT_UNKNOWN : weight;
	if (said->cause == now)
		return true;
	if (lifecycle->verdicts > 0 && lifecycle->weight[said->cause] <= lifecycle->weight[now] * CHANGE)
		return false;
	lifecycle->finding.cause = said->cause;
	lifecycle->changed = true;
	return true;
}

static void copy_evidence(struct finding *finding, const struct finding *said)
{
	finding->evidences = 0;
	for (size_t i = 0; i < said->evidences && i < FINDING_EVIDENCE_MAX; i++) {
		struct finding_evidence *evidence = &finding->evidence[finding->evidences++];

		*evidence = said->evidence[i];
		evidence->name[sizeof(evidence->name) - 1] = 0;
		evidence->unit[sizeof(evidence->unit) - 1] = 0;
		evidence->detail[sizeof(evidence->detail) - 1] = 0;
	}
	memcpy(finding->others, said->others, sizeof(finding->others));
	finding->others[sizeof(finding->others) - 1] = 0;
}

void lifecycle_add(struct lifecycle *lifecycle, const struct verdict *verdict, uint32_t cards, enum frame_tier tier, uint64_t step,
	uint64_t now_ns)
{
	struct finding *finding = &lifecycle->finding;
	const struct finding *said = &verdict->finding;
	double lost_ns = within(verdict->lost_ns, 0, LOST_NS_MAX, 0);
	bool first = verdict->confirmed && !lifecycle->confirmed;
	double typical_ns = lifecycle->verdicts > 0 ? lifecycle->lost_ns / lifecycle->verdicts : 0;
	/* What is measured while it is fading says little about it. */
	bool fades = !first && lifecycle->verdicts > 0 && lost_ns < typical_ns / 2;
	bool holds = weigh(lifecycle, said, fades && lost_ns > 0 && !lifecycle_of_snapshots(lifecycle));

	if (holds && (first || lifecycle->verdicts == 0 || ((verdict->confirmed || !lifecycle->confirmed) && !fades))) {
		copy_evidence(finding, said);
		finding->tier = tier;
		finding->severity = (size_t)said->severity < SEVERITY_MAX ? said->severity : SEVERITY_WARNING;
		finding->confidence = within(said->confidence, 0, 1, 0);
	}
	if (first)
		lifecycle->slowdowns = lifecycle->lost_ns = lifecycle->verdicts = 0;
	if (verdict->confirmed || !lifecycle->confirmed) {
		lifecycle->slowdowns += within(said->slowdown, 0, 1e6, 1);
		lifecycle->lost_ns += lost_ns;
		lifecycle->verdicts++;
		finding->slowdown = lifecycle->slowdowns / lifecycle->verdicts;
	}
	finding->cost_card_hours += lost_ns * cards / 3.6e12;
	lifecycle->confirmed |= verdict->confirmed;
	lifecycle->said = true;
	lifecycle->said_confirmed |= verdict->confirmed;
	lifecycle->last_ns = now_ns;
	lifecycle->last_step = step;
}
