/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The judgement of docs/judgement.md on means of a minute. Growth of the job's step is attributed by judge_share.c. Who
 * has most of it and is no noise is grouped: a rank, all ranks of a node, consecutive ranks of several nodes. Where
 * nobody's work grew, operations that grew on some nodes only name the network between them; else it is the job.
 * Without growth, a rank or a node may be slower than its peers since before the window.
 */
#include "analyzers/fleet/fleet.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/robust.h"
#include "analyzers/judge/judge.h"

/* Of the usual step. */
/* That is judged: half of the least fault that is to be found, 8 %, as half of the minute may be before it */
#define FLEET_GROWTH 0.04
#define FLEET_JOB_GROWTH 0.10 /* of the job without anybody to name, as a node's: it has only its own past */
#define FLEET_PEERS 0.10      /* of a rank or node since before the window: peers differ by design, too */
/* Of the growth. */
#define FLEET_PART 0.4	      /* that whoever is named has: less may be the job's (as JUDGE's part of an episode) */
#define FLEET_EQUAL 0.75      /* of the largest own part: it is as slow as that one */
#define FLEET_ALIKE (1.0 / 3) /* of the largest: those who differ by less are alike */
/* Of the others' own parts: 10,240 ranks, four readings a minute and a year make 6 of normal noise rare; tails are
 * heavier. */
#define FLEET_SPREADS 6
#define FLEET_NOISE 0.84   /* quantile of what is clipped at 0: one deviation of what was not */
#define FLEET_EARLY 0.01   /* of the ranks, that show no growth yet: of more, whoever is slow may be among them */
#define FLEET_PEER_MANY 16 /* ranks or nodes: of fewer, each may be a stage of its own, which differ by design */

struct fleet_view {
	const struct fleet *fleet;
	uint32_t job;
	struct fleet_part part;
	size_t nodes;
	bool cards;
	double step, usual, growth; /* s */
	size_t n;		    /* ranks that are compared */
	size_t early;		    /* ranks whose minute is another: nodes are scraped in turns */
	size_t *index;		    /* in fleet->rank */
	struct judge_row *row;
	double *scratch, *scale; /* scale: of a node, by which its growth becomes the job's; 0: not known */
	bool *named;
	double common[ACTIVITY_MAX];
	struct fleet_verdict *verdict;
	size_t *verdicts;
};

static void fleet_view_free(struct fleet_view *view)
{
	free(view->index);
	free(view->row);
	free(view->scratch);
	free(view->scale);
	free(view->named);
}

struct fleet_part fleet_ranks_of(const struct fleet *fleet, uint32_t job)
{
	struct fleet_part part = {0};

	while (part.first < fleet->ranks && fleet->rank[part.first].job != job)
		part.first++;
	while (part.first + part.count < fleet->ranks && fleet->rank[part.first + part.count].job == job)
		part.count++;
	return part;
}

size_t fleet_nodes_of(const struct fleet *fleet, uint32_t job)
{
	struct fleet_part part = fleet_ranks_of(fleet, job);
	size_t nodes = 0;

	for (size_t i = part.first; i < part.first + part.count; i++)
		nodes += i == part.first || fleet->rank[i].node != fleet->rank[i - 1].node;
	return nodes;
}

double fleet_step_of(const struct fleet *fleet, uint32_t job, bool usual)
{
	struct fleet_part part = fleet_ranks_of(fleet, job);
	double *value = calloc(part.count + 1, sizeof(*value)), ret;
	size_t n = 0;

	for (size_t i = part.first; value && i < part.first + part.count; i++) {
		value[n] = usual ? fleet->rank[i].step_usual : fleet->rank[i].step;
		n += value[n] > 0;
	}
	ret = robust_median(value, n);
	free(value);
	return ret;
}

static const struct fleet_rank *fleet_view_rank(const struct fleet_view *view, size_t i)
{
	return &view->fleet->rank[view->index[i]];
}

static struct fleet_verdict *fleet_view_add(struct fleet_view *view, enum fleet_kind kind, double growth)
{
	struct fleet_verdict *verdict;

	if (*view->verdicts >= FLEET_VERDICTS_MAX)
		return NULL;
	verdict = &view->verdict[(*view->verdicts)++];
	*verdict = (struct fleet_verdict){.kind = kind,
		.job = view->job,
		.activity = ACTIVITY_MAX,
		.growth = growth / view->usual,
		.cards = growth / view->step * (double)view->part.count,
		.value = view->step,
		.usual = view->usual};
	return verdict;
}

