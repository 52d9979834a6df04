/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waited: see measure.h. One pass over the records; each is touched with its group and its rank alone. What is
 * reported of groups: measure_groups.c.
 */

#include "analyzers/judge/measure_internal.h"

/* Operations of a large job are in no cache any more when they are read: these are asked for so far ahead. */
#define AHEAD_BYTES 1152

static int64_t clamp_time(int64_t time_ns)
{
	if (time_ns > MEASURE_TIME_MAX)
		return MEASURE_TIME_MAX;
	return time_ns < -MEASURE_TIME_MAX ? -MEASURE_TIME_MAX : time_ns;
}

/* In a run the wait is the lead that the rank has, and is there again in each operation: the longest counts, once.
 * Here and below, where it is chance which of two outcomes it is, both are computed and one is taken: to guess costs
 * more. */
static inline void count_wait(struct measure_pace *pace, uint64_t wait_ns, bool in_run)
{
	if (in_run) {
		wait_ns = wait_ns > pace->run_wait_ns ? wait_ns - pace->run_wait_ns : 0;
		pace->run_wait_ns += wait_ns;
	}
	pace->wait_ns += wait_ns;
}

static bool measure_waits_overlap(const struct measure_overlaps *of)
{
	return of->begun >= MEASURE_OVERLAPS_MIN && of->through > MEASURE_OVERLAPS_SHARE * of->begun;
}

static void forget_overlaps(struct measure_overlaps *of)
{
	of->begun *= MEASURE_OVERLAPS_KEPT;
	of->through *= MEASURE_OVERLAPS_KEPT;
}

/* Still in flight while another begins. */
static void measure_waits_pass_over(
	struct measure_overlaps *overlaps, const struct measure_walk *walk, struct measure_flight *flight, int64_t now)
{
	if (!flight->p2p)
		return;
	if (!flight->overlapped) {
		flight->overlapped = true;
		overlaps->begun++;
	} else if (!flight->through && walk->pace.newest_end <= now) {
		flight->through = true;
		overlaps->through++;
	}
}

/* A sign of life at `now`: it was blocked by what ended before it, and not by what has not. */
static void measure_waits_land(struct measure *measure, struct measure_walk *walk, int64_t now)
{
	int64_t blocked_until = walk->pace.start;
	bool in_run = false;
	uint32_t left = 0;

	for (uint32_t i = 0; i < walk->flights; i++) {
		struct measure_flight *flight = &walk->flight[i];

		if (flight->end > now) {
			measure_waits_pass_over(&measure->overlaps, walk, flight, now);
			if (left != i)
				walk->flight[left] = *flight;
			left++;
		} else if (flight->wait_end > blocked_until && !(measure->result.sends_overlap && flight->overlapped)) {
			blocked_until = flight->wait_end;
			in_run = flight->in_run;
		}
	}
	walk->flights = left;
	count_wait(&walk->pace, (uint64_t)(blocked_until - walk->pace.start), in_run);
}

/* Another operation of a run, or the first one of the next, as seldom. */
static inline void follow_run(struct measure_pace *pace, uint32_t run, int64_t start)
{
	int64_t interval = start - pace->run_start, longest = pace->run_interval;

	pace->run_start = start;
	pace->run_interval = interval > longest ? interval : longest;
	if (__builtin_expect(
		    run != pace->run || (longest && (uint64_t)interval > (uint64_t)longest * MEASURE_RUN_BREAK / 2),
		    0)) {
		pace->run = run;
		pace->run_wait_ns = 0;
		pace->run_interval = 0;
	}
}

/* Where it is remembered, as one that ends its wait then; NULL: those that are there wait longer. */
static struct measure_flight *measure_waits_take_off(struct measure_walk *walk, int64_t wait_end)
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
static void measure_waits_fly(struct measure_walk *walk, const struct measure_flight *flight)
{
	struct measure_flight *place = measure_waits_take_off(walk, flight->wait_end);

	if (!place)
		return;
	place->wait_end = flight->wait_end;
	place->end = flight->end;
	place->full_end = flight->full_end;
	place->in_run = flight->in_run;
	place->p2p = flight->p2p;
	place->overlapped = flight->overlapped;
	place->through = false;
}

/* For so long others waited for it; as long as it waited itself before, it only passes on. */
static inline void measure_waits_blame(struct measure_pace *pace, uint64_t kept_ns)
{
	uint64_t pass = pace->wait_ns - pace->passed_ns;

	pass = pass < kept_ns ? pass : kept_ns;
	pace->passed_ns += pass;
	pace->last_ns += kept_ns - pass;
}

