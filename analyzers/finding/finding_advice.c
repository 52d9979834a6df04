/* SPDX-License-Identifier: Apache-2.0 */
/* See finding_advice.h. */
#include "analyzers/finding/finding_advice.h"

/* A cause that says no more than "something takes longer": the activity and the side say more. */
static bool finding_advice_is_vague(enum finding_cause cause)
{
	return cause == CAUSE_COMPUTE || cause == CAUSE_UNKNOWN || cause == CAUSE_HOST || cause >= CAUSE_MAX;
}

static const char *finding_advice_of_activity(enum activity activity)
{
	switch (activity) {
	case ACTIVITY_DATALOADER:
		return finding_cause_advice(CAUSE_DATALOADER);
	case ACTIVITY_CHECKPOINT:
		return finding_cause_advice(CAUSE_CHECKPOINT);
	case ACTIVITY_GC:
		return finding_cause_advice(CAUSE_GARBAGE_COLLECTION);
	case ACTIVITY_OUTSIDE:
		return "see what this rank's Python does between its stages (logging, metrics, files); name parts with "
		       "marks";
	case ACTIVITY_SYNC:
		return finding_cause_advice(CAUSE_SYNCHRONIZATION);
	case ACTIVITY_OPTIMIZER:
	case ACTIVITY_ZERO_GRAD:
		return "see what this rank does in its optimizer step (hooks, gradient clipping, logging)";
	case ACTIVITY_MARK:
		return "see what this rank does in the marks named; tracectl timeline shows them";
	default:
		return NULL;
	}
}

bool finding_blames_card(enum finding_cause cause, enum activity activity, enum finding_side side)
{
	return finding_cause_row(cause)->hardware && side != FINDING_SIDE_HOST &&
	       !(finding_advice_is_vague(cause) && side != FINDING_SIDE_CARD && finding_advice_of_activity(activity));
}

const char *finding_advice(enum finding_cause cause, enum activity activity, enum finding_side side)
{
	const char *advice = finding_advice_of_activity(finding_activity(activity, cause));

	if (!finding_advice_is_vague(cause) && !(cause == CAUSE_CARD && side == FINDING_SIDE_HOST))
		return finding_cause_advice(cause);
	if (side == FINDING_SIDE_CARD)
		return finding_cause_advice(CAUSE_CARD);
	if (advice)
		return advice;
	/* Neither preempted nor throttled, and not asleep: those are causes of their own. */
	if (side == FINDING_SIDE_HOST && cause == CAUSE_COMPUTE)
		return "see in which functions and lines it spends more time than its peers (tracectl diff; while it "
		       "lasts, tracectl stack --rank N)";
	if (side == FINDING_SIDE_HOST)
		return finding_cause_advice(CAUSE_HOST);
	return finding_cause_advice(cause < CAUSE_MAX ? cause : CAUSE_UNKNOWN);
}
