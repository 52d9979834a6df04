/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by all modules of the daemon; main.c opens and closes them in mirrored order. */
#ifndef RANKTRACE_DAEMON_CORE_CONTEXT_H
#define RANKTRACE_DAEMON_CORE_CONTEXT_H

#include "daemon/base/lag.h"
#include "daemon/core/config.h"
#include "daemon/core/levels.h"

struct event_base;

struct context {
	struct config config;
	struct levels levels;
	struct event_base *base; /* libevent */
	struct workers *workers; /* processes that read files and memory of ranks (daemon/worker/worker.h) */
	struct kernel *kernel;	 /* features, shared maps, ring */
	struct store *store;
	struct quarantine *quarantine;	 /* files that are not read (daemon/probes/quarantine.h) */
	const struct gauge_cards *cards; /* of gauges; NULL: none (daemon/gauges/gauge_cards.h) */
	struct gauges *gauges;		 /* what the node and its cards measure (daemon/gauges/gauges.h) */
	struct ranks *ranks;
	struct rank_budget *budget; /* memory kept for ranks (daemon/ranks/rank_budget.h); NULL: no bound */
	struct stacks *stacks;	    /* stacks of ranks (daemon/stacks/stacks.h) */
	struct profiles *profiles;  /* samples of ranks (daemon/stacks/profiles.h) */
	struct rank_steps *steps;   /* marks to stages and steps (daemon/steps/rank_steps.h) */
	struct rank_coll *ops;	    /* calls to operations of communicators (daemon/coll/rank_coll.h) */
	struct allocs *allocs;	    /* calls to device memory (daemon/memory/allocs.h) */
	struct copies *copies;	    /* copies to and from devices (daemon/memory/copies.h) */
	struct online *findings;    /* online detection; NULL: off (daemon/findings/online.h) */
	struct dumps *dumps;	    /* runs the dump program (daemon/dump/dumps.h) */
	struct collectors *collectors;
	struct guard *guard; /* what it all costs (daemon/guard/guard.h) */
	struct control *control;
	struct metrics *metrics; /* NULL: off (daemon/metrics/metrics.h) */
	struct lag lag;		 /* of the event loop (daemon/loop.c) */
	uint64_t started_ns;	 /* CLOCK_MONOTONIC */
	uint64_t drained_ns;	 /* all records of before then were read (daemon/loop.c); 0: no ring */
	char boot_id[40];
	char host[65];
};

#endif
