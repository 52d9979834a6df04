/* SPDX-License-Identifier: Apache-2.0 */
/* See finding_groups.h. Sorting by key and begin puts the episodes of a group side by side. */
#include "analyzers/finding/finding_groups.h"

#include "analyzers/base/array.h"
#include "analyzers/base/text.h"

#include <stdlib.h>
#include <string.h>

enum activity finding_activity(enum activity activity, enum finding_cause cause)
{
	if (activity < ACTIVITY_MAX)
		return activity;
	switch (cause) {
	case CAUSE_DATALOADER:
		return ACTIVITY_DATALOADER;
	case CAUSE_CHECKPOINT:
		return ACTIVITY_CHECKPOINT;
	case CAUSE_GARBAGE_COLLECTION:
		return ACTIVITY_GC;
	default:
		return ACTIVITY_MAX;
	}
}

enum finding_cause finding_cause_of(enum activity activity)
{
	static const enum finding_cause causes[ACTIVITY_MAX] = {
#define ACTIVITY(id, word, title, stage, waits, cause) [ACTIVITY_##id] = CAUSE_##cause,
#include "analyzers/steps/activities.def"
#undef ACTIVITY
	};

	return activity < ACTIVITY_MAX ? causes[activity] : CAUSE_UNKNOWN;
}

bool finding_is_short(enum finding_kind kind, enum finding_severity severity)
{
	return severity == SEVERITY_INFO &&
	       (kind == FINDING_SLOW_RANK || kind == FINDING_SLOW_JOB || kind == FINDING_SLOW_COMMUNICATION);
}

struct finding_episode finding_episode_of(const struct finding *finding)
{
	return (struct finding_episode){
		.kind = finding->kind,
		.cause = finding->cause,
		.activity = finding->activity,
		.rank = finding->rank,
		.uid = finding->uid_known ? (int64_t)finding->uid : -1,
		.job = finding->job,
		.where = finding->kind == FINDING_HARDWARE ? finding->card : finding->communicator,
		.since_ns = finding->since_ns,
		.until_ns = finding->until_ns,
		.cost_card_hours = finding->cost_card_hours,
	};
}

static int finding_groups_compare_texts(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

/* The activity, or the cause where there is none. */
static unsigned finding_groups_why(const struct finding_episode *episode)
{
	enum activity activity = finding_activity(episode->activity, episode->cause);

	return activity < ACTIVITY_MAX ? (unsigned)activity : ACTIVITY_MAX + (unsigned)episode->cause;
}

static int finding_groups_compare(const struct finding_episode *a, const struct finding_episode *b)
{
	unsigned x = finding_groups_why(a), y = finding_groups_why(b);
	int order = ORDER(a->kind, b->kind) ?: finding_groups_compare_texts(a->job, b->job) ?: ORDER(a->uid, b->uid) ?:
		    ORDER(a->rank, b->rank) ?: ORDER(x, y);

	/* Another communicator is another fault, and so is another card. */
	if (!order && (a->kind == FINDING_SLOW_COMMUNICATION || a->kind == FINDING_HARDWARE))
		order = finding_groups_compare_texts(a->where, b->where);
	return order;
}

bool finding_episode_recurs(const struct finding_episode *a, const struct finding_episode *b)
{
	return finding_groups_compare(a, b) == 0;
}

static int finding_groups_by_key(const void *a, const void *b, void *arg)
{
	const struct finding_episode *episode = arg;
	const struct finding_episode *x = &episode[*(const size_t *)a], *y = &episode[*(const size_t *)b];

	return finding_groups_compare(x, y) ?: ORDER(x->since_ns, y->since_ns) ?:
	       ORDER(*(const size_t *)a, *(const size_t *)b);
}

struct finding_groups_last {
	const struct finding_episode *episode;
	const size_t *order;
};

static int finding_groups_by_last(const void *a, const void *b, void *arg)
{
	const struct finding_groups_last *last = arg;
	const struct finding_group *x = a, *y = b;
	uint64_t x_ns = last->episode[last->order[x->first + x->count - 1]].since_ns,
		 y_ns = last->episode[last->order[y->first + y->count - 1]].since_ns;

	return ORDER(x_ns, y_ns) ?: ORDER(x->first, y->first);
}

static void finding_groups_add(
	struct finding_group *group, const struct finding_episode *all, size_t at, uint64_t now_ns)
{
	const struct finding_episode *episode = &all[at];
	uint64_t end_ns = episode->until_ns ? episode->until_ns : now_ns;

	if (!group->count || episode->cost_card_hours >= all[group->worst].cost_card_hours)
		group->worst = at;
	if (!group->count || episode->since_ns < group->since_ns)
		group->since_ns = episode->since_ns;
	if (!group->count)
		group->until_ns = episode->until_ns;
	else if (!group->until_ns || !episode->until_ns)
		group->until_ns = 0;
	else if (episode->until_ns > group->until_ns)
		group->until_ns = episode->until_ns;
	group->lasted_ns += end_ns > episode->since_ns ? end_ns - episode->since_ns : 0;
	group->cost_card_hours += episode->cost_card_hours;
	group->count++;
}

size_t finding_groups_make(
	const struct finding_episode *episode, size_t n, uint64_t now_ns, size_t *order, struct finding_group *ret)
{
	struct finding_groups_last last = {episode, order};
	size_t groups = 0;

	for (size_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), finding_groups_by_key, (void *)(uintptr_t)episode);
	for (size_t i = 0; i < n; i++) {
		if (!i || finding_groups_compare(&episode[order[i - 1]], &episode[order[i]]) != 0)
			ret[groups++] = (struct finding_group){.first = i};
		finding_groups_add(&ret[groups - 1], episode, order[i], now_ns);
	}
	qsort_r(ret, groups, sizeof(*ret), finding_groups_by_last, &last);
	return groups;
}

const char *finding_group_words(const struct finding_group *group, const char *since, char *ret, size_t size)
{
	struct text text;

	text_begin(&text, ret, size);
	if (group->count < 2)
		return ret;
	text_add(&text, "recurred %zu time%s since %s, ", group->count - 1, group->count > 2 ? "s" : "", since);
	text_duration(&text, (double)group->lasted_ns);
	text_add(&text, " in all");
	if (group->cost_card_hours >= 0.095)
		text_add(&text, ", %.*f card-hours", group->cost_card_hours < 9.95 ? 1 : 0, group->cost_card_hours);
	else if (group->cost_card_hours * 60 >= 1)
		text_add(&text, ", %.0f card-minute%s", group->cost_card_hours * 60,
			group->cost_card_hours * 60 < 1.5 ? "" : "s");
	text_end(&text);
	return ret;
}
