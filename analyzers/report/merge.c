/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges findings of several stores. Each node's daemon reports the jobs that it sees a part of, so a finding about a
 * whole job appears once a node, and once more from the comparison of nodes: those of one kind and job that overlap in
 * time become one, with the highest cost. A slow job without a cause is hidden if the comparison names a slow rank that
 * explains it.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/report/judge.h"
#include "analyzers/report/model.h"

/* Keys of a finding. */
static int compare_keys(const struct report_finding *x, const struct report_finding *y)
{
	return ORDER(x->is.kind, y->is.kind) ?: ORDER(x->job, y->job) ?: strcmp(x->is.job, y->is.job) ?:
	       (x->is.kind != FINDING_HANG ? ORDER(x->is.rank, y->is.rank) : 0) ?:
	       strcmp(x->is.communicator, y->is.communicator);
}

static int report_merge_by_key(const void *a, const void *b)
{
	const struct report_finding *x = a, *y = b;

	return compare_keys(x, y) ?: ORDER(x->is.since_ns, y->is.since_ns) ?: ORDER(x->store, y->store);
}

/* b begins later. Two findings of one store remain two, except those of the comparison. */
static bool report_merge_same(const struct report_finding *a, const struct report_finding *b)
{
	return (a->store != b->store || a->across != b->across) &&
	       (!a->is.until_ns || a->is.until_ns >= b->is.since_ns);
}

/* Prefers a named rank, then the higher cost. */
static bool report_merge_is_better(const struct report_finding *a, const struct report_finding *b)
{
	if ((a->is.rank >= 0) != (b->is.rank >= 0))
		return a->is.rank >= 0;
	return a->cost_card_hours > b->cost_card_hours;
}

static void report_merge_join(struct report_finding *into, const struct report_finding *more)
{
	struct report_finding both = report_merge_is_better(more, into) ? *more : *into;

	both.reported_by = into->reported_by + more->reported_by;
	both.across = into->across || more->across;
	/* Keep the store of a daemon's finding. */
	both.store = into->reported_by || !more->reported_by ? into->store : more->store;
	if (both.across && (!into->is.until_ns || !more->is.until_ns))
		both.is.until_ns = 0;
	else if (both.across)
		both.is.until_ns = into->is.until_ns > more->is.until_ns ? into->is.until_ns : more->is.until_ns;
	both.is.state = both.is.until_ns ? FINDING_CLOSED : FINDING_OPEN;
	both.cost_card_hours =
		into->cost_card_hours > more->cost_card_hours ? into->cost_card_hours : more->cost_card_hours;
	if (more->is.since_ns < both.is.since_ns)
		both.is.since_ns = more->is.since_ns;
	if (into->is.since_ns < both.is.since_ns)
		both.is.since_ns = into->is.since_ns;
	*into = both;
}

/* The kept finding to merge with, or NULL. */
static struct report_finding *report_merge_find(
	struct report_finding *kept, size_t count, const struct report_finding *finding)
{
	while (count-- > 0 && compare_keys(&kept[count], finding) == 0)
		if (report_merge_same(&kept[count], finding))
			return &kept[count];
	return NULL;
}

static uint64_t report_merge_length(uint64_t since_ns, uint64_t until_ns)
{
	return until_ns > since_ns ? until_ns - since_ns : 0;
}

/* A slow rank or communication of the job, over at least half of its time and cost. */
static bool report_merge_explains(
	const struct report *report, const struct report_finding *by, const struct report_finding *job)
{
	uint64_t by_end_ns = by->is.until_ns ? by->is.until_ns : report->now_ns,
		 end_ns = job->is.until_ns ? job->is.until_ns : report->now_ns,
		 both_ns = report_merge_length(by->is.since_ns > job->is.since_ns ? by->is.since_ns : job->is.since_ns,
			 by_end_ns < end_ns ? by_end_ns : end_ns);

	return by->across && (by->is.kind == FINDING_SLOW_RANK || by->is.kind == FINDING_SLOW_COMMUNICATION) &&
	       by->job == job->job && strcmp(by->is.job, job->is.job) == 0 &&
	       both_ns >= report_merge_length(job->is.since_ns, end_ns) / 2 &&
	       by->cost_card_hours >= job->cost_card_hours / 2;
}

static bool is_explained(const struct report *report, const struct report_finding *job)
{
	if (job->is.kind != FINDING_SLOW_JOB || job->across)
		return false;
	for (size_t i = 0; i < report->findings; i++)
		if (report_merge_explains(report, &report->finding[i], job))
			return true;
	return false;
}

static void leave_out_explained(struct report *report)
{
	size_t kept = 0;
	bool *gone = report->compared ? calloc(report->findings, sizeof(*gone)) : NULL;

	for (size_t i = 0; gone && i < report->findings; i++)
		gone[i] = is_explained(report, &report->finding[i]);
	for (size_t i = 0; gone && i < report->findings; i++)
		if (!gone[i])
			report->finding[kept++] = report->finding[i];
	if (gone) {
		report->explained = report->findings - kept;
		report->findings = kept;
	}
	free(gone);
}

/* Findings of the comparison alone are not in the past days yet. */
static void note_new(struct report *report)
{
	for (size_t i = 0; i < report->findings; i++)
		if (!report->finding[i].reported_by && report->finding[i].card != REPORT_NONE)
			report_note_past(report, &report->finding[i].is, report->finding[i].card);
}

void report_merge(struct report *report)
{
	size_t kept = 0;

	if (!report->findings)
		return;
	qsort(report->finding, report->findings, sizeof(*report->finding), report_merge_by_key);
	for (size_t i = 0; i < report->findings; i++) {
		struct report_finding *same_one = report_merge_find(report->finding, kept, &report->finding[i]);

		if (same_one)
			report_merge_join(same_one, &report->finding[i]);
		else
			report->finding[kept++] = report->finding[i];
	}
	report->findings = kept;
	leave_out_explained(report);
	note_new(report);
}
