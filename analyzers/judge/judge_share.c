/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose growth it is. The step of each rank grew by `growth`; what of it is a rank's own work is known from, best
 * first:
 *   waits      with L1: growth less the growth of its waits in operations and of transfers
 *   activities in which no rank waits for others: what grew beyond the others' median
 *   run delay  throttling, and waits for memory: who is held by them waits for no rank
 *   CPU time   of ranks without cards: the others sleep while they wait
 *   late host  of ranks with cards: the others have work on their cards when they synchronize, this one has none
 *   energy     of ranks with cards, without L1: a card that waits takes less power than one that works
 *   all        where the other ranks grew alike and one did not: every activity of that one
 */
#include "analyzers/base/array.h"
#include "analyzers/base/robust.h"
#include "analyzers/judge/judge_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_NOISE 0.3	      /* of the growth: less may be noise */
#define SHARE_ALIKE (1.0 / 3) /* of the growth: ranks that differ by less from their peers grew alike */
#define SHARE_EQUAL 0.75      /* of the largest own growth: a smaller one hides behind it and costs nothing */
#define SHARE_PEER 0.5	      /* of the growth, or of a rank's own: what explains it */
/* Of a card's usual power: with less than that during the growth it did not work all the time */
#define SHARE_POWER 0.95
#define SHARE_DRIFT 0.1 /* of the usual step: readings of power differ by 6 % from one second to another */
/* Of the usual wait for the card: less is no noise, where another rank waits as much longer as the step takes */
#define SHARE_LATE 0.8
#define SHARE_SYNC_TIMES 2 /* usual synchronizations: more are the rank's own making (.item(): 0.2 to 800 a step) */
#define SHARE_SYNC_MORE 5

struct share {
	struct judge *judge;
	double growth;
	size_t n; /* ranks in judge->index */
	bool l1;
	double common;	  /* of the growth: in activities that never wait, on all ranks */
	double transfers; /* of the growth: known with L1 */
};

static struct judge_rank *share_rank(const struct share *share, size_t i)
{
	return &share->judge->rank[share->judge->index[i]];
}

static double judge_share_grown(const struct judge_rank *rank, enum activity a)
{
	return rank->recent.sum.act[a] / rank->recent.steps - rank->usual.act[a];
}

static bool share_may_wait(const struct share *share, int a, bool cards)
{
	return judge_may_wait(share->judge, (enum activity)a, cards, share->l1);
}

/* act[] becomes the excess over the others; also the growth of the mean rank, and what has grown on all. */
static void share_excess(struct share *share)
{
	struct judge *judge = share->judge;

	for (int a = 0; a < ACTIVITY_MAX; a++) {
		struct robust_middle others;
		double least = INFINITY, sum = 0;

		for (size_t i = 0; i < share->n; i++) {
			judge->scratch[i] = judge->column[i] =
				judge_share_grown(share_rank(share, i), (enum activity)a);
			least = fmin(least, judge->column[i]);
			sum += judge->column[i];
		}
		share->common += share->n > 0 && !share_may_wait(share, a, true) ? fmax(0, least) : 0;
		judge->common[a] = share->n > 0 ? fmax(0, sum / (double)share->n) : 0;
		others = robust_middle_of(judge->scratch, share->n);
		for (size_t i = 0; i < share->n; i++)
			share_rank(share, i)->act[a] =
				judge->column[i] - fmax(0, robust_others(others, judge->column[i]));
	}
}

/* The mean that fades still has the synchronizations of before. */
double judge_share_syncs(const struct judge_rank *rank)
{
	const struct judge_sum *sum = rank->tick.steps > 0 ? &rank->tick : &rank->recent;

	return sum->sum.syncs / sum->steps;
}

bool judge_share_syncs_often(const struct judge_rank *rank)
{
	return judge_share_syncs(rank) > SHARE_SYNC_TIMES * rank->usual.syncs + SHARE_SYNC_MORE;
}

