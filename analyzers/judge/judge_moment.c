/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence of an episode: what the ranks took, and what was measured beside them, in the tick that lost most. */
#include "analyzers/judge/judge_internal.h"

#include <math.h>
#include <string.h>

#define PEERS_HALF 0.5 /* of an activity's growth must be beyond its peers for them to be shown */
#define ALSO_SHARE 0.2 /* of a rank's own growth: another activity with more of it is shown as well */

/* Compute time, s a step, of a sum over so many steps (a mean: 1). wait: in operations, s a step; NAN without L1. */
static double moment_compute(const struct judge_mean *mean, double steps, double wait)
{
	double sum = 0;

	for (int i = 0; i < ACTIVITY_MAX; i++)
		if (!isnan(wait) || activity_may_wait((enum activity)i, true))
			sum += mean->act[i] / steps;
	return fmax(0, isnan(wait) ? sum : sum - wait);
}

/* An activity, s a step. own: less its part of the waits in operations: activities that may wait hold them in
 * proportion to their length, as which of them does is not known. */
static double moment_activity(
	const struct judge *judge, const struct judge_mean *mean, double steps, enum activity a, bool own, double wait)
{
	double held = 0;

	if (a == ACTIVITY_COMPUTE)
		return moment_compute(mean, steps, wait);
	for (int i = 0; i < ACTIVITY_MAX && own && !isnan(wait); i++)
		held += activity_may_wait((enum activity)i, judge->cards) ? mean->act[i] / steps : 0;
	return mean->act[a] / steps * (held > 0 ? fmax(0, 1 - wait / held) : 1);
}

/* Its mean. */
static double moment_mean(const struct judge *judge, const struct judge_sum *of, enum activity a, bool own)
{
	double wait = of->l1_steps > 0 ? of->sum.wait / of->l1_steps : NAN;

	return of->steps > 0 ? moment_activity(judge, &of->sum, of->steps, a, own, wait) : 0;
}

/* What it usually takes. */
static double moment_usual(const struct judge *judge, const struct judge_rank *rank, enum activity a, bool own)
{
	return moment_activity(judge, &rank->usual, 1, a, own, rank->recent.l1_steps > 0 ? rank->usual.wait : NAN);
}

/* The mean of the other ranks; of the job, its usual. */
static double moment_peers(const struct judge *judge, const struct judge_rank *rank, enum activity a)
{
	double sum = 0;
	size_t n = 0;

	for (size_t r = 0; r < judge->ranks; r++) {
		const struct judge_rank *other = &judge->rank[r];

		if (other == rank || !other->here)
			continue;
		sum += rank ? moment_mean(judge, &other->recent, a, activity_may_wait(a, judge->cards))
			    : moment_usual(judge, other, a, false);
		n++;
	}
	return n ? sum / (double)n : NAN;
}

/* Of what was measured beside the ranks but one (NULL: beside all), in the newest steps or usually. NAN: not known. */
static double moment_host_mean(const struct judge *judge, const struct judge_rank *but, int h, bool usual)
{
	double sum = 0;
	size_t n = 0;

	for (size_t r = 0; r < judge->ranks; r++) {
		const struct judge_rank *rank = &judge->rank[r];

		if (rank == but || !rank->here || !(rank->recent.host_steps[h] > 0) ||
			(usual && !(rank->host_learned[h] > 0)))
			continue;
		sum += usual ? rank->usual.host[h] : rank->recent.sum.host[h] / rank->recent.host_steps[h];
		n++;
	}
	return n ? sum / (double)n : NAN;
}

/* On a card, work in forward or backward, or of which only waits are known (judge_share.c): in which of them a rank is
 * alone depends on where the others wait. */
static bool moment_is_card_work(enum activity a)
{
	return a == ACTIVITY_COMPUTE || a == ACTIVITY_FORWARD || a == ACTIVITY_BACKWARD;
}

/* Of a rank that synchronizes too often, that and the code around it is one, too. rank: NULL: of the job. */
bool judge_same_work(const struct judge *judge, const struct judge_rank *rank, enum activity a, enum activity b)
{
	return a == b || (judge->cards && moment_is_card_work(a) && moment_is_card_work(b)) ||
	       (rank && judge_share_syncs_in(a) && judge_share_syncs_in(b) && judge_share_syncs_often(rank));
}

/* The largest of a rank's other activities that grew by its own work, so that it is slow in two of them. */
static enum activity moment_also(const struct judge *judge, const struct judge_rank *rank, enum activity named)
{
	int most = ACTIVITY_MAX;
	double total = 0;

	for (int a = 0; a < ACTIVITY_MAX; a++)
		total += fmax(0, rank->act[a]);
	for (int a = 0; a < ACTIVITY_MAX; a++)
		if (!judge_same_work(judge, rank, (enum activity)a, named) && rank->act[a] > ALSO_SHARE * total &&
			(most == ACTIVITY_MAX || rank->act[a] > rank->act[most]))
			most = a;
	return (enum activity)most;
}

/* Of a mean over so many steps: what the only slow one has; times 1: all are. */
static double moment_of_step(double times, double mean, double usual)
{
	return usual + (mean - usual) * times;
}

static bool moment_is_of_job(const struct judge *judge, uint32_t pid)
{
	for (size_t r = 0; r < judge->ranks; r++)
		if (judge->rank[r].pid == pid)
			return true;
	return false;
}

/* What was measured beside its ranks, in the mean, and before. Ranks that share CPUs always take them from each other:
 * who is named is of another job. */