/* Sends that no rank waits for are in a queue of their own: one that begins when the one before it ends is no sign of
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

static inline int64_t start_of(const struct measure_pace *pace, const struct frame_op *op)
{
	int64_t start = clamp_time(op->start_ns);

	return start < pace->start ? pace->start : start;
}

static inline struct measure_flight flight_of(
	const struct measure_meeting *meeting, const struct frame_op *op, int64_t start)
{
	int64_t length_ns = measure_clamp_length(op->duration_ns);
	uint64_t waits = -(uint64_t)((uint64_t)length_ns > meeting->transfer_ns);

	return (struct measure_flight){
		.wait_end = start + (int64_t)(((uint64_t)length_ns - meeting->transfer_ns) & waits),
		.end = start + length_ns - overlap_slack_ns((uint64_t)length_ns),
		.full_end = start + length_ns,
		.in_run = meeting->run != 0,
		.p2p = meeting->p2p};
}

/* For so long it kept the others waiting. */
static inline uint64_t kept_ns(const struct measure_meeting *meeting, const struct frame_op *op)
{
	return meeting->kept_ns & -(uint64_t)(meeting->last == op->rank);
}

/* The rank begins it. */
static inline void set_out(struct measure_pace *pace, const struct measure_meeting *meeting, const struct frame_op *op,
	int64_t start, int64_t end)
{
	if (meeting->run)
		follow_run(pace, meeting->run, start);
	pace->start = start;
	pace->newest_end = end;
	measure_waits_blame(pace, kept_ns(meeting, op));
}

static void walk_op(struct measure *measure, struct measure_walk *walk, const struct frame_op *op)
{
	const struct measure_meeting *meeting = &measure->meeting[op->group];
	int64_t start = start_of(&walk->pace, op);
	struct measure_flight flight = flight_of(meeting, op, start);

	flight.overlapped = measure->result.sends_overlap && meeting->p2p && is_queued(walk, start);
	if (flight.overlapped) {
		measure_waits_blame(&walk->pace, kept_ns(meeting, op));
	} else {
		if (walk->flights)
			measure_waits_land(measure, walk, start);
		set_out(&walk->pace, meeting, op, start, flight.end);
	}
	if (flight.wait_end > start)
		measure_waits_fly(walk, &flight);
}

/* Nothing is in flight but what may have ended when the next one begins, as mostly. */
static bool is_plain(const struct measure_walk *walk)
{
	return !walk->flights || (walk->flights == 1 && !walk->flight[0].overlapped);
}

/* The one in flight has ended before that: what of its wait is still to be counted is. */
static bool measure_waits_land_flight(struct measure_walk *walk, int64_t start)
{
	const struct measure_flight *one = &walk->flight[0];
	struct measure_pace *pace = &walk->pace;

	if (!walk->flights)
		return true;
	if (one->end > start)
		return false;
	count_wait(pace, one->wait_end > pace->start ? (uint64_t)(one->wait_end - pace->start) : 0, one->in_run);
	walk->flights = 0;
	return true;
}

/* Is it still in flight then, and does that matter? */
static inline bool measure_waits_reaches(int64_t start, uint64_t length_ns, uint64_t wait_ns, int64_t then)
{
	int64_t end = start + (int64_t)length_ns;

	return end > then && wait_ns && end - overlap_slack_ns(length_ns) > then;
}

/*
 * As walk_op(), from `op` to before `stop`, all of one rank, as far as each ends before the next one begins: then its
 * wait counts at once. Returns where it stopped. Of a tame frame alone, whose times are in order and need not be
 * clamped.
 */
static const struct frame_op *walk_plain(const struct measure_meeting *meetings, struct measure_walk *walk,
	const struct frame_op *op, const struct frame_op *stop)
{
	struct measure_pace pace;
	uint32_t rank = op->rank;

	if (!measure_waits_land_flight(walk, op->start_ns))
		return op;
	pace = walk->pace;
	for (;; op++) {
		const struct measure_meeting *meeting = &meetings[op->group];
		uint64_t length_ns = op->duration_ns;
		uint64_t wait_ns = length_ns > meeting->transfer_ns ? length_ns - meeting->transfer_ns : 0;

		__builtin_prefetch((const void *)((uintptr_t)op + AHEAD_BYTES));
		if (meeting->last == rank)
			measure_waits_blame(&pace, meeting->kept_ns);
		if (meeting->run)
			follow_run(&pace, meeting->run, op->start_ns);
		if (op + 1 == stop || measure_waits_reaches(op->start_ns, length_ns, wait_ns, op[1].start_ns))
			break;
		count_wait(&pace, wait_ns, meeting->run);
	}
	pace.start = op->start_ns;
	walk->pace = pace;
	walk->flight[0] = flight_of(&meetings[op->group], op, pace.start);
	walk->flights = walk->flight[0].wait_end > pace.start;
	walk->pace.newest_end = walk->flight[0].end;
	return op + 1;
}

