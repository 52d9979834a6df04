/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The culprit of a hung job, as far as one snapshot shows. Pure, no state.
 *
 * Best first: a process that is stopped; who is missing in a communicator and waits in no other one (L1); a process
 * that has ended; operations that all have entered; where none is in a stage, who has not begun the step that others
 * have; who stopped first, in no stage, while the others wait for their devices; the stages; the stacks. Some stages
 * hold no wait for others (data loading, checkpoint, garbage collection, zero_grad): who is in one of them while no
 * rank makes progress is a culprit. Some often are a wait (backward, synchronisation), and the others can be both: who
 * is in one of those while most wait is a culprit only if it stopped before those who wait, for what is stuck stops
 * first.
 */
#include "analyzers/detect/detect_internal.h"

#include "analyzers/coll/coll_judge.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define SECOND 1000000000ULL
#define TEARDOWN_NS (10 * SECOND)
#define FIRST_MARGIN_NS 20000000ULL /* clocks of nodes, and jitter */

enum holds { HOLDS_WAIT, HOLDS_EITHER, HOLDS_OWN };
enum { OPEN_LEAST = 1, OPEN_SURE = 1 + HOLDS_OWN, OPEN_ENDED };

static const struct stage_row {
	enum holds holds;
	enum finding_cause cause; /* of who stands there while others wait */
	const char *text;
} stages[] = {
	[STAGE_USER] = {HOLDS_EITHER, CAUSE_MISSING, "no stage"},
	[STAGE_DATALOADER] = {HOLDS_OWN, CAUSE_DATALOADER, "dataloader"},
	[STAGE_FORWARD] = {HOLDS_EITHER, CAUSE_MISSING, "forward"},
	[STAGE_ZERO_GRAD] = {HOLDS_OWN, CAUSE_MISSING, "zero_grad"},
	[STAGE_BACKWARD] = {HOLDS_WAIT, CAUSE_MISSING, "backward"},
	[STAGE_OPTIMIZER] = {HOLDS_EITHER, CAUSE_MISSING, "optimizer"},
	[STAGE_CHECKPOINT] = {HOLDS_OWN, CAUSE_CHECKPOINT, "checkpoint"},
	[STAGE_GC] = {HOLDS_OWN, CAUSE_GARBAGE_COLLECTION, "gc"},
	[STAGE_SYNC] = {HOLDS_WAIT, CAUSE_MISSING, "sync"},
};
static_assert(sizeof(stages) / sizeof(stages[0]) == STAGE_KIND_MAX, "a row a kind");

bool hang_stopped(const struct standing *standing)
{
	return !standing->ended && (standing->state == 'T' || standing->state == 't');
}

static const struct stage_row *hang_who_stage_of(const struct standing *standing)
{
	return &stages[(size_t)standing->stage < STAGE_KIND_MAX ? standing->stage : STAGE_USER];
}

/* A rank that never made progress is no evidence. */
static bool hang_who_is_active(const struct snapshot *snapshot, const struct standing *standing)
{
	return standing->rank < snapshot->ranks && !standing->ended && standing->progress_ns != 0;
}

const struct standing *hang_standing(const struct snapshot *snapshot, const struct hang_who *who, uint32_t rank)
{
	return rank < snapshot->ranks && (who->flags[rank] & HANG_STANDS) ? &snapshot->standing[who->at[rank]] : NULL;
}

static void hang_who_accuse(struct hang_who *ret, const struct snapshot *snapshot, uint32_t rank)
{
	if (rank >= snapshot->ranks || (ret->flags[rank] & HANG_ACCUSED))
		return;
	ret->flags[rank] |= HANG_ACCUSED;
	ret->culprit[ret->culprits++] = rank;
}

static void acquit_all(struct hang_who *ret)
{
	for (size_t i = 0; i < ret->culprits; i++)
		ret->flags[ret->culprit[i]] &= (uint8_t)~HANG_ACCUSED;
	ret->culprits = 0;
}

static void hang_who_found(struct hang_who *ret, enum finding_cause cause, double confidence)
{
	ret->cause = cause;
	ret->confidence = confidence;
}

