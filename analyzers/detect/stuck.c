/* SPDX-License-Identifier: Apache-2.0 */
/* See stuck.h. */
#include "analyzers/detect/stuck.h"

#include <stdio.h>

/* All have called the newest operation, some time ago, and no rank has completed it: then no rank here is to blame. */
static bool all_entered(const struct coll_judged *member, size_t members, const struct coll_verdict *verdict,
	uint64_t now_ns, uint64_t *ret_waited_ns)
{
	const struct coll_standing *first = &member[0].standing;
	uint64_t newest_ns = 0;

	if (verdict->state != COLL_STATE_RUNNING || verdict->members < 2 || verdict->here != verdict->members ||
		!first->communicator[0])
		return false;
	for (size_t i = 0; i < members; i++) {
		const struct coll_standing *standing = &member[i].standing;

		if (!standing->entered.seq || standing->entered.seq != first->entered.seq ||
			!standing->completion_known || standing->completed.seq >= standing->entered.seq)
			return false;
		if (standing->entered.time_ns > newest_ns)
			newest_ns = standing->entered.time_ns;
	}
	if (newest_ns >= now_ns || now_ns - newest_ns < STUCK_PATIENCE_NS)
		return false;
	*ret_waited_ns = now_ns - newest_ns;
	return true;
}

bool stuck_is_culprit(const struct stuck *stuck, const struct coll_judged *judged)
{
	/* After a mismatch its members stand at several numbers for ever, so that all but one go missing. */
	return stuck->state == COLL_STATE_TYPE_MISMATCH || stuck->state == COLL_STATE_SIZE_MISMATCH ? judged->differs
												    : judged->missing;
}

bool stuck_is_waiter(const struct stuck *stuck, const struct coll_judged *judged)
{
	const struct coll_standing *standing = &judged->standing;
	uint64_t seq = stuck->seq;

	return !stuck_is_culprit(stuck, judged) && standing->entered.seq >= seq &&
	       !(standing->completion_known && standing->completed.seq >= seq);
}

bool stuck_of(const struct coll_judged *member, size_t members, const struct coll_verdict *verdict, uint64_t now_ns,
	struct stuck *ret)
{
	uint64_t waited_ns = verdict->waited_ns;
	bool entered = members > 0 && all_entered(member, members, verdict, now_ns, &waited_ns);

	if (!members || (verdict->state == COLL_STATE_RUNNING && !entered))
		return false;
	*ret = (struct stuck){
		.state = (int)verdict->state,
		.seq = entered ? member[0].standing.entered.seq : verdict->seq,
		.waited_ns = waited_ns,
		.all_entered = entered,
	};
	snprintf(ret->communicator, sizeof(ret->communicator), "%s", member[0].standing.communicator);
	snprintf(ret->called, sizeof(ret->called), "%s", verdict->called);
	snprintf(ret->sentence, sizeof(ret->sentence), "%s", verdict->sentence);
	return true;
}
