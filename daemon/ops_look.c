/* SPDX-License-Identifier: Apache-2.0 */
/* See ops_look.h. */
#include <inttypes.h>
#include "daemon/ops_look.h"
#include "daemon/ops_stopped.h"

struct coll_snapshot *coll_snapshot_free(struct coll_snapshot *look)
{
	if (!look)
		return NULL;
	free(look->comm);
	free(look->member);
	free(look->call);
	free(look);
	return NULL;
}

static void coll_snapshot_ops_look_freep(struct coll_snapshot **look)
{
	coll_snapshot_free(*look);
}

static void coll_snapshot_collect(void *arg, const struct rank_coll_standing *standing)
{
	struct coll_snapshot *look = arg;
	struct coll_snapshot_member *member;

	if (look->members == COLL_LOOK_MEMBERS_MAX) {
		look->left_out++;
		return;
	}
	member = &look->member[look->members++];
	*member = (struct coll_snapshot_member){
		.judged = {.rank = standing->rank, .pid = standing->pid, .ops = standing->ops, .standing = *standing->standing},
		.ended_ns = standing->ended_ns,
	};
	(void)copy_text(member->job, sizeof(member->job), standing->job);
	(void)copy_text(member->kind, sizeof(member->kind), standing->kind);
	(void)copy_text(member->trouble, sizeof(member->trouble), standing->trouble);
}

static int coll_snapshot_order(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Members of one communicator stand together. Jobs are told apart, should two of them ever come to the same identity. What
 * is not known stands alone. */
static int coll_snapshot_by_communicator(const void *a, const void *b)
{
	const struct coll_snapshot_member *x = a, *y = b;
	const struct coll_standing *p = &x->judged.standing, *q = &y->judged.standing;
	int r = coll_snapshot_order(!p->communicator[0], !q->communicator[0]);

	r = r ? r : strcmp(x->job, y->job);
	r = r ? r : strcmp(p->family, q->family);
	r = r ? r : strcmp(p->communicator, q->communicator);
	if (r || p->communicator[0])
		return r;
	r = coll_snapshot_order(x->judged.pid, y->judged.pid);
	return r ? r : coll_snapshot_order(p->address, q->address);
}

static int coll_snapshot_by_missing(const void *a, const void *b)
{
	const struct coll_snapshot_member *x = a, *y = b;
	int r = coll_snapshot_order(y->judged.missing || y->judged.differs, x->judged.missing || x->judged.differs);

	r = r ? r : coll_snapshot_order((uint32_t)x->judged.rank, (uint32_t)y->judged.rank);
	return r ? r : coll_snapshot_order(x->judged.pid, y->judged.pid);
}

static int by_urgency(const void *a, const void *b)
{
	const struct coll_snapshot_comm *x = a, *y = b;
	int r = coll_snapshot_order(x->verdict.state == COLL_STATE_RUNNING, y->verdict.state == COLL_STATE_RUNNING);

	r = r ? r : coll_snapshot_order(y->verdict.waited_ns, x->verdict.waited_ns);
	r = r ? r : coll_snapshot_order(y->members, x->members);
	return r ? r : coll_snapshot_order(x->first, y->first);
}

static int coll_snapshot_by_start(const void *a, const void *b)
{
	const struct rank_coll_call *x = a, *y = b;

	return coll_snapshot_order(x->start_ns, y->start_ns);
}

/* Communicators of which nobody lives are over. */
static void drop_ended(struct coll_snapshot *look)
{
	size_t kept = 0;

	for (size_t i = 0, end; i < look->members; i = end) {
		bool lives = false;

		for (end = i; end < look->members &&
			      coll_snapshot_by_communicator(&look->member[i], &look->member[end]) == 0;
			end++)
			lives |= !look->member[end].ended_ns;
		if (!lives)
			continue;
		memmove(&look->member[kept], &look->member[i], (end - i) * sizeof(look->member[0]));
		kept += end - i;
	}
	look->members = kept;
}

static void coll_snapshot_say(struct coll_snapshot_comm *comm, const struct coll_snapshot_member *member)
{
	size_t used;

	if (!member->judged.standing.communicator[0]) {
		snprintf(comm->sentence, sizeof(comm->sentence), "rank %d is on a communicator that is not identified: %s",
			member->judged.rank, member->trouble[0] ? member->trouble : "nothing told its identity");
		return;
	}
	snprintf(comm->sentence, sizeof(comm->sentence), "%s", comm->verdict.sentence);
	for (size_t i = 0; i < comm->members; i++) {
		used = strlen(comm->sentence);
		if ((member[i].ended_ns && member[i].judged.missing) || member[i].stopped)
			snprintf(comm->sentence + used, sizeof(comm->sentence) - used, "; rank %d (process %u) %s",
				member[i].judged.rank, member[i].judged.pid, member[i].stopped ? "is stopped" : "has ended");
	}
}

static int coll_snapshot_judge(struct coll_snapshot *look, struct coll_snapshot_comm *comm)
{
	struct coll_snapshot_member *member = &look->member[comm->first];
	_cleanup_free_ struct coll_judged *judged = calloc(comm->members, sizeof(*judged));

	if (!judged)
		return -ENOMEM;
	for (size_t i = 0; i < comm->members; i++)
		judged[i] = member[i].judged;
	if (member->judged.standing.communicator[0])
		coll_judge(judged, comm->members, look->now_ns, COLL_LOOK_PATIENCE_NS, &comm->verdict);
	else
		comm->verdict = (struct coll_verdict){.here = 1, .members = member->judged.standing.members};
	for (size_t i = 0; i < comm->members; i++)
		member[i].judged = judged[i];
	if (member->judged.standing.communicator[0])
		coll_stopped(comm, member, "/proc", look->now_ns, COLL_LOOK_PATIENCE_NS);
	qsort(member, comm->members, sizeof(*member), coll_snapshot_by_missing);
	coll_snapshot_say(comm, member);
	return 0;
}

static int group(struct coll_snapshot *look)
{
	int r = 0;

	look->comm = calloc(look->members + 1, sizeof(*look->comm));
	if (!look->comm)
		return -ENOMEM;
	for (size_t i = 0, end; i < look->members && r == 0; i = end) {
		struct coll_snapshot_comm *comm = &look->comm[look->comms++];

		for (end = i; end < look->members &&
			      coll_snapshot_by_communicator(&look->member[i], &look->member[end]) == 0;)
			end++;
		comm->first = i;
		comm->members = end - i;
		r = coll_snapshot_judge(look, comm);
	}
	qsort(look->comm, look->comms, sizeof(*look->comm), by_urgency);
	return r;
}

int coll_snapshot_new(struct rank_coll *colls, uint64_t now_ns, struct coll_snapshot **ret)
{
	_cleanup_(coll_snapshot_ops_look_freep) struct coll_snapshot *look = calloc(1, sizeof(*look));
	int r;

	if (!look)
		return -ENOMEM;
	look->now_ns = now_ns;
	look->member = calloc(COLL_LOOK_MEMBERS_MAX, sizeof(*look->member));
	look->call = calloc(RANK_COLL_IN_CALL_MAX, sizeof(*look->call));
	if (!look->member || !look->call)
		return -ENOMEM;
	look->calls = rank_coll_refresh(colls, look->call, RANK_COLL_IN_CALL_MAX);
	qsort(look->call, look->calls, sizeof(*look->call), coll_snapshot_by_start);
	rank_coll_each(colls, coll_snapshot_collect, look);
	qsort(look->member, look->members, sizeof(*look->member), coll_snapshot_by_communicator);
	drop_ended(look);
	r = group(look);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(look);
	return 0;
}
