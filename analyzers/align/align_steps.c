/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a process that shows none, from the repeating pattern of its operations: the shortest lag at which the
 * sequence agrees with itself (and hardly any longer one better: many like operations in a row agree at lag 1, but not
 * all). A step begins after the longest gap of the pattern. Learnt from PERIOD_TRY operations on, again with half as
 * many more each time; fewer than SURE of them must agree all, for the few that differ may be what makes the step.
 * Given up where the pattern no longer holds, and learnt anew: of more operations, if it had not held for long.
 */
#include "analyzers/align/align_internal.h"
#include "analyzers/base/array.h"

#include <stdlib.h>
#include <string.h>

/*
 * Step numbers of processes to frame numbers of their job. The first process with a place (the reference) gives its
 * numbers; the others get theirs by what they have in common with those that have one. A place once given changes only
 * by strong evidence: most of the last votes of operations, or step ends that all lie whole steps off.
 */

#define NUMBER_APART_MAX 64 /* steps between ranks that started together: events come in batches */
#define TRIES_MAX 48	    /* steps after which a process without evidence is not waited for */
#define VOTES_FIRST 4	    /* operations that all say the same give a place */
#define VOTES_QUICK 12	    /* that many without one against them change it */
#define VOTES_WINDOW 64

static bool is_placed(const struct align_process *process)
{
	return process->align != ALIGN_UNPLACED;
}

/* All its slots that can still go out are the job's now. */
static void register_slots(struct align *align, struct align_job *job, struct align_process *process)
{
	if (job->head - process->offset > process->low)
		align_slots_drop(align, process, job->head - process->offset);
	for (int64_t step = process->low; step <= process->high; step++) {
		const struct align_slot *slot = align_slot_find(process, step);

		if (slot && slot->closed)
			align_wait_ended(align, job, align_frame_of(process, step), slot->start_ns + slot->step_ns);
	}
}

static void align_steps_place(struct align *align, struct align_process *process, enum align_method how, int64_t offset)
{
	struct align_job *job = align_job_of(align, process);

	if (!is_placed(process) && !process->ended)
		job->placed++;
	process->align = how;
	process->offset = offset;
	process->hopeless = false;
	process->vote = (struct align_vote){0};
	process->shift.count = 0;
	if (job->ref < 0)
		job->ref = process->number;
	if (process->node != FRAME_NONE && job->node_ref[process->node] < 0)
		job->node_ref[process->node] = process->number;
	register_slots(align, job, process);
	align_wait_update(job, process);
}

void align_steps_lose(struct align *align, struct align_process *process)
{
	struct align_job *job = align_job_of(align, process);

	align_slots_drop(align, process, INT64_MAX);
	process->low = 0;
	process->high = -1;
	process->newest = ALIGN_NO_STEP;
	process->vote = (struct align_vote){0};
	align_typical_from(process, UINT32_MAX);
	process->typical.once = UINT32_MAX;
	process->coll.live = false;
	process->lost_until = ALIGN_NO_STEP;
	process->coll.newest = process->coll.since = ALIGN_NO_STEP;
	process->steps_seen = 0;
	if (!is_placed(process))
		return;
	process->align = ALIGN_UNPLACED;
	process->from_start = false; /* its numbers do not say anything any more */
	if (!process->ended)
		job->placed--;
	align_steps_ended(align, process);
	align_wait_update(job, process);
}

/* With no process in place: this one's numbers count from here on. */
static void align_steps_found(struct align *align, struct align_job *job, struct align_process *process)
{
	int64_t offset = 0, first = process->low;

	while (first < process->high && !align_slot_find(process, first))
		first++;
	if (job->begun) {
		int64_t next = job->top >= job->head ? job->top + 1 : job->head;

		align_wait_flush(align, job, job->top);
		offset = next - first;
	}
	job->ref = process->number;
	job->pending_ns = 0;
	align_wait_begin(align, job, first + offset);
	align_steps_place(align, process, ALIGN_BY_NUMBER, offset);
}

/* Numbers show, for processes seen from their start, where they stand about where the reference does, and that one is
 * not of a run before: all of a run begin their first step after all have started. */
