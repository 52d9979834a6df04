/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tracectl ops` shows: where every rank of this node stands on every communicator now, brought together by
 * communicator and judged (analyzers/ops_judge.h).
 */
#ifndef RANKTRACE_OPS_LOOK_H
#define RANKTRACE_OPS_LOOK_H

#include "analyzers/ops_judge.h"
#include "daemon/ops_room.h"

#define OPS_LOOK_PATIENCE_NS (2 * NSEC_PER_SEC) /* STUCK_PATIENCE_NS of hangs is the same */
#define OPS_LOOK_MEMBERS_MAX 4096 /* of all communicators together */

struct ops_look_member {
	struct ops_judged judged;
	char job[64];
	char kind[16];
	char trouble[192];
	uint64_t ended_ns;     /* the rank has ended then; 0: it lives */
	bool stopped;          /* its process is, by a signal or a debugger */
};

struct ops_look_comm {
	size_t first, members; /* of member[]: those that are missing or differ first, then by rank */
	struct ops_verdict verdict;
	char sentence[512];    /* the verdict's, with what only this node knows: who has ended */
};

struct ops_look {
	uint64_t now_ns;
	size_t comms;
	struct ops_look_comm *comm; /* what is wrong first, longest waiting first */
	size_t members;
	struct ops_look_member *member;
	size_t calls;
	struct ops_room_call *call; /* in flight, oldest first */
	size_t left_out;            /* members beyond the bound */
};

/* Reads what is in flight, too. */
int ops_look_new(struct ops_room *colls, uint64_t now_ns, struct ops_look **ret);
struct ops_look *ops_look_free(struct ops_look *look);

#endif
