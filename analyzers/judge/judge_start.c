/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are slower than their peers from the start: there is no growth, so only peers show it. Of the usual:
 *   own    with L1 self time (step less waits), else the activities that hold no wait; beyond the median of its role
 *   gain   own, at most what the other ranks wait longer than this one: the time that the job would save
 * On cards without L1 a late host may be hidden behind a full device queue: nothing new is said then. What operations
 * showed is so until they show otherwise, or the step is shorter. So that they do, they are wanted for a while
 * (JUDGE_WANT_ROUTINE).
 */
#include "analyzers/base/array.h"
#include "analyzers/base/robust.h"
#include "analyzers/judge/judge_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define START_LEAST 0.03       /* of the step: the least gain that is reported; noise of a few steps' mean is below */
#define START_ALLOW 0.015      /* of the step: half of it */
#define START_CLIP 0.25	       /* of what opens: the most that one tick may count */
#define START_SPREADS 5	       /* of its peers: what differs by less is noise */
#define START_PEER 0.5	       /* of the largest gain: a smaller one hides behind it */
#define START_OVER 0.5	       /* of the gain: a step that is shorter by so much has none of it, seen or not */
#define ROUTINE_AFTER_S 60.0   /* of the job: loaders and caches are warm */
#define ROUTINE_EVERY_S 3600.0 /* a minute of it is 1.7 % of the time */

struct start {
	struct judge *judge;
	bool l1, newest;	  /* newest: of this tick alone */
	size_t n;		  /* ranks in judge->order */
	bool holds[ACTIVITY_MAX]; /* waits */
};

/* Means a step of its usual, or of this tick. */
struct start_parts {
	double self, wait;
};

static struct start_parts start_parts(const struct start *start, const struct judge_rank *rank)
{
	const struct judge_mean *from = start->newest ? &rank->tick.sum : &rank->usual;
	double steps = start->newest ? rank->tick.steps : 1, l1_steps = start->newest ? rank->tick.l1_steps : 1;
	double held = 0, free = 0;

	for (int a = 0; a < ACTIVITY_MAX; a++) {
		held += start->holds[a] ? from->act[a] : 0;
		free += start->holds[a] ? 0 : from->act[a];
	}
	if (start->l1)
		return (struct start_parts){(held + free) / steps - from->wait / l1_steps, from->wait / l1_steps};
	return (struct start_parts){free / steps, held / steps};
}

/* A part of judge->order: ranks of one role, or all. */
struct start_ranks {
	const uint64_t *order;
	size_t n;
};

static const struct judge_rank *start_member(const struct start *start, struct start_ranks of, size_t i)
{
	return &start->judge->rank[(uint32_t)of.order[i]];
}

static struct robust_middle start_others(const struct start *start, struct start_ranks of, const double *value)
{
	for (size_t i = 0; i < of.n; i++)
		start->judge->scratch[i] = value[(uint32_t)of.order[i]];
	return robust_middle_of(start->judge->scratch, of.n);
}

/* How far ranks of its role are apart; of few ranks: all but the one at `but`. */
static double start_spread(const struct start *start, struct start_ranks role, size_t but, double middle)
{
	double *scratch = start->judge->scratch;
	size_t n = 0;

	for (size_t i = 0; i < role.n; i++)
		if (role.n > JUDGE_MANY || i != but)
			scratch[n++] = start->judge->self[(uint32_t)role.order[i]];
	return robust_spread(scratch, n, middle);
}

/* Ranks of one role compare. Without operations they are those with the same stages: the first one of a pipeline alone
 * loads data. Else a rank that is of no class has a role of its own. */
static uint32_t start_role_of(const struct start *start, size_t r)
{
	const struct judge_rank *rank = &start->judge->rank[r];
	static const enum activity parts[] = {
		ACTIVITY_DATALOADER, ACTIVITY_FORWARD, ACTIVITY_BACKWARD, ACTIVITY_OPTIMIZER};
	uint32_t stages = 0;

	if (start->l1)
		return rank->role == FRAME_NONE ? (uint32_t)(UINT32_MAX - r) : rank->role;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		stages |= (uint32_t)(rank->usual.act[parts[i]] > 0) << parts[i];
	return stages;
}

/* The activity in which it exceeds its peers most. What is left of its self time lies in those that hold waits: without
 * cards in the longest of them, else, or without stages, it is computing. */