static bool by_stopped(const struct snapshot *snapshot, struct hang_who *ret)
{
	for (size_t i = 0; i < snapshot->ranks; i++) {
		if (hang_stopped(&snapshot->standing[i]))
			hang_who_accuse(ret, snapshot, snapshot->standing[i].rank);
	}
	hang_who_found(ret, CAUSE_STOPPED, 0.99);
	return ret->culprits > 0;
}

static void mark_waiters(const struct snapshot *snapshot, struct hang_who *ret)
{
	for (size_t s = 0; s < snapshot->stucks; s++) {
		const struct stuck *stuck = &snapshot->stuck[s];

		for (size_t i = 0; stuck->state == COLL_STATE_MISSING && i < stuck->waiters; i++) {
			if (stuck->waiter[i] < snapshot->ranks)
				ret->flags[stuck->waiter[i]] |= HANG_WAITS;
		}
	}
}

/* How little a missing rank resembles one that waits for others elsewhere. */
static int hang_who_openness(
	const struct snapshot *snapshot, const struct hang_who *who, const struct stuck *stuck, uint32_t rank)
{
	const struct standing *standing = hang_standing(snapshot, who, rank);

	if (!standing || (who->flags[rank] & HANG_WAITS))
		return 0;
	if (standing->ended)
		return OPEN_ENDED;
	return stuck->waiters > 0 ? OPEN_SURE : OPEN_LEAST + (int)hang_who_stage_of(standing)->holds;
}

/* Who is missing and waits nowhere; if all of them wait (a circle), all. Where it is not known who waits, stages say
 * who may. */
static bool hang_who_by_missing(const struct snapshot *snapshot, struct hang_who *ret)
{
	int best = 0;

	mark_waiters(snapshot, ret);
	for (size_t s = 0; s < snapshot->stucks; s++) {
		const struct stuck *stuck = &snapshot->stuck[s];

		for (size_t i = 0; stuck->state == COLL_STATE_MISSING && i < stuck->culprits; i++) {
			int open = hang_who_openness(snapshot, ret, stuck, stuck->culprit[i]);

			if (open > best) {
				acquit_all(ret);
				best = open;
			}
			if (open == best)
				hang_who_accuse(ret, snapshot, stuck->culprit[i]);
			if (ret->culprits == 1 && open == best)
				ret->stuck = stuck;
		}
	}
	hang_who_found(ret, best == OPEN_ENDED ? CAUSE_ENDED : CAUSE_MISSING, best > 0 ? 0.97 : 0.7);
	return ret->culprits > 0;
}

/* An end that the others have long outlived, as in a job that shrinks, is no reason. */
static bool by_ended(const struct snapshot *snapshot, struct hang_who *ret)
{
	uint64_t outlived_ns = 2 * snapshot->step_ns > TEARDOWN_NS ? 2 * snapshot->step_ns : TEARDOWN_NS;

	for (size_t i = 0; i < snapshot->ranks; i++) {
		const struct standing *standing = &snapshot->standing[i];

		if (standing->ended && snapshot->now_ns > standing->ended_ns &&
			snapshot->now_ns - standing->ended_ns > TEARDOWN_NS &&
			(ret->since_ns < standing->ended_ns || ret->since_ns - standing->ended_ns < outlived_ns))
			hang_who_accuse(ret, snapshot, standing->rank);
	}
	hang_who_found(ret, CAUSE_ENDED, 0.95);
	return ret->culprits > 0;
}

static bool by_entered(const struct snapshot *snapshot, struct hang_who *ret)
{
	for (size_t s = 0; s < snapshot->stucks && !ret->stuck; s++) {
		if (snapshot->stuck[s].all_entered)
			ret->stuck = &snapshot->stuck[s];
	}
	hang_who_found(ret, CAUSE_COMMUNICATION, 0.9);
	return ret->stuck != NULL;
}

struct held {
	size_t ranks;
	uint64_t oldest_ns, newest_ns; /* signs of life */
	enum stage_kind stage;
	bool same; /* all in one stage */
};

