/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the judge of operations (analyzers/coll/coll_judge.h) says of a communicator, as hangs are judged by it: the
 * same of what ranks do now, and of what a store says that they did. Pure.
 */
#ifndef RANKTRACE_DETECT_STUCK_H
#define RANKTRACE_DETECT_STUCK_H

#include "analyzers/detect/detector.h"
#include "analyzers/coll/coll_judge.h"

#define STUCK_PATIENCE_NS 2000000000ULL /* of coll_judge() */

/* false: nothing is wrong with it. Culprits and waiters are the caller's to fill in: stuck_is_culprit() and
 * stuck_is_waiter() say of whom. */
bool stuck_of(const struct coll_judged *member, size_t members, const struct coll_verdict *verdict, uint64_t now_ns,
	struct stuck *ret);
/* Of a mismatch: called something else. Else: is missing. */
bool stuck_is_culprit(const struct stuck *stuck, const struct coll_judged *judged);
/* It has called the number, and nothing says that it is complete. */
bool stuck_is_waiter(const struct stuck *stuck, const struct coll_judged *judged);

#endif