static enum activity start_activity(const struct start *start, const struct judge_rank *of)
{
	const struct judge *judge = start->judge;
	double act[ACTIVITY_MAX] = {0}, holds[ACTIVITY_MAX] = {0}, sum = 0, self;
	enum activity longest;
	struct start_ranks role = {.order = judge->order};
	uint32_t mine = start_role_of(start, (size_t)(of - judge->rank));
	size_t n;

	while (role.order[0] >> 32 != mine)
		role.order++;
	while (role.order + role.n < judge->order + start->n && role.order[role.n] >> 32 == mine)
		role.n++;
	for (int a = 0; a < ACTIVITY_MAX; a++) {
		n = 0;
		for (size_t i = 0; i < role.n; i++)
			if (start_member(start, role, i) != of)
				judge->scratch[n++] = start_member(start, role, i)->usual.act[a];
		act[a] = fmax(0, of->usual.act[a] - robust_median(judge->scratch, n));
		act[a] *= start->holds[a] ? 0 : 1;
		holds[a] = start->holds[a] ? of->usual.act[a] : 0;
		sum += act[a];
	}
	n = 0;
	for (size_t i = 0; i < role.n; i++)
		if (start_member(start, role, i) != of)
			judge->scratch[n++] = start_parts(start, start_member(start, role, i)).self;
	self = start_parts(start, of).self - robust_median(judge->scratch, n);
	act[ACTIVITY_COMPUTE] = start->l1 ? fmax(0, self - sum) : 0;
	longest = judge_most(holds);
	if (!judge->cards && holds[longest] > act[ACTIVITY_COMPUTE]) {
		act[longest] += act[ACTIVITY_COMPUTE];
		act[ACTIVITY_COMPUTE] = 0;
	}
	return judge_most(act);
}

/* Gains of one role's ranks: s a step; 0: none, or not known. waits: of all ranks. */
static void start_role(const struct start *start, struct start_ranks role, struct robust_middle waits)
{
	struct judge *judge = start->judge;
	struct robust_middle selves;
	double spread = -1;

	if (role.n < 2)
		return;
	selves = start_others(start, role, judge->self);
	for (size_t i = 0; i < role.n; i++) {
		size_t r = (uint32_t)role.order[i];
		double others = robust_others(selves, judge->self[r]), own = judge->self[r] - others;
		double gain = fmin(own, robust_others(waits, judge->waits[r]) - (start->l1 ? 0 : judge->waits[r]));

		/* Too little to be reported, however near its peers are. */
		if (gain <= START_LEAST * judge->usual / 2)
			continue;
		if (spread < 0 || role.n <= JUDGE_MANY)
			spread = start_spread(start, role, i, others);
		if (own >= START_SPREADS * spread)
			judge->column[r] = gain;
	}
}

/* Gains of all ranks in judge->column; returns the largest. */
static double start_gains(const struct start *start)
{
	struct judge *judge = start->judge;
	const struct start_ranks all = {judge->order, start->n};
	struct robust_middle waits;
	struct start_parts parts;
	double top = 0;

	for (size_t i = 0; i < start->n; i++) {
		size_t r = (uint32_t)judge->order[i];

		judge->column[r] = 0;
		parts = start_parts(start, &judge->rank[r]);
		judge->self[r] = parts.self;
		judge->waits[r] = parts.wait;
	}
	waits = start_others(start, all, judge->waits);
	for (size_t from = 0, to; from < start->n; from = to) {
		for (to = from + 1; to < start->n && judge->order[to] >> 32 == judge->order[from] >> 32;)
			to++;
		start_role(start, (struct start_ranks){judge->order + from, to - from}, waits);
	}
	for (size_t i = 0; i < start->n; i++)
		top = fmax(top, judge->column[(uint32_t)judge->order[i]]);
	return top;
}

/* Since the usual is that of now, and the rank was not seen to be fast; what was said before is over. It has cost as
 * much as now since then, in steps that count. */
