/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon's rooms share: one of each, made and taken down by main.c in mirrored order. */
#ifndef RANKTRACE_DAEMON_CORE_CONTEXT_H
#define RANKTRACE_DAEMON_CORE_CONTEXT_H

#include "daemon/base/lag.h"
#include "daemon/core/config.h"
#include "daemon/core/levels.h"

struct event_base;

struct context {
	struct config config;
	struct levels levels;
	struct event_base *base;      /* libevent */
	struct kernel *kernel;        /* features, shared maps, ring */
	struct store *store;
	struct ranks *ranks;
	struct rank_steps *steps;     /* marks to stages and steps to the store (daemon/steps/rank_steps.h) */
	struct rank_coll *ops;         /* calls to operations of communicators to the store (daemon/coll/rank_coll.h) */
	struct allocs *allocs;    /* calls that take or free device memory to the store (daemon/memory/allocs.h) */
	struct online *findings; /* what all of it means; NULL: off (daemon/findings/online.h) */
	struct dumps *dumps;      /* runs the program that writes dumps (daemon/dump/dumps.h) */
	struct collectors *collectors;
	struct control *control;
	struct lag lag;               /* of the event loop (daemon/loop.c) */
	uint64_t started_ns;          /* CLOCK_MONOTONIC */
	char boot_id[40];
	char host[65];
};

#endif
