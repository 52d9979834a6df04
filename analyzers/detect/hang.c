/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hangs: no rank makes progress, for longer than a healthy job would; and mismatched operations, at once. Who it is:
 * hang_who.c. How long is too long (limit_of): eight steps, at least 12 s and at most hang_ns, but no less than three
 * steps; and longer where
 *  - a checkpoint is in flight: three times the longest one seen, 10 min if none was seen;
 *  - a rank that others wait for uses the CPU and does not synchronise (it compiles, or evaluates): hang_busy_ns;
 *  - a rank has no step yet: hang_busy_ns;
 *  - the job went through an evaluation, a checkpoint or a pause before: half as long again as the longest one, at most
 *    hang_busy_ns; where a rank is in its first steps, the same of the longest first step. The evaluation of one rank
 *    may be the stall of all, so that it does not count where they stand. A rank that has ended has no such excuse;
 *  - all load data, as where an epoch begins: 4 hang_ns; one does: 5/6 hang_ns;
 *  - only a part of the ranks is seen from here and all of them wait: hang_busy_ns, as the one that they wait for may
 *    save or compile on another node. The node that it is on names it sooner;
 *  - no rank stands in any stage, and most on the same side of a step's end, so that nothing says that a step goes on (between
 *    runs of a notebook, generating, writing logs after some have ended): three times hang_busy_ns. Stacks are wanted, which may
 *    show one that all others wait for: then 4 hang_ns, as it may be saving, or hang_ns where it waits for a lock and its
 *    process hardly uses the CPU;
 *  - a job of one rank keeps no other waiting, and a person at a prompt resembles it: hang_busy_ns;
 *    nothing is said while it is in no stage.
 *
 * A process that is stopped by a signal has no such excuse. In a debugger ('t') it has none either where
 * it keeps others waiting; that of a job of one is suspected, and no more.
 *
 * A hang is suspected before that (hang_suspected_after()), and operations are wanted.
 *
 * Cost: the time since the job hung is lost, on all its cards. Each snapshot's verdict carries what has passed since
 * the snapshot before; the first one, suspected as it may be, what has passed since the stop. Where several are said in
 * one snapshot, the first one carries it, so that no second is counted twice.
 */
#include "analyzers/detect/detect_internal.h"

#include "analyzers/coll/coll_judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ULL
#define LEAST_NS (12 * SECOND)
#define CHECKPOINT_NS (600 * SECOND) /* where none was seen */
#define RANKS_MAX 65536
#define STUCKS_MAX 64 /* in one snapshot; the rest are chains of the same */
#define WINDOW_NS (5 * SECOND)
#define WARM_STEPS 3	/* of a process, that compile, allocate and connect; the aligner's ALIGN_FIRST */
#define BUSY_SHARE 0.25 /* of a CPU */
#define IDLE_SHARE 0.02 /* of a CPU: heartbeats and watchdogs of an idle rank use 0.002 (gloo) */

/* CPU time at two moments, so that its rate is that of the last one to two windows. */
struct hang_cpu {
	uint64_t old_ns, old_cpu_ns;
	uint64_t new_ns, new_cpu_ns;
	bool busy, idle;
};

struct hang {
	struct detect_options options;
	size_t ranks;
	struct hang_cpu *cpu;
	uint32_t *culprit, *at;
	uint8_t *flags;
	int32_t *number;
	uint64_t counted_ns; /* lost time is counted up to then */
	uint64_t stacks_ns;  /* how long the standstill lasted when stacks were wanted last; 0: not in this one */
};

static void *hang_new(const struct detect_options *options)
{
	struct hang *hang = calloc(1, sizeof(*hang));

	if (hang)
		hang->options = *options;
	return hang;
}

static void *hang_free(void *state)
{
	struct hang *hang = state;

	if (!hang)
		return NULL;
	free(hang->cpu);
	free(hang->culprit);
	free(hang->at);
	free(hang->flags);
	free(hang->number);
	free(hang);
	return NULL;
}

