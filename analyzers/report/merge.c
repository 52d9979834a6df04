/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings of several stores. Each node's daemon tells of the jobs that it sees a part of, so what is of a whole job
 * comes as often as the job has nodes: those of one kind and job that were so at the same time are one, with the cost
 * of the one that saw most. Then cards and jobs get what theirs cost. See model.h.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/report/judge.h"
#include "analyzers/report/model.h"

static int by_key(const void *a, const void *b)
{
	const struct report_finding *x = a, *y = b;
	int order = (x->is.kind > y->is.kind) - (x->is.kind < y->is.kind);

	if (!order)
		order = strcmp(x->is.job, y->is.job);
	if (!order && x->is.kind != FINDING_HANG)
		order = (x->is.rank > y->is.rank) - (x->is.rank < y->is.rank);
	if (!order)
		order = strcmp(x->is.communicator, y->is.communicator);
	if (!order)
		order = (x->is.since_ns > y->is.since_ns) - (x->is.since_ns < y->is.since_ns);
	return order ? order : (x->store > y->store) - (x->store < y->store);
}

static bool same(const struct report_finding *a, const struct report_finding *b)
{
	return a->is.kind == b->is.kind && strcmp(a->is.job, b->is.job) == 0 &&
	       (a->is.kind == FINDING_HANG || a->is.rank == b->is.rank) &&
	       strcmp(a->is.communicator, b->is.communicator) == 0 && a->store != b->store &&
	       (!a->is.until_ns || a->is.until_ns >= b->is.since_ns);
}

/* Whether it says more: a hang's culprit, else what it cost. */
static bool says_more(const struct report_finding *a, const struct report_finding *b)
{
	if ((a->is.rank >= 0) != (b->is.rank >= 0))
		return a->is.rank >= 0;
	return a->cost_card_hours > b->cost_card_hours;
}

static void join(struct report_finding *into, const struct report_finding *more)
{
	struct report_finding both = says_more(more, into) ? *more : *into;

	both.told_by = into->told_by + 1;
	both.cost_card_hours =
		into->cost_card_hours > more->cost_card_hours ? into->cost_card_hours : more->cost_card_hours;
	if (more->is.since_ns < both.is.since_ns)
		both.is.since_ns = more->is.since_ns;
	if (into->is.since_ns < both.is.since_ns)
		both.is.since_ns = into->is.since_ns;
	*into = both;
}

/* Hangs first, then what is wrong, then remarks; each by cost. */
static int by_weight(const void *a, const void *b)
{
	const struct report_finding *x = a, *y = b;
	bool x_hangs = x->is.kind == FINDING_HANG && !x->is.until_ns,
	     y_hangs = y->is.kind == FINDING_HANG && !y->is.until_ns;

	if (x_hangs != y_hangs)
		return x_hangs ? -1 : 1;
	if (x->remark != y->remark)
		return x->remark ? 1 : -1;
	if (x->cost_card_hours != y->cost_card_hours)
		return x->cost_card_hours > y->cost_card_hours ? -1 : 1;
	if (x->is.severity != y->is.severity)
		return x->is.severity > y->is.severity ? -1 : 1;
	return (x->is.since_ns > y->is.since_ns) - (x->is.since_ns < y->is.since_ns);
}

void report_merge(struct report *report)
{
	size_t kept = 0;

	if (!report->findings)
		return;
	qsort(report->finding, report->findings, sizeof(*report->finding), by_key);
	for (size_t i = 1; i < report->findings; i++)
		if (same(&report->finding[kept], &report->finding[i]))
			join(&report->finding[kept], &report->finding[i]);
		else
			report->finding[++kept] = report->finding[i];
	report->findings = kept + 1;
	qsort(report->finding, report->findings, sizeof(*report->finding), by_weight);
}