static void start_begin(const struct start *start, struct judge_rank *rank, double cost)
{
	const struct judge *judge = start->judge;
	struct judge_watch *watch = &rank->start;
	uint64_t said_ns = watch->episode ? watch->episode->finding.until_ns : 0, since_ns = judge->usual_since_ns;
	double known_s = fmax(judge->elapsed_s, (double)(judge->now_ns - judge->first_ns) * NS);

	since_ns = said_ns > since_ns ? said_ns : since_ns;
	since_ns = rank->fast_ns[start->l1] > since_ns ? rank->fast_ns[start->l1] : since_ns;
	judge_watch_reset(watch, since_ns, 0);
	watch->span.cost = cost / judge->elapsed_s * fmax(0, (double)(int64_t)(judge->begin_ns - since_ns) * NS) *
			   fmin(1, judge->real_sum / known_s);
}

static void start_over(const struct start *start, struct judge_rank *rank)
{
	struct judge *judge = start->judge;

	rank->start.evidence = 0;
	rank->shown = (struct judge_shown){0};
	rank->fast_ns[start->l1] = judge->now_ns;
	if (!rank->start.open)
		return;
	judge_watch_close(judge, &rank->start);
	/* The usual has its time in it. */
	if (judge_quiet(judge))
		judge_rebase(judge);
}

/* A tick in which it costs so much, and may be an open episode. lost: 0 where its activities say nothing of it. */
static void start_slow(struct judge *judge, struct judge_rank *rank, double lost, double cost)
{
	struct judge_watch *watch = &rank->start;
	double base = watch->span.base;

	watch->span.cost += cost;
	watch->span.base = fmax(judge->usual, (double)(judge->now_ns - watch->span.onset_ns) * NS - watch->span.cost);
	watch->quiet = 0;
	if (!watch->open)
		return;
	judge->named += cost;
	watch->pending = cost;
	watch->pending_base = watch->span.base - base;
	judge_watch_slow(judge, watch, rank, lost, cost);
}

/* part: of the gains of all ranks, what the job would save, as the step waits for the last alone. */
static void start_rank(const struct start *start, struct judge_rank *rank, double gain, double top, double part)
{
	struct judge *judge = start->judge;
	struct judge_watch *watch = &rank->start;
	double steps = judge->steps, lost = gain * steps, cost = lost * part;

	if (gain <= START_LEAST * judge->usual / (watch->open ? 2 : 1) || gain < START_PEER * top) {
		start_over(start, rank);
		return;
	}
	/* Began while the usual was learned, which has a part of it. */
	if (rank->watch.open && !watch->open) {
		rank->watch.episode->lost += cost;
		judge->named += cost;
		rank->fast_ns[start->l1] = judge->now_ns; /* its cost is there */
		return;
	}
	cost += rank->grown;
	if (!(watch->evidence > 0) && !watch->open)
		start_begin(start, rank, cost);
	watch->evidence += fmin((gain - START_ALLOW * judge->usual) * steps, START_CLIP * judge_open_at(judge));
	watch->span.lost += lost;
	watch->span.total += top / part * steps;
	rank->shown = (struct judge_shown){gain, part,
		!start->l1		  ? 0
		: judge->usual_unseen > 0 ? judge->usual_unseen
					  : judge->usual};
	start_slow(judge, rank, lost, cost);
	if (!watch->open && watch->evidence >= judge_open_at(judge))
		judge_watch_open(judge, watch, rank, start_activity(start, rank), lost, watch->span.cost);
}

/* By operations, of which there are none now. */
static bool start_is_held(const struct judge_rank *rank)
{
	return rank->start.open && rank->shown.usual > 0;
}

/* There are no operations: what they showed goes on, so far as the step takes as long as then. Or the rank has no
 * steps. */
static void start_unseen(const struct start *start, struct judge_rank *rank)
{
	struct judge *judge = start->judge;
	const struct judge_shown *shown = &rank->shown;
	double shorter = fmax(0, shown->usual * judge->steps - judge->elapsed_s);
	double cost = (shown->gain * judge->steps - shorter) * shown->part;
	bool gone = !(rank->tick.steps > 0);

	if (!gone && start_is_held(rank)) {
		if (judge->usual < shown->usual - START_OVER * shown->gain)
			start_over(start, rank);
		else if (cost > 0)
			start_slow(judge, rank, 0, cost);
		return;
	}
	rank->start.quiet += judge->elapsed_s;
	if (gone && rank->start.open && rank->start.quiet >= judge_quiet_s(judge))
		start_over(start, rank);
	else if (!rank->start.open && rank->start.quiet >= ROUTINE_AFTER_S)
		rank->start.evidence = 0;
}

