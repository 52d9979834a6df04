/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sink takes the records of some events of the probe tables (`event` in daemon/probes/table.h) and gives them their
 * meaning. To add one: a file, and a row in daemon/collect/call_sinks.c.
 */
#ifndef RANKTRACE_DAEMON_CALLS_CALL_SINK_H
#define RANKTRACE_DAEMON_CALLS_CALL_SINK_H

#include "bpf/call.h"
#include "daemon/core/level.h"
#include "daemon/probes/table.h"
#include "daemon/ranks/ranks.h"

/* A record as the kernel sent it, checked for its size. Valid for the call. */
struct call_record {
	const struct probe *probe;
	const struct rt_call_event *event;
	const char *text; /* UTF-8, "" if none */
};

struct call_sink {
	bool (*takes)(const char *event);
	void (*feed)(struct context *context, const struct rank *rank, const struct call_record *record);
	void (*level)(struct context *context, enum level level, bool on); /* it went on or off; may be NULL */
	void (*tick)(struct context *context, uint64_t now_ns);            /* every 100 ms; may be NULL */
};

#endif
