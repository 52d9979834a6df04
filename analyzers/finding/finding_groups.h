/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrences: a finding is one episode; episodes of the same kind, user, job, rank and activity form a group, which
 * lists show as one line. Short slow-downs (severity info) are counted a rank and not listed. Pure.
 */
#ifndef RANKTRACE_FINDING_FINDING_GROUPS_H
#define RANKTRACE_FINDING_FINDING_GROUPS_H

#include "analyzers/finding/finding.h"

/* What of a finding decides its group, and what the group sums. Texts may be NULL. */
struct finding_episode {
	enum finding_kind kind;
	enum finding_cause cause;
	enum activity activity;
	int32_t rank; /* -1: no single rank */
	int64_t uid;  /* -1: unknown */
	const char *job;
	const char *where;	     /* communicator; of hardware the card */
	uint64_t since_ns, until_ns; /* until_ns 0: lasts */
	double cost_card_hours;
};

struct finding_group {
	size_t first, count;	     /* places in order */
	size_t worst;		     /* costliest episode, the newest of equals; an index */
	uint64_t since_ns, until_ns; /* until_ns 0: one lasts */
	uint64_t lasted_ns;	     /* sum over the episodes */
	double cost_card_hours;
};

struct finding_episode finding_episode_of(const struct finding *finding);
/* Activity that a finding is about: its own, else that of its cause (older stores); ACTIVITY_MAX: none. */
enum activity finding_activity(enum activity activity, enum finding_cause cause);
/* Of a rank that is slow in the activity, unless the operating system took the time; CAUSE_UNKNOWN of ACTIVITY_MAX. */
enum finding_cause finding_cause_of(enum activity activity);
/* Whether two episodes are one group. */
bool finding_episode_recurs(const struct finding_episode *a, const struct finding_episode *b);
/* Short slow-downs are counted, not listed. */
bool finding_is_short(enum finding_kind kind, enum finding_severity severity);

/*
 * Groups n episodes; order and ret have n places. order: indexes of episodes, group after group, by begin within each.
 * Groups are in the order of their last begin. Open episodes last until now_ns. Returns the number of groups.
 */
size_t finding_groups_make(
	const struct finding_episode *episode, size_t n, uint64_t now_ns, size_t *order, struct finding_group *ret);

/* "recurred 4 times since 14:02, 3 min 10 s in all, 0.8 card-hours"; since: the text of that time. "" for one
 * episode. */
const char *finding_group_words(const struct finding_group *group, const char *since, char *ret, size_t size);

#endif