static bool hang_grow(struct hang *hang, size_t ranks)
{
	struct hang_cpu *cpu;

	if (ranks <= hang->ranks)
		return true;
	cpu = realloc(hang->cpu, ranks * sizeof(*cpu));
	if (!cpu)
		return false;
	hang->cpu = cpu;
	memset(&cpu[hang->ranks], 0, (ranks - hang->ranks) * sizeof(*cpu));
	hang->ranks = 0; /* until all have that capacity */
	free(hang->culprit);
	free(hang->at);
	free(hang->flags);
	free(hang->number);
	hang->culprit = calloc(ranks, sizeof(*hang->culprit));
	hang->at = calloc(ranks, sizeof(*hang->at));
	hang->flags = calloc(ranks, sizeof(*hang->flags));
	hang->number = calloc(ranks, sizeof(*hang->number));
	if (!hang->culprit || !hang->at || !hang->flags || !hang->number)
		return false;
	hang->ranks = ranks;
	return true;
}

/* A count that runs backwards is another process's. */
static void cpu_feed(struct hang_cpu *cpu, const struct standing *standing, uint64_t now_ns)
{
	if (standing->ended || standing->cpu_ns == FRAME_UNKNOWN || now_ns < cpu->new_ns ||
		standing->cpu_ns < cpu->new_cpu_ns || cpu->new_ns == 0) {
		*cpu = (struct hang_cpu){now_ns, standing->cpu_ns, now_ns, standing->cpu_ns, false, false};
		if (standing->ended || standing->cpu_ns == FRAME_UNKNOWN)
			*cpu = (struct hang_cpu){.busy = !standing->ended && standing->state == 'R'};
		return;
	}
	if (now_ns - cpu->old_ns >= SECOND) {
		double share = (double)(standing->cpu_ns - cpu->old_cpu_ns) / (double)(now_ns - cpu->old_ns);

		cpu->busy = share >= BUSY_SHARE;
		cpu->idle = share < IDLE_SHARE;
	}
	if (now_ns - cpu->new_ns >= WINDOW_NS) {
		cpu->old_ns = cpu->new_ns;
		cpu->old_cpu_ns = cpu->new_cpu_ns;
		cpu->new_ns = now_ns;
		cpu->new_cpu_ns = standing->cpu_ns;
	}
}

static uint64_t min_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t hang_times(uint64_t value, uint64_t by)
{
	return value > UINT64_MAX / by ? UINT64_MAX : value * by;
}

/* What the ranks say for the job's patience. */
struct excuses {
	bool checkpoint, starting, warms, busy, loads;
	size_t seen; /* ranks of which something is known, were it that they have ended */
};

static struct excuses excuses_of(const struct hang *hang, const struct snapshot *snapshot, const struct hang_who *who)
{
	struct excuses ret = {.starting = snapshot->step_ns == 0};

	for (size_t i = 0; i < snapshot->ranks; i++) {
		const struct standing *standing = &snapshot->standing[i];
		bool accused = standing->rank < snapshot->ranks && (who->flags[standing->rank] & HANG_ACCUSED);

		ret.seen += standing->ended || standing->progress_ns != 0;
		if (standing->ended || standing->rank >= snapshot->ranks)
			continue;
		ret.checkpoint = ret.checkpoint || standing->stage == STAGE_CHECKPOINT;
		/* Ranks on other nodes are unknown. */
		ret.starting =
			ret.starting || (standing->steps == 0 && (standing->state != 0 || standing->progress_ns != 0));
		ret.loads = ret.loads || (accused && standing->stage == STAGE_DATALOADER);
		ret.warms = ret.warms || standing->steps < WARM_STEPS;
		/* Of whom others wait for, where that is known. */
		if (accused || who->culprits == 0)
			ret.busy = ret.busy || (hang->cpu[standing->rank].busy && standing->stage != STAGE_SYNC &&
						       !hang_stopped(standing));
	}
	return ret;
}

/* How long phases that are no training may take, by those that the job went through. */
static uint64_t hang_phase_of(const struct hang *hang, const struct snapshot *snapshot, const struct excuses *excuses)
{
	uint64_t longest = max_of(snapshot->phase_ns, excuses->warms ? snapshot->warm_ns : 0);

	return min_of(hang_times(longest, 3) / 2, hang->options.hang_busy_ns);
}