/* Ranks from..to of the job: first, last, nodes and the activity that grew most. */
static void fleet_view_describe(const struct fleet_view *view, struct fleet_verdict *verdict, size_t from, size_t to)
{
	double act[ACTIVITY_MAX] = {0}, n = 0, value = 0, usual = 0;
	uint32_t last = UINT32_MAX;

	for (size_t i = from; i < to; i++) {
		const struct fleet_rank *rank = fleet_view_rank(view, i);

		if (!view->named[i])
			continue;
		verdict->first = n == 0 || rank->rank < verdict->first ? rank->rank : verdict->first;
		verdict->last = n == 0 || rank->rank > verdict->last ? rank->rank : verdict->last;
		if (rank->node != last && verdict->nodes++ < FLEET_NODES_SHOWN)
			verdict->node[verdict->nodes - 1] = rank->node;
		last = rank->node;
		for (int a = 0; a < ACTIVITY_MAX; a++)
			act[a] += view->row[i].act[a];
		n++;
	}
	verdict->activity = 0;
	for (int a = 0; a < ACTIVITY_MAX; a++)
		verdict->activity = act[a] > act[verdict->activity] ? (enum activity)a : verdict->activity;
	if (verdict->activity >= ACTIVITY_COMPUTE || !(act[verdict->activity] > 0))
		return;
	for (size_t i = from; i < to; i++) {
		value += view->named[i] ? view->row[i].now[verdict->activity] : 0;
		usual += view->named[i] ? view->row[i].usual[verdict->activity] : 0;
	}
	verdict->value = value / n;
	verdict->usual = usual / n;
}

/* How those that are named lie on the nodes. */
struct fleet_spread {
	size_t named, nodes, whole; /* whole: nodes whose ranks, two or more, are all named */
	int32_t first, last;
};

static struct fleet_spread fleet_view_spread(const struct fleet_view *view)
{
	struct fleet_spread spread = {0};

	for (size_t from = 0, to; from < view->n; from = to) {
		size_t named = 0;

		for (to = from; to < view->n && fleet_view_rank(view, to)->node == fleet_view_rank(view, from)->node;
			to++) {
			int32_t rank = fleet_view_rank(view, to)->rank;

			if (!view->named[to])
				continue;
			spread.first = spread.named == 0 || rank < spread.first ? rank : spread.first;
			spread.last = spread.named == 0 || rank > spread.last ? rank : spread.last;
			spread.named++;
			named++;
		}
		spread.nodes += named > 0;
		spread.whole += named > 1 && named == to - from;
	}
	return spread;
}

/* Who is named, as ranks, nodes or a stage. Each has its part of the growth. */
static void fleet_view_group(struct fleet_view *view, double growth)
{
	struct fleet_spread spread = fleet_view_spread(view);
	size_t groups = spread.named, whole_only = spread.whole == spread.nodes;
	struct fleet_verdict *verdict;

	if (spread.nodes > 1 && spread.named > 2 && (size_t)(spread.last - spread.first) + 1 == spread.named) {
		verdict = fleet_view_add(view, FLEET_STAGE, growth);
		if (verdict)
			fleet_view_describe(view, verdict, 0, view->n);
		return;
	}
	if (whole_only)
		groups = spread.whole;
	if (groups > FLEET_VERDICTS_MAX)
		return;
	for (size_t from = 0, to; from < view->n; from = to) {
		to = from + 1;
		while (whole_only && to < view->n &&
			fleet_view_rank(view, to)->node == fleet_view_rank(view, from)->node)
			to++;
		if (!view->named[from])
			continue;
		verdict = fleet_view_add(view, whole_only ? FLEET_NODE : FLEET_RANK, growth / (double)groups);
		if (verdict)
			fleet_view_describe(view, verdict, from, to);
	}
}

/* Names the ranks whose own part is about the largest; false: it is noise, or most ranks have it. */
static bool fleet_view_name(struct fleet_view *view, double least)
{
	double top = 0, noise;
	size_t rest = 0;

	for (size_t i = 0; i < view->n; i++)
		top = fmax(top, view->row[i].own);
	for (size_t i = 0; i < view->n; i++) {
		view->named[i] = view->row[i].own >= FLEET_EQUAL * top;
		if (!view->named[i])
			view->scratch[rest++] = view->row[i].own;
	}
	if (top < least || rest * 2 < view->n)
		return false;
	noise = robust_kth(view->scratch, rest, (size_t)(FLEET_NOISE * (double)(rest - 1)));
	return top >= FLEET_SPREADS * noise;
}

static double fleet_view_longer(const struct fleet_view *view, const struct fleet_operation *operation)
{
	return (operation->now - operation->usual) * view->scale[operation->node];
}

