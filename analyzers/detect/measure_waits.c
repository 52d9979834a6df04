/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waited, who came last: see measure.h. Two passes over the records, none over pairs of them; each record is
 * touched with its group and its rank alone.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analyzers/detect/measure_internal.h"
#include "analyzers/detect/overlap.h"

static int64_t clamp_time(int64_t time_ns)
{
	if (time_ns > MEASURE_TIME_MAX)
		return MEASURE_TIME_MAX;
	return time_ns < -MEASURE_TIME_MAX ? -MEASURE_TIME_MAX : time_ns;
}

static int64_t clamp_length(uint64_t length_ns)
{
	return length_ns > (uint64_t)MEASURE_TIME_MAX ? MEASURE_TIME_MAX : (int64_t)length_ns;
}

/* Gradients are reduced in buckets, each while the next is computed. */
static uint32_t run_of(const struct frame *frame, const struct frame_group *group)
{
	enum comm_kind kind = frame->comm[group->comm].kind;

	if (group->p2p || (kind != COMM_KIND_DATA && kind != COMM_KIND_UNCLEAR))
		return 0;
	return (group->comm * 65599U + group->op) | 1U << 31;
}

static uint64_t like_key(const struct frame *frame, const struct frame_group *group)
{
	uint64_t hash = (uint64_t)frame->comm[group->comm].kind << 40 | (uint64_t)group->op << 1 | group->p2p;

	hash = (hash ^ group->bytes) * 0x9e3779b97f4a7c15ULL;
	hash = (hash ^ hash >> 31 ^ group->members) * 0x9e3779b97f4a7c15ULL;
	return hash | 1;
}

static int find_shortest(struct measure *measure, const struct frame *frame)
{
	for (size_t i = 0; i < frame->groups; i++) {
		if (frame->group[i].comm >= frame->comms)
			return -EINVAL;
		measure->shortest[i] = (struct measure_shortest){UINT64_MAX, UINT64_MAX, FRAME_NONE, FRAME_NONE, 0,
			run_of(frame, &frame->group[i]), (uint32_t)(like_key(frame, &frame->group[i]) >> 52)};
	}
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];
		struct measure_shortest *group;

		if (op->group >= frame->groups || op->rank >= frame->ranks)
			return -EINVAL;
		if (!measure->here[op->rank])
			continue;
		group = &measure->shortest[op->group];
		group->records++;
		if (op->duration_ns < group->first_ns) {
			group->second_ns = group->first_ns;
			group->second = group->first;
			group->first_ns = op->duration_ns;
			group->first = op->rank;
		} else if (op->duration_ns < group->second_ns) {
			group->second_ns = op->duration_ns;
			group->second = op->rank;
		}
	}
	return 0;
}

static uint64_t members_of(const struct frame_group *group)
{
	return group->p2p ? 2 : group->members;
}

/* Enough of its members have a record for the shortest to be that of the last one to come. */
static bool tells(const struct frame_group *group, const struct measure_shortest *shortest)
{
	return shortest->records >= 2 && 2 * (uint64_t)shortest->records >= members_of(group) &&
	       shortest->second != shortest->first;
}

static void tell_like(struct measure *measure, const struct frame *frame, size_t i)
{
	const struct measure_shortest *shortest = &measure->shortest[i];
	struct measure_like *like = &measure->like[shortest->like];
	uint64_t key = like_key(frame, &frame->group[i]);

	if (!like->key)
		*like = (struct measure_like){.key = key, .shortest_ns = INFINITY};
	like->mixed |= like->key != key;
	like->shortest_ns = fmin(like->shortest_ns, (double)shortest->first_ns);
	if (shortest->records >= members_of(&frame->group[i])) {
		like->transfer_ns += (double)shortest->first_ns;
		like->groups++;
	}
}

/* UINT64_MAX: not known. */
static uint64_t usual_transfer(const struct measure *measure, uint32_t group)
{
	const struct measure_like *like = &measure->like[measure->shortest[group].like];
	double transfer_ns = like->groups >= MEASURE_LIKES_MIN ? like->transfer_ns / like->groups : like->shortest_ns;

	if (!like->key || like->mixed || !(transfer_ns < (double)MEASURE_TIME_MAX))
		return UINT64_MAX;
	return (uint64_t)transfer_ns;
}

