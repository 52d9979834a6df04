/* SPDX-License-Identifier: Apache-2.0 */
/* All sinks of call records (daemon/calls/call_sink.h), as one table. */
#ifndef RANKTRACE_DAEMON_COLLECT_CALL_SINKS_H
#define RANKTRACE_DAEMON_COLLECT_CALL_SINKS_H

#include "daemon/calls/call_sink.h"

/* False: no sink takes the event, which is of a newer release's table. */
bool call_sinks_feed(struct context *context, const struct rank *rank, const struct call_record *record);
void call_sinks_level(struct context *context, enum level level, bool on);
void call_sinks_tick(struct context *context, uint64_t now_ns);

#endif
