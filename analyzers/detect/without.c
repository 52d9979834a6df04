/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/without.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/overlap.h"
#include "analyzers/detect/replay.h"
#include "analyzers/detect/without_hidden.h"

#define STEP_MAX_NS (1ULL << 60) /* what is longer is no length of a step */

struct flight {
	double until_ns; /* its end, less overlap_slack_ns() */
	double end_ns;
	uint32_t op;
	bool p2p;
};

/* What operations of one name, size and kind take beside waiting, in this frame; two kinds on one row are one. */
struct like {
	double transfer_ns;
	uint32_t groups;
};

#define LIKES 256
#define LIKES_MIN 3
#define SENDS_MAX 4

struct whatif {
	struct replay *replay;
	struct like like[LIKES];
	struct whatif_own own;
	struct whatif_known known;
	struct whatif_group *group;
	uint32_t *place;       /* operations, rank by rank, in the order of their starts */
	struct flight *flight; /* heap of one rank's operations that have not ended */
	size_t groups_capacity, rank_coll;
};

struct whatif *whatif_new(void)
{
	struct whatif *whatif = calloc(1, sizeof(*whatif));

	if (whatif)
		whatif->replay = replay_new();
	return whatif && whatif->replay ? whatif : whatif_free(whatif);
}

struct whatif *whatif_free(struct whatif *whatif)
{
	if (!whatif)
		return NULL;
	replay_free(whatif->replay);
	whatif_own_free(&whatif->own);
	whatif_known_free(&whatif->known);
	free(whatif->group);
	free(whatif->place);
	free(whatif->flight);
	free(whatif);
	return NULL;
}

static bool whatif_grow(void **array, size_t wanted, size_t size)
{
	void *grown = reallocarray(*array, wanted ? wanted : 1, size);

	if (grown)
		*array = grown;
	return grown;
}

static int whatif_reserve(struct whatif *whatif, const struct frame *frame)
{
	if (frame->ranks >= REPLAY_NONE || frame->ops >= REPLAY_NONE || frame->groups >= REPLAY_NONE)
		return -E2BIG;
	if (frame->groups > whatif->groups_capacity || !whatif->group) {
		if (!whatif_grow((void **)&whatif->group, frame->groups, sizeof(*whatif->group)))
			return -ENOMEM;
		whatif->groups_capacity = frame->groups;
	}
	if (frame->ops > whatif->rank_coll || !whatif->place) {
		if (!whatif_grow((void **)&whatif->place, frame->ops, sizeof(*whatif->place)) ||
			!whatif_grow((void **)&whatif->flight, frame->ops, sizeof(*whatif->flight)))
			return -ENOMEM;
		whatif->rank_coll = frame->ops;
	}
	return whatif_own_begin(&whatif->own, frame->ranks, frame->ops);
}

static bool whatif_is_here(const struct frame_rank *rank)
{
	return rank->here && rank->step_ns > 0 && rank->step_ns < STEP_MAX_NS;
}

static bool counts(const struct frame *frame, const struct frame_op *op)
{
	return op->rank < frame->ranks && op->group < frame->groups && whatif_is_here(&frame->rank[op->rank]);
}

static void see_groups(struct whatif *whatif, const struct frame *frame)
{
	for (size_t g = 0; g < frame->groups; g++)
		whatif->group[g] = (struct whatif_group){UINT64_MAX, 0, REPLAY_NONE, REPLAY_NONE};
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];

		if (!counts(frame, op))
			continue;
		whatif->group[op->group].records++;
		if (op->duration_ns < whatif->group[op->group].transfer_ns)
			whatif->group[op->group].transfer_ns = op->duration_ns;
	}
}

static bool is_joined(const struct whatif_group *seen, const struct frame_group *group)
{
	uint64_t members = group->p2p ? 2 : group->members;

	return seen->records >= 2 && seen->records <= members && 2ULL * seen->records >= members;
}

static struct like *like_of(struct whatif *whatif, const struct frame_group *group)
{
	uint64_t hash =
		(group->bytes ^ ((uint64_t)group->op << 40) ^ (uint64_t)group->p2p << 63) * 0x9e3779b97f4a7c15ULL;

	return &whatif->like[hash >> 56];
}

