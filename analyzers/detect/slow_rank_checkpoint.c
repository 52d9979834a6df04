/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/slow_rank_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/robust.h"

#define SPREAD_LEAST 0.01 /* of the self time */
#define SHARE_LEAST (-0.99)
#define PAST 2 /* distances without one */

void checkpoint_free(struct slow_rank_checkpoint *checkpoint)
{
	free(checkpoint->measured);
	free(checkpoint->rank);
	free(checkpoint->self);
	free(checkpoint->stage);
	free(checkpoint->start);
	free(checkpoint->by_class);
	*checkpoint = (struct slow_rank_checkpoint){0};
}

/* Nodes too are numbered from 0, so that there are no more of them than ranks; others are not known. */
static void find_leads(
	struct slow_rank_checkpoint *checkpoint, const struct frame *frame, const struct measures *measures)
{
	bool *class_seen = (bool *)checkpoint->self, *node_seen = (bool *)checkpoint->stage;

	memset(class_seen, 0, checkpoint->ranks);
	memset(node_seen, 0, checkpoint->ranks);
	for (size_t i = 0; i < checkpoint->ranks; i++) {
		uint32_t class = measures->rank[i].class, node = frame->who[i].node;

		if (node < checkpoint->ranks && !node_seen[node]) {
			node_seen[node] = true;
			checkpoint->rank[i].lead = CHECKPOINT_LEADS_NODE;
		}
		if (class < checkpoint->ranks && !class_seen[class]) {
			class_seen[class] = true;
			checkpoint->rank[i].lead = i ? CHECKPOINT_LEADS_CLASS : CHECKPOINT_LEADS_JOB;
		}
	}
}

static bool slow_rank_checkpoint_reserve(
	struct slow_rank_checkpoint *checkpoint, const struct frame *frame, const struct measures *measures)
{
	size_t ranks = measures->ranks;

	if (ranks == checkpoint->ranks && checkpoint->measured)
		return true;
	checkpoint_free(checkpoint);
	checkpoint->measured = calloc(ranks + 1, sizeof(*checkpoint->measured));
	checkpoint->rank = calloc(ranks + 1, sizeof(*checkpoint->rank));
	checkpoint->self = calloc(ranks + 1, sizeof(*checkpoint->self));
	checkpoint->stage = calloc(ranks + 1, sizeof(*checkpoint->stage));
	checkpoint->start = calloc(ranks + 2, sizeof(*checkpoint->start));
	checkpoint->by_class = calloc(ranks + 1, sizeof(*checkpoint->by_class));
	if (!checkpoint->measured || !checkpoint->rank || !checkpoint->self || !checkpoint->stage ||
		!checkpoint->start || !checkpoint->by_class) {
		checkpoint_free(checkpoint);
		return false;
	}
	checkpoint->ranks = ranks;
	find_leads(checkpoint, frame, measures);
	return true;
}

static double slow_rank_checkpoint_stage_of(const struct frame *frame, size_t i)
{
	const struct frame_rank *of = &frame->rank[i];
	uint64_t ns = of->stage_ns[STAGE_CHECKPOINT];

	return (double)(ns < of->step_ns ? ns : of->step_ns);
}

static double middle_of(const float value[CHECKPOINT_TYPICAL])
{
	double sorted[CHECKPOINT_TYPICAL];

	for (size_t i = 0; i < CHECKPOINT_TYPICAL; i++)
		sorted[i] = (double)value[i];
	return robust_kth(sorted, CHECKPOINT_TYPICAL, CHECKPOINT_TYPICAL / 2);
}

/* Of one that writes for others: what it takes more than it did; NAN: no more, or nothing is known of it. */
static double beyond_own(struct checkpoint_rank *rank, double its)
{
	double own;

	if (rank->seen_own < CHECKPOINT_TYPICAL) {
		if (its > 0)
			rank->own[rank->seen_own++] = (float)its;
		return NAN;
	}
	own = middle_of(rank->own);
	return its > CHECKPOINT_MORE * own ? its - own : NAN;
}

