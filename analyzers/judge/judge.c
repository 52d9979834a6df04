/* SPDX-License-Identifier: Apache-2.0 */
/* Frames to ticks, and the usual that they are compared with. See judge.h. */
#include "analyzers/judge/judge_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_S 1.0     /* one decision; at least one step */
#define LATE_STEPS 5.0 /* attribution is over a second or five steps: hosts run ahead and are held in turns */
#define USUAL_S 200.0  /* memory of the usual: long against the 45 s in which 10 % are to be found */
#define CLIP 0.4       /* of what opens: the most that one step may count, so that one slow step never opens */
/* Of what opens for ranks, after a step that lost a tick and took twice its time: two may be all of a fault */
#define CLIP_AGAIN 1.0
/* Of the last step that opened alone: one that is not longer is the job's habit, as the evaluation of one rank */
#define ALONE_AGAIN 1.5
#define REBASE_S 600.0	   /* noise is forgotten at this pace, and a slow-down of the whole job is then its new usual */
#define NOISE_STEPS 3000.0 /* the same of noise, where that is longer */
#define EXPLAINED 0.5	   /* of a tick's growth, by open episodes of ranks: nothing of it is the job's */
#define CALM_STEPS 2	   /* before an evaluation: every second step may be one of two optimizers */
#define ALIKE 0.5	   /* of a step's growth, in one activity of most ranks: an evaluation, not a fault */
/* Of the waits that L1 showed: ranks wait there alone. By hand it is all, with Lightning 0.05 to 0.97 */
#define APART 0.9
#define TURN_LEAST 0.1 /* of a tick's growth, by one rank: less is noise where there are many */
#define LOST_PACE 0.2  /* of the newest frame in the share of those that lack records */

void judge_options_default(struct judge_options *ret)
{
	*ret = (struct judge_options){.grade = {[JUDGE_CRITICAL] = {SEVERITY_CRITICAL, 0.50, 60000000000ULL},
					      [JUDGE_SUDDEN] = {SEVERITY_WARNING, 0.50, 5000000000ULL},
					      [JUDGE_WARNING] = {SEVERITY_WARNING, 0.10, 30000000000ULL},
					      [JUDGE_SOON] = {SEVERITY_NOTICE, 0.25, 5000000000ULL},
					      [JUDGE_NOTICE] = {SEVERITY_NOTICE, 0.05, 10000000000ULL}},
		.job_growth = 0.10};
}

struct judge *judge_new(
	const struct judge_options *options, const char *job, const struct judge_sink *sink, uint64_t *next_id)
{
	struct judge *judge = calloc(1, sizeof(*judge));

	if (!judge)
		return NULL;
	judge->options = *options;
	judge->sink = *sink;
	judge->next_id = next_id;
	judge->whole.kind = WATCH_JOB;
	snprintf(judge->job, sizeof(judge->job), "%s", job);
	judge->columns = COLUMNS_OF(COLUMN_OF(judge->column), COLUMN_OF(judge->scratch), COLUMN_OF(judge->index),
		COLUMN_OF(judge->self), COLUMN_OF(judge->waits), COLUMN_OF(judge->usually), COLUMN_OF(judge->order));
	return judge;
}

struct judge *judge_free(struct judge *judge)
{
	if (!judge)
		return NULL;
	for (size_t r = 0; r < judge->ranks; r++) {
		free(judge->rank[r].watch.episode);
		free(judge->rank[r].start.episode);
		free(judge->rank[r].checkpoint_watch.episode);
	}
	free(judge->whole.episode);
	for (size_t i = 0; i < judge->claims; i++)
		free(judge->claim[i].watch.episode);
	free(judge->claim);
	free(judge->rank);
	columns_free(&judge->columns);
	free(judge);
	return NULL;
}

int judge_reserve(struct judge *judge, size_t ranks)
{
	struct judge_rank *rank;

	if (ranks <= judge->columns.capacity)
		return 0;
	if (ranks > JUDGE_RANKS_MAX)
		return -EINVAL;
	if (ranks > judge->ranks) {
		rank = reallocarray(judge->rank, ranks, sizeof(*rank));
		if (!rank)
			return -ENOMEM;
		judge->rank = rank;
		for (size_t r = judge->ranks; r < ranks; r++)
			rank[r] = (struct judge_rank){.watch.kind = WATCH_RANK,
				.start.kind = WATCH_START,
				.checkpoint_watch.kind = WATCH_CHECKPOINT};
		judge->ranks = ranks;
	}
	return columns_renew(&judge->columns, judge->ranks) ? 0 : -ENOMEM;
}

static void tick_clear(struct judge *judge)
{
	for (size_t r = 0; r < judge->ranks; r++) {
		judge->rank[r].tick = (struct judge_sum){0};
		judge->rank[r].grown = 0;
		judge->rank[r].preemptor_ns = 0;
	}
	judge->steps = judge->elapsed_s = judge->covered_s = judge->clipped = judge->clipped_job = judge->named = 0;
	judge->run = judge->run_least = judge->onset_steps = judge->due = 0;
	judge->stalled = false;
	judge->begin_ns = 0;
}