/* Where a member has no record, it may be the one that came last: then those that are there seem not to have waited. */
static void tell_groups(struct measure *measure, const struct frame *frame)
{
	measure->told.left_out = 0;
	memset(measure->like, 0, sizeof(measure->like));
	for (size_t i = 0; i < frame->groups; i++) {
		if (tells(&frame->group[i], &measure->shortest[i]))
			tell_like(measure, frame, i);
	}
	for (uint32_t i = 0; i < frame->groups; i++) {
		const struct measure_shortest *shortest = &measure->shortest[i];
		struct measure_group *group = &measure->group[i];

		if (!tells(&frame->group[i], shortest)) {
			*group = (struct measure_group){FRAME_UNKNOWN, FRAME_NONE, FRAME_NONE};
			measure->told.left_out++;
			continue;
		}
		*group = (struct measure_group){shortest->first_ns, shortest->first, shortest->second};
		if (shortest->records < members_of(&frame->group[i])) {
			uint64_t usual = usual_transfer(measure, i);

			if (usual < group->transfer_ns)
				group->transfer_ns = usual;
		}
	}
}

/* In a run the wait is the lead that the rank has, and is there again in each operation: the longest counts, once. */
static void count_wait(struct measure_walk *walk, uint64_t wait_ns, bool in_run)
{
	if (in_run) {
		uint64_t counted_ns = walk->run_wait_ns < wait_ns ? walk->run_wait_ns : wait_ns;

		walk->run_wait_ns += wait_ns - counted_ns;
		wait_ns -= counted_ns;
	}
	walk->wait_ns += wait_ns;
}

static bool overlap(const struct measure_overlaps *of)
{
	return of->begun >= MEASURE_OVERLAPS_MIN && of->through > MEASURE_OVERLAPS_SHARE * of->begun;
}

static void forget_overlaps(struct measure_overlaps *of)
{
	of->begun *= MEASURE_OVERLAPS_KEPT;
	of->through *= MEASURE_OVERLAPS_KEPT;
}

/* Still in flight while another begins. */
static void pass_over(
	struct measure_overlaps *overlaps, const struct measure_walk *walk, struct measure_flight *flight, int64_t now)
{
	if (!flight->p2p)
		return;
	if (!flight->overlapped) {
		flight->overlapped = true;
		overlaps->begun++;
	} else if (!flight->through && walk->newest_end <= now) {
		flight->through = true;
		overlaps->through++;
	}
}

/* A sign of life at `now`: it was blocked by what ended before it, and not by what has not. */
static void land(struct measure *measure, struct measure_walk *walk, int64_t now)
{
	int64_t blocked_until = walk->start;
	bool in_run = false;
	uint32_t left = 0;

	for (uint32_t i = 0; i < walk->flights; i++) {
		struct measure_flight *flight = &walk->flight[i];

		if (flight->end > now) {
			pass_over(&measure->overlaps, walk, flight, now);
			if (left != i)
				walk->flight[left] = *flight;
			left++;
		} else if (flight->wait_end > blocked_until && !(measure->told.sends_overlap && flight->overlapped)) {
			blocked_until = flight->wait_end;
			in_run = flight->in_run;
		}
	}
	walk->flights = left;
	count_wait(walk, (uint64_t)(blocked_until - walk->start), in_run);
}

/* Another operation of a run, or the first one of the next. */
static void follow_run(struct measure_walk *walk, uint32_t run, int64_t start)
{
	int64_t interval = start - walk->run_start;

	if (run != walk->run ||
		(walk->run_interval && (double)interval > MEASURE_RUN_BREAK * (double)walk->run_interval)) {
		walk->run = run;
		walk->run_wait_ns = 0;
		walk->run_interval = 0;
	} else if (interval > walk->run_interval) {
		walk->run_interval = interval;
	}
	walk->run_start = start;
}

/* Where it is remembered, as one that ends its wait then; NULL: those that are there wait longer. */
static struct measure_flight *take_off(struct measure_walk *walk, int64_t wait_end)
{
	uint32_t at = walk->flights;

	if (at == MEASURE_PENDING) {
		at = 0;
		for (uint32_t i = 1; i < MEASURE_PENDING; i++) {
			if (walk->flight[i].wait_end < walk->flight[at].wait_end)
				at = i;
		}
		if (walk->flight[at].wait_end >= wait_end)
			return NULL;
	} else {
		walk->flights++;
	}
	return &walk->flight[at];
}

/* Field by field: what is written in small parts and copied as a whole has to wait for memory. */
static void fly(struct measure_walk *walk, struct measure_flight flight)
{
	struct measure_flight *place = take_off(walk, flight.wait_end);

	if (!place)
		return;
	place->wait_end = flight.wait_end;
	place->end = flight.end;
	place->full_end = flight.full_end;
	place->in_run = flight.in_run;
	place->p2p = flight.p2p;
	place->overlapped = flight.overlapped;
	place->through = false;
}

