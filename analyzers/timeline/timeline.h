/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores of one or several nodes over a window of time, as a trace (trace.h): a process a rank, with tracks for steps,
 * stages of threads, collectives, memory calls, off-CPU intervals, device times of communicators, counters and
 * findings; a process a node with lost records and clock steps.
 *
 * Tables (streams.c) are read once from each store and sorted on disk (timeline_internal.h), so memory does not grow
 * with the window. A slice that reaches into the window keeps its real start, up to TIMELINE_LOOKBACK_NS before;
 * findings are cut to the window. Counters are of the window only.
 *
 * Times are each node's UTC, as stored. Flows join collectives of one (communicator, seq) whose numbers may be joined;
 * point-to-point calls also by sender and receiver.
 */
#ifndef RANKTRACE_TIMELINE_TIMELINE_H
#define RANKTRACE_TIMELINE_TIMELINE_H

#include "analyzers/timeline/trace.h"
#include "analyzers/store/stores.h"
#include "analyzers/tool/tool.h"

#define TIMELINE_LOOKBACK_NS 3600000000000LL
#define TIMELINE_NODES_MAX 4096

struct timeline_options {
	const struct stores_one *store; /* one a node */
	size_t stores;
	int64_t since_ns, until_ns;
	struct ranges ranks;
	const char *job; /* NULL: all */
	void (*warning)(void *arg, const char *sentence);
	/* Periodic: the stream, and its progress from 0 to 1. May be NULL. */
	void (*progress)(void *arg, const char *what, double done);
	void *arg;
};

struct timeline_counts {
	uint64_t rows;	  /* read */
	uint64_t ranks;	  /* processes with rows */
	uint64_t unknown; /* rows of unknown processes */
	uint64_t crowded; /* slices beyond the bound on tracks */
	uint64_t odd;	  /* rows without a usable time */
};

/* 0, or negative errno with a sentence; a write error is in trace->error and aborts. */
int timeline_write(const struct timeline_options *options, struct trace *trace, struct timeline_counts *ret,
	char *error, size_t error_size);

#endif