/* Ranks that synchronize as often as ever, and wait longer there, have more work on their cards. */
static void share_more_on_cards(struct share *share)
{
	double *common = share->judge->common;

	for (size_t i = 0; i < share->n; i++)
		if (judge_share_syncs_often(share_rank(share, i)))
			return;
	common[ACTIVITY_COMPUTE] += common[ACTIVITY_SYNC];
	common[ACTIVITY_SYNC] = 0;
}

bool judge_share_syncs_in(enum activity a)
{
	return a == ACTIVITY_SYNC || a == ACTIVITY_OUTSIDE || a == ACTIVITY_FORWARD || a == ACTIVITY_BACKWARD ||
	       a == ACTIVITY_OPTIMIZER;
}

/* Time in it is no wait for others: it holds none, or the rank itself synchronizes too often there. */
static bool share_is_own(const struct share *share, const struct judge_rank *rank, int a, bool cards)
{
	return !share_may_wait(share, a, cards) ||
	       (judge_share_syncs_in((enum activity)a) && judge_share_syncs_often(rank));
}

/* The excess in activities that hold no wait; with_forward: of ranks without a card forward holds none either, unless
 * another rank's excess explains it. */
static double share_never(const struct share *share, const struct judge_rank *rank, bool with_forward)
{
	double sum = 0;

	for (int a = 0; a < ACTIVITY_MAX; a++)
		sum += share_is_own(share, rank, a, !with_forward || share->judge->cards) ? fmax(0, rank->act[a]) : 0;
	return sum;
}

/* The odd one out: half of the ranks differ little from their peers, and this one by all of the growth. */
static void share_odd(struct share *share)
{
	struct judge *judge = share->judge;
	double middle;

	if (share->n < 3)
		return;
	for (size_t i = 0; i < share->n; i++) {
		judge->column[i] = 0;
		for (int a = 0; a < ACTIVITY_MAX; a++)
			judge->column[i] += fabs(share_rank(share, i)->act[a]);
	}
	memcpy(judge->scratch, judge->column, share->n * sizeof(*judge->column));
	middle = robust_kth(judge->scratch, share->n, share->n / 2);
	if (middle > SHARE_ALIKE * share->growth)
		return;
	for (size_t i = 0; i < share->n; i++) {
		struct judge_rank *rank = share_rank(share, i);
		double sum = 0;

		if (judge->column[i] < share->growth)
			continue;
		for (int a = 0; a < ACTIVITY_MAX; a++)
			sum += fmax(0, rank->act[a]);
		rank->own = fmax(rank->own, sum);
	}
}

/* The excess in activities in which no script calls operations: outside of all stages, in the optimizer and in a
 * checkpoint it may. */
static double share_loader_and_gc(const struct judge_rank *rank)
{
	return fmax(0, rank->act[ACTIVITY_DATALOADER]) + fmax(0, rank->act[ACTIVITY_GC]);
}

/* Time outside of all stages that another rank's data loading or garbage collection explains is the wait for that
 * rank. */
static void share_outside(struct share *share)
{
	double most = 0;

	for (size_t i = 0; i < share->n; i++)
		most = fmax(most, share_loader_and_gc(share_rank(share, i)));
	if (most < SHARE_PEER * share->growth)
		return;
	for (size_t i = 0; i < share->n; i++) {
		struct judge_rank *rank = share_rank(share, i);

		if (SHARE_EQUAL * rank->act[ACTIVITY_OUTSIDE] <= most && share_loader_and_gc(rank) < SHARE_EQUAL * most)
			rank->act[ACTIVITY_OUTSIDE] = fmin(0, rank->act[ACTIVITY_OUTSIDE]);
	}
}