/* Operations of one kind, that grew on some nodes and on the others did not. */
static bool fleet_view_link(struct fleet_view *view)
{
	const struct fleet_operation *all = view->fleet->operation, *best = NULL;
	size_t end = view->fleet->operations, best_nodes = SIZE_MAX, best_count = 0;
	double best_top = 0;
	struct fleet_verdict *verdict;

	for (size_t from = 0, to; from < end; from = to) {
		double top = 0;
		size_t nodes = 0, between = 0;

		for (to = from; to < end && all[to].job == all[from].job && strcmp(all[to].word, all[from].word) == 0;
			to++)
			top = fmax(top, fleet_view_longer(view, &all[to]));
		for (size_t i = from; i < to; i++) {
			nodes += fleet_view_longer(view, &all[i]) >= FLEET_EQUAL * top;
			between += fleet_view_longer(view, &all[i]) < FLEET_EQUAL * top &&
				   fleet_view_longer(view, &all[i]) > FLEET_ALIKE * top;
		}
		if (all[from].job != view->job || top < FLEET_PART * view->growth || between ||
			nodes * 2 > view->nodes || nodes >= best_nodes)
			continue;
		best = &all[from];
		best_nodes = nodes;
		best_count = to - from;
		best_top = top;
	}
	verdict = best ? fleet_view_add(view, FLEET_LINK, view->growth) : NULL;
	if (!verdict)
		return false;
	memcpy(verdict->operation, best->word, sizeof(verdict->operation));
	verdict->value = verdict->usual = 0;
	for (size_t i = 0; i < best_count; i++) {
		if (fleet_view_longer(view, &best[i]) < FLEET_EQUAL * best_top)
			continue;
		verdict->value += (best[i].usual + fleet_view_longer(view, &best[i])) / (double)best_nodes;
		verdict->usual += best[i].usual / (double)best_nodes;
		if (verdict->nodes++ < FLEET_NODES_SHOWN)
			verdict->node[verdict->nodes - 1] = best[i].node;
	}
	return true;
}

static int fleet_view_grown(struct fleet_view *view)
{
	struct fleet_verdict *verdict;
	int r = judge_table(view->row, view->n, view->cards, view->growth, view->common);

	if (r < 0)
		return r;
	if (fleet_view_name(view, fmax(FLEET_PART * view->growth, FLEET_GROWTH * view->usual))) {
		fleet_view_group(view, view->growth);
		return 0;
	}
	if (fleet_view_link(view) || view->growth < FLEET_JOB_GROWTH * view->usual)
		return 0;
	verdict = fleet_view_add(view, FLEET_JOB, view->growth);
	if (!verdict)
		return 0;
	verdict->nodes = view->nodes;
	verdict->activity = 0;
	for (int a = 0; a < ACTIVITY_MAX; a++)
		verdict->activity =
			view->common[a] > view->common[verdict->activity] ? (enum activity)a : verdict->activity;
	if (view->common[verdict->activity] < FLEET_PART * view->growth)
		verdict->activity = ACTIVITY_MAX;
	return 0;
}

/* own becomes what the rank works longer than the median. */
static void fleet_view_excess(struct fleet_view *view)
{
	bool operations = true;
	double middle;

	for (size_t i = 0; i < view->n; i++)
		operations = operations && !isnan(fleet_view_rank(view, i)->operations);
	for (size_t i = 0; i < view->n; i++) {
		struct judge_row *row = &view->row[i];

		row->own = operations ? -row->wait : 0;
		for (int a = 0; a < ACTIVITY_MAX && !operations; a++)
			row->own += activity_may_wait((enum activity)a, view->cards) ? 0 : row->now[a];
		view->scratch[i] = row->own;
	}
	middle = robust_median(view->scratch, view->n);
	for (size_t i = 0; i < view->n; i++)
		view->row[i].own = fmax(0, view->row[i].own - middle);
	for (int a = 0; a < ACTIVITY_MAX; a++) {
		for (size_t i = 0; i < view->n; i++)
			view->scratch[i] = view->row[i].now[a];
		middle = robust_median(view->scratch, view->n);
		for (size_t i = 0; i < view->n; i++) {
			view->row[i].act[a] = activity_may_wait((enum activity)a, view->cards)
						      ? 0
						      : fmax(0, view->row[i].now[a] - middle);
			view->row[i].usual[a] = middle;
		}
	}
}

/* Without growth: one rank or one node among equal peers. */
static void fleet_view_peers(struct fleet_view *view)
{
	struct fleet_spread spread;
	double top = 0, rest = 0;

	fleet_view_excess(view);
	if (!fleet_view_name(view, FLEET_PEERS * view->step))
		return;
	for (size_t i = 0; i < view->n; i++) {
		top = fmax(top, view->row[i].own);
		rest = view->named[i] ? rest : fmax(rest, view->row[i].own);
	}
	spread = fleet_view_spread(view);
	if (rest > FLEET_ALIKE * top || spread.nodes != 1 || (spread.named > 1 && !spread.whole) ||
		(spread.named > 1 ? view->nodes : view->n) <= FLEET_PEER_MANY)
		return;
	view->usual = view->step - top;
	if (view->usual > 0)
		fleet_view_group(view, top);
	for (size_t i = 0; i < *view->verdicts; i++)
		view->verdict[i].peers = true;
}

