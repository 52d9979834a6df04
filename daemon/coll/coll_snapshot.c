/* SPDX-License-Identifier: Apache-2.0 */
/* Collects members, groups them by communicator, judges each coll_snapshot_group. */
#include "daemon/coll/coll_snapshot.h"
#include "analyzers/base/array.h"
#include "daemon/base/fair.h"

#include <inttypes.h>

/* In an entered operation, not known to have completed, for more than patience_ns. */
static bool coll_snapshot_in_operation(const struct coll_standing *standing, uint64_t now_ns, uint64_t patience_ns)
{
	const struct coll_point *entered = &standing->entered;

	if (!entered->seq || entered->time_ns >= now_ns || now_ns - entered->time_ns <= patience_ns)
		return false;
	return standing->in_call_ns || (standing->completion_known && standing->completed.seq < entered->seq);
}

/* Missing by call counts, but in the same operation as a stopped member: it waits for that one. */
static bool coll_snapshot_waits_for(const struct coll_snapshot_member *member,
	const struct coll_snapshot_member *stopped, uint64_t now_ns, uint64_t patience_ns)
{
	const struct coll_standing *mine = &member->judged.standing, *theirs = &stopped->judged.standing;

	return !member->stopped && !member->ended_ns && coll_snapshot_in_operation(mine, now_ns, patience_ns) &&
	       coll_snapshot_in_operation(theirs, now_ns, patience_ns) && mine->entered.seq >= theirs->entered.seq;
}

static void coll_snapshot_clear_waiting(struct coll_snapshot_comm *comm, struct coll_snapshot_member *member,
	const struct coll_snapshot_member *stopped, uint64_t now_ns, uint64_t patience_ns)
{
	for (size_t i = 0; i < comm->members; i++)
		if (coll_snapshot_waits_for(&member[i], stopped, now_ns, patience_ns))
			member[i].judged.missing = false;
}

void coll_snapshot_mark_stopped(
	struct coll_snapshot_comm *comm, struct coll_snapshot_member *member, uint64_t now_ns, uint64_t patience_ns)
{
	bool alone = comm->verdict.state == COLL_STATE_RUNNING;

	for (size_t i = 0; i < comm->members; i++) {
		const struct coll_standing *standing = &member[i].judged.standing;

		if (!member[i].stopped)
			continue;
		if (member[i].judged.missing)
			coll_snapshot_clear_waiting(comm, member, &member[i], now_ns, patience_ns);
		if (!alone || !coll_snapshot_in_operation(standing, now_ns, patience_ns))
			continue;
		member[i].judged.missing = true;
		comm->verdict.state = COLL_STATE_MISSING;
		comm->verdict.seq = standing->entered.seq;
		if (comm->verdict.waited_ns < now_ns - standing->entered.time_ns)
			comm->verdict.waited_ns = now_ns - standing->entered.time_ns;
	}
}

struct coll_snapshot *coll_snapshot_free(struct coll_snapshot *snapshot)
{
	if (!snapshot)
		return NULL;
	free(snapshot->comm);
	free(snapshot->member);
	free(snapshot->call);
	free(snapshot);
	return NULL;
}

DEFINE_CLEANUP(struct coll_snapshot *, coll_snapshot_free)

struct coll_snapshot_collecting {
	struct coll_snapshot *snapshot;
	struct fair fair;
};

static void coll_snapshot_count(void *arg, const struct rank_coll_standing *standing)
{
	struct coll_snapshot_collecting *collecting = arg;

	fair_count(&collecting->fair, standing->uid, 1);
}

static void coll_snapshot_collect(void *arg, const struct rank_coll_standing *standing)
{
	struct coll_snapshot_collecting *collecting = arg;
	struct coll_snapshot *snapshot = collecting->snapshot;
	struct coll_snapshot_member *member;

	if (snapshot->members == COLL_SNAPSHOT_MEMBERS_MAX || !fair_take(&collecting->fair, standing->uid, 1)) {
		snapshot->left_out++;
		return;
	}
	member = &snapshot->member[snapshot->members++];
	*member = (struct coll_snapshot_member){
		.judged = {.rank = standing->rank,
			.pid = standing->pid,
			.ops = standing->ops,
			.standing = *standing->standing},
		.ended_ns = standing->ended_ns,
		.stopped = standing->stopped,
		.uid = standing->uid,
	};
	(void)copy_text(member->job, sizeof(member->job), standing->job);
	(void)copy_text(member->kind, sizeof(member->kind), standing->kind);
	(void)copy_text(member->reason, sizeof(member->reason), standing->reason);
}

/*
 * Orders members of one communicator together, per user and job, in case identities collide. Unidentified ones form
 * groups of their own.
 */
static int coll_snapshot_by_communicator(const void *a, const void *b)
{
	const struct coll_snapshot_member *x = a, *y = b;
	const struct coll_standing *p = &x->judged.standing, *q = &y->judged.standing;
	int r = ORDER(!p->communicator[0], !q->communicator[0]) ?: ORDER(x->uid, y->uid) ?: strcmp(x->job, y->job) ?:
		strcmp(p->family, q->family) ?: strcmp(p->communicator, q->communicator);

	return r || p->communicator[0] ? r : ORDER(x->judged.pid, y->judged.pid) ?: ORDER(p->address, q->address);
}

static int coll_snapshot_by_missing(const void *a, const void *b)
{
	const struct coll_snapshot_member *x = a, *y = b;

	return ORDER(y->judged.missing || y->judged.differs, x->judged.missing || x->judged.differs) ?:
	       ORDER((uint32_t)x->judged.rank, (uint32_t)y->judged.rank) ?: ORDER(x->judged.pid, y->judged.pid);
}