static void watch_forget_noise(struct judge_watch *watch)
{
	watch->noise = watch->newest = watch->before = 0;
}

/* Steps are others than before. */
static void judge_forget_noise(struct judge *judge)
{
	for (size_t r = 0; r < judge->ranks; r++)
		watch_forget_noise(&judge->rank[r].watch);
	watch_forget_noise(&judge->whole);
}

void judge_rebase(struct judge *judge)
{
	double sum = 0;
	size_t n = 0;

	judge->faster = judge->probe_cost_s = judge->probe_cost_steps = 0;
	judge_forget_noise(judge);
	judge->usual_since_ns = judge->learned_ns = judge->now_ns;
	for (size_t r = 0; r < judge->ranks; r++) {
		struct judge_rank *rank = &judge->rank[r];
		const struct judge_sum *recent = &rank->recent;

		/* The step has changed: operations show whether the rank is still slow. */
		if (rank->start.open && judge->routine_ns)
			judge->routine_ns = judge->now_ns;
		if (!(recent->steps > 0))
			continue;
		for (int a = 0; a < ACTIVITY_MAX; a++) {
			rank->usual.act[a] = recent->sum.act[a] / recent->steps;
			sum += rank->usual.act[a];
		}
		n++;
		rank->usual.syncs = recent->sum.syncs / recent->steps;
		rank->usual.sync_squares = recent->sum.sync_squares / recent->steps;
		rank->learned = recent->steps;
		if (recent->l1_steps > 0) {
			rank->usual.wait = recent->sum.wait / recent->l1_steps;
			rank->usual.xfer = recent->sum.xfer / recent->l1_steps;
			rank->l1_learned = recent->l1_steps;
		}
		rank->host_learned[JUDGE_OPERATIONS] = 0;
	}
	judge->usual = n ? sum / (double)n : judge->usual;
}

void judge_relearn(struct judge *judge)
{
	judge->ticks = 1;
	judge_forget_noise(judge);
	judge->faster = judge->probe_cost_s = judge->probe_cost_steps = 0;
	for (size_t r = 0; r < judge->ranks; r++) {
		judge->rank[r].learned = judge->rank[r].l1_learned = 0;
		memset(judge->rank[r].host_learned, 0, sizeof(judge->rank[r].host_learned));
	}
}

static double judge_blend(double usual, double value, double weight)
{
	return usual + weight * (value - usual);
}

/* Its weight beside what was learned from so many steps, at most the memory's. */
static double weight_of(double steps, double learned, double most)
{
	return learned > 0 ? fmin(1, steps / fmin(learned, most)) : 0;
}

static void learn_rank(struct judge_rank *rank, double part, double most)
{
	const struct judge_sum *tick = &rank->tick;
	struct judge_mean *usual = &rank->usual;
	double k, k1;

	rank->learned += tick->steps; /* by steps: ticks of short steps hold more of them */
	rank->l1_learned += tick->l1_steps;
	k = weight_of(tick->steps, rank->learned, most) * part;
	k1 = weight_of(tick->l1_steps, rank->l1_learned, most);
	rank->grows |= rank->ticks++ < JUDGE_TICKS_LEARN;
	for (int a = 0; a < ACTIVITY_MAX; a++)
		usual->act[a] = judge_blend(usual->act[a], tick->sum.act[a] / tick->steps, k);
	usual->syncs = judge_blend(usual->syncs, tick->sum.syncs / tick->steps, k);
	usual->sync_squares = judge_blend(usual->sync_squares, tick->sum.sync_squares / tick->steps, k);
	if (tick->l1_steps > 0) {
		usual->wait = judge_blend(usual->wait, tick->sum.wait / tick->l1_steps, k1);
		usual->xfer = judge_blend(usual->xfer, tick->sum.xfer / tick->l1_steps, k1);
	}
	if (tick->leads > 0)
		usual->lead = usual->lead > 0 ? judge_blend(usual->lead, tick->sum.lead / tick->leads, k1)
					      : tick->sum.lead / tick->leads;
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++) {
		if (!(tick->host_steps[h] > 0))
			continue;
		rank->host_learned[h] += tick->host_steps[h];
		usual->host[h] = judge_blend(usual->host[h], tick->sum.host[h] / tick->host_steps[h],
			weight_of(tick->host_steps[h], rank->host_learned[h], most));
	}
}

/* By how much steps are shorter while few probes are attached: growth is that of steps with the same probes. */
static void learn_plain(struct judge *judge, double most)
{
	double shorter = judge->usual - (judge->elapsed_s / judge->steps - judge->probe_cost_s);

	judge->probe_cost_steps += judge->steps;
	judge->probe_cost_s =
		judge_blend(judge->probe_cost_s, shorter, weight_of(judge->steps, judge->probe_cost_steps, most));
}

