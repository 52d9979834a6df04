/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks of a job are the members of a communicator, which no call tells: known where all of them are on this node,
 * or where it has as many members as its job has ranks. Else nothing is told. Members are of one communicator if its
 * identity, library and size are the same and so are their job and its size; each number of a member and each rank must be
 * there once. What was told is not taken back: a communicator's members are the same for all its life.
 */
#ifndef RANKTRACE_COMM_MEMBERS_H
#define RANKTRACE_COMM_MEMBERS_H

#include "daemon/comm_rows.h"

#define COMM_MEMBERS_MAX 65536 /* communicators of all ranks that are looked at; beyond it none is */
#define COMM_MEMBERS_NS NSEC_PER_SEC

/* A live rank. All are of the caller. */
struct comm_members_rank {
	const struct rank *rank;
	struct comm_rows *comms;
	struct coll *ops;
};

/* Tells the analyzers of all communicators whose members are known, if one of them is new or changed since. The analyzers
 * may call their sinks. */
void comm_members_tell(const struct comm_members_rank *ranks, size_t count);

#endif
