/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshot of communication for `tracectl ops` and hang detection: the progress of every rank of this node on every
 * communicator, grouped by communicator and judged (analyzers/coll/coll_judge.h).
 */
#ifndef RANKTRACE_DAEMON_COLL_COLL_SNAPSHOT_H
#define RANKTRACE_DAEMON_COLL_COLL_SNAPSHOT_H

#include "analyzers/coll/coll_judge.h"
#include "daemon/coll/rank_coll.h"

#define COLL_SNAPSHOT_PATIENCE_NS (2 * NSEC_PER_SEC) /* equals STUCK_PATIENCE_NS of hang detection */
#define COLL_SNAPSHOT_MEMBERS_MAX 4096 /* of all communicators together, an equal part for each user who has more */

struct coll_snapshot_member {
	struct coll_judged judged;
	char job[64];
	uint32_t uid; /* of the rank's process */
	char kind[16];
	char reason[192];
	uint64_t ended_ns; /* when the rank ended; 0: alive */
	bool stopped;	   /* process stopped by a signal or a debugger */
};

struct coll_snapshot_comm {
	size_t first, members; /* of member[]: missing or different ones first, then by rank */
	struct coll_verdict verdict;
	char sentence[512]; /* of the verdict, plus ended and stopped ranks */
};

struct coll_snapshot {
	uint64_t now_ns;
	size_t comms;
	struct coll_snapshot_comm *comm; /* faulty ones first, longest waiting first */
	size_t members;
	struct coll_snapshot_member *member;
	size_t calls;
	struct rank_coll_call *call; /* in flight, oldest first */
	size_t left_out;	     /* members beyond the bound */
};

/* Also reads calls in flight. */
int coll_snapshot_new(struct rank_coll *colls, uint64_t now_ns, struct coll_snapshot **ret);
struct coll_snapshot *coll_snapshot_free(struct coll_snapshot *snapshot);

/*
 * Judges members whose process is stopped (SIGSTOP, a debugger). A host library such as gloo waits for a stopped member
 * in an operation that all have entered, so call counts alone do not show it: if nothing else is wrong, and a member
 * was stopped in an operation for more than patience_ns, it is missing. Members that wait for it in the same operation
 * are not.
 */
void coll_snapshot_mark_stopped(
	struct coll_snapshot_comm *comm, struct coll_snapshot_member *member, uint64_t now_ns, uint64_t patience_ns);

#endif