static bool align_steps_by_number(const struct align *align, const struct align_job *job, struct align_process *process)
{
	const struct align_process *ref = align_process_get(align, job->ref);
	int64_t apart;

	if (!process->from_start || !ref || !ref->from_start || ref->newest == ALIGN_NO_STEP)
		return false;
	if (ref->first_end_ns < process->after_ns)
		return false;
	apart = process->newest - ref->newest;
	return apart <= NUMBER_APART_MAX && apart >= -NUMBER_APART_MAX;
}

static bool align_evidence_time(
	const struct align_process *process, const struct align_process *ref, int64_t *ret_offset);
static void align_evidence_shift(struct align *align, struct align_process *process, const struct align_process *ref);

static void try_place(struct align *align, struct align_job *job, struct align_process *process)
{
	const struct align_process *ref = NULL;
	int64_t offset;

	if (align_steps_by_number(align, job, process)) {
		ref = align_process_get(align, job->ref);
		align_steps_place(align, process, ALIGN_BY_NUMBER, ref->offset);
		return;
	}
	if (process->node != FRAME_NONE)
		ref = align_process_get(align, job->node_ref[process->node]);
	if (ref && ref != process && align_evidence_time(process, ref, &offset)) {
		align_steps_place(align, process, ALIGN_BY_TIME, offset);
		return;
	}
	if (process->steps_seen > TRIES_MAX)
		process->hopeless = true;
	if (process->hopeless && !process->reported) {
		process->reported = true;
		align->counts.ranks_left_out++;
	}
	align_wait_update(job, process);
}

/* No rank is in place: the one seen from its start with the lowest index is, at once where it is the one that asks;
 * among those attached in mid-run the lowest index, once all had a step or it is late. */
static struct align_process *align_steps_choose(const struct align_job *job, bool late)
{
	struct align_process *first = NULL;
	bool all = true;

	for (size_t i = 0; i < job->ranks; i++) {
		struct align_process *process = job->live[i];

		if (!process || process->ended)
			continue;
		if (process->newest == ALIGN_NO_STEP) {
			all = false;
			continue;
		}
		if (process->steps_seen >= ALIGN_UNPLACED_MAX / 2)
			late = true;
		if (!first || (process->from_start && !first->from_start))
			first = process;
	}
	return first && (first->from_start || all || late) ? first : NULL;
}

void align_steps_tick(struct align *align, struct align_job *job, bool late)
{
	struct align_process *first;

	if (job->placed || !job->alive)
		return;
	first = align_steps_choose(job, late);
	if (!first)
		return;
	align_steps_found(align, job, first);
	for (size_t i = 0; i < job->ranks; i++) {
		struct align_process *process = job->live[i];

		if (process && !process->ended && !is_placed(process) && process->newest != ALIGN_NO_STEP)
			try_place(align, job, process);
	}
	align_wait_recount(job);
}

void align_steps_step(struct align *align, struct align_process *process)
{
	struct align_job *job = align_job_of(align, process);
	const struct align_process *ref;

	if (!is_placed(process) && !job->placed) {
		if (!job->pending_ns)
			job->pending_ns = align->now_ns ? align->now_ns : 1;
		align_steps_tick(align, job, false);
		return;
	}
	if (!is_placed(process)) {
		try_place(align, job, process);
		return;
	}
	if (process->node == FRAME_NONE || process->coll.live || job->ref == process->number)
		return;
	ref = align_process_get(align, job->node_ref[process->node]);
	if (ref && ref != process)
		align_evidence_shift(align, process, ref);
}

/* Boyer and Moore's majority, of those that differ; those that agree are counted. */
static void align_steps_vote(struct align *align, struct align_process *process, int64_t offset)
{
	struct align_job *job = align_job_of(align, process);
	struct align_vote *vote = &process->vote;

	if (job->ref == process->number)
		return;
	vote->total++;
	if (is_placed(process) && offset == process->offset) {
		vote->same++;
	} else if (!vote->others || vote->other == offset) {
		vote->other = offset;
		vote->others++;
	} else {
		vote->others--;
	}
	if (!is_placed(process)) {
		if (vote->others >= VOTES_FIRST)
			align_steps_place(align, process, ALIGN_BY_OPS, vote->other);
		return;
	}
	if ((vote->others >= VOTES_QUICK && !vote->same) || vote->others > VOTES_WINDOW / 2)
		align_steps_place(align, process, ALIGN_BY_OPS, vote->other);
	else if (vote->total >= VOTES_WINDOW)
		*vote = (struct align_vote){0};
}

