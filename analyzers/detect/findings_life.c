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
static bool weigh(struct lifecycle *life, const struct finding *said, bool fading)
{
	double weight = within(said->confidence, WEIGHT_LEAST, 1, WEIGHT_LEAST) * (fading ? FADING : 1);
	enum finding_cause now = life->finding.cause;

	life->weight[said->cause] += said->cause == CAUSE_UNKNOWN ? weight * WEIGHT_UNKNOWN : weight;
	if (said->cause == now)
		return true;
	if (life->opinions > 0 && life->weight[said->cause] <= life->weight[now] * CHANGE)
		return false;
	life->finding.cause = said->cause;
	life->changed = true;
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

void lifecycle_add(struct lifecycle *life, const struct verdict *opinion, uint32_t cards, enum frame_tier tier, uint64_t step,
	uint64_t now_ns)
{
	struct finding *finding = &life->finding;
	const struct finding *said = &opinion->finding;
	double lost_ns = within(opinion->lost_ns, 0, LOST_NS_MAX, 0);
	bool first = opinion->confirmed && !life->confirmed;
	double typical_ns = life->opinions > 0 ? life->lost_ns / life->opinions : 0;
	/* What is measured while it is fading says little about it. */
	bool fades = !first && life->opinions > 0 && lost_ns < typical_ns / 2;
	bool holds = weigh(life, said, fades && lost_ns > 0 && !lifecycle_of_snapshots(life));

	if (holds && (first || life->opinions == 0 || ((opinion->confirmed || !life->confirmed) && !fades))) {
		copy_evidence(finding, said);
		finding->tier = tier;
		finding->severity = (size_t)said->severity < SEVERITY_MAX ? said->severity : SEVERITY_WARNING;
		finding->confidence = within(said->confidence, 0, 1, 0);
	}
	if (first)
		life->slowdowns = life->lost_ns = life->opinions = 0;
	if (opinion->confirmed || !life->confirmed) {
		life->slowdowns += within(said->slowdown, 0, 1e6, 1);
		life->lost_ns += lost_ns;
		life->opinions++;
		finding->slowdown = life->slowdowns / life->opinions;
	}
	finding->cost_card_hours += lost_ns * cards / 3.6e12;
	life->confirmed |= opinion->confirmed;
	life->said = true;
	life->said_confirmed |= opinion->confirmed;
	life->last_ns = now_ns;
	life->last_step = step;
}
