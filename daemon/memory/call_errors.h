/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that returned an error, to the view `api_errors` (those of allocations: allocs.c); names of errors. The stack
 * of such a call, which the kernel sends after the call's record while L2 is on, has a row of its own.
 */
#ifndef RANKTRACE_DAEMON_MEMORY_CALL_ERRORS_H
#define RANKTRACE_DAEMON_MEMORY_CALL_ERRORS_H

#include "daemon/calls/call_sink.h"
#include "daemon/memory/memory_rows.h"

/* Of a column `error`: the name of what a function returned; NULL: success, or unknown. */
struct field_text call_errors_name(const char *op, int64_t result);
/* bytes: COLL_UNKNOWN: none. */
void call_errors_put(
	struct context *context, const struct rank *rank, const struct call_record *record, uint64_t bytes);
/*
 * A record of a stage: at its end, a function that waits for the device returns what failed there. After a fault of a
 * kernel each later call returns the same error.
 */
void call_errors_stage(struct context *context, const struct rank *rank, const struct call_record *record);
/* The stack of a call that failed; its call_ns is UTC. */
void call_errors_stack(const struct memory_owner *owner, const struct rt_memory_failed_event *event);

#endif