static struct align_process *placed_but(const struct align_job *job, const struct align_process *but, uint32_t node)
{
	for (size_t i = 0; i < job->ranks; i++) {
		struct align_process *process = job->live[i];

		if (process && process != but && !process->ended && is_placed(process) &&
			(node == FRAME_NONE || process->node == node))
			return process;
	}
	return NULL;
}

void align_steps_ended(struct align *align, struct align_process *process)
{
	struct align_job *job = align_job_of(align, process);
	struct align_process *next;

	if (job->ref == process->number) {
		next = placed_but(job, process, FRAME_NONE);
		job->ref = next ? next->number : -1;
	}
	if (process->node != FRAME_NONE && job->node_ref[process->node] == process->number) {
		next = placed_but(job, process, process->node);
		job->node_ref[process->node] = next ? next->number : -1;
	}
}

/*
 * Evidence of which steps of two processes are the same: operations that both took part in, and the ends of their
 * steps where they are of one node.
 */

#define AGREE 3	      /* steps in a row whose closest is the same */
#define SHIFTS_MAX 16 /* step ends in a row that lie whole steps off */
#define CLOSE 10      /* and no farther from another's than a tenth of a step */
#define EVIDENCE_MIN 1024
#define EVIDENCE_MAX 131072
#define EVIDENCE_A_RANK 8 /* a few steps of each */

static const struct align_past *align_evidence_past(const struct align_process *process, uint64_t back)
{
	return &process->past[(process->steps_seen - 1 - back) % ALIGN_HISTORY];
}

static uint64_t align_steps_history(const struct align_process *process)
{
	return process->steps_seen < ALIGN_HISTORY ? process->steps_seen : ALIGN_HISTORY;
}

uint64_t align_process_median(const struct align_process *process)
{
	uint64_t length[ALIGN_HISTORY], count = align_steps_history(process);

	if (!count)
		return 0;
	for (uint64_t i = 0; i < count; i++)
		length[i] = align_evidence_past(process, i)->step_ns;
	qsort(length, count, sizeof(*length), compare_u64);
	return length[count / 2];
}

static uint64_t align_evidence_distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static const struct align_past *align_evidence_closest(const struct align_process *process, uint64_t end_ns)
{
	const struct align_past *best = NULL;

	for (uint64_t i = 0; i < align_steps_history(process); i++) {
		const struct align_past *one = align_evidence_past(process, i);

		if (!best ||
			align_evidence_distance(one->end_ns, end_ns) < align_evidence_distance(best->end_ns, end_ns))
			best = one;
	}
	return best;
}

static bool align_evidence_time(
	const struct align_process *process, const struct align_process *ref, int64_t *ret_offset)
{
	unsigned agree = 0;
	int64_t offset = 0;

	for (uint64_t i = 0; i < align_steps_history(process) && agree < AGREE; i++) {
		const struct align_past *mine = align_evidence_past(process, i),
					*theirs = align_evidence_closest(ref, mine->end_ns);
		int64_t next;

		/* The other one's step that ends closest may not be known yet, or be forgotten. */
		if (!theirs || theirs == align_evidence_past(ref, align_steps_history(ref) - 1))
			break;
		if (theirs == align_evidence_past(ref, 0) && mine->end_ns > theirs->end_ns)
			continue;
		next = align_frame_of(ref, theirs->step) - mine->step;
		agree = agree && next == offset ? agree + 1 : 1;
		offset = next;
	}
	*ret_offset = offset;
	return agree >= AGREE;
}