/* So many steps the memory of the usual has. */
static double usual_steps(const struct judge *judge)
{
	return judge->usual > 0 ? fmax(judge->steps, USUAL_S / judge->usual) : INFINITY;
}

/* Takes the tick into the usual; part: of its growth. 0: that of new ranks alone. */
static void judge_learn(struct judge *judge, double part)
{
	double most = usual_steps(judge), sum = 0;
	bool l1 = false;
	size_t n = 0;

	for (size_t r = 0; r < judge->ranks; r++) {
		struct judge_rank *rank = &judge->rank[r];

		l1 |= rank->tick.l1_steps > 0;
		if (!(rank->tick.steps > 0))
			continue;
		if (part > 0 || rank->ticks < JUDGE_TICKS_LEARN)
			learn_rank(rank, rank->ticks < JUDGE_TICKS_LEARN ? 1 : part, most);
		for (int a = 0; a < ACTIVITY_MAX; a++)
			sum += rank->usual.act[a];
		n++;
	}
	if (!(judge->covered_s > 0) && part > 0)
		learn_plain(judge, most);
	judge->l1_ticks += l1 && part > 0;
	judge->usual = n ? sum / (double)n : judge->usual;
}

/* is_slow: the job is. */
static void judge_fade(struct judge_sum *recent, const struct judge_sum *tick, double d, bool is_slow)
{
	double d1 = tick->l1_steps > 0 ? d : 1;

	_Static_assert(sizeof(struct judge_mean) == (ACTIVITY_MAX + 5 + JUDGE_MEASURE_MAX) * sizeof(double),
		"each member fades here");
	for (int a = 0; a < ACTIVITY_MAX; a++)
		recent->sum.act[a] = recent->sum.act[a] * d + tick->sum.act[a];
	recent->sum.syncs = recent->sum.syncs * d + tick->sum.syncs;
	recent->sum.sync_squares = recent->sum.sync_squares * d + tick->sum.sync_squares;
	recent->sum.wait = recent->sum.wait * d1 + tick->sum.wait;
	recent->sum.xfer = recent->sum.xfer * d1 + tick->sum.xfer;
	recent->sum.lead = recent->sum.lead * d + tick->sum.lead;
	recent->steps = recent->steps * d + tick->steps;
	recent->l1_steps = tick->l1_steps > 0 ? recent->l1_steps * d + tick->l1_steps : 0;
	recent->leads = recent->leads * d + tick->leads;
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++) {
		/* Samples of the system may come later. Of operations without L1, a slow-down that goes on is what it
		 * was; of another one nothing is known. */
		double kept = tick->host_steps[h] > 0 ? d : h != JUDGE_OPERATIONS || is_slow;

		recent->sum.host[h] = recent->sum.host[h] * kept + tick->sum.host[h];
		recent->host_steps[h] = recent->host_steps[h] * kept + tick->host_steps[h];
	}
	if (!(tick->l1_steps > 0))
		recent->sum.wait = recent->sum.xfer = 0;
}

/* The mean growth of the ranks' steps in the last seconds. */
static double tick_grown(struct judge *judge)
{
	double d = exp(-judge->elapsed_s / fmax(TICK_S, LATE_STEPS * judge->usual)), sum = 0;
	size_t n = 0;

	judge->even = judge->elapsed_s <= (1 + JUDGE_ALLOW) * judge->usual * judge->steps
			      ? judge->even + judge->covered_s / judge->elapsed_s * judge->steps
			      : 0;
	for (size_t r = 0; r < judge->ranks; r++) {
		struct judge_rank *rank = &judge->rank[r];

		/* Nothing of before is left in steps that take no longer than usual. */
		judge_fade(&rank->recent, &rank->tick, judge->even >= LATE_STEPS && rank->tick.steps > 0 ? 0 : d,
			judge->whole.open);
		/* What a rank that came later usually does is not known yet. */
		if (judge->covered_s > 0)
			rank->here = rank->tick.steps > 0 &&
				     (rank->ticks >= JUDGE_TICKS_LEARN || judge->ticks <= JUDGE_TICKS_LEARN);
		rank->here = rank->here && rank->recent.steps > 0; /* a tick without activities goes by those before */
		if (!rank->here)
			continue;
		n++;
		for (int a = 0; a < ACTIVITY_MAX; a++)
			sum += rank->recent.sum.act[a] / rank->recent.steps - rank->usual.act[a];
	}
	return n ? sum / (double)n : 0;
}

static void want_stages(struct judge *judge)
{
	if (judge->sink.want && judge->windows)
		judge->sink.want(judge->sink.arg, JUDGE_WANT_STAGES, "steps of the job take longer");
}