static void moment_of_job(const struct judge *judge, enum activity a, struct judge_moment *worst)
{
	uint64_t most_ns = 0;
	size_t known = 0;

	for (size_t r = 0; r < judge->ranks; r++) {
		worst->value += moment_mean(judge, &judge->rank[r].recent, a, false);
		known += judge->rank[r].recent.steps > 0;
	}
	worst->value /= fmax(1, (double)known);
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++) {
		worst->host[h] = moment_host_mean(judge, NULL, h, false);
		worst->host_peers[h] = moment_host_mean(judge, NULL, h, true);
		worst->host_known[h] = !isnan(worst->host[h]);
	}
	for (size_t r = 0; r < judge->ranks; r++) {
		const struct judge_rank *rank = &judge->rank[r];

		if (rank->preemptor_ns <= most_ns || moment_is_of_job(judge, rank->preemptor_pid))
			continue;
		most_ns = rank->preemptor_ns;
		worst->preemptor_pid = rank->preemptor_pid;
		memcpy(worst->preemptor_name, rank->preemptor_name, sizeof(worst->preemptor_name));
	}
}

static void moment_of_checkpoint(const struct judge *judge, const struct judge_rank *rank, struct judge_moment *worst)
{
	worst->value = rank->checkpoint_slow_s;
	worst->peers = rank->checkpoint_due_s;
	worst->before = rank->checkpoint_due_s == rank->checkpoint;
	worst->step = judge->usual + rank->checkpoint_slow_s;
	worst->usual = judge->usual + rank->checkpoint_due_s;
}

/* The mean step of the ranks, s: in this tick alone, or in the last seconds. */
static double moment_step(const struct judge *judge, bool tick)
{
	double sum = 0, steps = 0;

	for (size_t r = 0; r < judge->ranks; r++) {
		const struct judge_sum *of = tick ? &judge->rank[r].tick : &judge->rank[r].recent;

		for (int a = 0; a < ACTIVITY_MAX; a++)
			sum += of->sum.act[a];
		steps += of->steps;
	}
	return steps > 0 ? sum / steps : 0;
}

/* What was measured beside the rank, and beside the others. */
static void moment_of_host(const struct judge *judge, const struct judge_rank *rank, const struct judge_sum *of,
	double times, struct judge_moment *worst)
{
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++) {
		worst->host_known[h] =
			judge_hosts[h].kind != JUDGE_HOST_JOINT && of->host_steps[h] > 0 && rank->host_learned[h] > 0;
		if (!worst->host_known[h])
			continue;
		worst->host_peers[h] = moment_host_mean(judge, rank, h, false);
		worst->host[h] = moment_of_step(times, of->sum.host[h] / of->host_steps[h], rank->usual.host[h]);
		/* Samples are no shorter than a tenth of a second, and reach into other steps. */
		if (judge_hosts[h].scale * NS == 1)
			worst->host[h] = fmin(worst->host[h], worst->step);
	}
	worst->preemptor_pid = rank->preemptor_ns ? rank->preemptor_pid : 0;
	memcpy(worst->preemptor_name, rank->preemptor_name, sizeof(worst->preemptor_name));
}

/* times: moment_of_step(). */
static void moment_of_rank(const struct judge *judge, const struct judge_rank *rank, const struct judge_sum *of,
	enum activity a, double times, struct judge_moment *worst)
{
	bool waits = activity_may_wait(a, judge->cards);
	double usual = moment_usual(judge, rank, a, waits);

	worst->value = moment_of_step(times, moment_mean(judge, of, a, waits), usual);
	if (judge_share_syncs_in(a) && judge_share_syncs_often(rank)) {
		worst->syncs = judge_share_syncs(rank);
		worst->syncs_usual = rank->usual.syncs;
	}
	worst->also = moment_also(judge, rank, a);
	if (worst->also < ACTIVITY_MAX) {
		waits = activity_may_wait(worst->also, judge->cards);
		worst->also_value = moment_of_step(times, moment_mean(judge, of, worst->also, waits),
			moment_usual(judge, rank, worst->also, waits));
		worst->also_peers = moment_peers(judge, rank, worst->also);
	}
	/* Where they wait in it, too, they are no comparison. */
	worst->before = !(worst->value - worst->peers >= PEERS_HALF * (worst->value - usual));
	if (worst->before)
		worst->peers = usual;
	moment_of_host(judge, rank, of, times, worst);
}

/* s a s; of a checkpoint, s. */
static double moment_rate(const struct judge *judge, const struct judge_watch *watch, double lost)
{
	return watch->kind == WATCH_CHECKPOINT ? lost : lost / fmax(1e-9, judge->elapsed_s);
}

bool judge_moment_is_worst(const struct judge *judge, const struct judge_watch *watch, double lost)
{
	return moment_rate(judge, watch, lost) > watch->episode->worst.rate;
}

void judge_moment_take(const struct judge *judge, const struct judge_rank *rank, struct judge_watch *watch, double lost)
{
	const struct finding *finding = &watch->episode->finding;
	struct judge_moment *worst = &watch->episode->worst;
	enum activity a = finding->activity;
	double times;
	bool one; /* slow step, whose activities are known */

	if (!judge_moment_is_worst(judge, watch, lost) || a >= ACTIVITY_MAX)
		return;
	*worst = (struct judge_moment){
		.rate = moment_rate(judge, watch, lost), .also = ACTIVITY_MAX, .usual = judge->usual};
	if (watch->kind == WATCH_CHECKPOINT) {
		moment_of_checkpoint(judge, rank, worst);
		return;
	}
	one = finding->until_step - finding->since_step <= judge->stalled && judge->covered_s >= judge->elapsed_s;
	times = one ? judge->steps : 1;
	worst->step = moment_of_step(times, moment_step(judge, one), judge->usual);
	worst->peers = moment_peers(judge, rank, a);
	if (rank)
		moment_of_rank(judge, rank, one ? &rank->tick : &rank->recent, a, times, worst);
	else
		moment_of_job(judge, a, worst);
}
