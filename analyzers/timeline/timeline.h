/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stores of one node or several saw in a window of time, as a trace (trace.h): a process a rank, with tracks
 * for its steps, its threads' stages, collectives, memory calls and stays off the CPU, its communicators' device times,
 * counters, and the findings on it; a process a node with what was lost and steps of its clock.
 *
 * Table by table (streams.c), each read once from each store and sorted by SQLite on disk (sorted.h), so that memory
 * does not grow with the window. A slice that began before the window and reaches into it is there with its real start,
 * if that is no longer ago than TIMELINE_LOOKBACK_NS; a finding is cut to the window. Counters have what the window
 * has.
 *
 * Times are each node's own UTC, as stored. Collectives of one (communicator, seq) are joined by flows, whose rows say
 * that their number may be joined; point-to-point calls by their sender and receiver, too.
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
	struct tool_ranks ranks;
	const char *job; /* NULL: all */
	void (*warning)(void *arg, const char *sentence);
	/* Now and then: what is read, and how much of it is done, 0 to 1. May be NULL. */
	void (*progress)(void *arg, const char *what, double done);
	void *arg;
};

struct timeline_counts {
	uint64_t rows;	  /* that were read */
	uint64_t ranks;	  /* processes that have some */
	uint64_t unknown; /* rows of processes that the store does not know */
	uint64_t crowded; /* slices beyond the tracks that are kept at once */
	uint64_t odd;	  /* rows without a usable time */
};

/* 0, or negative errno with a sentence. What the trace could not write is in trace->error, and ends it. */
int timeline_write(const struct timeline_options *options, struct trace *trace, struct timeline_counts *ret,
	char *error, size_t error_size);

#endif