static void align_evidence_shift(struct align *align, struct align_process *process, const struct align_process *ref)
{
	const struct align_past *mine = align_evidence_past(process, 0),
				*theirs = align_evidence_closest(ref, mine->end_ns);
	int64_t shift = theirs ? align_frame_of(ref, theirs->step) - align_frame_of(process, mine->step) : 0;

	if (!shift || align_evidence_distance(mine->end_ns, theirs->end_ns) > mine->step_ns / CLOSE) {
		process->shift.count = 0;
		return;
	}
	process->shift.count = process->shift.count && shift == process->shift.ns ? process->shift.count + 1 : 1;
	process->shift.ns = shift;
	if (process->shift.count < SHIFTS_MAX)
		return;
	/* As many votes as make a change at once. */
	process->vote = (struct align_vote){0};
	for (int i = 0; i < SHIFTS_MAX && process->shift.count; i++)
		align_steps_vote(align, process, process->offset + shift);
	process->align = ALIGN_BY_TIME;
}

void align_evidence_op(struct align *align, struct align_process *process, uint64_t key, int64_t step)
{
	struct align_job *job = align_job_of(align, process);
	uint32_t half = (uint32_t)(key >> 32) | 1; /* 0: nothing is there */
	struct align_evidence *evidence;
	struct align_process *other;

	if (!job->evidences) {
		size_t size = EVIDENCE_MIN;

		while (size < job->ranks * EVIDENCE_A_RANK && size < EVIDENCE_MAX)
			size *= 2;
		job->evidence = calloc(size, sizeof(*job->evidence));
		if (!job->evidence)
			return;
		job->evidences = size;
	}
	evidence = &job->evidence[key & (job->evidences - 1)];
	other = evidence->key == half ? align_process_get(align, evidence->process) : NULL;
	if (!other || other == process || other->job != process->job) {
		*evidence = (struct align_evidence){half, process->number, step};
		return;
	}
	if (other->align == ALIGN_UNPLACED || job->ref == process->number) {
		int64_t theirs = evidence->step;

		*evidence = (struct align_evidence){half, process->number, step};
		if (process->align != ALIGN_UNPLACED)
			align_steps_vote(align, other, align_frame_of(process, step) - theirs);
		return;
	}
	align_steps_vote(align, process, align_frame_of(other, evidence->step) - step);
}

#define PERIOD_TRY 48
#define ROUNDS 3			/* a pattern is one that came so often */
#define KEPT_MAX (ALIGN_PERIOD_MAX * 4) /* operations */
#define MISSES 20			/* 1 of so many may differ: 5 % */
#define SURE 2048
#define HELD 16 /* checks after which a pattern is the right one */
#define PERIOD_WINDOW 256
#define BETTER 200 /* a longer lag that agrees better by 1 of so many is the pattern */

struct align_period {
	size_t count, capacity, first_try, next_try;
	uint32_t *what;
	uint64_t *gap_ns; /* before it */
	size_t gap_capacity;
	uint64_t end_ns; /* of what was seen so far */

	size_t lag;  /* 0: not known */
	bool strict; /* nothing differed as it was learnt: nothing may */
	size_t at, checked, missed, held;
	int64_t step; /* the open one, 0: none yet */
	uint64_t step_start_ns;
};

void align_period_free(struct align_period *period)
{
	if (!period)
		return;
	free(period->what);
	free(period->gap_ns);
	free(period);
}

/* Operations of the later part that differ from the one lag before; no more than limit are counted. */
static size_t align_steps_misses(const struct align_period *period, size_t lag, size_t limit)
{
	size_t ret = 0;

	for (size_t i = period->count; i-- > period->count / ROUNDS && ret <= limit;)
		ret += period->what[i] != period->what[i - lag];
	return ret;
}

static size_t find_lag(const struct align_period *period)
{
	size_t compared = period->count - period->count / ROUNDS, ret = 0;
	size_t best = period->count < SURE ? 1 : compared / MISSES + 1;

	for (size_t lag = 1; lag <= period->count / ROUNDS && lag <= ALIGN_PERIOD_MAX && best; lag++) {
		size_t missed = align_steps_misses(period, lag, best);

		if (missed < best && (!ret || best - missed > compared / BETTER)) {
			best = missed;
			ret = lag;
		}
	}
	return ret;
}

