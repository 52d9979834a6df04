/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where records of probes with an `event` go (daemon/probes/table.h): each room takes some events and makes of their
 * records what they mean. A further kind of event is a file and a row in call_sinks.c; collect_call.c knows none of them.
 */
#ifndef RANKTRACE_DAEMON_CALLS_CALL_SINKS_H
#define RANKTRACE_DAEMON_CALLS_CALL_SINKS_H

#include "daemon/levels/collector.h"
#include "daemon/probes/table.h"

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

/* False where no room takes the row's event: a table of a newer release. */
bool call_sinks_feed(struct context *context, const struct rank *rank, const struct call_record *record);
void call_sinks_level(struct context *context, enum level level, bool on);
void call_sinks_tick(struct context *context, uint64_t now_ns);

#endif
