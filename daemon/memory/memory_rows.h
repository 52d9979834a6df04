/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the views memory_curve, memory_live, memory_segments, memory_failures and api_errors, from what the kernel
 * has summed of the framework's allocator (bpf/memory.h). They read no map: collect/collect_memory.c passes what it
 * read.
 */
#ifndef RANKTRACE_DAEMON_MEMORY_MEMORY_ROWS_H
#define RANKTRACE_DAEMON_MEMORY_MEMORY_ROWS_H

#include "analyzers/base/stack.h"
#include "analyzers/memory/held.h"
#include "analyzers/memory/memory.h"
#include "analyzers/memory/segments.h"
#include "analyzers/steps/steps.h"
#include "bpf/memory.h"
#include "daemon/findings/online.h"

#include <stddef.h>
#include <stdint.h>

struct context;
struct profile_rank;
struct rank;

/* What was put of a device. */
struct memory_put {
	uint64_t second; /* of the newest row */
	uint64_t allocs, frees, alloc_bytes;
	struct memory_history lows; /* of its curve */
	/* Its leak; where it began, and what it was last. */
	struct online_open leak;
	uint64_t leak_since_ns;
	double leak_from, leak_grown, leak_hourly;
	char leak_place[STACK_PLACE_BYTES];
};

/* Whose rows: a rank may have ended. */
struct memory_owner {
	struct context *context;
	const struct rank *is;		   /* as it is, or was */
	const struct rank *live;	   /* NULL: it has ended, rows have no step */
	const struct profile_rank *stacks; /* names of its stacks */
};

/* Rows of the seconds before `until` that were not put. seen_ns: length of the window that they are of; 0: all of the
 * second. */
void memory_rows_curve(const struct memory_owner *owner, const struct rt_memory_device *device, uint64_t until,
	uint64_t seen_ns, struct memory_put *put);
/* A leak is a finding while it lasts. trend: NULL: none, or none any more; place: the line that holds most of it, "":
 * unknown. */
void memory_rows_leak(const struct memory_owner *owner, const struct rt_memory_device *device,
	const struct memory_trend *trend, const char *place, struct memory_put *put);
/* Blocks of a stack on a device. */
struct memory_line {
	struct rt_memory_site site;
	struct memory_held held;
};

/* A snapshot; orders `line`. The largest have a row each, the others one together. unseen: of memory_held(). Returns
 * the number of rows. */
size_t memory_rows_live(const struct memory_owner *owner, const struct rt_memory_rank *counts, struct memory_line *line,
	size_t lines, const double unseen[RT_MEMORY_DEVICES_MAX], uint64_t now_ns);
/* Of the same snapshot. One without a block is of the first card that was reported; before that there are no rows.
 * Returns their number. */
size_t memory_rows_segments(const struct memory_owner *owner, const struct rt_memory_rank *counts,
	const struct memory_segment *segment, size_t segments, uint64_t now_ns);
/* Growth of what is kept of the device, by the trend of its curve; 0: none. put: of each device of counts. */
double memory_rows_leaked(const struct rt_memory_rank *counts, const struct memory_put *put, uint32_t device);
/* The rank's card by the newest gauges. Of a process with several devices it is not known which of them that is. */
struct memory_card memory_rows_card(const struct memory_owner *owner, const struct rt_memory_rank *counts);
/* What was known when a request of the framework failed. */
struct memory_then {
	double leaked_bytes; /* of its device; 0: none */
	struct memory_card card;
};
/* A failed request as a finding. */
void memory_rows_oom(
	const struct memory_owner *owner, const struct rt_memory_failed_event *event, const struct memory_then *then);
/* Step and stage of a request of the framework that has just failed; STEPS_NONE, "": none. */
struct steps_open memory_rows_at(const struct memory_owner *owner, const struct rt_memory_failed_event *event);
void memory_rows_failed(const struct memory_owner *owner, const struct rt_memory_failed_event *event,
	const struct steps_open *at, const struct memory_then *then);

#endif
