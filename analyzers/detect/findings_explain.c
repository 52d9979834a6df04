/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What explains a slow job: a slow rank, slow communication, an imbalance or a hang that is suspected or open, and
 * either costs at least half of what the job loses, or began at about the same time (ABOUT_STEPS) and costs at least a
 * tenth of it (or it cannot be told how much). So a rank that has always been a little slow does not hide that the job
 * became much slower.
 */
#include "analyzers/detect/findings_life.h"

#include <stdio.h>
#include <string.h>

#define ABOUT_STEPS 24
#define COVERS 0.5
#define COVERS_LEAST 0.1

static bool findings_explain_explains(const struct lifecycle *lifecycle, const struct lifecycle *job)
{
	uint64_t a = lifecycle->finding.since_step, b = job->finding.since_step;
	double lost_ns = lifecycle->verdicts > 0 ? lifecycle->lost_ns / lifecycle->verdicts : 0;
	double job_lost_ns = job->verdicts > 0 ? job->lost_ns / job->verdicts : 0;

	if (lifecycle->finding.kind == FINDING_SLOW_JOB || lifecycle->finding.kind == FINDING_MISMATCH || !lifecycle_is_up(lifecycle))
		return false;
	if (lifecycle->finding.kind == FINDING_HANG)
		return true;
	if (lost_ns > 0 && lost_ns >= COVERS * job_lost_ns)
		return true;
	return (a > b ? a - b : b - a) <= ABOUT_STEPS && (lost_ns <= 0 || lost_ns >= COVERS_LEAST * job_lost_ns);
}

const struct lifecycle *findings_explain(const struct findings *findings, const struct lifecycle *job)
{
	const struct lifecycle *best = NULL;

	for (size_t i = 0; i < findings->lives; i++) {
		const struct lifecycle *lifecycle = findings->lifecycle[i];

		if (findings_explain_explains(lifecycle, job) && (!best || lifecycle->lost_ns > best->lost_ns))
			best = lifecycle;
	}
	return best;
}

static bool is_sure(const struct lifecycle *lifecycle)
{
	return lifecycle->said_confirmed || (lifecycle_is_up(lifecycle) && lifecycle->finding.state == FINDING_OPEN);
}

/* It is told as well, no less surely than this one, and began before this one was over. */
static bool is_neighbour(const struct lifecycle *other, const struct lifecycle *lifecycle)
{
	return other != lifecycle && other->finding.kind == FINDING_SLOW_RANK && (other->said || lifecycle_is_up(other)) &&
	       other->finding.since_ns <= lifecycle->last_ns &&
	       (is_sure(other) || !is_sure(lifecycle)) && other->finding.rank != lifecycle->finding.rank &&
	       strcmp(other->finding.host, lifecycle->finding.host) == 0;
}

void findings_neighbours(const struct findings *findings, struct lifecycle *lifecycle)
{
	int32_t rank[FINDINGS_MAX];
	size_t ranks = 0;

	if (lifecycle->finding.kind != FINDING_SLOW_RANK || !lifecycle->finding.host[0] || lifecycle->finding.rank < 0)
		return;
	for (size_t i = 0; i < findings->lives; i++) {
		if (is_neighbour(findings->lifecycle[i], lifecycle))
			rank[ranks++] = findings->lifecycle[i]->finding.rank;
	}
	if (ranks && (ranks + 1) * 2 > lifecycle->node_ranks)
		finding_ranks(rank, ranks, lifecycle->finding.others, sizeof(lifecycle->finding.others));
}