/* Where nothing excuses the job. */
static uint64_t hang_limit_least(const struct hang *hang, const struct snapshot *snapshot)
{
	uint64_t hang_ns = hang->options.hang_ns;

	return max_of(max_of(min_of(hang_times(snapshot->step_ns, 8), hang_ns), min_of(LEAST_NS, hang_ns)),
		hang_times(snapshot->step_ns, 3));
}

/* The one that stacks name does not save, compute or read: nothing but another of its threads ends its wait. */
static bool hang_is_locked(const struct hang *hang, const struct snapshot *snapshot, const struct hang_who *who)
{
	const struct standing *standing = who->by_stacks ? hang_standing(snapshot, who, who->culprit[0]) : NULL;

	return standing && standing->stack == STANDING_STACK_LOCK && hang->cpu[who->culprit[0]].idle;
}

/* Where no rank is in a stage. */
static uint64_t hang_limit_outside(const struct hang *hang, const struct snapshot *snapshot, const struct hang_who *who)
{
	if (hang_is_locked(hang, snapshot, who))
		return hang->options.hang_ns;
	return who->by_stacks ? hang_times(hang->options.hang_ns, 4) : hang_times(hang->options.hang_busy_ns, 3);
}

static uint64_t hang_limit_of(const struct hang *hang, const struct snapshot *snapshot, const struct hang_who *who,
	const struct excuses *excuses)
{
	const struct detect_options *options = &hang->options;
	uint64_t limit = hang_limit_least(hang, snapshot);

	if (who->cause == CAUSE_STOPPED)
		return limit;
	if (who->cause != CAUSE_ENDED)
		limit = max_of(limit, hang_phase_of(hang, snapshot, excuses));
	if (excuses->checkpoint)
		limit = max_of(limit, snapshot->checkpoint_ns
					      ? max_of(options->hang_ns, hang_times(snapshot->checkpoint_ns, 3))
					      : CHECKPOINT_NS);
	if (excuses->loads)
		limit = max_of(limit, who->together ? hang_times(options->hang_ns, 4) : options->hang_ns / 6 * 5);
	if (excuses->busy || excuses->starting || snapshot->world_size <= 1 ||
		(who->culprits == 0 && !who->stuck && excuses->seen < snapshot->world_size))
		limit = max_of(limit, options->hang_busy_ns);
	if (who->outside && !who->stuck)
		limit = max_of(limit, hang_limit_outside(hang, snapshot, who));
	return limit;
}

/*
 * Half of its limit. Where all wait for one rank in a step, no later than hang_ns, so that `tracectl findings` names
 * that rank even if it evaluates. In the first step it may compile, unless it hardly uses the CPU.
 */
static uint64_t hang_suspected_after(const struct hang *hang, const struct snapshot *snapshot,
	const struct hang_who *who, const struct excuses *excuses, uint64_t limit)
{
	uint64_t early = max_of(max_of(hang->options.hang_ns, hang_limit_least(hang, snapshot)),
		hang_phase_of(hang, snapshot, excuses));

	if (who->culprits != 1 || who->outside || excuses->checkpoint ||
		(excuses->starting && !hang->cpu[who->culprit[0]].idle))
		return limit / 2;
	return min_of(limit / 2, early);
}

/* For how long: of everybody; where operations say who is missing, of those. */
static uint64_t still_of(const struct snapshot *snapshot, struct hang_who *who)
{
	uint64_t newest = 0;

	if (!who->stuck || who->culprits == 0)
		return snapshot->now_ns - who->since_ns;
	for (size_t i = 0; i < who->culprits; i++) {
		const struct standing *standing = hang_standing(snapshot, who, who->culprit[i]);

		newest = max_of(newest, standing ? standing->progress_ns : who->since_ns);
	}
	if (newest >= snapshot->now_ns)
		return 0;
	return min_of(who->stuck->waited_ns, snapshot->now_ns - newest);
}

static double lost_of(struct hang *hang, uint64_t now_ns, uint64_t since_ns)
{
	uint64_t from = max_of(since_ns, min_of(hang->counted_ns, now_ns));

	hang->counted_ns = now_ns;
	return now_ns > from ? (double)(now_ns - from) : 0;
}