static void see_likes(struct whatif *whatif, const struct frame *frame)
{
	memset(whatif->like, 0, sizeof(whatif->like));
	for (size_t g = 0; g < frame->groups; g++) {
		struct like *like = like_of(whatif, &frame->group[g]);

		if (!is_joined(&whatif->group[g], &frame->group[g]))
			continue;
		like->transfer_ns += (double)whatif->group[g].transfer_ns;
		like->groups++;
	}
}

/* Of an operation whose others' records are lost: what it took is its wait and its transfer, and its wait would not be
 * the same without the excess. */
static double alone_of(struct whatif *whatif, const struct frame_group *group, double duration_ns)
{
	const struct like *like = like_of(whatif, group);

	return like->groups < LIKES_MIN ? duration_ns : fmin(duration_ns, like->transfer_ns / like->groups);
}

/* Rank by rank; those of a rank are in the order of their starts already, or are brought into it. */
static int whatif_order(struct whatif *whatif, const struct frame *frame)
{
	uint32_t *first = whatif->own.first;
	bool sorted = true;

	memset(first, 0, (frame->ranks + 2) * sizeof(*first));
	for (size_t i = 0; i < frame->ops; i++)
		if (counts(frame, &frame->op[i]))
			first[frame->op[i].rank + 2]++;
	for (size_t r = 0; r < frame->ranks; r++)
		first[r + 2] += first[r + 1];
	for (size_t i = 0; i < frame->ops; i++)
		if (counts(frame, &frame->op[i]))
			whatif->place[first[frame->op[i].rank + 1]++] = (uint32_t)i;
	for (size_t i = 1; i < first[frame->ranks] && sorted; i++) {
		const struct frame_op *a = &frame->op[whatif->place[i - 1]], *b = &frame->op[whatif->place[i]];

		sorted = a->rank != b->rank || a->start_ns <= b->start_ns;
	}
	return sorted ? 0 : whatif_own_sort(whatif->place, first[frame->ranks], frame->op);
}