/*
 * Nodes are scraped in turns, so that a fault that has just begun, or ended, fills more of one node's minute than of
 * another's. The step takes equally long on all ranks: what a rank's own step grew says how much, and scales the row.
 */
static void fleet_view_align(struct fleet_view *view)
{
	size_t n = 0;

	memset(view->scale, 0, view->fleet->nodes * sizeof(*view->scale));
	for (size_t i = 0; i < view->n; i++) {
		const struct fleet_rank *rank = fleet_view_rank(view, i);
		double grown = rank->step - rank->step_usual, scale = view->growth / grown;
		struct judge_row *row = &view->row[n];

		if (grown <= FLEET_ALIKE * view->growth)
			continue;
		*row = view->row[i];
		view->index[n++] = view->index[i];
		view->scale[rank->node] = scale;
		for (int a = 0; a < ACTIVITY_MAX; a++)
			row->now[a] = row->usual[a] + (row->now[a] - row->usual[a]) * scale;
		if (!isnan(row->wait_usual))
			row->wait = row->wait_usual + (row->wait - row->wait_usual) * scale;
	}
	view->early = view->n - n;
	view->n = n;
}

/* Beside peers, too, steps that are not as long as the others' are of another minute. */
static void fleet_view_same(struct fleet_view *view)
{
	size_t n = 0;

	for (size_t i = 0; i < view->n; i++) {
		if (fabs(fleet_view_rank(view, i)->step - view->step) > FLEET_GROWTH * view->step)
			continue;
		view->row[n] = view->row[i];
		view->index[n++] = view->index[i];
	}
	view->n = n;
}

/* The ranks of which step and activities are known: with_usual, also from before. */
static void fleet_view_rows(struct fleet_view *view, bool with_usual)
{
	view->n = 0;
	view->cards = false;
	for (size_t i = view->part.first; i < view->part.first + view->part.count; i++) {
		const struct fleet_rank *rank = &view->fleet->rank[i];
		struct judge_row *row = &view->row[view->n];

		if (!(rank->step > 0) || (with_usual && !(rank->step_usual > 0)))
			continue;
		*row = (struct judge_row){.wait = rank->operations, .wait_usual = rank->operations_usual};
		memcpy(row->now, rank->act, sizeof(row->now));
		memcpy(row->usual, rank->usual, sizeof(row->usual));
		view->scratch[view->n] = rank->step - rank->step_usual;
		view->index[view->n++] = i;
		view->cards = view->cards || rank->card[0];
	}
}

static int fleet_view(struct fleet_view *view)
{
	size_t size = view->part.count;

	view->index = calloc(size, sizeof(*view->index));
	view->row = calloc(size, sizeof(*view->row));
	view->scratch = calloc(size, sizeof(*view->scratch));
	view->named = calloc(size, sizeof(*view->named));
	view->scale = calloc(view->fleet->nodes, sizeof(*view->scale));
	if (!view->index || !view->row || !view->scratch || !view->named || !view->scale)
		return -ENOMEM;
	view->step = fleet_step_of(view->fleet, view->job, false);
	view->usual = fleet_step_of(view->fleet, view->job, true);
	fleet_view_rows(view, true);
	/* Most ranks have a past to compare with. */
	if (view->n * 2 > size && view->n > 1) {
		view->growth = robust_median(view->scratch, view->n);
		if (view->growth >= FLEET_GROWTH * view->usual) {
			int r;

			fleet_view_align(view);
			/* Who is to be named, or a part of it, may be among those that do not show it yet. */
			if (view->n < 2 || (double)view->early > FLEET_EARLY * (double)size)
				return 0;
			r = fleet_view_grown(view);
			if (r < 0 || *view->verdicts)
				return r;
		}
	}
	fleet_view_rows(view, false);
	fleet_view_same(view);
	if (view->n > 1)
		fleet_view_peers(view);
	return 0;
}

int fleet_judge(const struct fleet *fleet, uint32_t job, struct fleet_verdict *ret, size_t *ret_count)
{
	struct fleet_view view = {.fleet = fleet,
		.job = job,
		.part = fleet_ranks_of(fleet, job),
		.nodes = fleet_nodes_of(fleet, job),
		.verdict = ret,
		.verdicts = ret_count};
	int r;

	*ret_count = 0;
	if (!view.part.count)
		return 0;
	r = fleet_view(&view);
	fleet_view_free(&view);
	return r;
}
