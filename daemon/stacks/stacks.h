/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of ranks, read by the worker libexec/ranktrace/worker/stack: one process of it for each rank and its children,
 * so that a rank that cannot be read (its memory is broken, its files hang) costs the others nothing. Nothing is
 * stopped.
 *
 * At most STACKS_TAKES_MAX takes at a time. What the worker answers is checked (stacks/reply/reply.h); who a process is
 * comes from the rank table, never from the answer.
 */
#ifndef RANKTRACE_DAEMON_STACKS_STACKS_H
#define RANKTRACE_DAEMON_STACKS_STACKS_H

#include "daemon/base/util.h"
#include "proto/control.pb-c.h"

#define STACKS_TAKES_MAX 8u
/* Of users who may only see their own ranks, one each: they may be slow on purpose */
#define STACKS_TAKES_LIMITED_MAX 4u
#define STACKS_RANKS_MAX 128u /* of a take: as many as the worker's queue takes of one owner */

struct context;
struct rank;
struct stacks;

int stacks_new(struct context *context, struct stacks **ret);
/* What is under way is given up: done is called without a body. */
struct stacks *stacks_free(struct stacks *stacks);

struct stacks_take {
	bool (*wanted)(void *arg, const struct rank *rank); /* is called for ranks, not for children, during the call */
	/*
	 * From the loop, once all have answered or failed. The body is the callee's, for
	 * ranktrace__stack_body__free_unpacked(). Each rank has an entry; `reason` says why it has no threads. NULL:
	 * the take was given up.
	 */
	void (*done)(void *arg, Ranktrace__StackBody *body);
	void *arg;
	bool limited; /* for `uid`, who may only see his own ranks */
	uint32_t uid;
};

/* 0: done is called later. -ENOENT: no rank is wanted. -EBUSY: too many takes. -EUSERS, -ENOTSUP: no worker. */
int stacks_start(struct stacks *stacks, const struct stacks_take *take);

#endif