static void share_stages(struct share *share)
{
	double most = 0, sure = 0;

	share_outside(share);
	for (size_t i = 0; i < share->n; i++) {
		struct judge_rank *rank = share_rank(share, i);

		rank->own = share_never(share, rank, false);
		sure = fmax(sure, judge_share_syncs_often(rank) ? 0 : rank->own);
	}
	/* Where another rank's work is as long, a rank that synchronizes too often waits there for it. */
	for (size_t i = 0; i < share->n; i++) {
		struct judge_rank *rank = share_rank(share, i);

		if (judge_share_syncs_often(rank) && sure >= SHARE_EQUAL * rank->own)
			rank->own = 0;
		most = fmax(most, rank->own);
	}
	/* Where a rank's own explains the growth, what is odd about another is how it waits for that one; a wait for a
	 * rank is no longer than its work. */
	for (size_t i = 0; i < share->n && !share->judge->cards; i++) {
		struct judge_rank *rank = share_rank(share, i);
		double with_forward = share_never(share, rank, true);

		if (most < SHARE_PEER * share->growth || SHARE_EQUAL * with_forward > most)
			rank->own = with_forward;
	}
	if (most < SHARE_PEER * share->growth)
		share_odd(share);
}

/* own[] from a second witness: `column` has what each rank worked longer; counts where it singles out a rank. */
static bool share_witness(struct share *share, double least)
{
	struct judge *judge = share->judge;
	struct robust_middle others;
	double most = 0;

	memcpy(judge->scratch, judge->column, share->n * sizeof(*judge->column));
	others = robust_middle_of(judge->scratch, share->n);
	for (size_t i = 0; i < share->n; i++) {
		judge->scratch[i] = fmax(0, judge->column[i] - fmax(0, robust_others(others, judge->column[i])));
		most = fmax(most, judge->scratch[i]);
	}
	return most >= least;
}

/* Takes from each rank's column what the ranks of its role have in common: a pipeline stage whose work grew is no
 * rank's fault. */
static void share_role(const struct share *share)
{
	struct judge *judge = share->judge;

	for (size_t i = 0; i < share->n; i++)
		judge->order[i] = (uint64_t)share_rank(share, i)->class << 32 | i;
	qsort(judge->order, share->n, sizeof(*judge->order), compare_u64);
	for (size_t from = 0, to; from < share->n; from = to) {
		double common;

		for (to = from; to < share->n && judge->order[to] >> 32 == judge->order[from] >> 32; to++)
			judge->scratch[to - from] = judge->column[(uint32_t)judge->order[to]];
		common = to - from > 1 ? robust_median(judge->scratch, to - from) : 0;
		for (size_t i = from; i < to && judge->order[from] >> 32 != FRAME_NONE; i++)
			judge->column[(uint32_t)judge->order[i]] -= common;
	}
}

/* With L1: what neither waits nor transfers explain, nor work that grew on all ranks. */
static void share_waits(struct share *share)
{
	struct judge *judge = share->judge;
	bool learned = judge->l1_ticks >= JUDGE_L1_TICKS;
	double growth = share->growth, least = INFINITY, work = INFINITY;

	/* L1 that was turned on for this: what the rank that waits least waits, all usually do. */
	for (size_t i = 0; i < share->n; i++)
		least = fmin(least, share_rank(share, i)->recent.sum.wait / share_rank(share, i)->recent.l1_steps);
	for (size_t i = 0; i < share->n; i++) {
		const struct judge_rank *rank = share_rank(share, i);
		const struct judge_sum *recent = &rank->recent;
		double wait = recent->sum.wait / recent->l1_steps - (learned ? rank->usual.wait : least);
		double xfer = learned ? recent->sum.xfer / recent->l1_steps - rank->usual.xfer : 0;

		share->transfers = fmin(growth, fmax(0, xfer));
		judge->column[i] = growth - fmax(0, xfer) - fmax(0, wait);
		work = fmin(work, judge->column[i]);
	}
	/* Work, waits and transfers add up to the growth: where they exceed it, waits are in what never waits
	 * elsewhere. But the card of a host that is ahead waits in each step, which costs nothing, unless it waits for
	 * nearly all of the growth. */
	if (learned && (!judge->cards || work < (1 - SHARE_EQUAL) * growth))
		share->common = fmin(share->common, fmax(0, work));
	for (size_t i = 0; i < share->n; i++)
		judge->column[i] = fmax(0, judge->column[i] - share->common);
	share_role(share);
	if (!share_witness(share, SHARE_NOISE * growth))
		return;
	for (size_t i = 0; i < share->n; i++) {
		struct judge_rank *rank = share_rank(share, i);
		double by_wait = judge->scratch[i];

		rank->own = by_wait >= SHARE_NOISE * growth ? fmax(by_wait, rank->own) : by_wait;
	}
}