static int coll_snapshot_by_urgency(const void *a, const void *b)
{
	const struct coll_snapshot_comm *x = a, *y = b;

	return ORDER(x->verdict.state == COLL_STATE_RUNNING, y->verdict.state == COLL_STATE_RUNNING) ?:
	       ORDER(y->verdict.waited_ns, x->verdict.waited_ns) ?: ORDER(y->members, x->members) ?:
	       ORDER(x->first, y->first);
}

static int coll_snapshot_by_start(const void *a, const void *b)
{
	const struct rank_coll_call *x = a, *y = b;

	return ORDER(x->start_ns, y->start_ns);
}

/* Drops communicators without a live member. */
static void coll_snapshot_drop_ended(struct coll_snapshot *snapshot)
{
	size_t kept = 0;

	for (size_t i = 0, end; i < snapshot->members; i = end) {
		bool lives = false;

		for (end = i; end < snapshot->members &&
			      coll_snapshot_by_communicator(&snapshot->member[i], &snapshot->member[end]) == 0;
			end++)
			lives |= !snapshot->member[end].ended_ns;
		if (!lives)
			continue;
		memmove(&snapshot->member[kept], &snapshot->member[i], (end - i) * sizeof(snapshot->member[0]));
		kept += end - i;
	}
	snapshot->members = kept;
}

static void coll_snapshot_sentence(struct coll_snapshot_comm *comm, const struct coll_snapshot_member *member)
{
	size_t used;

	if (!member->judged.standing.communicator[0]) {
		snprintf(comm->sentence, sizeof(comm->sentence),
			"rank %d is on a communicator that is not identified: %s", member->judged.rank,
			member->reason[0] ? member->reason : "no source of its identity");
		return;
	}
	snprintf(comm->sentence, sizeof(comm->sentence), "%s", comm->verdict.sentence);
	for (size_t i = 0; i < comm->members; i++) {
		used = strlen(comm->sentence);
		if ((member[i].ended_ns && member[i].judged.missing) || member[i].stopped)
			snprintf(comm->sentence + used, sizeof(comm->sentence) - used, "; rank %d (process %u) %s",
				member[i].judged.rank, member[i].judged.pid,
				member[i].stopped ? "is stopped" : "has ended");
	}
}

static int coll_snapshot_judge(struct coll_snapshot *snapshot, struct coll_snapshot_comm *comm)
{
	struct coll_snapshot_member *member = &snapshot->member[comm->first];
	_cleanup_free_ struct coll_judged *judged = calloc(comm->members, sizeof(*judged));

	if (!judged)
		return -ENOMEM;
	for (size_t i = 0; i < comm->members; i++)
		judged[i] = member[i].judged;
	if (member->judged.standing.communicator[0])
		coll_judge(judged, comm->members, snapshot->now_ns, COLL_SNAPSHOT_PATIENCE_NS, &comm->verdict);
	else
		comm->verdict = (struct coll_verdict){.here = 1, .members = member->judged.standing.members};
	for (size_t i = 0; i < comm->members; i++)
		member[i].judged = judged[i];
	if (member->judged.standing.communicator[0])
		coll_snapshot_mark_stopped(comm, member, snapshot->now_ns, COLL_SNAPSHOT_PATIENCE_NS);
	qsort(member, comm->members, sizeof(*member), coll_snapshot_by_missing);
	coll_snapshot_sentence(comm, member);
	return 0;
}

static int coll_snapshot_group(struct coll_snapshot *snapshot)
{
	int r = 0;

	snapshot->comm = calloc(snapshot->members + 1, sizeof(*snapshot->comm));
	if (!snapshot->comm)
		return -ENOMEM;
	for (size_t i = 0, end; i < snapshot->members && r == 0; i = end) {
		struct coll_snapshot_comm *comm = &snapshot->comm[snapshot->comms++];

		for (end = i; end < snapshot->members &&
			      coll_snapshot_by_communicator(&snapshot->member[i], &snapshot->member[end]) == 0;)
			end++;
		comm->first = i;
		comm->members = end - i;
		r = coll_snapshot_judge(snapshot, comm);
	}
	qsort(snapshot->comm, snapshot->comms, sizeof(*snapshot->comm), coll_snapshot_by_urgency);
	return r;
}

int coll_snapshot_new(struct rank_coll *colls, uint64_t now_ns, struct coll_snapshot **ret)
{
	_cleanup_(coll_snapshot_freep) struct coll_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	struct coll_snapshot_collecting collecting = {.snapshot = snapshot};
	int r;

	if (!snapshot)
		return -ENOMEM;
	snapshot->now_ns = now_ns;
	snapshot->member = calloc(COLL_SNAPSHOT_MEMBERS_MAX, sizeof(*snapshot->member));
	snapshot->call = calloc(RANK_COLL_IN_CALL_MAX, sizeof(*snapshot->call));
	if (!snapshot->member || !snapshot->call)
		return -ENOMEM;
	snapshot->calls = rank_coll_refresh(colls, snapshot->call, RANK_COLL_IN_CALL_MAX);
	qsort(snapshot->call, snapshot->calls, sizeof(*snapshot->call), coll_snapshot_by_start);
	rank_coll_each(colls, coll_snapshot_count, &collecting);
	fair_share(&collecting.fair, COLL_SNAPSHOT_MEMBERS_MAX);
	rank_coll_each(colls, coll_snapshot_collect, &collecting);
	qsort(snapshot->member, snapshot->members, sizeof(*snapshot->member), coll_snapshot_by_communicator);
	coll_snapshot_drop_ended(snapshot);
	r = coll_snapshot_group(snapshot);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(snapshot);
	return 0;
}