static void hang_who_hold(struct held held[HOLDS_OWN + 1], const struct standing *standing)
{
	struct held *in = &held[hang_who_stage_of(standing)->holds];

	if (in->ranks == 0)
		*in = (struct held){0, standing->progress_ns, standing->progress_ns, standing->stage, true};
	in->ranks++;
	in->same = in->same && in->stage == standing->stage;
	if (standing->progress_ns < in->oldest_ns)
		in->oldest_ns = standing->progress_ns;
	if (standing->progress_ns > in->newest_ns)
		in->newest_ns = standing->progress_ns;
}

static void accuse_held(const struct snapshot *snapshot, enum holds holds, const struct held *in, double confidence,
	struct hang_who *ret)
{
	for (size_t i = 0; i < snapshot->ranks; i++) {
		const struct standing *standing = &snapshot->standing[i];

		if (hang_who_is_active(snapshot, standing) && hang_who_stage_of(standing)->holds == holds)
			hang_who_accuse(ret, snapshot, standing->rank);
	}
	hang_who_found(ret, in->same && (size_t)in->stage < STAGE_KIND_MAX ? stages[in->stage].cause : CAUSE_MISSING,
		confidence);
}

/* It has begun a step: something of it came after the end of the last one. */
static bool is_within_step(const struct standing *standing)
{
	return standing->step_end_ns && standing->progress_ns > standing->step_end_ns;
}

/* All in no stage, as forward is where it is derived: those that have not begun the step keep the others, who are more,
 * waiting in it. Of as many, nobody is named, for the others may keep them from beginning it; the step goes on all the
 * same. false: nothing says so; one that is alone past a step's end may save or evaluate. */
static bool by_step(const struct snapshot *snapshot, struct hang_who *ret)
{
	size_t within = 0;

	for (size_t i = 0; ret->outside && i < snapshot->ranks; i++) {
		const struct standing *standing = &snapshot->standing[i];

		if (!hang_who_is_active(snapshot, standing))
			continue;
		if (is_within_step(standing))
			within++;
		else if (standing->step_end_ns)
			hang_who_accuse(ret, snapshot, standing->rank);
	}
	ret->outside = ret->outside && (!ret->culprits || ret->culprits > within);
	if (ret->culprits >= within)
		acquit_all(ret);
	hang_who_found(ret, CAUSE_MISSING, 0.75);
	return ret->culprits > 0;
}

/* On cards the host waits for its device in any stage, and uses the CPU meanwhile. Who stopped before, in no stage,
 * keeps the others waiting, if these are as many. */
static bool by_device_waits(const struct snapshot *snapshot, struct hang_who *ret)
{
	uint64_t newest_ns = 0, oldest_ns = UINT64_MAX;
	size_t waiting = 0;
	bool all = true;

	for (size_t i = 0; i < snapshot->ranks; i++) {
		const struct standing *standing = &snapshot->standing[i];

		if (!hang_who_is_active(snapshot, standing))
			continue;
		if (standing->stage == STAGE_USER) {
			hang_who_accuse(ret, snapshot, standing->rank);
			newest_ns = standing->progress_ns > newest_ns ? standing->progress_ns : newest_ns;
			continue;
		}
		waiting++;
		oldest_ns = standing->progress_ns < oldest_ns ? standing->progress_ns : oldest_ns;
		all = all && snapshot->who[standing->rank].card[0] && standing->state == 'R' &&
		      hang_who_stage_of(standing)->holds != HOLDS_OWN;
	}
	if (!all || ret->culprits > waiting || newest_ns >= oldest_ns)
		acquit_all(ret);
	hang_who_found(ret, CAUSE_MISSING, 0.75);
	return ret->culprits > 0;
}