/* Growth of what the operating system counts; false: it is not known. */
static bool share_host(const struct judge_rank *rank, enum host_measure h, double *ret)
{
	*ret = 0;
	if (!(rank->recent.host_steps[h] > 0) || !(rank->host_learned[h] > 0))
		return false;
	*ret = rank->recent.sum.host[h] / rank->recent.host_steps[h] - rank->usual.host[h];
	return true;
}

/* A rank that is stopped, throttled, ready to run, or waits for memory, waits for no rank. Where it is so beyond the
 * others, all of it is its own: what the others have of it hides behind. */
static void share_held(struct share *share)
{
	struct judge *judge = share->judge;

	for (size_t i = 0; i < share->n; i++) {
		double sum = 0, more;

		for (int h = 0; h < JUDGE_MEASURE_MAX; h++) {
			if (judge_hosts[h].kind < JUDGE_HOST_HOLDS)
				continue;
			share_host(share_rank(share, i), (enum host_measure)h, &more);
			sum += fmax(0, more);
		}
		judge->column[i] = fmin(share->growth, sum);
	}
	if (!share_witness(share, SHARE_NOISE * share->growth))
		return;
	for (size_t i = 0; i < share->n; i++) {
		struct judge_rank *rank = share_rank(share, i);
		bool beyond = judge->scratch[i] >= SHARE_NOISE * share->growth;

		rank->own = fmax(rank->own, beyond ? judge->column[i] : judge->scratch[i]);
	}
}

/* Without cards, a rank that waits sleeps. */
static void share_cpu(struct share *share)
{
	struct judge *judge = share->judge;
	double most = 0, cpu;

	for (size_t i = 0; i < share->n; i++) {
		if (!share_host(share_rank(share, i), HOST_CPU, &cpu))
			return;
		/* Threads that spin take more CPU time than passes. */
		judge->column[i] = fmin(share->growth, fmax(0, cpu));
		most = fmax(most, share_rank(share, i)->own);
	}
	share_role(share);
	/* One that spins while it waits is no witness against one that explains the growth. */
	if (most >= SHARE_PEER * share->growth || !share_witness(share, SHARE_PEER * share->growth))
		return;
	for (size_t i = 0; i < share->n; i++) {
		struct judge_rank *rank = share_rank(share, i);

		rank->own = fmax(rank->own, judge->scratch[i]);
	}
}

/* With cards: the card of a rank that waits takes less power. Column: s that it worked longer, at its usual power. */
static void share_energy(struct share *share)
{
	struct judge *judge = share->judge;
	double most = 0, more;

	for (size_t i = 0; i < share->n; i++) {
		const struct judge_rank *rank = share_rank(share, i);

		if (!share_host(rank, HOST_ENERGY, &more) || !(rank->usual.host[HOST_ENERGY] > 0))
			return;
		judge->column[i] = fmax(0, more * judge->usual / rank->usual.host[HOST_ENERGY]);
		most = fmax(most, rank->own);
	}
	if (most >= SHARE_PEER * share->growth ||
		!share_witness(share, fmax(SHARE_PEER * share->growth, SHARE_DRIFT * judge->usual)))
		return;
	for (size_t i = 0; i < share->n; i++) {
		struct judge_rank *rank = share_rank(share, i);

		if (judge->column[i] >= SHARE_POWER * share->growth)
			rank->own = fmin(share->growth, fmax(rank->own, judge->scratch[i]));
	}
}

