/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where ranks stand, for hangs: every second, and what L1 says of it while somebody makes no progress. And at once when
 * a rank ends: gloo does not wait for ever in an operation that is another's, it fails, and so do the ranks, within
 * less than a second; of those that died together, what they called last is then all that there is.
 */
#include "analyzers/detect/stuck.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/coll/rank_coll.h"
#include "daemon/coll/coll_snapshot.h"
#include "daemon/steps/rank_steps.h"

_Static_assert(COLL_LOOK_PATIENCE_NS == STUCK_PATIENCE_NS, "one patience");

#define LOOK_NS NSEC_PER_SEC
#define LOOK_ENDED_NS (100 * NSEC_PER_MSEC) /* from one to the next: a job's ranks end together */
#define STUCKS_MAX 64
#define MEMBERS_MAX 64 /* culprits of a verdict, and waiters */

struct looking {
	struct online *online;
	uint64_t now_ns;
	struct standing *standing;
	size_t standings;
	uint64_t slowest_ns; /* the longest that a rank which lives has made no progress */
	bool ended;	     /* one has just ended */
};

struct verdicts {
	struct stuck stuck[STUCKS_MAX];
	const char *job[STUCKS_MAX];
	uint32_t culprit[STUCKS_MAX][MEMBERS_MAX], waiter[STUCKS_MAX][MEMBERS_MAX];
	size_t count;
};

static void online_stall_stand(struct looking *looking, const struct online_process *process)
{
	const struct rank_steps *steps = looking->online->context->steps;
	struct standing *standing = &looking->standing[looking->standings++];
	struct rank_steps_progress progress = {0};

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

static void stand_all(struct looking *looking)
{
	struct online *online = looking->online;

	for (size_t i = 0; i < online->slots; i++) {
		const struct standing *standing = &looking->standing[looking->standings];

		if (!online->slot[i].instance)
			continue;
		online_stall_stand(looking, &online->slot[i]);
		if (standing->progress_ns && looking->now_ns > standing->progress_ns &&
			looking->now_ns - standing->progress_ns > looking->slowest_ns)
			looking->slowest_ns = looking->now_ns - standing->progress_ns;
	}
	for (size_t i = 0; i < FINDINGS_ENDED; i++)
		if (online->ended[i].instance)
			online_stall_stand(looking, &online->ended[i]);
}

/* Nobody sees operations: when the newest one ended is no longer known. */
static void forget_operations(struct online *online)
{
	for (size_t i = 0; i < online->slots; i++)
		online->slot[i].op_ns = 0;
}

/* Of the process, whether it lives or has ended. */
static bool online_stall_number_of(const struct online *online, uint32_t pid, uint32_t *ret)
{
	for (size_t i = 0; i < online->slots; i++)
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
	if (*members < MEMBERS_MAX && online_stall_number_of(online, pid, &member[*members]))
		(*members)++;
}

static void add_verdict(struct verdicts *verdicts, const struct online *online, const struct coll_snapshot *snapshot,
	const struct coll_snapshot_comm *comm)
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

/* Costs a look into the kernel, so only while somebody stands still, or ended; what is wrong stands first. */
static void judge_operations(const struct looking *looking, struct verdicts *verdicts, struct coll_snapshot **ret)
{
	struct online *online = looking->online;

	if (!online->context->levels.on[LEVEL_L1] || (!looking->ended && looking->slowest_ns < COLL_LOOK_PATIENCE_NS))
		return;
	if (coll_snapshot_new(online->context->ops, looking->now_ns, ret) < 0)
		return;
	for (size_t i = 0; i < (*ret)->comms && verdicts->count < STUCKS_MAX; i++)
		add_verdict(verdicts, online, *ret, &(*ret)->comm[i]);
}

static void online_stall_ops_look_freep(struct coll_snapshot **snapshot)
{
	coll_snapshot_free(*snapshot);
}

/* Those whose job is over, whose number is another's now, or that ended long ago. */
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

static void look_at_all(struct online *online, uint64_t now_ns, bool ended)
{
	_cleanup_(online_stall_ops_look_freep) struct coll_snapshot *snapshot = NULL;
	_cleanup_free_ struct verdicts *verdicts = NULL;
	struct looking looking = {.online = online, .now_ns = now_ns, .ended = ended};
	_cleanup_free_ struct standing *standing = NULL;
	struct rank_coll_counts counts = {0};

	standing = calloc(online->slots + FINDINGS_ENDED, sizeof(*standing));
	verdicts = calloc(1, sizeof(*verdicts));
	if (!standing || !verdicts)
		return;
	looking.standing = standing;
	online_stall_forget_ended(online, now_ns);
	if (!online->context->levels.on[LEVEL_L1])
		forget_operations(online);
	stand_all(&looking);
	if (!looking.standings)
		return;
	judge_operations(&looking, verdicts, &snapshot);
	if (online->context->levels.on[LEVEL_L1])
		rank_coll_counts(online->context->ops, &counts);
	detect_snapshot(online->detect, now_ns, standing, looking.standings, verdicts->stuck, verdicts->job,
		verdicts->count, counts.communicators > 0);
}

void online_stall_snapshot(struct online *online, uint64_t now_ns)
{
	if (now_ns < online->look_next_ns)
		return;
	online->look_next_ns = now_ns + LOOK_NS;
	look_at_all(online, now_ns, false);
}

void online_stall_ended(struct online *online, uint64_t now_ns)
{
	if (!online->context->levels.on[LEVEL_L1] || now_ns < online->look_ended_ns)
		return;
	online->look_ended_ns = now_ns + LOOK_ENDED_NS;
	look_at_all(online, now_ns, true);
}