static void by_stages(const struct snapshot *snapshot, struct hang_who *ret)
{
	struct held held[HOLDS_OWN + 1] = {{0}};
	const struct held *own = &held[HOLDS_OWN], *either = &held[HOLDS_EITHER], *wait = &held[HOLDS_WAIT];
	uint64_t margin = snapshot->step_ns / 4 > FIRST_MARGIN_NS ? snapshot->step_ns / 4 : FIRST_MARGIN_NS;

	for (size_t i = 0; i < snapshot->ranks; i++) {
		if (hang_who_is_active(snapshot, &snapshot->standing[i]))
			hang_who_hold(held, &snapshot->standing[i]);
	}
	ret->together = own->ranks > 0 && own->same && either->ranks + wait->ranks == 0;
	if (own->ranks > 0) {
		accuse_held(snapshot, HOLDS_OWN, own, 0.9, ret);
	} else if (either->ranks > 0 && either->ranks <= wait->ranks && either->newest_ns <= wait->oldest_ns + margin) {
		accuse_held(snapshot, HOLDS_EITHER, either, 0.75, ret);
	} else {
		hang_who_found(ret, CAUSE_UNKNOWN, 0.5);
	}
}

/* All others of the job are in communication. */
static void by_stacks(const struct snapshot *snapshot, struct hang_who *ret)
{
	size_t communicate = 0;

	for (size_t i = 0; i < snapshot->ranks; i++) {
		const struct standing *standing = &snapshot->standing[i];

		if (hang_who_is_active(snapshot, standing) &&
			(standing->stack == STANDING_STACK_OTHER || standing->stack == STANDING_STACK_LOCK))
			hang_who_accuse(ret, snapshot, standing->rank);
		communicate += standing->stack == STANDING_STACK_COMMUNICATION;
	}
	if (ret->culprits != 1 || communicate == 0 || communicate + 1 < snapshot->world_size)
		acquit_all(ret);
	else
		hang_who_found(ret, CAUSE_MISSING, 0.9);
	ret->by_stacks = ret->culprits > 0;
}

bool hang_who(const struct snapshot *snapshot, struct hang_who *ret)
{
	size_t live = 0;

	*ret = (struct hang_who){.culprit = ret->culprit, .flags = ret->flags, .at = ret->at, .outside = true};
	memset(ret->flags, 0, snapshot->ranks);
	for (size_t i = 0; i < snapshot->ranks; i++) {
		const struct standing *standing = &snapshot->standing[i];

		if (standing->rank < snapshot->ranks) {
			ret->flags[standing->rank] |= HANG_STANDS;
			ret->at[standing->rank] = (uint32_t)i;
		}
		if (!hang_who_is_active(snapshot, standing))
			continue;
		live++;
		ret->outside = ret->outside && standing->stage == STAGE_USER;
		if (standing->progress_ns > ret->since_ns)
			ret->since_ns = standing->progress_ns;
	}
	if (live == 0 || ret->since_ns >= snapshot->now_ns)
		return false;
	if (!by_stopped(snapshot, ret) && !hang_who_by_missing(snapshot, ret) && !by_ended(snapshot, ret) &&
		!by_entered(snapshot, ret) && !by_step(snapshot, ret) && !by_device_waits(snapshot, ret))
		by_stages(snapshot, ret);
	if (ret->cause == CAUSE_UNKNOWN)
		by_stacks(snapshot, ret);
	return true;
}

size_t hang_where(const struct snapshot *snapshot, const struct hang_who *who, char *ret, size_t size)
{
	size_t in[STAGE_KIND_MAX] = {0}, all = 0, at = 0;

	for (size_t i = 0; i < snapshot->ranks; i++) {
		const struct standing *standing = &snapshot->standing[i];

		if (hang_who_is_active(snapshot, standing) && !(who->flags[standing->rank] & HANG_ACCUSED)) {
			in[(size_t)standing->stage < STAGE_KIND_MAX ? standing->stage : STAGE_USER]++;
			all++;
		}
	}
	ret[0] = '\0';
	for (size_t round = 0; round < STAGE_KIND_MAX && at < size; round++) {
		size_t most = 0;
		int n;

		for (size_t k = 1; k < STAGE_KIND_MAX; k++)
			most = in[k] > in[most] ? k : most;
		if (in[most] == 0)
			break;
		/* Where all stand in one stage there is nothing to count. */
		if (in[most] == all)
			n = snprintf(ret + at, size - at, "%s", stages[most].text);
		else
			n = snprintf(
				ret + at, size - at, "%s%s (%zu)", at > 0 ? ", " : "", stages[most].text, in[most]);
		at += n > 0 ? (size_t)n : 0;
		in[most] = 0;
	}
	return all;
}