static void whatif_take_off(struct flight *heap, size_t *flights)
{
	size_t n = --*flights;
	struct flight last = heap[n];
	size_t at = 0;

	for (size_t child = 1; child < n; child = 2 * at + 1) {
		if (child + 1 < n && heap[child + 1].until_ns < heap[child].until_ns)
			child++;
		if (heap[child].until_ns >= last.until_ns)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
}

static void put_on(struct flight *heap, size_t *flights, struct flight flight)
{
	size_t at = (*flights)++;

	for (; at > 0 && heap[(at - 1) / 2].until_ns > flight.until_ns; at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = flight;
}

/* What of its rank the one that is being added comes after. */
struct last {
	struct flight ended, started; /* op: index in the replay, REPLAY_NONE: nothing yet; started.end_ns: its start */
	size_t flights, sends;
	struct flight sent[SENDS_MAX]; /* the last ones that nobody waits for */
	bool sends_overlap;	       /* see struct measures */
};

/* What is sent and has not ended by now is waited for no more; what is sent next may queue behind it. */
static void drop_sends(struct whatif *whatif, struct last *last)
{
	size_t n = last->flights;

	last->flights = 0;
	for (size_t i = 0; i < n; i++) {
		if (whatif->flight[i].p2p)
			last->sent[last->sends++ % SENDS_MAX] = whatif->flight[i];
		else
			put_on(whatif->flight, &last->flights, whatif->flight[i]);
	}
}

/* One that begins when one before it ends comes after that one, and nothing comes after its begin. */
static bool add_queued(struct whatif *whatif, struct last *last, double start_ns, uint32_t index)
{
	for (size_t i = 0; i < last->sends && i < SENDS_MAX; i++) {
		double slack_ns = last->sent[i].end_ns - last->sent[i].until_ns;
		double own_ns = start_ns - last->sent[i].end_ns;
		uint32_t edge;

		if (fabs(own_ns) > slack_ns)
			continue;
		edge = replay_after(whatif->replay, index, last->sent[i].op, REPLAY_END, own_ns);
		whatif_own_add(&whatif->own, own_ns, index, edge);
		return true;
	}
	return false;
}

static void whatif_add(struct whatif *whatif, struct last *last, double start_ns, uint32_t index)
{
	uint32_t edge = REPLAY_NONE;
	double own_ns = start_ns;

	while (last->flights > 0 && whatif->flight[0].until_ns <= start_ns) {
		if (last->ended.op == REPLAY_NONE || whatif->flight[0].end_ns >= last->ended.end_ns)
			last->ended = whatif->flight[0];
		whatif_take_off(whatif->flight, &last->flights);
	}
	if (last->ended.op != REPLAY_NONE &&
		(last->started.op == REPLAY_NONE || last->ended.end_ns >= last->started.end_ns)) {
		own_ns = start_ns - last->ended.end_ns;
		edge = replay_after(whatif->replay, index, last->ended.op, REPLAY_END, own_ns);
	} else if (last->started.op != REPLAY_NONE) {
		own_ns = start_ns - last->started.end_ns;
		edge = replay_after(whatif->replay, index, last->started.op, REPLAY_START, own_ns);
	} else {
		replay_set_first(whatif->replay, index, start_ns);
	}
	whatif_own_add(&whatif->own, own_ns, index, edge);
	if (last->sends_overlap)
		drop_sends(whatif, last);
	last->started = (struct flight){start_ns, start_ns, index, false};
}

static void whatif_add_rank(struct whatif *whatif, const struct frame *frame, uint32_t rank, bool sends_overlap)
{
	struct last last = {.ended.op = REPLAY_NONE, .started.op = REPLAY_NONE, .sends_overlap = sends_overlap};

	for (uint32_t i = whatif->own.first[rank]; i < whatif->own.first[rank + 1]; i++) {
		const struct frame_op *op = &frame->op[whatif->place[i]];
		struct whatif_group *seen = &whatif->group[op->group];
		double duration_ns = (double)op->duration_ns, start_ns = (double)op->start_ns, end_ns;
		uint32_t index = replay_op(whatif->replay, seen->index,
			seen->index == REPLAY_NONE ? alone_of(whatif, &frame->group[op->group], duration_ns)
						   : (double)seen->transfer_ns,
			duration_ns);

		seen->op = index;
		end_ns = start_ns + duration_ns;
		if (last.sends_overlap && frame->group[op->group].p2p && add_queued(whatif, &last, start_ns, index)) {
			last.sent[last.sends++ % SENDS_MAX] = (struct flight){
				end_ns - (double)overlap_slack_ns(op->duration_ns), end_ns, index, true};
			continue;
		}
		whatif_add(whatif, &last, start_ns, index);
		put_on(whatif->flight, &last.flights,
			(struct flight){end_ns - (double)overlap_slack_ns(op->duration_ns), end_ns, index,
				frame->group[op->group].p2p});
	}
	if (whatif_is_here(&frame->rank[rank]))
		whatif_add(whatif, &last, (double)frame->rank[rank].step_ns, replay_op(whatif->replay, REPLAY_NONE, 0, 0));
	whatif_own_end(&whatif->own, rank);
}

static int build(struct whatif *whatif, const struct frame *frame, bool sends_overlap)
{
	size_t all = frame->ops + frame->ranks;
	int r = whatif_reserve(whatif, frame);

	if (r)
		return r;
	see_groups(whatif, frame);
	see_likes(whatif, frame);
	r = replay_begin(whatif->replay, all, all + whatif_count_lost(frame, whatif->group), frame->groups);
	if (!r)
		r = whatif_order(whatif, frame);
	if (r)
		return r;
	for (size_t g = 0; g < frame->groups; g++)
		if (is_joined(&whatif->group[g], &frame->group[g]))
			whatif->group[g].index = replay_group(whatif->replay, frame->group[g].p2p);
	for (uint32_t rank = 0; rank < frame->ranks; rank++)
		whatif_add_rank(whatif, frame, rank, sends_overlap);
	return 0;
}

/* 0: cannot be told. */
static uint64_t whatif_length(struct whatif *whatif, const struct frame *frame)
{
	double longest_ns = 0;

	if (replay_run(whatif->replay))
		return 0;
	for (size_t rank = 0; rank < frame->ranks; rank++)
		if (whatif_is_here(&frame->rank[rank]))
			longest_ns =
				fmax(longest_ns, replay_end_ns(whatif->replay, whatif_own_last(&whatif->own, rank)));
	return longest_ns < STEP_MAX_NS ? (uint64_t)longest_ns : 0;
}

/* Waits that no record shows become waits. 0: there are none; negative errno. */
static int find_hidden(struct whatif *whatif, const struct frame *frame, const struct measures *measures)
{
	int lost = 0, unrecorded;

	if (whatif_count_lost(frame, whatif->group) > 0)
		lost = whatif_lost(
			whatif->replay, &whatif->own, frame, whatif->group, whatif->place, &whatif->known);
	if (lost < 0)
		return lost;
	unrecorded = whatif_unrecorded(whatif->replay, &whatif->own, measures);
	return unrecorded < 0 ? unrecorded : lost + unrecorded;
}

static uint64_t of_operations(struct whatif *whatif, const struct frame *frame, const struct measures *measures,
	const uint32_t *rank, const uint64_t *excess_ns, size_t ranks, uint64_t *ret_as_is_ns)
{
	uint64_t as_is_ns, whatif_ns;
	int hidden;

	if (whatif_known_see(&whatif->known, frame) || build(whatif, frame, measures && measures->sends_overlap))
		return 0;
	for (size_t i = 0; i < ranks; i++)
		whatif_own_name(&whatif->own, rank[i]);
	as_is_ns = whatif_length(whatif, frame);
	hidden = as_is_ns ? find_hidden(whatif, frame, measures) : -ENODATA;
	if (hidden < 0)
		return 0;
	if (hidden > 0)
		as_is_ns = whatif_length(whatif, frame);
	for (size_t i = 0; i < ranks; i++)
		whatif_own_take(&whatif->own, whatif->replay, measures, rank[i], excess_ns[i]);
	whatif_ns = whatif_length(whatif, frame);
	*ret_as_is_ns = whatif_ns ? as_is_ns : 0;
	return as_is_ns ? whatif_ns : 0;
}

/* By how much a rank's self time is over its class's median. */
static double excess_of(const struct measure_rank *rank)
{
	if (rank->class == FRAME_NONE || rank->self_ns == FRAME_UNKNOWN || !(rank->ratio > 1))
		return 0;
	return (double)rank->self_ns * (1 - 1 / rank->ratio);
}

/* A checkpoint is the last of its step: who has written his goes on and waits in the next step, so that his own is no
 * longer for it. It takes as long as that of the longest of those whose excess is in question. */
static double whatif_step_of(const struct frame *frame, const struct measures *measures, const uint32_t *rank, size_t ranks)
{
	double step_ns = (double)measures->step_ns;

	for (size_t i = 0; frame->class == FRAME_CHECKPOINT && i < ranks; i++) {
		if (rank[i] < frame->ranks && frame->rank[rank[i]].here)
			step_ns = fmax(step_ns, (double)frame->rank[rank[i]].step_ns);
	}
	return step_ns;
}

/* The step waits for the largest excess: with the others' left, it is shorter by the difference. */
static uint64_t of_stages(struct whatif *whatif, const struct frame *frame, const struct measures *measures,
	const uint32_t *rank, const uint64_t *excess_ns, size_t ranks, uint64_t *ret_as_is_ns)
{
	double before = 0, after = 0, step_ns = whatif_step_of(frame, measures, rank, ranks);

	if (whatif_own_begin(&whatif->own, measures->ranks, 0))
		return 0;
	for (size_t i = 0; i < ranks; i++)
		if (whatif_own_name(&whatif->own, rank[i])) {
			double excess = excess_of(&measures->rank[rank[i]]);

			before = fmax(before, fmax(excess, (double)excess_ns[i]));
			after = fmax(after, excess - (double)excess_ns[i]);
		}
	for (size_t i = 0; i < measures->ranks; i++)
		if (!whatif_own_named(&whatif->own, i)) {
			before = fmax(before, excess_of(&measures->rank[i]));
			after = fmax(after, excess_of(&measures->rank[i]));
		}
	if (!(step_ns < STEP_MAX_NS) || before - after >= step_ns)
		return 0;
	*ret_as_is_ns = (uint64_t)step_ns;
	return (uint64_t)(step_ns - (before - after));
}

uint64_t whatif_excess(struct whatif *whatif, const struct frame *frame, const struct measures *measures,
	const uint32_t *rank, const uint64_t *excess_ns, size_t ranks, uint64_t *ret_as_is_ns)
{
	uint64_t as_is_ns = 0, whatif_ns;

	if (measures && measures->ranks != frame->ranks)
		measures = NULL;
	if (frame->tier != FRAME_TIER_STAGES && frame->ops > 0)
		whatif_ns = of_operations(whatif, frame, measures, rank, excess_ns, ranks, &as_is_ns);
	else
		whatif_ns = measures ? of_stages(whatif, frame, measures, rank, excess_ns, ranks, &as_is_ns) : 0;
	if (ret_as_is_ns)
		*ret_as_is_ns = as_is_ns;
	return whatif_ns;
}