/* One: its rank. More: the list of them. */
static void hang_name(struct hang *hang, const struct snapshot *snapshot, const uint32_t *culprit, size_t culprits,
	struct finding *finding)
{
	size_t n = 0;

	finding->rank = -1;
	for (size_t i = 0; i < culprits && n < hang->ranks; i++) {
		if (culprit[i] >= snapshot->ranks)
			continue;
		finding->rank = n == 0 ? (int32_t)culprit[i] : -1;
		hang->number[n++] = snapshot->who[culprit[i]].rank;
	}
	if (n > 1)
		finding_ranks(hang->number, n, finding->others, sizeof(finding->others));
}

static void add_culprit(
	const struct hang *hang, const struct snapshot *snapshot, const struct hang_who *who, struct finding *finding)
{
	const struct standing *standing = who->culprits > 0 ? hang_standing(snapshot, who, who->culprit[0]) : NULL;
	char state[2] = "";

	if (!standing)
		return;
	state[0] = standing->ended ? '\0' : standing->state;
	if (state[0] > ' ' && state[0] <= '~')
		finding_add(finding, "state", "1", 1, NAN, state);
	if (!standing->ended && (size_t)standing->stage < STAGE_KIND_MAX && stage_text(standing->stage))
		finding_add(finding, "stage", "ns",
			snapshot->now_ns > standing->stage_since_ns
				? (double)(snapshot->now_ns - standing->stage_since_ns)
				: 0,
			NAN, stage_text(standing->stage));
	if (hang->cpu[who->culprit[0]].busy)
		finding_add(finding, "cpu_busy", "1", 1, NAN, "it uses the CPU");
}

static void add_stuck(const struct stuck *stuck, const char *evidence, struct finding *finding)
{
	char detail[64];

	snprintf(detail, sizeof(detail), "%.63s", stuck->called[0] ? stuck->called : stuck->sentence);
	finding_add(finding, evidence, "1", (double)stuck->seq, NAN, detail);
	finding_add(finding, "waited", "ns", (double)stuck->waited_ns, NAN, stuck->communicator);
}

static void hang_emit(struct hang *hang, const struct snapshot *snapshot, const struct hang_who *who, uint64_t still_ns,
	bool confirmed, const struct detector_out *out)
{
	struct verdict verdict = {.confirmed = confirmed};
	struct finding *finding = &verdict.finding;
	char where[64];
	size_t waiting;

	finding->kind = FINDING_HANG;
	finding->cause = who->cause;
	finding->confidence = who->confidence;
	finding->severity = who->outside && !who->stuck ? SEVERITY_WARNING : SEVERITY_CRITICAL;
	finding->since_ns = snapshot->now_ns - still_ns;
	hang_name(hang, snapshot, who->culprit, who->culprits, finding);
	add_culprit(hang, snapshot, who, finding);
	waiting = hang_where(snapshot, who, where, sizeof(where));
	if (waiting > 0)
		finding_add(finding, "waiting", "1", (double)waiting, NAN, where);
	if (who->stuck)
		add_stuck(who->stuck, "entered_seq", finding);
	verdict.lost_ns = lost_of(hang, snapshot->now_ns, finding->since_ns);
	out->emit(out->arg, &verdict);
}

static const struct {
	int state;
	enum finding_cause cause;
} mismatches[] = {
	{COLL_STATE_TYPE_MISMATCH, CAUSE_TYPE_MISMATCH},
	{COLL_STATE_SIZE_MISMATCH, CAUSE_SIZE_MISMATCH},
};

static bool is_mismatch(const struct stuck *stuck, enum finding_cause *ret)
{
	for (size_t i = 0; i < sizeof(mismatches) / sizeof(mismatches[0]); i++) {
		if (mismatches[i].state == stuck->state) {
			*ret = mismatches[i].cause;
			return true;
		}
	}
	return false;
}

/* Reported at once. The stall that it causes is its cost, and no hang of its own. */
static bool hang_emit_mismatches(
	struct hang *hang, const struct snapshot *snapshot, uint64_t since_ns, const struct detector_out *out)
{
	uint64_t still_ns = snapshot->now_ns > since_ns ? snapshot->now_ns - since_ns : 0;
	size_t reported = 0;

