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

static bool findings_explain_explains(const struct lifecycle *life, const struct lifecycle *job)
{
	uint64_t a = life->finding.since_step, b = job->finding.since_step;
	double lost_ns = life->opinions > 0 ? life->lost_ns / life->opinions : 0;
	double job_lost_ns = job->opinions > 0 ? job->lost_ns / job->opinions : 0;

	if (life->finding.kind == FINDING_SLOW_JOB || life->finding.kind == FINDING_MISMATCH || !lifecycle_is_up(life))
		return false;
	if (life->finding.kind == FINDING_HANG)
		return true;
	if (lost_ns > 0 && lost_ns >= COVERS * job_lost_ns)
		return true;
	return (a > b ? a - b : b - a) <= ABOUT_STEPS && (lost_ns <= 0 || lost_ns >= COVERS_LEAST * job_lost_ns);
}

const struct lifecycle *findings_explain(const struct findings *findings, const struct lifecycle *job)
{
	const struct lifecycle *best = NULL;

	for (size_t i = 0; i < findings->lives; i++) {
		const struct lifecycle *life = findings->life[i];

		if (findings_explain_explains(life, job) && (!best || life->lost_ns > best->lost_ns))
			best = life;
	}
	return best;
}

static bool is_sure(const struct lifecycle *life)
{
	return life->said_confirmed || (lifecycle_is_up(life) && life->finding.state == FINDING_OPEN);
}

/* It is told as well, no less surely than this one, and began before this one was over. */
static bool is_neighbour(const struct lifecycle *other, const struct lifecycle *life)
{
	return other != life && other->finding.kind == FINDING_SLOW_RANK && (other->said || lifecycle_is_up(other)) &&
	       other->finding.since_ns <= life->last_ns &&
	       (is_sure(other) || !is_sure(life)) && other->finding.rank != life->finding.rank &&
	       strcmp(other->finding.host, life->finding.host) == 0;
}

void findings_neighbours(const struct findings *findings, struct lifecycle *life)
{
	int32_t rank[FINDINGS_MAX];
	size_t ranks = 0;

	if (life->finding.kind != FINDING_SLOW_RANK || !life->finding.host[0] || life->finding.rank < 0)
		return;
	for (size_t i = 0; i < findings->lives; i++) {
		if (is_neighbour(findings->life[i], life))
			rank[ranks++] = findings->life[i]->finding.rank;
	}
	if (ranks && (ranks + 1) * 2 > life->node_ranks)
		finding_ranks(rank, ranks, life->finding.others, sizeof(life->finding.others));
}