/* Operations are wanted a minute after the job began and each hour, and while they have shown something and not
 * enough. */
static void start_routine(const struct start *start)
{
	struct judge *judge = start->judge;
	bool near = false;

	if (!judge->routine_ns || start->l1) {
		judge->routine_s = ROUTINE_AFTER_S;
		judge->routine_ns = judge->now_ns + (uint64_t)((start->l1 ? ROUTINE_EVERY_S : ROUTINE_AFTER_S) / NS);
	}
	for (size_t r = 0; r < judge->ranks && start->l1; r++)
		near |= judge->rank[r].start.evidence > 0 && !judge->rank[r].start.open;
	if (start->n < 2 || !judge->sink.want || !judge_quiet(judge) || (judge->now_ns < judge->routine_ns && !near))
		return;
	if (judge->now_ns >= judge->routine_ns) {
		/* Where none come, as the job has none or the level may not be turned on, less and less often. */
		judge->routine_s = fmin(2 * judge->routine_s, ROUTINE_EVERY_S);
		judge->routine_ns = judge->now_ns + (uint64_t)(judge->routine_s / NS);
	}
	judge->sink.want(judge->sink.arg, JUDGE_WANT_ROUTINE, "whether a rank is slow from the start");
}

/* Ranks of this tick by role, then by number. */
static void start_sort(struct start *start)
{
	struct judge *judge = start->judge;
	bool sorted = true;

	start->n = 0;
	for (size_t r = 0; r < judge->ranks; r++)
		start->l1 = start->l1 && (!(judge->rank[r].tick.steps > 0) || judge->rank[r].tick.l1_steps > 0);
	for (size_t r = 0; r < judge->ranks; r++) {
		if (!(judge->rank[r].tick.steps > 0))
			continue;
		judge->order[start->n] = (uint64_t)start_role_of(start, r) << 32 | r;
		sorted = sorted && (!start->n || judge->order[start->n - 1] < judge->order[start->n]);
		start->n++;
	}
	if (!sorted)
		qsort(judge->order, start->n, sizeof(*judge->order), compare_u64);
}

void judge_start(struct judge *judge)
{
	struct start start = {.judge = judge, .l1 = judge->l1_ticks > 0};
	double top, sum = 0;
	size_t slow = 0;

	start_sort(&start);
	for (int a = 0; a < ACTIVITY_MAX; a++)
		start.holds[a] = judge_may_wait(judge, (enum activity)a, judge->cards, start.l1);
	start_routine(&start);
	judge->real_sum += judge->elapsed_s;
	if (!start.l1)
		judge->usual_unseen = judge->usual;
	for (size_t r = 0; r < judge->ranks; r++)
		if (!start.l1 || !(judge->rank[r].tick.steps > 0))
			start_unseen(&start, &judge->rank[r]);
	if (start.n < 2 || (start.l1 ? judge->l1_ticks < JUDGE_L1_TICKS : judge->cards))
		return;
	top = start_gains(&start);
	if (top > 0) {
		/* Both must show it: one odd tick moves a young mean far. */
		for (size_t r = 0; r < judge->ranks; r++)
			judge->usually[r] = judge->column[r];
		start.newest = true;
		start_gains(&start);
		start.newest = false;
		top = 0;
		for (size_t i = 0; i < start.n; i++) {
			size_t r = (uint32_t)judge->order[i];

			judge->column[r] = fmin(judge->column[r], judge->usually[r]);
			top = fmax(top, judge->column[r]);
		}
	}
	for (size_t i = 0; i < start.n; i++) {
		double gain = judge->column[(uint32_t)judge->order[i]];

		sum += gain >= START_PEER * top ? gain : 0;
		slow += gain >= START_PEER * top && gain > 0;
	}
	/* Two roles that nothing distinguishes: which ranks should be faster is unknown. */
	if (slow > 1 && 2 * slow >= start.n)
		memset(judge->column, 0, judge->ranks * sizeof(*judge->column));
	for (size_t r = 0; r < judge->ranks; r++)
		if (judge->rank[r].tick.steps > 0 && (start.l1 || !start_is_held(&judge->rank[r])))
			start_rank(&start, &judge->rank[r], judge->column[r], top, sum > 0 ? top / sum : 1);
}
