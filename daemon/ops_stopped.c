/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ops_stopped.h"

#include "daemon/procfs.h"

static bool is_stopped(const char *proc_root, uint32_t pid)
{
	struct procfs_stat stat;

	return procfs_stat(proc_root, pid, &stat) == 0 && (stat.state == 'T' || stat.state == 't');
}

/* It called an operation and is not known to be done with it, for longer than that. */
static bool is_in_operation(const struct coll_standing *standing, uint64_t now_ns, uint64_t patience_ns)
{
	const struct coll_point *entered = &standing->entered;

	if (!entered->seq || entered->time_ns >= now_ns || now_ns - entered->time_ns <= patience_ns)
		return false;
	return standing->in_call_ns || (standing->completion_known && standing->completed.seq < entered->seq);
}

/* Missing by its numbers, but in an operation that a stopped member is in, too: it waits for that one as others do. */
static bool is_waiting(const struct coll_snapshot_member *member, const struct coll_snapshot_member *stopped, uint64_t now_ns,
		       uint64_t patience_ns)
{
	const struct coll_standing *mine = &member->judged.standing, *theirs = &stopped->judged.standing;

	return !member->stopped && !member->ended_ns && is_in_operation(mine, now_ns, patience_ns) &&
	       is_in_operation(theirs, now_ns, patience_ns) && mine->entered.seq >= theirs->entered.seq;
}

static void clear_waiting(struct coll_snapshot_comm *comm, struct coll_snapshot_member *member, const struct coll_snapshot_member *stopped,
			  uint64_t now_ns, uint64_t patience_ns)
{
	for (size_t i = 0; i < comm->members; i++)
		if (is_waiting(&member[i], stopped, now_ns, patience_ns))
			member[i].judged.missing = false;
}

void coll_stopped(struct coll_snapshot_comm *comm, struct coll_snapshot_member *member, const char *proc_root, uint64_t now_ns,
		 uint64_t patience_ns)
{
	bool alone = comm->verdict.state == COLL_STATE_RUNNING;

	for (size_t i = 0; i < comm->members; i++)
		member[i].stopped = !member[i].ended_ns && is_stopped(proc_root, member[i].judged.pid);
	for (size_t i = 0; i < comm->members; i++) {
		const struct coll_standing *standing = &member[i].judged.standing;

		if (!member[i].stopped)
			continue;
		if (member[i].judged.missing)
			clear_waiting(comm, member, &member[i], now_ns, patience_ns);
		if (!alone || !is_in_operation(standing, now_ns, patience_ns))
			continue;
		member[i].judged.missing = true;
		comm->verdict.state = COLL_STATE_MISSING;
		comm->verdict.seq = standing->entered.seq;
		if (comm->verdict.waited_ns < now_ns - standing->entered.time_ns)
			comm->verdict.waited_ns = now_ns - standing->entered.time_ns;
	}
}