static int slow_rank_checkpoint_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What first ranks of nodes, and of classes, are over their classes by: sorted, into self and stage. */
static void gather_leads(struct slow_rank_checkpoint *checkpoint)
{
	checkpoint->leads = checkpoint->class_leads = 0;
	for (size_t i = 0; i < checkpoint->ranks; i++) {
		const struct checkpoint_rank *rank = &checkpoint->rank[i];

		if (rank->lead == CHECKPOINT_LEADS_NONE || isnan(rank->share))
			continue;
		checkpoint->self[checkpoint->leads++] = rank->share;
		if (rank->lead >= CHECKPOINT_LEADS_CLASS)
			checkpoint->stage[checkpoint->class_leads++] = rank->share;
	}
	qsort(checkpoint->self, checkpoint->leads, sizeof(double), slow_rank_checkpoint_by_value);
	qsort(checkpoint->stage, checkpoint->class_leads, sizeof(double), slow_rank_checkpoint_by_value);
}

/* What the middle one of its role is over its class by, itself left out; of two the one that is further over. INFINITY:
 * it has no peer. */
static double of_role(const struct slow_rank_checkpoint *checkpoint, const struct checkpoint_rank *rank)
{
	bool node = rank->lead == CHECKPOINT_LEADS_NODE;
	const double *sorted = node ? checkpoint->self : checkpoint->stage;
	size_t n = node ? checkpoint->leads : checkpoint->class_leads, middle;

	if (rank->lead == CHECKPOINT_LEADS_JOB || n < 2)
		return INFINITY;
	middle = (n - 1) / 2;
	return sorted[rank->share <= sorted[middle] ? middle + 1 : middle];
}

/* What is not so by design. */
static double beyond_typical(const struct slow_rank_checkpoint *checkpoint, struct checkpoint_rank *rank)
{
	double role = CHECKPOINT_ROLE * fmax(0, of_role(checkpoint, rank)), own = INFINITY;

	if (rank->seen < CHECKPOINT_TYPICAL)
		rank->typical[rank->seen++] = (float)rank->share;
	else
		own = fmax(0, middle_of(rank->typical));
	return isinf(role) && isinf(own) ? fmin(rank->share, 0) : rank->share - fmin(role, own);
}

static void slow_rank_checkpoint_take(const struct checkpoint_rank *rank, double share, struct measure_rank *ret)
{
	share = fmax(share, SHARE_LEAST);
	ret->self_ns = (uint64_t)(rank->self * (1 + share));
	ret->ratio = 1 + share;
	ret->z = share * rank->self / fmax(rank->spread, SPREAD_LEAST * rank->self);
}

static void compare_class(
	struct slow_rank_checkpoint *checkpoint, const struct frame *frame, const uint32_t *member, size_t n)
{
	double self, stage, spread;

	for (size_t i = 0; i < n; i++) {
		checkpoint->self[i] = (double)checkpoint->measured[member[i]].self_ns;
		checkpoint->stage[i] = slow_rank_checkpoint_stage_of(frame, member[i]);
	}
	self = robust_median(checkpoint->self, n);
	stage = robust_median(checkpoint->stage, n);
	spread = n > 2 ? robust_spread(checkpoint->stage, n, stage) : 0;
	for (size_t i = 0; i < n; i++) {
		struct measure_rank *measured = &checkpoint->measured[member[i]];
		struct checkpoint_rank *rank = &checkpoint->rank[member[i]];
		double its = slow_rank_checkpoint_stage_of(frame, member[i]), over = (double)measured->self_ns - self;
		double more = self > 0 ? beyond_own(rank, its / self) : NAN;
		bool alone = !(stage > 0) || its > CHECKPOINT_APART * stage;

		rank->self = self;
		rank->spread = spread;
		rank->middle = stage;
		if (!(self > 0) || (alone && isnan(more))) {
			measured->class = FRAME_NONE;
			continue;
		}
		if (!alone)
			rank->share = fmin(its - stage, over) / self;
		slow_rank_checkpoint_take(rank, alone ? fmin(more, over / self) : rank->share, measured);
	}
}

/* Of first ranks, what they may take longer is known once all classes have been compared. */
static void compare_leads(struct slow_rank_checkpoint *checkpoint)
{
	gather_leads(checkpoint);
	for (size_t i = 0; i < checkpoint->ranks; i++) {
		struct checkpoint_rank *rank = &checkpoint->rank[i];

		if (rank->lead != CHECKPOINT_LEADS_NONE && !isnan(rank->share))
			slow_rank_checkpoint_take(rank, beyond_typical(checkpoint, rank), &checkpoint->measured[i]);
	}
}

