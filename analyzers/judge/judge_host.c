/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured beside the steps of ranks: what the operating system took from them, by align/host_measures.def, and
 * of which cause that is; and their operations. */
#include "analyzers/base/robust.h"
#include "analyzers/judge/judge_internal.h"

#include <math.h>

#define FAULT_S 0.001 /* of a major fault; no public figure fits all: a disk answers in 0.1 to 10 ms */

const struct judge_host judge_hosts[JUDGE_MEASURE_MAX] = {
#define HOST_MEASURE(id, member, evidence, unit, scale, kind, cause) \
	{evidence, unit, scale, JUDGE_HOST_##kind, CAUSE_##cause},
#include "analyzers/align/host_measures.def"
#undef HOST_MEASURE
	[JUDGE_OPERATIONS] = {"operations", "ns", 1e9, JUDGE_HOST_JOINT, CAUSE_MAX},
};

double judge_host_of(const struct frame_host *host, int h)
{
	if (h >= HOST_MEASURE_MAX || host->measure[h] == FRAME_UNKNOWN)
		return NAN;
	return (double)host->measure[h] / judge_hosts[h].scale;
}

enum finding_cause judge_host_cause(const double took[JUDGE_MEASURE_MAX], double lost)
{
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++)
		if (judge_hosts[h].cause != CAUSE_MAX && lost > 0 && took[h] >= JUDGE_CAUSE_HALF * lost)
			return judge_hosts[h].cause;
	return CAUSE_UNKNOWN;
}

double judge_limits_took(const double took[JUDGE_MEASURE_MAX])
{
	double most = 0;

	for (int h = 0; h < JUDGE_MEASURE_MAX; h++)
		most = judge_hosts[h].kind == JUDGE_HOST_SURE ? fmax(most, took[h]) : most;
	return most;
}

/* The usual of the other ranks. */
static double judge_host_others(const struct judge *judge, const struct judge_rank *of, int h)
{
	size_t n = 0;

	for (size_t r = 0; r < judge->ranks; r++)
		if (&judge->rank[r] != of && judge->rank[r].host_learned[h] > 0)
			judge->scratch[n++] = judge->rank[r].usual.host[h];
	return robust_median(judge->scratch, n);
}

void judge_host_add(const struct judge *judge, const struct judge_rank *rank, bool start, double lost,
	double carry[JUDGE_MEASURE_MAX], double to[JUDGE_MEASURE_MAX])
{
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++) {
		double each = h == HOST_FAULTS ? FAULT_S : 1, usual, here, took;

		if (judge_hosts[h].kind == JUDGE_HOST_JOINT || !(rank->tick.host_steps[h] > 0) ||
			!(rank->host_learned[h] > 0))
			continue;
		here = start ? rank->usual.host[h] : rank->tick.sum.host[h] / rank->tick.host_steps[h];
		usual = start ? judge_host_others(judge, rank, h) : rank->usual.host[h];
		took = fmax(0, here - usual) * each * judge->steps;
		if (carry && judge_hosts[h].kind == JUDGE_HOST_SURE) {
			took += carry[h] * fmax(0, 1 - judge->elapsed_s / judge_quiet_s(judge));
			carry[h] = took - fmin(took, fmax(0, lost));
		}
		to[h] += fmin(lost, took);
	}
}

/* What each rank has more of: s of this tick, of which the job lost so much. */
static double judge_host_of_job(const struct judge *judge, int h, double lost)
{
	double least = INFINITY;

	for (size_t r = 0; r < judge->ranks; r++) {
		const struct judge_rank *rank = &judge->rank[r];

		if (!rank->here)
			continue;
		if (!(rank->recent.host_steps[h] > 0) || !(rank->host_learned[h] > 0))
			return 0;
		least = fmin(least, rank->recent.sum.host[h] / rank->recent.host_steps[h] - rank->usual.host[h]);
	}
	return isfinite(least) ? fmin(fmax(0, lost), fmax(0, least) * judge->steps) : 0;
}

/* The work that a job took on, as longer sequences are: CPU time, without cards, beside which ranks wait asleep. */
static double judge_job_work(const struct judge *judge, double lost)
{
	return judge->cards ? 0 : judge_host_of_job(judge, HOST_CPU, lost);
}

bool judge_job_works(const struct judge *judge)
{
	double grown = judge->elapsed_s - judge->usual * judge->steps;

	return grown > 0 && judge_job_work(judge, grown) >= JUDGE_CAUSE_HALF * grown;
}

/* What operations take longer, beyond what a communicator is known for. */
static double judge_job_operations(const struct judge *judge, double lost)
{
	double more = judge->l1_ticks >= JUDGE_L1_TICKS ? judge_host_of_job(judge, JUDGE_OPERATIONS, INFINITY) : 0;

	return fmin(fmax(0, lost), fmax(0, more - judge_claimed(judge)));
}

void judge_host_add_known(const struct judge *judge, const struct judge_watch *watch, const struct judge_rank *rank,
	double lost, double carry[JUDGE_MEASURE_MAX], double to[JUDGE_MEASURE_MAX])
{
	if (rank)
		judge_host_add(judge, rank, false, lost, carry, to);
	for (int h = 0; h < JUDGE_MEASURE_MAX && watch->kind == WATCH_JOB; h++)
		if (judge_hosts[h].kind >= JUDGE_HOST_HOLDS)
			to[h] += judge_host_of_job(judge, h, lost);
	if (watch->kind != WATCH_JOB)
		return;
	to[HOST_CPU] += judge_job_work(judge, lost);
	to[JUDGE_OPERATIONS] += judge_job_operations(judge, lost);
}