static void tick_learn(struct judge *judge)
{
	if (judge->ticks == 1)
		judge->first_ns = judge->usual_since_ns = judge->begin_ns;
	judge->learned_ns = judge->now_ns;
	tick_grown(judge);
	judge_learn(judge, 1);
	judge_start(judge);
	judge_claims(judge);
}

/* How much each loses though nothing is slow. */
static void tick_noise(struct judge *judge)
{
	bool quiet = judge_quiet(judge);
	double most = usual_steps(judge);

	for (size_t r = 0; r < judge->ranks; r++)
		judge_watch_learn(
			judge, &judge->rank[r].watch, most, quiet && judge->rank[r].ticks >= JUDGE_TICKS_LEARN);
	judge_watch_learn(judge, &judge->whole, most, quiet);
}

/* Whose growth a tick has. */
struct tick_parts {
	double rest;		       /* of it: the job's */
	double own;		       /* s a step: own work of all ranks */
	double turns[ACTIVITY_MAX];    /* s a step: of that, of ranks of which none loses enough to be named */
	double explained, unexplained; /* of it, by open episodes of ranks; s that no rank claims */
};

/* Adds what a rank does more, if that is a part of the job's growth, s a step, and no noise of many ranks. */
static void tick_turns(const struct judge_rank *rank, double growth, bool named, struct tick_parts *parts)
{
	double own = 0;

	for (int a = 0; a < ACTIVITY_MAX; a++)
		own += fmax(0, rank->act[a]);
	if (!(growth > 0) || own < TURN_LEAST * growth)
		return;
	parts->own += own;
	for (int a = 0; a < ACTIVITY_MAX && !named; a++)
		parts->turns[a] += fmax(0, rank->act[a]);
}

/* Opens, feeds and closes the episodes of ranks. `raw`: seconds beyond the usual. */
static void tick_watch_ranks(struct judge *judge, double raw, struct tick_parts *parts)
{
	double growth = 0;

	for (int a = 0; a < ACTIVITY_MAX && judge->ranks > 1; a++)
		growth += judge->common[a];
	for (size_t r = 0; r < judge->ranks; r++) {
		struct judge_rank *rank = &judge->rank[r];
		double share = rank->share;
		bool named;

		/* What is slow from the start, and was slower once the usual was learned, is one episode. */
		rank->grows = rank->grows && rank->share * raw > JUDGE_ALLOW * judge->usual * judge->steps;
		rank->grown = rank->grows && rank->start.open ? rank->share * raw : 0;
		if (rank->grown > 0)
			rank->claim = rank->share = 0;
		judge_watch_tick(judge, &rank->watch, rank, rank->claim, rank->share);
		parts->explained += rank->watch.open ? rank->share : 0;
		parts->unexplained -= rank->claim * raw;
		named = rank->grown > 0 || judge_watch_may_open(&rank->watch);
		parts->rest -= named ? share : 0;
		tick_turns(rank, raw > 0 ? growth : 0, named, parts);
	}
}

/* The job's growth lies in what ranks do by turns, and not in how the others wait for them; the rest of it in what grew
 * on all. */
static void tick_common(struct judge *judge, const struct tick_parts *parts)
{
	double grown = 0;

	for (int a = 0; a < ACTIVITY_MAX; a++)
		grown += judge->common[a];
	for (int a = 0; a < ACTIVITY_MAX && grown > 0; a++)
		judge->common[a] = parts->turns[a] + judge->common[a] * fmax(0, 1 - parts->own / grown);
}

/* The episodes of ranks, then that of the job. */
static void tick_watch(struct judge *judge, double raw)
{
	struct tick_parts parts = {.rest = 1, .unexplained = raw};
	double rest;
	bool was_open;

	tick_watch_ranks(judge, raw, &parts);
	if (parts.explained >= EXPLAINED && judge->tier == FRAME_TIER_STAGES)
		judge_unexplained_add(judge, parts.unexplained - judge_claimed(judge));
	else
		judge->unexplained = 0;
	/* What is left beside a rank that explains most of it is how the others wait. */
	rest = parts.explained >= EXPLAINED ? 0 : parts.rest;
	rest = raw > 0 ? fmax(0, rest - judge_claimed(judge) / raw) : rest;
	was_open = judge->whole.open;
	tick_common(judge, &parts);
	judge_watch_tick(judge, &judge->whole, NULL, rest, rest);
	if (was_open && !judge->whole.open && parts.explained >= EXPLAINED)
		judge->whole.episode->finding.id = 0; /* what follows the rank's episode is no continuation */
	tick_noise(judge);
}