static void slow_rank_checkpoint_compare(struct slow_rank_checkpoint *checkpoint, const struct frame *frame)
{
	uint32_t *start = checkpoint->start;
	size_t ranks = checkpoint->ranks;

	memset(start, 0, (ranks + 1) * sizeof(*start));
	for (size_t i = 0; i < ranks; i++) {
		checkpoint->rank[i].share = NAN;
		if (checkpoint->measured[i].class < ranks)
			start[checkpoint->measured[i].class + 1]++;
	}
	for (size_t c = 0; c < ranks; c++)
		start[c + 1] += start[c];
	for (uint32_t i = 0; i < ranks; i++) {
		if (checkpoint->measured[i].class < ranks)
			checkpoint->by_class[start[checkpoint->measured[i].class]++] = i;
	}
	/* Each start now is the next one's. */
	for (size_t c = 0, from = 0; c < ranks; from = start[c++]) {
		if (start[c] > from)
			compare_class(checkpoint, frame, checkpoint->by_class + from, start[c] - from);
	}
	compare_leads(checkpoint);
}

static void slow_rank_checkpoint_keep(struct checkpoint_rank *rank, float its)
{
	rank->recent[rank->recents++ % CHECKPOINT_RECENT] = its;
}

/* ret_usual: the middle one of its last ones. */
static double longest_of(const struct checkpoint_rank *rank, double *ret_usual)
{
	size_t n = rank->recents < CHECKPOINT_RECENT ? rank->recents : CHECKPOINT_RECENT;
	double recent[CHECKPOINT_RECENT], longest = 0;

	for (size_t i = 0; i < n; i++) {
		recent[i] = (double)rank->recent[i];
		longest = fmax(longest, recent[i]);
	}
	*ret_usual = robust_median(recent, n);
	return longest;
}

/* Of a checkpoint of the job. */
struct whole {
	size_t writing, longer; /* ranks that write; that took longer than they did */
	double longest;		/* of those that did not, ns */
	double its_step_ns, step_ns;
};

/* One that took longer than it did. */
static bool slow_rank_checkpoint_is_far(
	const struct slow_rank_checkpoint *checkpoint, const struct frame *frame, const struct whole *whole, size_t i)
{
	const struct checkpoint_rank *rank = &checkpoint->rank[i];
	const struct measure_rank *measured = &checkpoint->measured[i];
	double its = slow_rank_checkpoint_stage_of(frame, i), typical, lost;

	if (whole->longer > 1 && whole->longer * CHECKPOINT_PART > whole->writing)
		return false;
	longest_of(rank, &typical);
	if (measured->class == FRAME_NONE || !(measured->ratio > 1) || !(measured->z >= CHECKPOINT_FAR_Z) ||
		checkpoint->distance < 2 || its < CHECKPOINT_MORE * rank->middle ||
		typical > CHECKPOINT_LIKE * rank->middle)
		return false;
	lost = fmin((double)measured->self_ns * (1 - 1 / measured->ratio), its - whole->longest);
	return checkpoint_slowdown(checkpoint, lost, whole->its_step_ns, whole->step_ns) >= 1 + CHECKPOINT_COSTS;
}

/* What was far once, and is not far now, was no more than what happens to it. */
static void slow_rank_checkpoint_remember(struct checkpoint_rank *rank, double its, bool far)
{
	if (far) {
		rank->once = rank->far++ ? 0 : (float)its;
		return;
	}
	if (rank->once > 0)
		slow_rank_checkpoint_keep(rank, rank->once);
	rank->once = 0;
	rank->far = 0;
	if (rank->begun)
		slow_rank_checkpoint_keep(rank, (float)its);
	rank->begun = true;
}

