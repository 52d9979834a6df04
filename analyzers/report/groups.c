/* SPDX-License-Identifier: Apache-2.0 */
/* Findings by group (finding_groups.h), weightiest first; short slow-downs by rank; what is new. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/report/judge.h"
#include "analyzers/report/model.h"

bool report_wants_rank(const struct report *report, int32_t rank, const char *others)
{
	return !report->chosen.count || (rank >= 0 && ranges_have(&report->chosen, rank)) ||
	       ranges_meet(&report->chosen, others);
}

void report_add_brief(struct report *report, uint32_t job, int32_t rank, const struct report_brief *brief)
{
	struct report_brief *to = NULL;

	for (size_t i = 0; !to && i < report->brief_ranks; i++)
		if (report->brief[i].job == job && report->brief[i].rank == rank)
			to = &report->brief[i];
	if (!to) {
		if (!array_reserve((void **)&report->brief, &report->brief_capacity, report->brief_ranks + 1,
			    sizeof(*to), REPORT_BRIEFS_MAX)) {
			report_note(report, "short slow-downs of more than %d ranks: the others are not counted",
				REPORT_BRIEFS_MAX);
			return;
		}
		to = &report->brief[report->brief_ranks++];
		*to = (struct report_brief){.job = job, .rank = rank};
	}
	if (rank >= 0) {
		to->count += brief->count;
		to->lasted_ns += brief->lasted_ns;
		to->cost_card_hours += brief->cost_card_hours;
	} else if (brief->count > to->count) {
		*to = *brief;
		to->job = job;
		to->rank = rank;
	}
}

static struct finding_episode group_episode(const struct report_finding *finding)
{
	struct finding_episode episode = finding_episode_of(&finding->is);

	episode.cost_card_hours = finding->cost_card_hours;
	return episode;
}

/* Whether the stores have data of the 24 h before the period: else everything would be new. */
static bool group_has_yesterday(const struct report *report)
{
	int day = report->until_ns - report->since_ns >= REPORT_DAY_NS ? report_day(report, report->since_ns - 1) : -1;

	for (size_t i = 0; i < report->ranks; i++)
		if (report->rank[i].first_ns < report->since_ns)
			return true;
	for (size_t i = 0; day >= 0 && i < report->nodes; i++)
		if (report->node[i].data_days >> day & 1)
			return true;
	return false;
}

static bool group_is_fresh(const struct report *report, const struct finding_episode *episode, bool has_yesterday)
{
	for (size_t i = 0; has_yesterday && i < report->yesterdays; i++) {
		struct finding_episode before = finding_episode_of(&report->yesterday[i]);

		if (finding_episode_recurs(&before, episode))
			return false;
	}
	/* An episode that began before the period is not new either. */
	return has_yesterday && episode->since_ns >= report->since_ns;
}

/* Open hangs first, remarks last; each by cost. */
static int group_by_weight(const void *a, const void *b, void *arg)
{
	const struct report *report = arg;
	const struct report_group *x = a, *y = b;
	const struct finding *f = &report->finding[x->first].is, *g = &report->finding[y->first].is;
	bool x_hangs = f->kind == FINDING_HANG && !x->is.until_ns, y_hangs = g->kind == FINDING_HANG && !y->is.until_ns;

	return ORDER(y_hangs, x_hangs) ?: ORDER(x->remark, y->remark) ?:
	       ORDER(y->is.cost_card_hours, x->is.cost_card_hours) ?: ORDER(g->severity, f->severity) ?:
	       ORDER(x->is.since_ns, y->is.since_ns) ?: ORDER(x->first, y->first);
}

static int group_by_cost(const void *a, const void *b)
{
	const struct report_finding *x = a, *y = b;

	return ORDER(y->cost_card_hours, x->cost_card_hours) ?: ORDER(y->is.severity, x->is.severity) ?:
	       ORDER(x->is.since_ns, y->is.since_ns);
}

/* Findings in the order of the groups; each group's costliest first. */
static void group_place(struct report *report, const struct report_finding *sorted)
{
	size_t at = 0;

	for (uint32_t i = 0; i < report->groups; i++) {
		struct report_group *group = &report->group[i];

		memcpy(&report->finding[at], &sorted[group->first], group->is.count * sizeof(*sorted));
		group->first = at;
		for (size_t j = 0; j < group->is.count; j++)
			report->finding[at++].group = i;
	}
}

static void group_fill(struct report *report, const struct finding_episode *episode, const size_t *order,
	const struct finding_group *made, struct report_finding *sorted)
{
	bool has_yesterday = group_has_yesterday(report);

	for (size_t i = 0, at = 0; i < report->groups; i++) {
		const struct finding_group *group = &made[i];
		struct report_group *to = &report->group[i];

		*to = (struct report_group){.is = *group, .first = at, .fresh = true};
		for (size_t j = 0; j < group->count; j++) {
			size_t from = order[group->first + j];

			sorted[at++] = report->finding[from];
			to->fresh &= group_is_fresh(report, &episode[from], has_yesterday);
		}
		qsort(&sorted[to->first], group->count, sizeof(*sorted), group_by_cost);
		to->remark = sorted[to->first].remark;
	}
}

int report_group(struct report *report)
{
	size_t n = report->findings;
	struct finding_episode *episode = calloc(n + 1, sizeof(*episode));
	struct finding_group *made = calloc(n + 1, sizeof(*made));
	struct report_finding *sorted = calloc(n + 1, sizeof(*sorted));
	struct report_group *group = calloc(n + 1, sizeof(*group));
	size_t *order = calloc(n + 1, sizeof(*order));
	int r = episode && made && sorted && group && order ? 0 : -ENOMEM;

	if (r == 0) {
		for (size_t i = 0; i < n; i++)
			episode[i] = group_episode(&report->finding[i]);
		free(report->group);
		report->group = group;
		group = NULL;
		report->groups = finding_groups_make(episode, n, report->now_ns, order, made);
		group_fill(report, episode, order, made, sorted);
		/* Sorting reads the costliest episode of a group: of sorted. */
		if (n)
			memcpy(report->finding, sorted, n * sizeof(*sorted));
		qsort_r(report->group, report->groups, sizeof(*report->group), group_by_weight, report);
		group_place(report, sorted);
	}
	free(episode);
	free(made);
	free(sorted);
	free(group);
	free(order);
	return r;
}