/* Makes the last lag operations the pattern, turned so that it begins after its longest gap. */
static void align_period_settle(struct align_period *period, size_t lag, bool strict)
{
	size_t first = period->count - lag, longest = 0;
	uint64_t longest_ns = 0;
	uint32_t *pattern = malloc(lag * sizeof(*pattern));

	if (!pattern)
		return;
	for (size_t i = 0; i < lag; i++) {
		uint64_t gap_ns = period->gap_ns[first + i], before_ns = period->gap_ns[first + i - lag];

		if (before_ns < gap_ns)
			gap_ns = before_ns; /* the shorter one: a pause may be anywhere, once */
		if (gap_ns > longest_ns) {
			longest_ns = gap_ns;
			longest = i;
		}
	}
	for (size_t i = 0; i < lag; i++)
		pattern[i] = period->what[first + (longest + i) % lag];
	memcpy(period->what, pattern, lag * sizeof(*pattern));
	free(pattern);
	period->lag = lag;
	period->at = (lag - longest) % lag;
	period->checked = period->missed = period->held = 0;
	period->strict = strict;
}

static void align_period_forget(struct align_period *period)
{
	period->lag = period->count = 0;
	period->first_try = period->held >= HELD ? PERIOD_TRY : period->first_try * 4;
	if (period->first_try > KEPT_MAX)
		period->first_try = KEPT_MAX;
	period->next_try = period->first_try;
	period->step_start_ns = 0;
	if (period->step)
		period->step++; /* the open one never ends */
}

static void align_period_learn(struct align_period *period, uint32_t what, uint64_t start_ns)
{
	size_t lag;

	if (period->count == KEPT_MAX) {
		period->count /= 2;
		memmove(period->what, period->what + period->count, period->count * sizeof(*period->what));
		memmove(period->gap_ns, period->gap_ns + period->count, period->count * sizeof(*period->gap_ns));
	}
	if (!array_reserve(
		    (void **)&period->what, &period->capacity, period->count + 1, sizeof(*period->what), KEPT_MAX) ||
		!array_reserve((void **)&period->gap_ns, &period->gap_capacity, period->count + 1,
			sizeof(*period->gap_ns), KEPT_MAX))
		return;
	period->what[period->count] = what;
	period->gap_ns[period->count++] = start_ns > period->end_ns ? start_ns - period->end_ns : 0;
	if (period->count < period->next_try && period->count < KEPT_MAX)
		return;
	period->next_try += period->next_try / 2;
	if (period->next_try > KEPT_MAX)
		period->next_try = KEPT_MAX;
	lag = find_lag(period);
	if (lag)
		align_period_settle(period, lag, align_steps_misses(period, lag, 1) == 0);
}

/* The operation is the pattern's next one, or not. */
static void align_period_follow(struct align *align, struct align_process *process, uint32_t what, uint64_t start_ns)
{
	struct align_period *period = process->host.period;
	size_t snapshot;

	if (period->at == 0) {
		const struct align_step step = {.step = period->step,
			.start_ns = period->step_start_ns,
			.duration_ns = start_ns > period->step_start_ns ? start_ns - period->step_start_ns : 0};

		if (period->step && period->step_start_ns)
			align_step_closed(align, process, &step);
		process->from_start = false; /* the first one that was found, not the first one */
		period->step++;
		period->step_start_ns = start_ns;
	}
	period->missed += period->what[period->at] != what;
	period->checked++;
	period->at = (period->at + 1) % period->lag;
	snapshot = period->lag * 4 > PERIOD_WINDOW ? period->lag * 4 : PERIOD_WINDOW;
	if (period->missed > (period->strict ? 0 : snapshot / MISSES)) {
		align_period_forget(period);
	} else if (period->checked >= snapshot) {
		period->checked = period->missed = 0;
		period->held++;
	}
}

int64_t align_period_op(
	struct align *align, struct align_process *process, uint64_t what, uint64_t start_ns, uint64_t end_ns)
{
	struct align_period *period = process->host.period;

	if (!period) {
		period = process->host.period = calloc(1, sizeof(*period));
		if (!period)
			return ALIGN_NO_STEP;
		period->first_try = period->next_try = PERIOD_TRY;
	}
	if (period->lag)
		align_period_follow(align, process, (uint32_t)what, start_ns);
	else
		align_period_learn(period, (uint32_t)what, start_ns);
	if (end_ns > period->end_ns)
		period->end_ns = end_ns;
	return period->lag && period->step_start_ns ? period->step : ALIGN_NO_STEP;
}