static void checkpoint_read_far(struct slow_rank_checkpoint *checkpoint, const struct frame *frame, double step_ns)
{
	struct whole whole = {.its_step_ns = (double)checkpoint->measures.step_ns, .step_ns = step_ns};
	double typical;

	for (size_t i = 0; i < checkpoint->ranks; i++) {
		struct checkpoint_rank *rank = &checkpoint->rank[i];
		double its = frame->rank[i].here ? slow_rank_checkpoint_stage_of(frame, i) : 0;

		rank->is_long =
			rank->recents >= CHECKPOINT_KNOWN && its >= CHECKPOINT_MORE * longest_of(rank, &typical);
		whole.writing += its > 0;
		whole.longer += rank->is_long;
		if (!rank->is_long)
			whole.longest = fmax(whole.longest, its);
	}
	for (size_t i = 0; i < checkpoint->ranks; i++) {
		struct checkpoint_rank *rank = &checkpoint->rank[i];

		if (frame->rank[i].here && slow_rank_checkpoint_stage_of(frame, i) > 0)
			slow_rank_checkpoint_remember(rank, slow_rank_checkpoint_stage_of(frame, i), rank->is_long && slow_rank_checkpoint_is_far(checkpoint, frame, &whole, i));
	}
}

/* The longest: who has written his goes on, and waits in the step after it. */
static uint64_t slow_rank_checkpoint_step_of(const struct frame *frame, const struct measures *measures)
{
	uint64_t step_ns = measures->step_ns;

	for (size_t i = 0; i < frame->ranks; i++) {
		if (measures->rank[i].wait_ns != FRAME_UNKNOWN && frame->rank[i].step_ns > step_ns)
			step_ns = frame->rank[i].step_ns;
	}
	return step_ns;
}

const struct measures *checkpoint_measures(struct slow_rank_checkpoint *checkpoint, const struct frame *frame,
	const struct measures *measures, double step_ns)
{
	if (measures->ranks != frame->ranks || !slow_rank_checkpoint_reserve(checkpoint, frame, measures))
		return NULL;
	if (checkpoint->any && frame->step > checkpoint->last_step &&
		frame->step - checkpoint->last_step > checkpoint->distance)
		checkpoint->distance = frame->step - checkpoint->last_step;
	checkpoint->any = true;
	checkpoint->last_step = frame->step;
	memcpy(checkpoint->measured, measures->rank, measures->ranks * sizeof(*checkpoint->measured));
	for (size_t i = 0; i < measures->ranks; i++) {
		if (measures->rank[i].wait_ns == FRAME_UNKNOWN)
			checkpoint->measured[i].class = FRAME_NONE;
	}
	slow_rank_checkpoint_compare(checkpoint, frame);
	checkpoint->measures = *measures;
	checkpoint->measures.step_ns = slow_rank_checkpoint_step_of(frame, measures);
	checkpoint->measures.rank = checkpoint->measured;
	/* Where records were lost a rank's self time is too long, and its checkpoint is as long as it was. */
	memset(checkpoint->measures.staged, 0, sizeof(checkpoint->measures.staged));
	checkpoint->measures.lost = 0;
	checkpoint_read_far(checkpoint, frame, step_ns);
	return &checkpoint->measures;
}

bool checkpoint_is_far(const struct slow_rank_checkpoint *checkpoint, size_t rank)
{
	return rank < checkpoint->ranks && checkpoint->rank[rank].far >= CHECKPOINT_IN_A_ROW;
}

double checkpoint_lead_ns(const struct frame *frame, const uint32_t *set, size_t n, uint32_t rank)
{
	double longest = 0;

	/* The set is in the order of its numbers. */
	for (size_t i = 0, next = 0; i < frame->ranks; i++) {
		if (next < n && set[next] == i)
			next++;
		else if (frame->rank[i].here)
			longest = fmax(longest, slow_rank_checkpoint_stage_of(frame, i));
	}
	return fmax(0, slow_rank_checkpoint_stage_of(frame, rank) - longest);
}

bool checkpoint_past(const struct slow_rank_checkpoint *checkpoint, uint64_t step)
{
	return !checkpoint->any || step < checkpoint->last_step ||
	       step - checkpoint->last_step > PAST * checkpoint->distance;
}

double checkpoint_slowdown(
	const struct slow_rank_checkpoint *checkpoint, double lost_ns, double checkpoint_ns, double step_ns)
{
	double others = checkpoint->distance > 1 ? (double)(checkpoint->distance - 1) * step_ns : 0;
	double whatif = others + checkpoint_ns - lost_ns;

	return whatif > 0 ? 1 + lost_ns / whatif : 1;
}