/* What the operation took beside waiting: where its group does not tell, what its likes took. */
static uint64_t transfer_of(const struct measure *measure, const struct frame_op *op)
{
	uint64_t transfer_ns = measure->group[op->group].transfer_ns;

	if (transfer_ns == FRAME_UNKNOWN)
		transfer_ns = usual_transfer(measure, op->group);
	return transfer_ns < op->duration_ns ? transfer_ns : op->duration_ns;
}

/* For so long others waited for it; as long as it waited itself before, it only passes on. */
static void blame(struct measure_walk *walk, uint64_t kept_ns)
{
	uint64_t pass = walk->wait_ns - walk->passed_ns;

	if (pass > kept_ns)
		pass = kept_ns;
	walk->passed_ns += pass;
	walk->last_ns += kept_ns - pass;
}

/* Sends that nobody waits for are in a queue of their own: one that begins when the one before it ends is no sign of
 * life. */
static bool is_queued(const struct measure_walk *walk, int64_t start)
{
	for (uint32_t i = 0; i < walk->flights; i++) {
		const struct measure_flight *flight = &walk->flight[i];
		int64_t slack = flight->full_end - flight->end;

		if (flight->p2p && flight->overlapped && start >= flight->full_end - slack &&
			start <= flight->full_end + slack)
			return true;
	}
	return false;
}

static void walk_op(struct measure *measure, const struct frame *frame, const struct frame_op *op)
{
	struct measure_walk *walk = &measure->walk[op->rank];
	const struct measure_group *group = &measure->group[op->group];
	const struct measure_shortest *shortest = &measure->shortest[op->group];
	int64_t start = clamp_time(op->start_ns);
	bool p2p = frame->group[op->group].p2p, queued;
	uint64_t transfer_ns;

	if (walk->begun && start < walk->start)
		start = walk->start;
	queued = measure->told.sends_overlap && p2p && is_queued(walk, start);
	if (walk->flights && !queued)
		land(measure, walk, start);
	if (shortest->run)
		follow_run(walk, shortest->run, start);
	if (!queued) {
		walk->start = start;
		walk->newest_end = start + clamp_length(op->duration_ns) - overlap_slack_ns(op->duration_ns);
	}
	walk->begun = true;
	/* Not if someone who has no record came after it. */
	if (group->last == op->rank && shortest->first_ns <= group->transfer_ns + group->transfer_ns / 2)
		blame(walk, (uint64_t)clamp_length(shortest->second_ns - shortest->first_ns));
	transfer_ns = transfer_of(measure, op);
	if (op->duration_ns > transfer_ns)
		fly(walk, (struct measure_flight){.wait_end = start + clamp_length(op->duration_ns - transfer_ns),
				  .end = start + clamp_length(op->duration_ns) - overlap_slack_ns(op->duration_ns),
				  .full_end = start + clamp_length(op->duration_ns),
				  .in_run = shortest->run != 0,
				  .p2p = p2p,
				  .overlapped = queued});
}

static void count_lost(struct measure *measure, const struct frame *frame)
{
	measure->told.lost = frame->lost;
	memset(measure->most, 0, frame->comms * sizeof(*measure->most));
	for (size_t i = 0; i < frame->groups; i++) {
		uint32_t *most = &measure->most[frame->group[i].comm];

		if (!frame->group[i].p2p && measure->shortest[i].records > *most)
			*most = measure->shortest[i].records;
	}
	for (size_t i = 0; i < frame->groups; i++) {
		if (!frame->group[i].p2p)
			measure->told.lost += measure->most[frame->group[i].comm] - measure->shortest[i].records;
	}
}

int measure_waits(struct measure *measure, const struct frame *frame)
{
	int r = find_shortest(measure, frame);

	if (r < 0)
		return r;
	tell_groups(measure, frame);
	count_lost(measure, frame);
	memset(measure->walk, 0, frame->ranks * sizeof(*measure->walk));
	measure->told.sends_overlap = overlap(&measure->overlaps);
	forget_overlaps(&measure->overlaps);
	for (size_t i = 0; i < frame->ops; i++) {
		if (measure->here[frame->op[i].rank])
			walk_op(measure, frame, &frame->op[i]);
	}
	for (size_t i = 0; i < frame->ranks; i++) {
		struct measure_walk *walk = &measure->walk[i];
		struct measure_rank *rank = &measure->rank[i];
		uint64_t step_ns = frame->rank[i].step_ns;

		if (!measure->here[i])
			continue;
		land(measure, walk, INT64_MAX);
		rank->wait_ns = walk->wait_ns < step_ns ? walk->wait_ns : step_ns;
		rank->self_ns = step_ns - rank->wait_ns;
		rank->last_ns = walk->last_ns;
	}
	return 0;
}