/* The usual: learned on, or anew where the job has become another. */
static void tick_usual(struct judge *judge, double raw)
{
	if (judge->covered_s > 0)
		judge->faster =
			raw < 0 ? fmax(0, judge->faster - raw - 2 * JUDGE_ALLOW * judge->usual * judge->steps) : 0;
	if (judge->whole.open && (double)(judge->now_ns - judge->whole.episode->finding.since_ns) * NS > REBASE_S) {
		judge_watch_close(judge, &judge->whole);
		judge_rebase(judge);
	} else if (judge->faster > 3 * judge_open_at(judge))
		judge_rebase(judge);
	else if (judge_quiet(judge))
		judge_learn(judge, raw > judge->clipped_job && judge->clipped_job > 0 ? judge->clipped_job / raw : 1);
	else
		judge_learn(judge, 0);
}

static void judge_tick(struct judge *judge)
{
	double growth, raw, fades;

	if (++judge->ticks <= JUDGE_TICKS_LEARN) {
		tick_learn(judge);
		return;
	}
	growth = tick_grown(judge);
	for (size_t r = 0; r < judge->ranks; r++)
		judge->rank[r].own = judge->rank[r].share = judge->rank[r].claim = 0;
	if (growth > 0)
		judge_share(judge, growth);
	raw = judge->elapsed_s - judge->usual * judge->steps;
	tick_watch(judge, raw);
	fades = 1 - fmin(1, judge->elapsed_s / fmax(REBASE_S, NOISE_STEPS * judge->usual));
	judge->rank_peak *= fades;
	judge->whole_peak *= fades;
	tick_usual(judge, raw);
	if (judge->covered_s > 0)
		judge_start(judge);
	judge_claims(judge);
	if (judge->windows && judge_suspects(judge))
		want_stages(judge);
}

/* Whether a rank lost time that others have still to lose: where hosts run ahead of their cards, they wait some steps
 * later. */
static bool tick_is_apart(const struct judge *judge)
{
	double least = INFINITY, most = -INFINITY;

	for (size_t r = 0; r < judge->ranks; r++) {
		const struct judge_rank *rank = &judge->rank[r];
		double grown = 0;

		if (!(rank->tick.steps > 0) || rank->ticks < JUDGE_TICKS_LEARN)
			continue;
		for (int a = 0; a < ACTIVITY_MAX; a++)
			grown += rank->tick.sum.act[a] - rank->tick.steps * rank->usual.act[a];
		least = fmin(least, grown);
		most = fmax(most, grown);
	}
	return most >= judge_open_at(judge) && least < ALIKE * most;
}

/*
 * A tick is a second, or a step; after a stall, up to a second more until the ranks have grown alike. One in which
 * steps grew but few have activities goes on until they are known for as long: to whom its growth belongs is not known
 * before. Not beside a slow rank, of whom it is known.
 */
static bool tick_is_over(struct judge *judge)
{
	double evidence = judge->clipped - JUDGE_ALLOW * judge->usual * judge->steps;

	if (judge->elapsed_s < TICK_S)
		return false;
	judge->due = judge->due > 0 ? judge->due : judge->elapsed_s;
	if (judge->stalled && judge->elapsed_s - judge->due < TICK_S && tick_is_apart(judge))
		return false;
	if (judge->covered_s >= fmin(judge->elapsed_s, TICK_S) || evidence <= 0)
		return true;
	if (judge_has_slow_rank(judge))
		return true;
	if (evidence >= judge_open_rank(judge) / 2)
		want_stages(judge);
	return false;
}

static void take_host(struct judge_rank *rank, const struct frame_host *host)
{
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++) {
		double value = judge_host_of(host, h);

		if (isnan(value))
			continue;
		rank->tick.sum.host[h] += value;
		rank->tick.host_steps[h]++;
	}
	if (host->preemptor_pid && host->preemptor_ns > rank->preemptor_ns) {
		rank->preemptor_pid = host->preemptor_pid;
		rank->preemptor_ns = host->preemptor_ns;
		memcpy(rank->preemptor_name, host->preemptor_name, sizeof(rank->preemptor_name));
		rank->preemptor_name[sizeof(rank->preemptor_name) - 1] = 0;
	}
}

/* What L1 shows as a wait outside of all stages is added to backward, where ranks wait. measure: NULL without L1. */
static double activity_s(const struct frame_rank *from, const struct measure_rank *measure, enum activity a)
{
	uint64_t outside_ns = from->activity_ns[ACTIVITY_OUTSIDE], apart_ns = measure ? measure->apart_ns : 0,
		 ns = from->activity_ns[a];

	apart_ns = apart_ns < outside_ns ? apart_ns : outside_ns;
	ns -= a == ACTIVITY_OUTSIDE ? apart_ns : 0;
	ns += a == ACTIVITY_BACKWARD ? apart_ns : 0;
	return (double)ns * NS;
}

/* Scripts that call the operations themselves, after backward, wait outside of all stages, and not in backward. */
bool judge_may_wait(const struct judge *judge, enum activity a, bool cards, bool l1)
{
	bool apart = !judge->cards && !l1 && judge->waited_apart > APART * judge->waited;

	return apart && (a == ACTIVITY_OUTSIDE || a == ACTIVITY_BACKWARD) ? a == ACTIVITY_OUTSIDE
									  : activity_may_wait(a, cards);
}

