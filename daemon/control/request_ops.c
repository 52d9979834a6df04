/* SPDX-License-Identifier: Apache-2.0 */
/* The request `ops`: where every rank stands on its communicators, and who is missing. Changes nothing. */
#include "daemon/base/fair.h"
#include "daemon/core/context.h"
#include "daemon/coll/coll_snapshot.h"
#include "daemon/findings/online.h"
#include "daemon/ranks/ranks.h"
#include "daemon/control/request.h"

/*
 * A member is below 200 bytes and a communicator below 1 KiB, so that these many fit into one response. Where there are
 * more, users have equal parts.
 */
#define MEMBERS_MAX 2048u
#define COMMUNICATORS_MAX 384u
#define CALLS_MAX 256u

static uint64_t request_ops_ago(uint64_t now_ns, uint64_t time_ns)
{
	return now_ns > time_ns ? now_ns - time_ns : 0;
}

/* Where nothing is known, or no memory, it is left out. */
static void request_ops_fill_point(Ranktrace__OpsPoint *item, const struct coll_point *point, uint64_t now_ns)
{
	if (!item)
		return;
	item->seq = point->seq;
	item->op = strndup(point->op, sizeof(point->op));
	item->dtype = strndup(point->dtype, sizeof(point->dtype));
	item->count_known = point->count != COLL_UNKNOWN;
	item->count = item->count_known ? point->count : 0;
	item->bytes_known = point->bytes != COLL_UNKNOWN;
	item->bytes = item->bytes_known ? point->bytes : 0;
	item->ago_ns = request_ops_ago(now_ns, point->time_ns);
}

static void request_ops_fill_member(
	Ranktrace__OpsMember *item, const struct coll_snapshot_member *member, uint64_t now_ns)
{
	const struct coll_standing *standing = &member->judged.standing;

	item->rank = member->judged.rank;
	item->pid = member->judged.pid;
	item->uid = member->uid;
	item->member = standing->member;
	if (standing->entered.op[0])
		request_ops_fill_point(REQUEST_ADD(item, entered), &standing->entered, now_ns);
	if (standing->completed.op[0])
		request_ops_fill_point(REQUEST_ADD(item, completed), &standing->completed, now_ns);
	item->completion_known = standing->completion_known;
	item->in_call = standing->in_call_ns && !member->ended_ns;
	item->in_call_ns = item->in_call ? request_ops_ago(now_ns, standing->in_call_ns) : 0;
	item->seq_from = strdup(coll_seq_from_name(standing->seq_from));
	item->missing = member->judged.missing;
	item->differs = member->judged.differs;
	item->behind = member->judged.behind;
	item->ended = member->ended_ns;
	item->ended_ago_ns = item->ended ? request_ops_ago(now_ns, member->ended_ns) : 0;
	item->address = standing->address;
}

static void request_ops_fill_head(Ranktrace__OpsCommunicator *item, const struct coll_snapshot_comm *comm,
	const struct coll_snapshot_member *member)
{
	const struct coll_standing *standing = &member->judged.standing;
	bool identified = standing->communicator[0];

	item->communicator = strndup(standing->communicator, sizeof(standing->communicator));
	item->family = strndup(standing->family, sizeof(standing->family));
	item->name = strndup(standing->name, sizeof(standing->name));
	item->kind = strndup(member->kind, sizeof(member->kind));
	item->job = strndup(member->job, sizeof(member->job));
	item->members = comm->verdict.members;
	item->here = comm->verdict.here;
	item->state = strdup(identified ? coll_state_name(comm->verdict.state) : "UNKNOWN");
	item->sentence = strndup(comm->sentence, sizeof(comm->sentence));
	item->seq = comm->verdict.seq;
	item->waited_ns = comm->verdict.waited_ns;
	item->reason = strndup(member->reason, sizeof(member->reason));
}

struct filling {
	const Ranktrace__Request *request;
	const struct request_peer *outsider; /* who gets his own only; NULL: all are reported */
	const struct coll_snapshot *snapshot;
	const struct ranks *ranks;
	Ranktrace__OpsBody *body;
	struct fair communicators, members, calls;
};

static bool request_ops_wants(const struct filling *filling, int32_t rank, uint32_t uid, const char *job)
{
	return (!filling->outsider || filling->outsider->uid == uid) && request_has_rank(filling->request, rank, job);
}

static bool request_ops_wants_call(const struct filling *filling, const struct rank_coll_call *call)
{
	const struct rank *rank = ranks_by_pid(filling->ranks, call->pid);

	return request_ops_wants(filling, call->rank, call->uid, rank ? rank->env.job : "");
}

/* Members of the communicator that are wanted. */
static size_t request_ops_shown(const struct filling *filling, const struct coll_snapshot_comm *comm)
{
	const struct coll_snapshot_member *member = &filling->snapshot->member[comm->first];
	size_t shown = 0;

	for (size_t i = 0; i < comm->members; i++)
		shown += request_ops_wants(filling, member[i].judged.rank, member[i].uid, member[i].job);
	return shown;
}

