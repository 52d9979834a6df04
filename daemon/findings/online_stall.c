/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress of ranks for hang detection: every second, with the verdicts on communicators (L1) while a rank makes no
 * progress. Also at once when a rank ends: gloo fails within a second in an operation with a dead peer, and the last
 * calls of ranks that died together are the only evidence.
 *
 * The daemon's own lag is no hang: times are of records, a check is as of the time up to which all records were read,
 * and where the ring was full, silence counts from then on.
 */
#include "analyzers/detect/stuck.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/steps/rank_steps.h"

_Static_assert(COLL_SNAPSHOT_PATIENCE_NS == STUCK_PATIENCE_NS, "one patience");

#define CHECK_NS NSEC_PER_SEC
#define CHECK_ENDED_NS (100 * NSEC_PER_MSEC) /* minimum between two: a job's ranks end together */
#define STUCKS_MAX 64
#define MEMBERS_MAX 64 /* culprits and waiters of a verdict */

struct stall_check {
	struct online *online;
	uint64_t now_ns;
	struct standing *standing;
	struct online_process **process; /* of each of standing */
	size_t standings;
	uint64_t slowest_ns; /* longest time without progress of a live rank */
	bool ended;	     /* a rank has just ended */
};

struct verdicts {
	struct stuck stuck[STUCKS_MAX];
	const char *job[STUCKS_MAX];
	uint32_t culprit[STUCKS_MAX][MEMBERS_MAX], waiter[STUCKS_MAX][MEMBERS_MAX];
	size_t count;
};

static void online_stall_add_standing(struct stall_check *check, struct online_process *process)
{
	const struct rank_steps *steps = check->online->context->steps;
	struct standing *standing = &check->standing[check->standings];
	struct rank_steps_progress progress = {0};

	check->process[check->standings++] = process;
	*standing = (struct standing){
		.rank = (uint32_t)process->process,
		.state = process->newest.state,
		.ended = process->ended_ns,
		.ended_ns = process->ended_ns,
		.stage = STAGE_USER,
		.cpu_ns = process->newest.state ? process->newest.cpu_total_ns : FRAME_UNKNOWN,
		.progress_ns = process->op_ns,
	};
	if (process->ended_ns)
		progress = process->last;
	else if (!rank_steps_progress(steps, process->slot, process->instance, &progress))
		return;
	if (progress.mark_ns > standing->progress_ns)
		standing->progress_ns = progress.mark_ns;
	standing->steps = progress.steps;
	standing->step_end_ns = progress.step_end_ns;
	if (!progress.in_stage || process->ended_ns)
		return;
	standing->stage = stage_of_stage(progress.stage.stage).kind;
	standing->stage_since_ns = progress.stage.start_ns;
}

/* Where records were lost, a rank that showed life before may have shown it since. It is no sign that a step began: a
 * rank at the end of its step is at its end still. */
static void online_stall_excuse(const struct stall_check *check, struct standing *standing)
{
	if (standing->progress_ns && standing->progress_ns < check->online->blind_ns) {
		if (standing->step_end_ns >= standing->progress_ns)
			standing->step_end_ns = check->online->blind_ns;
		standing->progress_ns = check->online->blind_ns;
	}
	if (standing->progress_ns > check->now_ns)
		standing->progress_ns = check->now_ns;
}

static void online_stall_add_stack(const struct online_process *process, struct standing *standing)
{
	if (!process->ended_ns && process->stack_ns > standing->progress_ns)
		standing->stack = process->stack;
}

static void online_stall_collect(struct stall_check *check)
{
	struct online *online = check->online;

	for (size_t i = 0; i < online->slots_used; i++) {
		struct standing *standing = &check->standing[check->standings];

		if (!online->slot[i].instance)
			continue;
		online_stall_add_standing(check, &online->slot[i]);
		online_stall_excuse(check, standing);
		online_stall_add_stack(&online->slot[i], standing);
		if (standing->progress_ns && check->now_ns > standing->progress_ns &&
			check->now_ns - standing->progress_ns > check->slowest_ns)
			check->slowest_ns = check->now_ns - standing->progress_ns;
	}
	for (size_t i = 0; i < FINDINGS_ENDED; i++)
		if (online->ended[i].instance)
			online_stall_add_standing(check, &online->ended[i]);
}

/* L1 is off: ends of operations are unknown. */
static void online_stall_forget_ops(struct online *online)
{
	for (size_t i = 0; i < online->slots_used; i++)
		online->slot[i].op_ns = 0;
}

/* Of a live or ended process. */
static bool online_stall_number(const struct online *online, uint32_t pid, uint32_t *ret)
{
	for (size_t i = 0; i < online->slots_used; i++)
		if (online->slot[i].instance && online->slot[i].pid == pid) {
			*ret = (uint32_t)online->slot[i].process;
			return true;
		}
	for (size_t i = 0; i < FINDINGS_ENDED; i++)
		if (online->ended[i].instance && online->ended[i].pid == pid) {
			*ret = (uint32_t)online->ended[i].process;
			return true;
		}
	return false;
}

static void online_stall_add_member(const struct online *online, uint32_t pid, uint32_t *member, size_t *members)
{
	if (*members < MEMBERS_MAX && online_stall_number(online, pid, &member[*members]))
		(*members)++;
}