static void measure_waits_begin(struct measure_walk *walk)
{
	walk->pace = (struct measure_pace){.start = INT64_MIN};
	walk->flights = 0;
}

/* Each has come to its end: what is in flight still, ends. */
static void measure_waits_end(
	struct measure *measure, const struct frame *frame, struct measure_walk *walk, size_t index)
{
	struct measure_rank *rank = &measure->rank[index];
	uint64_t step_ns = frame->rank[index].step_ns;

	measure_waits_land(measure, walk, INT64_MAX);
	rank->wait_ns = walk->pace.wait_ns < step_ns ? walk->pace.wait_ns : step_ns;
	rank->self_ns = step_ns - rank->wait_ns;
	rank->last_ns = walk->pace.last_ns;
}

static void walk_rank(
	struct measure *measure, struct measure_walk *walk, const struct frame_op *op, const struct frame_op *stop)
{
	while (op < stop) {
		const struct frame_op *from = op;

		if (is_plain(walk))
			op = walk_plain(measure->meeting, walk, op, stop);
		if (op == from)
			walk_op(measure, walk, op++);
	}
}

/* Rank by rank: one walk is enough. */
static void walk_tame(struct measure *measure, const struct frame *frame)
{
	const struct frame_op *op = frame->op;
	struct measure_walk walk;

	for (size_t i = 0; i < frame->ranks; i++) {
		const struct frame_op *from = op;

		op = frame->op + measure->stop[i];
		if (!measure->here[i])
			continue;
		measure_waits_begin(&walk);
		walk_rank(measure, &walk, from, op);
		measure_waits_end(measure, frame, &walk, i);
	}
}

static void walk_wild(struct measure *measure, const struct frame *frame)
{
	for (size_t i = 0; i < frame->ranks; i++)
		measure_waits_begin(&measure->walk[i]);
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];

		if (measure->here[op->rank])
			walk_op(measure, &measure->walk[op->rank], op);
	}
	for (size_t i = 0; i < frame->ranks; i++) {
		if (measure->here[i])
			measure_waits_end(measure, frame, &measure->walk[i], i);
	}
}

static uint64_t measure_waits_of(const struct measure *measure, const struct frame_op *op)
{
	uint64_t transfer_ns = measure->meeting[op->group].transfer_ns;

	return op->duration_ns > transfer_ns ? op->duration_ns - transfer_ns : 0;
}

/* Those are the first and the last ones of a rank: few are read. */
static uint64_t measure_waits_apart(const struct measure *measure, const struct frame_rank *rank,
	const struct frame_op *op, const struct frame_op *stop)
{
	uint64_t sum_ns = 0;

	if (!rank->may_wait_until_ns)
		return 0;
	for (; op < stop && op->start_ns + (int64_t)op->duration_ns <= rank->may_wait_from_ns; op++)
		sum_ns += measure_waits_of(measure, op);
	for (; op < stop && stop[-1].start_ns >= rank->may_wait_until_ns; stop--)
		sum_ns += measure_waits_of(measure, &stop[-1]);
	return sum_ns;
}

static void measure_waits_all_apart(struct measure *measure, const struct frame *frame)
{
	for (size_t i = 0; i < frame->ranks; i++) {
		struct measure_rank *rank = &measure->rank[i];
		uint64_t apart_ns = measure_waits_apart(measure, &frame->rank[i],
			frame->op + (i ? measure->stop[i - 1] : 0), frame->op + measure->stop[i]);

		if (measure->here[i])
			rank->apart_ns = apart_ns < rank->wait_ns ? apart_ns : rank->wait_ns;
	}
}

int measure_waits(struct measure *measure, const struct frame *frame)
{
	int r = measure_groups(measure, frame);

	if (r < 0)
		return r;
	measure->result.sends_overlap = measure_waits_overlap(&measure->overlaps);
	forget_overlaps(&measure->overlaps);
	if (!measure->tame) {
		walk_wild(measure, frame);
		return 0;
	}
	walk_tame(measure, frame);
	if (frame->tier == FRAME_TIER_HOST)
		measure_waits_all_apart(measure, frame);
	return 0;
}
