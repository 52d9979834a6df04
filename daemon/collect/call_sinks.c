/* SPDX-License-Identifier: Apache-2.0 */
/* The sinks of call records: one row each. */
#include "daemon/collect/collect_internal.h"
#include "daemon/coll/rank_coll.h"
#include "daemon/memory/allocs.h"
#include "daemon/memory/copies.h"

static const struct call_sink *const call_sinks_table[] = {
	&rank_coll_sink,
	&allocs_sink,
	&copies_sink,
};

bool call_sinks_feed(struct context *context, const struct rank *rank, const struct call_record *record)
{
	for (size_t i = 0; i < ARRAY_SIZE(call_sinks_table); i++) {
		if (!call_sinks_table[i]->takes(record->probe->event))
			continue;
		call_sinks_table[i]->feed(context, rank, record);
		return true;
	}
	return false;
}

void call_sinks_level(struct context *context, enum level level, bool on)
{
	for (size_t i = 0; i < ARRAY_SIZE(call_sinks_table); i++)
		if (call_sinks_table[i]->level)
			call_sinks_table[i]->level(context, level, on);
}

void call_sinks_tick(struct context *context, uint64_t now_ns)
{
	for (size_t i = 0; i < ARRAY_SIZE(call_sinks_table); i++)
		if (call_sinks_table[i]->tick)
			call_sinks_table[i]->tick(context, now_ns);
}
