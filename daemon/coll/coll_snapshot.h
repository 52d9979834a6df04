/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members whose process is stopped (SIGSTOP, a debugger). A library that works on the host, as gloo,
 * goes no further with an operation that all members have called while one of them is stopped in it: none is behind by its
 * numbers, and yet one is missing.
 */
#ifndef RANKTRACE_DAEMON_COLL_COLL_SNAPSHOT_H
#define RANKTRACE_DAEMON_COLL_COLL_SNAPSHOT_H

#include "analyzers/coll/coll_judge.h"
#include "daemon/coll/rank_coll.h"

/*
 * What `tracectl ops` shows: where every rank of this node stands on every communicator now, brought together by
 * communicator and judged (analyzers/coll/coll_judge.h).
 */

#define COLL_LOOK_PATIENCE_NS (2 * NSEC_PER_SEC) /* STUCK_PATIENCE_NS of hangs is the same */
#define COLL_LOOK_MEMBERS_MAX 4096 /* of all communicators together */

struct coll_snapshot_member {
	struct coll_judged judged;
	char job[64];
	char kind[16];
	char trouble[192];
	uint64_t ended_ns;     /* the rank has ended then; 0: it lives */
	bool stopped;          /* its process is, by a signal or a debugger */
};

struct coll_snapshot_comm {
	size_t first, members; /* of member[]: those that are missing or differ first, then by rank */
	struct coll_verdict verdict;
	char sentence[512];    /* the verdict's, with what only this node knows: who has ended */
};

struct coll_snapshot {
	uint64_t now_ns;
	size_t comms;
	struct coll_snapshot_comm *comm; /* what is wrong first, longest waiting first */
	size_t members;
	struct coll_snapshot_member *member;
	size_t calls;
	struct rank_coll_call *call; /* in flight, oldest first */
	size_t left_out;            /* members beyond the bound */
};

/* Reads what is in flight, too. */
int coll_snapshot_new(struct rank_coll *colls, uint64_t now_ns, struct coll_snapshot **ret);
struct coll_snapshot *coll_snapshot_free(struct coll_snapshot *snapshot);

/* Marks stopped members. If nothing else is wrong, and one has been in an operation that it called for longer than
 * patience_ns, it is missing, and the verdict says so. If it is missing anyway, those are not who wait for it in the same
 * operation. */
void coll_stopped(struct coll_snapshot_comm *comm, struct coll_snapshot_member *member, const char *proc_root, uint64_t now_ns,
		 uint64_t patience_ns);

#endif