/* JUDGE_OPERATIONS of the frame; NAN: not known: others may wait for a rank that is not in it, or in a pipeline for the
 * other stages' work. On devices a transfer that hides behind computing costs nothing. Signed: waits may come some
 * steps later than the work that they are for. */
static double frame_operations(const struct frame *frame, const struct measures *measures, double xfer)
{
	double sum = 0, longest = 0;

	if (!measures || frame->tier != FRAME_TIER_HOST || !frame->ranks || frame->ranks < frame->world_size)
		return NAN;
	for (size_t r = 0; r < frame->ranks; r++) {
		uint64_t step_ns = frame->rank[r].step_ns, wait_ns = measures->rank[r].wait_ns;

		if (!frame->rank[r].here || wait_ns == FRAME_UNKNOWN ||
			measures->rank[r].class != measures->rank[0].class)
			return NAN;
		longest = fmax(longest, (double)(int64_t)(step_ns - wait_ns) * NS);
		sum += (double)step_ns * NS;
	}
	return sum / (double)frame->ranks - longest + xfer;
}

static void take_operations(struct judge_rank *rank, double operations)
{
	if (isnan(operations))
		return;
	rank->tick.sum.host[JUDGE_OPERATIONS] += operations;
	rank->tick.host_steps[JUDGE_OPERATIONS]++;
}

static void take_rank(struct judge_rank *rank, const struct frame_rank *from, const struct measure_rank *measure,
	bool split, double xfer)
{
	uint64_t wait_ns = measure ? measure->wait_ns : FRAME_UNKNOWN;
	double sync_s = activity_s(from, measure, ACTIVITY_SYNC);

	for (int a = 0; a < ACTIVITY_MAX && split; a++)
		rank->tick.sum.act[a] += activity_s(from, measure, (enum activity)a);
	rank->tick.sum.syncs += split ? from->syncs : 0;
	rank->tick.sum.sync_squares += split ? sync_s * sync_s : 0;
	rank->tick.steps += split;
	if (wait_ns != FRAME_UNKNOWN) {
		rank->tick.sum.wait += (double)wait_ns * NS;
		rank->tick.sum.xfer += xfer;
		rank->tick.l1_steps++;
	}
	rank->tick.sum.lead += (double)from->lead_ns * NS;
	rank->tick.leads += from->leads;
	take_host(rank, &from->host);
}

static void take_waits(struct judge *judge, const struct measure_rank *measure)
{
	if (!measure || measure->wait_ns == FRAME_UNKNOWN)
		return;
	judge->waited += (double)measure->wait_ns * NS;
	judge->waited_apart += (double)measure->apart_ns * NS;
}

/* What the ranks' operations take once all members are there: the mean over the ranks. */
static double frame_xfer(const struct frame *frame, const struct measures *measures, size_t here)
{
	double sum = 0;

	for (size_t g = 0; g < measures->groups && g < frame->groups; g++) {
		double members = fmin((double)frame->group[g].members, (double)here);

		if (measures->group[g].transfer_ns != FRAME_UNKNOWN)
			sum += (double)measures->group[g].transfer_ns * NS * members;
	}
	return here ? sum / (double)here : 0;
}

/* ns: the mean over its ranks, as the job's step is the mean of theirs; 0: unknown */
static uint64_t judge_frame_end(const struct frame *frame)
{
	uint64_t first_ns = 0;
	double after = 0;
	size_t n = 0;

	for (size_t r = 0; r < frame->ranks; r++) {
		const struct frame_rank *rank = &frame->rank[r];

		if (!rank->here || !rank->end_ns)
			continue;
		first_ns = n ? first_ns : rank->end_ns;
		after += (double)(int64_t)(rank->end_ns - first_ns);
		n++;
	}
	return n ? first_ns + (uint64_t)(int64_t)(after / (double)n) : 0;
}

/* Mean step; 0: too few have one, of the ranks that have steps at all: one that only acts, or serves parameters, has
 * none. */
static double frame_step(struct judge *judge, const struct frame *frame, size_t *ret_here)
{
	size_t n = 0, steps = 0;
	double sum = 0;

	for (size_t r = 0; r < frame->ranks; r++) {
		if (frame->rank[r].here && frame->rank[r].step_ns != FRAME_UNKNOWN) {
			sum += (double)frame->rank[r].step_ns * NS;
			judge->rank[r].steps = true;
			n++;
		}
		steps += judge->rank[r].steps;
	}
	*ret_here = n;
	return 2 * n > steps ? sum / (double)n : 0;
}

/* Limits of its control group held a rank for most of the step's growth. */
static bool is_held(const struct frame *frame, double growth)
{
	double took[JUDGE_MEASURE_MAX];

	for (size_t r = 0; r < frame->ranks; r++) {
		for (int h = 0; h < JUDGE_MEASURE_MAX; h++)
			took[h] = judge_host_of(&frame->rank[r].host, h);
		if (frame->rank[r].here && judge_limits_took(took) >= ALIKE * growth)
			return true;
	}
	return false;
}