	for (size_t s = 0; s < snapshot->stucks && reported < STUCKS_MAX; s++) {
		const struct stuck *stuck = &snapshot->stuck[s];
		struct verdict verdict = {.confirmed = true};
		struct finding *finding = &verdict.finding;

		if (!is_mismatch(stuck, &finding->cause))
			continue;
		finding->kind = FINDING_MISMATCH;
		finding->confidence = 0.95;
		finding->severity = SEVERITY_CRITICAL;
		finding->since_ns = snapshot->now_ns - min_of(stuck->waited_ns, snapshot->now_ns);
		snprintf(finding->communicator, sizeof(finding->communicator), "%.*s",
			(int)sizeof(finding->communicator) - 1, stuck->communicator);
		hang_name(hang, snapshot, stuck->culprit, stuck->culprits, finding);
		add_stuck(stuck, "mismatch", finding);
		if (reported++ == 0 && since_ns != 0)
			verdict.lost_ns =
				lost_of(hang, snapshot->now_ns, snapshot->now_ns - min_of(still_ns, stuck->waited_ns));
		out->emit(out->arg, &verdict);
	}
	return reported > 0;
}

/* A person at a prompt, or in a debugger, is no hang of the job: suspected, never confirmed. */
static bool is_person(const struct snapshot *snapshot, const struct hang_who *who)
{
	const struct standing *standing = who->culprits == 1 ? hang_standing(snapshot, who, who->culprit[0]) : NULL;

	return snapshot->world_size <= 1 && standing && standing->state == 't';
}

/* Again when the standstill is twice as long: ranks may have gone on where nothing shows it. */
static void hang_want_stacks(
	struct hang *hang, const struct snapshot *snapshot, uint64_t still_ns, const struct detector_out *out)
{
	if (still_ns < hang_limit_least(hang, snapshot)) {
		hang->stacks_ns = 0;
	} else if (out->want && still_ns >= hang_times(hang->stacks_ns, 2)) {
		hang->stacks_ns = still_ns;
		out->want(out->arg, JUDGE_WANT_STACKS, "no rank is in a stage or makes progress");
	}
}

static void hang_snapshot(void *state, const struct snapshot *snapshot, const struct detector_out *out)
{
	struct hang *hang = state;
	struct excuses excuses;
	struct hang_who who;
	uint64_t still, limit;
	bool confirmed;

	if (snapshot->ranks == 0 || snapshot->ranks > RANKS_MAX || !hang_grow(hang, snapshot->ranks))
		return;
	for (size_t i = 0; i < snapshot->ranks; i++) {
		if (snapshot->standing[i].rank < snapshot->ranks)
			cpu_feed(&hang->cpu[snapshot->standing[i].rank], &snapshot->standing[i], snapshot->now_ns);
	}
	who = (struct hang_who){.culprit = hang->culprit, .flags = hang->flags, .at = hang->at};
	if (!hang_who(snapshot, &who)) {
		hang_emit_mismatches(hang, snapshot, who.since_ns, out);
		return;
	}
	if (hang_emit_mismatches(hang, snapshot, who.since_ns, out))
		return;
	still = still_of(snapshot, &who);
	excuses = excuses_of(hang, snapshot, &who);
	limit = hang_limit_of(hang, snapshot, &who, &excuses);
	if (who.outside && !who.stuck && snapshot->world_size > 1)
		hang_want_stacks(hang, snapshot, still, out);
	if (still < hang_suspected_after(hang, snapshot, &who, &excuses, limit) ||
		(who.outside && !who.stuck && snapshot->world_size <= 1 && who.cause != CAUSE_STOPPED))
		return;
	confirmed = still >= limit && !is_person(snapshot, &who);
	hang_emit(hang, snapshot, &who, still, confirmed, out);
	if (out->want && (!confirmed || who.culprits == 0))
		out->want(out->arg, JUDGE_WANT_OPERATIONS | JUDGE_WANT_SYSTEM,
			confirmed ? "the job is hung and the rank that it waits for is unknown"
				  : "no rank makes progress");
}

const struct detector hang_detector = {
	.name = "hang",
	.new = hang_new,
	.free = hang_free,
	.snapshot = hang_snapshot,
};