/* How long a step waits for its card where it synchronizes, s: a mean that short synchronizations weigh little in. */
static double share_sync_wait(const struct judge_mean *mean)
{
	return mean->sync_squares / mean->act[ACTIVITY_SYNC];
}

/* Whether it usually waits for its card long enough to be compared. */
static bool share_syncs(const struct judge *judge, const struct judge_rank *rank)
{
	return rank->usual.act[ACTIVITY_SYNC] >= JUDGE_ALLOW * judge->usual;
}

/* How long it waits for its card in all, of its usual wait. */
static double share_sync_part(const struct judge_rank *rank)
{
	return 1 + judge_share_grown(rank, ACTIVITY_SYNC) / rank->usual.act[ACTIVITY_SYNC];
}

/* It waits for its card less long than usual, in all or where it synchronizes. A rank that waits for others has its
 * card's queue full, and waits for all of it when it synchronizes; one that finds the queue empty gives work late.
 * most: the largest part of any rank: between two synchronizations all have waited less. */
static bool share_is_late(const struct judge *judge, const struct judge_rank *rank, double most)
{
	return share_syncs(judge, rank) &&
	       (share_sync_part(rank) < SHARE_LATE * fmin(1, most) ||
		       share_sync_wait(&rank->recent.sum) < SHARE_LATE * share_sync_wait(&rank->usual));
}

/* What grew on all ranks, and lengthened this one's step: the card's queue hides as much as it waits less for the
 * card. */
static double share_common_of(const struct share *share, const struct judge_rank *rank)
{
	return fmax(0, share->common + fmin(0, judge_share_grown(rank, ACTIVITY_SYNC)));
}

/* With cards, where nothing above explains the growth: whose host is late, while others wait as much longer as the step
 * takes. */
static void share_late(struct share *share)
{
	struct judge *judge = share->judge;
	double longer = 1 + SHARE_PEER * share->growth / judge->usual, most = 0, longest = 0, part = 0;

	for (size_t i = 0; i < share->n; i++)
		if (share_syncs(judge, share_rank(share, i)))
			part = fmax(part, share_sync_part(share_rank(share, i)));
	for (size_t i = 0; i < share->n; i++) {
		const struct judge_rank *rank = share_rank(share, i);

		judge->column[i] = share_is_late(judge, rank, part) ? share->growth - share_common_of(share, rank) : 0;
		most = fmax(most, rank->own);
		if (!(judge->column[i] > 0) &&
			share_sync_wait(&rank->recent.sum) >= longer * share_sync_wait(&rank->usual))
			longest = fmax(longest, share_sync_wait(&rank->usual));
	}
	/* Who waits is a witness against those that usually wait alike. */
	for (size_t i = 0; i < share->n; i++)
		if (SHARE_PEER * share_sync_wait(&share_rank(share, i)->usual) > longest)
			judge->column[i] = 0;
	if (most >= SHARE_PEER * share->growth || !share_witness(share, SHARE_NOISE * share->growth))
		return;
	for (size_t i = 0; i < share->n; i++) {
		struct judge_rank *rank = share_rank(share, i);

		rank->host_late = judge->scratch[i] > rank->own;
		rank->own = fmax(rank->own, judge->scratch[i]);
	}
}

/* What an activity grew by, beyond what is known of it. */
static double share_unseen(const struct judge_rank *rank, enum activity a)
{
	return fmax(0, judge_share_grown(rank, a) - rank->act[a]);
}