/* A checkpoint waits for what its card waits for, as a synchronization does. */
static void take_checkpoint(
	const struct judge *judge, double checkpoint, struct judge_sum *tick, const struct frame_rank *from)
{
	double whole = (double)from->activity_ns[ACTIVITY_CHECKPOINT] * NS;

	tick->sum.act[ACTIVITY_SYNC] += whole - checkpoint;
	tick->sum.act[ACTIVITY_CHECKPOINT] -= judge->without_checkpoint ? whole : whole - checkpoint;
}

/* How many ranks, of ret_here, spent most of the step's growth in the same activity, of those that hold no wait. L1
 * makes no difference: where one rank evaluates and the others wait for it outside of all stages, it did so before L1
 * was on. */
static size_t grown_alike(const struct judge *judge, const struct frame *frame, double growth, size_t *ret_here)
{
	size_t most = 0;

	*ret_here = 0;
	for (size_t r = 0; r < frame->ranks; r++)
		*ret_here += frame->rank[r].here;
	if (is_held(frame, growth))
		return 0;
	for (int a = 0; a < ACTIVITY_MAX; a++) {
		size_t more = 0;

		if (activity_may_wait((enum activity)a, true) ||
			(a == ACTIVITY_CHECKPOINT && judge->without_checkpoint))
			continue;
		for (size_t r = 0; r < frame->ranks; r++)
			more += frame->rank[r].here &&
				(double)frame->rank[r].activity_ns[a] * NS - judge->rank[r].usual.act[a] >=
					ALIKE * growth;
		most = more > most ? more : most;
	}
	return most;
}

/* A rank began the step so much later than the mean rank, and took no longer in it: the others waited for what it had
 * lost in the steps before, as where parameters are averaged every few steps. */
static bool waited_for_one(const struct judge *judge, const struct frame *frame, double growth)
{
	double sum = 0, latest = 0, its_step = 0;
	size_t n = 0;

	for (size_t r = 0; r < frame->ranks; r++) {
		const struct frame_rank *rank = &frame->rank[r];
		double begin_s = (double)(int64_t)(rank->end_ns - rank->step_ns - judge->now_ns) * NS;

		if (!rank->here || rank->step_ns == FRAME_UNKNOWN || !rank->end_ns)
			continue;
		if (!n++ || begin_s > latest) {
			latest = begin_s;
			its_step = (double)rank->step_ns * NS;
		}
		sum += begin_s;
	}
	return n > 1 && latest - sum / (double)n >= ALIKE * growth && its_step - judge->usual < ALIKE * growth;
}

/* A hang has claimed what the step lost. */
static bool is_hung(const struct judge *judge, const struct frame *frame)
{
	uint64_t begin_ns = UINT64_MAX, end_ns = 0;

	for (size_t r = 0; r < frame->ranks && judge->sink.hung; r++) {
		const struct frame_rank *rank = &frame->rank[r];

		if (!rank->here || rank->step_ns == FRAME_UNKNOWN || rank->step_ns > rank->end_ns)
			continue;
		begin_ns = rank->end_ns - rank->step_ns < begin_ns ? rank->end_ns - rank->step_ns : begin_ns;
		end_ns = rank->end_ns > end_ns ? rank->end_ns : end_ns;
	}
	return begin_ns < end_ns && judge->sink.hung(judge->sink.arg, begin_ns, end_ns);
}

/* One step that alone is the most of what ranks are judged by, and loses as much as a warning needs. */
static bool is_alone(struct judge *judge, double over)
{
	double lasts = (double)judge->options.grade[JUDGE_SUDDEN].lasts_ns * NS;

	if (judge->ticks <= JUDGE_TICKS_LEARN || over < fmax(lasts, LATE_STEPS * judge->usual) ||
		over < ALONE_AGAIN * judge->single_growth_s)
		return false;
	judge->single_growth_s = over;
	return true;
}

/* The growth of a step, so far as it counts. */
static void add_growth(struct judge *judge, double over)
{
	double clip = CLIP * judge_open_at(judge), ranks = clip;

	if (is_alone(judge, over))
		ranks = over;
	else if (judge->was_long)
		ranks = CLIP_AGAIN * judge_open_rank(judge);
	judge->was_long = judge->ticks > JUDGE_TICKS_LEARN && over >= fmax(TICK_S, judge->usual);
	judge->stalled |= judge->was_long;
	if (judge->ticks <= JUDGE_TICKS_LEARN)
		return;
	judge->clipped_job += fmin(over, clip);
	judge->clipped += fmin(over, ranks);
}