/* Members of a communicator are of one user. */
static void request_ops_share(struct filling *filling)
{
	const struct coll_snapshot *snapshot = filling->snapshot;

	for (size_t i = 0; i < snapshot->comms; i++) {
		const struct coll_snapshot_member *member = &snapshot->member[snapshot->comm[i].first];
		size_t shown = request_ops_shown(filling, &snapshot->comm[i]);

		fair_count(&filling->communicators, member->uid, shown > 0);
		fair_count(&filling->members, member->uid, shown);
	}
	for (size_t i = 0; i < snapshot->calls; i++)
		if (request_ops_wants_call(filling, &snapshot->call[i]))
			fair_count(&filling->calls, snapshot->call[i].uid, 1);
	fair_share(&filling->communicators, COMMUNICATORS_MAX);
	fair_share(&filling->members, MEMBERS_MAX);
	fair_share(&filling->calls, CALLS_MAX);
}

/* All are judged; only the requested ones are reported. */
static int request_ops_fill_communicator(struct filling *filling, const struct coll_snapshot_comm *comm)
{
	const struct coll_snapshot_member *member = &filling->snapshot->member[comm->first];
	size_t shown = request_ops_shown(filling, comm);
	Ranktrace__OpsCommunicator *item;

	if (shown == 0)
		return 0;
	if (!fair_take(&filling->members, member->uid, shown) || !fair_take(&filling->communicators, member->uid, 1)) {
		filling->body->left_out += shown;
		return 0;
	}
	item = REQUEST_ADD(filling->body, communicators);
	if (!item)
		return -ENOMEM;
	request_ops_fill_head(item, comm, member);
	for (size_t i = 0; i < comm->members; i++) {
		Ranktrace__OpsMember *one;

		if (!request_ops_wants(filling, member[i].judged.rank, member[i].uid, member[i].job))
			continue;
		one = REQUEST_ADD(item, ranks);
		if (!one)
			return -ENOMEM;
		request_ops_fill_member(one, &member[i], filling->snapshot->now_ns);
	}
	return 0;
}

static int request_ops_fill_calls(struct filling *filling)
{
	Ranktrace__OpsBody *body = filling->body;

	for (size_t i = 0; i < filling->snapshot->calls; i++) {
		const struct rank_coll_call *call = &filling->snapshot->call[i];
		Ranktrace__OpsCall *item;

		if (!request_ops_wants_call(filling, call) || !fair_take(&filling->calls, call->uid, 1))
			continue;
		item = REQUEST_ADD(body, calls);
		if (!item)
			return -ENOMEM;
		item->rank = call->rank;
		item->pid = call->pid;
		item->uid = call->uid;
		item->thread_id = call->thread_id;
		item->family = strdup(call->probe->family);
		item->op = strdup(call->probe->op[0] ? call->probe->op : call->probe->name);
		item->for_ns = request_ops_ago(filling->snapshot->now_ns, call->start_ns);
	}
	return 0;
}

static int request_ops_fill(struct filling *filling)
{
	int r = 0;

	filling->body->left_out = filling->snapshot->left_out;
	request_ops_share(filling);
	for (size_t i = 0; i < filling->snapshot->comms && r == 0; i++)
		r = request_ops_fill_communicator(filling, &filling->snapshot->comm[i]);
	return r < 0 ? r : request_ops_fill_calls(filling);
}

#define STACKS_MAX 16u

struct listing_stacks {
	Ranktrace__OpsBody *body;
	uint64_t now_ns;
};

static void request_ops_add_stack(void *arg, const struct online_stack_info *info)
{
	struct listing_stacks *listing = arg;
	Ranktrace__OpsStack *item;

	item = listing->body->n_stacks < STACKS_MAX ? REQUEST_ADD(listing->body, stacks) : NULL;
	if (!item)
		return;
	item->job = strdup(info->job);
	item->uid = info->uid;
	item->sentence = strdup(info->sentence);
	item->ago_ns = request_ops_ago(listing->now_ns, info->time_ns);
	item->ended = info->ended;
}

int request_ops(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	Ranktrace__OpsBody *body = request_body_new(response, RANKTRACE__RESPONSE__BODY_OPS);
	struct coll_snapshot *snapshot = NULL;
	int r;

	if (!body)
		return -ENOMEM;
	body->on = context->levels.on[LEVEL_L1];
	body->ranks = context->ranks ? ranks_count(context->ranks, RANK_ROLE_RANK) : 0;
	online_stacks_each(context->findings, request_ops_add_stack, &(struct listing_stacks){body, monotonic_ns()});
	if (!context->ops || !body->on)
		return 0;
	r = coll_snapshot_new(context->ops, monotonic_ns(), &snapshot);
	if (r < 0)
		return r;
	r = request_ops_fill(&(struct filling){.request = request,
		.outsider = request_outsider(context),
		.snapshot = snapshot,
		.ranks = context->ranks,
		.body = body});
	coll_snapshot_free(snapshot);
	return r;
}