/* So much later than usual operations start on the card after the host's call: as much more work is queued before. */
static double share_queued(const struct judge_rank *rank)
{
	if (!(rank->usual.lead > 0) || !(rank->recent.leads > 0))
		return 0;
	return fmax(0, rank->recent.sum.lead / rank->recent.leads - rank->usual.lead);
}

/* What of a rank's own growth its excess does not show lies on its card, as far as more work is queued there. The rest
 * lies in the activities that grew, though others' grew, too: they waited. On a card, time in activities that may hold
 * waits is computing, and of the one in which the rank is alone, with half of what it has beyond the others: there its
 * host was held. */
static void share_split(const struct share *share, struct judge_rank *rank)
{
	enum activity place = ACTIVITY_COMPUTE;
	double seen = 0, missing, queued, all = 0, beyond = 0, part[ACTIVITY_MAX] = {0};

	for (int a = 0; a < ACTIVITY_MAX; a++)
		beyond += share_may_wait(share, a, true) ? fmax(0, rank->act[a]) : 0;
	for (int a = 0; a < ACTIVITY_MAX; a++) {
		if (share_may_wait(share, a, true) && a != ACTIVITY_SYNC &&
			rank->act[a] >= fmax(SHARE_PEER * beyond, JUDGE_ALLOW * share->judge->usual))
			place = (enum activity)a;
		rank->act[a] = share_is_own(share, rank, a, true) ? fmax(0, rank->act[a]) : 0;
		seen += rank->act[a];
		all += share_unseen(rank, (enum activity)a);
	}
	missing = rank->own - seen;
	if (missing <= SHARE_PEER * rank->own)
		return;
	queued = fmin(missing, share_queued(rank));
	missing -= queued;
	part[place] += queued;
	if (all <= 0)
		part[ACTIVITY_COMPUTE] += missing;
	for (int a = 0; a < ACTIVITY_MAX && all > 0; a++) {
		bool on_card = share->judge->cards && !share_is_own(share, rank, a, true);

		part[on_card ? place : (enum activity)a] += missing * share_unseen(rank, (enum activity)a) / all;
	}
	for (int a = 0; a < ACTIVITY_MAX; a++)
		rank->act[a] += part[a];
}

void judge_share(struct judge *judge, double growth)
{
	struct share share = {.judge = judge, .growth = growth, .l1 = true};
	double top = 0, sum = 0, all;

	for (size_t r = 0; r < judge->ranks; r++) {
		struct judge_rank *rank = &judge->rank[r];

		rank->own = rank->share = rank->claim = 0;
		rank->host_late = false;
		memset(rank->act, 0, sizeof(rank->act));
		if (!rank->here)
			continue;
		judge->index[share.n++] = (uint32_t)r;
		share.l1 = share.l1 && rank->recent.l1_steps > 0;
	}
	share_excess(&share);
	if (judge->cards)
		share_more_on_cards(&share);
	if (share.n < 2)
		return;
	share_stages(&share);
	if (share.l1)
		share_waits(&share);
	share_held(&share);
	if (judge->cards) {
		share_late(&share);
		if (!share.l1)
			share_energy(&share);
	} else {
		share_cpu(&share);
	}
	for (size_t i = 0; i < share.n; i++)
		top = fmax(top, share_rank(&share, i)->own);
	for (size_t i = 0; i < share.n; i++) {
		struct judge_rank *rank = share_rank(&share, i);

		share_split(&share, rank);
		sum += rank->own >= SHARE_EQUAL * top ? rank->own : 0;
	}
	/* No other rank has any; transfers and what grew on all ranks are no rank's. */
	all = top >= JUDGE_NAMED * growth ? fmax(top, growth - share.transfers - share.common) : top;
	for (size_t i = 0; i < share.n && sum > 0; i++) {
		struct judge_rank *rank = share_rank(&share, i);

		if (rank->own >= SHARE_EQUAL * top) {
			rank->share = fmin(1, all / growth) * rank->own / sum;
			rank->claim = fmin(1, rank->own / growth);
		}
	}
}