void judge_take_who(struct judge *judge, const struct frame *frame)
{
	judge->cards = false;
	for (size_t r = 0; r < frame->ranks; r++) {
		struct judge_rank *rank = &judge->rank[r];

		rank->rank = frame->who[r].rank;
		rank->pid = frame->who[r].pid;
		judge->cards |= frame->who[r].card[0] != 0;
		if (strncmp(rank->host, frame->who[r].host, sizeof(rank->host)))
			snprintf(rank->host, sizeof(rank->host), "%.*s", (int)sizeof(rank->host) - 1,
				frame->who[r].host);
		if (strncmp(rank->card, frame->who[r].card, sizeof(rank->card)))
			snprintf(rank->card, sizeof(rank->card), "%.*s", (int)sizeof(rank->card) - 1,
				frame->who[r].card);
	}
}

/* Where in its tick a slow-down begins: after the step up to which the steps have grown least, jitter aside. */
static void judge_onset(struct judge *judge, double over)
{
	judge->run += over - JUDGE_ALLOW * judge->usual;
	if (judge->run > judge->run_least)
		return;
	judge->run_least = judge->run;
	judge->onset_ns = judge->now_ns;
	judge->onset_step = judge->step + 1;
	judge->onset_steps = judge->steps;
}

/* Adds a step that counts. `over`: seconds beyond the usual; `here`: of its ranks, those of which something is known;
 * split: with its activities. */
static void take_frame(struct judge *judge, const struct frame *frame, const struct measures *measures, double step,
	double over, size_t here, bool split)
{
	double xfer, operations;

	if (!judge->begin_ns) {
		judge->begin_ns = judge->onset_ns = judge->now_ns - (uint64_t)(step / NS);
		judge->begin_step = judge->onset_step = frame->step;
	}
	judge->lost += LOST_PACE * ((measures && measures->lost) - judge->lost);
	xfer = measures ? frame_xfer(frame, measures, here) : 0;
	operations = frame_operations(frame, measures, xfer);
	for (size_t i = 0; i < frame->ranks; i++) {
		if (frame->rank[i].here) {
			judge->rank[i].class = measures ? measures->rank[i].class : FRAME_NONE;
			judge->rank[i].role = measures ? measures->rank[i].class : judge->rank[i].role;
			take_rank(&judge->rank[i], &frame->rank[i], measures ? &measures->rank[i] : NULL, split, xfer);
			take_waits(judge, measures ? &measures->rank[i] : NULL);
			take_operations(&judge->rank[i], operations);
			if (split)
				take_checkpoint(judge, judge->column[i], &judge->rank[i].tick, &frame->rank[i]);
		}
	}
	add_growth(judge, over);
	judge->elapsed_s += step;
	judge->covered_s += split ? step : 0;
	judge->steps++;
	judge_onset(judge, over);
	judge->counted = true;
	if (tick_is_over(judge)) {
		judge_tick(judge);
		tick_clear(judge);
	}
}

static bool is_spike(const struct judge *judge, double over)
{
	return judge->ticks > JUDGE_TICKS_LEARN && over > CLIP * judge_open_at(judge);
}

int judge_frame(struct judge *judge, const struct frame *frame, const struct measures *measures)
{
	bool split = frame_is_split(frame), spike, rare;
	size_t here, ranks = 0, alike;
	int r = judge_reserve(judge, frame->ranks);
	double step, over;

	judge->counted = false;
	if (r < 0)
		return r;
	step = frame_step(judge, frame, &here);
	if (frame->class == FRAME_FIRST || frame->class == FRAME_EVALUATION || !(step > 0))
		return 0;
	if (judge->seen++ % 64 == 0 || judge->ranks != frame->ranks)
		judge_take_who(judge, frame);
	judge->now_ns = judge_frame_end(frame);
	judge->step = frame->step;
	judge->tier = frame->tier;
	judge->card_count = frame->cards ? frame->cards : frame->world_size;
	measures = frame->tier != FRAME_TIER_STAGES ? measures : NULL;
	judge->windows |= !split;
	step += split ? 0 : judge->probe_cost_s;
	if (is_spike(judge, step - judge->usual) && is_hung(judge, frame)) {
		judge_interrupt(judge); /* what was slow before is another episode than what is slow after it */
		return 0;
	}
	if (judge_checkpoint(judge, frame, &step))
		return 0;
	over = step - judge->usual;
	spike = is_spike(judge, over);
	if (!split && judge->ticks <= JUDGE_TICKS_LEARN)
		return 0; /* nothing to learn */
	rare = judge->calm >= CALM_STEPS;
	judge->calm = spike ? 0 : judge->calm + 1;
	alike = spike && split ? grown_alike(judge, frame, over, &ranks) : 0;
	if (2 * alike + 1 > ranks && alike < ranks && waited_for_one(judge, frame, over))
		split = false;
	else if (rare && alike && (ranks > 2 ? 2 * alike > ranks : alike == ranks))
		return 0;
	take_frame(judge, frame, measures, step, over, here, split);
	return 0;
}