static void online_stall_add_verdict(struct verdicts *verdicts, const struct online *online,
	const struct coll_snapshot *snapshot, const struct coll_snapshot_comm *comm)
{
	_cleanup_free_ struct coll_judged *judged = calloc(comm->members + 1, sizeof(*judged));
	struct stuck *stuck = &verdicts->stuck[verdicts->count];
	uint32_t *culprit = verdicts->culprit[verdicts->count], *waiter = verdicts->waiter[verdicts->count];

	for (size_t i = 0; judged && i < comm->members; i++)
		judged[i] = snapshot->member[comm->first + i].judged;
	if (!judged || !stuck_of(judged, comm->members, &comm->verdict, snapshot->now_ns, stuck))
		return;
	(void)copy_text(stuck->sentence, sizeof(stuck->sentence), comm->sentence);
	stuck->culprit = culprit;
	stuck->waiter = waiter;
	for (size_t i = 0; i < comm->members; i++) {
		if (stuck_is_culprit(stuck, &judged[i]))
			online_stall_add_member(online, judged[i].pid, culprit, &stuck->culprits);
		else if (stuck_is_waiter(stuck, &judged[i]))
			online_stall_add_member(online, judged[i].pid, waiter, &stuck->waiters);
	}
	verdicts->job[verdicts->count++] = snapshot->member[comm->first].job;
}

/* Reading the kernel's in-flight calls is costly: only if a rank stalls or ended. Faulty communicators come first. */
static void online_stall_judge_ops(
	const struct stall_check *check, struct verdicts *verdicts, struct coll_snapshot **ret)
{
	struct online *online = check->online;

	if (!online->context->levels.on[LEVEL_L1] || (!check->ended && check->slowest_ns < COLL_SNAPSHOT_PATIENCE_NS))
		return;
	if (coll_snapshot_new(online->context->ops, check->now_ns, ret) < 0)
		return;
	for (size_t i = 0; i < (*ret)->comms && verdicts->count < STUCKS_MAX; i++)
		online_stall_add_verdict(verdicts, online, *ret, &(*ret)->comm[i]);
}

DEFINE_CLEANUP(struct coll_snapshot *, coll_snapshot_free)

/* Forgets ended ranks with their job, when their number is reused, or after FINDINGS_ENDED_NS. */
static void online_stall_forget_ended(struct online *online, uint64_t now_ns)
{
	for (size_t i = 0; i < FINDINGS_ENDED; i++) {
		struct online_process *process = &online->ended[i];
		uint32_t job, index;

		if (process->instance && (now_ns > process->ended_ns + FINDINGS_ENDED_NS ||
						 !align_locate(online->align, process->process, &job, &index)))
			process->instance = 0;
	}
}

/* A rank of which nothing is known is as silent as the others. */
static void online_stall_put_rows(const struct stall_check *check, const struct coll_snapshot *snapshot)
{
	for (size_t i = 0; i < check->standings; i++) {
		const struct standing *standing = &check->standing[i];
		uint64_t silent_ns = !standing->progress_ns		     ? check->slowest_ns
				     : check->now_ns > standing->progress_ns ? check->now_ns - standing->progress_ns
									     : 0;

		online_standing_put(
			check->online, check->process[i], standing, snapshot, silent_ns, check->now_ns, check->ended);
	}
}

static void online_stall_check_all(struct online *online, uint64_t now_ns, bool ended)
{
	_cleanup_(coll_snapshot_freep) struct coll_snapshot *snapshot = NULL;
	_cleanup_free_ struct verdicts *verdicts = NULL;
	struct stall_check check = {.online = online, .now_ns = now_ns, .ended = ended};
	_cleanup_free_ struct standing *standing = NULL;
	_cleanup_free_ struct online_process **process = NULL;
	struct rank_coll_counts counts = {0};

	standing = calloc(online->slots_used + FINDINGS_ENDED, sizeof(*standing));
	process = calloc(online->slots_used + FINDINGS_ENDED, sizeof(struct online_process *));
	verdicts = calloc(1, sizeof(*verdicts));
	if (!standing || !process || !verdicts)
		return;
	check.standing = standing;
	check.process = process;
	online_stall_forget_ended(online, now_ns);
	if (!online->context->levels.on[LEVEL_L1])
		online_stall_forget_ops(online);
	online_stall_collect(&check);
	if (!check.standings)
		return;
	online_stall_judge_ops(&check, verdicts, &snapshot);
	online_stall_put_rows(&check, snapshot);
	if (online->context->levels.on[LEVEL_L1])
		rank_coll_counts(online->context->ops, &counts);
	detect_snapshot(online->detect, now_ns, standing, check.standings, verdicts->stuck, verdicts->job,
		verdicts->count, counts.communicators > 0);
}

void online_stall_tick(struct online *online, uint64_t now_ns)
{
	if (now_ns < online->stall_next_ns)
		return;
	online->stall_next_ns = now_ns + CHECK_NS;
	online_stall_check_all(online, now_ns, false);
}

void online_stall_ended(struct online *online, uint64_t now_ns)
{
	uint64_t drained_ns = online->context->drained_ns;

	if (!online->context->levels.on[LEVEL_L1] || now_ns < online->stall_ended_next_ns)
		return;
	if (drained_ns && now_ns > drained_ns + CHECK_NS)
		return; /* the daemon is behind: what is silent may not have been read yet */
	online->stall_ended_next_ns = now_ns + CHECK_ENDED_NS;
	online_stall_check_all(online, now_ns, true);
}
