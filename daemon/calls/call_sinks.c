/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rooms that take records of events. See call_sinks.h. */
#include "daemon/memory/allocs.h"
#include "daemon/calls/call_sinks.h"
#include "daemon/coll/rank_coll.h"

static const struct call_sink *const rooms[] = {
	&rank_coll_sink,
	&allocs_sink,
};

bool call_sinks_feed(struct context *context, const struct rank *rank, const struct call_record *record)
{
	for (size_t i = 0; i < ARRAY_SIZE(rooms); i++) {
		if (!rooms[i]->takes(record->probe->event))
			continue;
		rooms[i]->feed(context, rank, record);
		return true;
	}
	return false;
}

void call_sinks_level(struct context *context, enum level level, bool on)
{
	for (size_t i = 0; i < ARRAY_SIZE(rooms); i++)
		if (rooms[i]->level)
			rooms[i]->level(context, level, on);
}

void call_sinks_tick(struct context *context, uint64_t now_ns)
{
	for (size_t i = 0; i < ARRAY_SIZE(rooms); i++)
		if (rooms[i]->tick)
			rooms[i]->tick(context, now_ns);
}
