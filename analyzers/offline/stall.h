/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a store's ranks stand while they show no progress, for hangs (offline/stall_check.h): what the daemon wrote of
 * them (tables standings and standing_calls), which store_rows.c keeps in each rank; for store_feed.c. Stores of
 * versions before 4 lack it: their hangs are not judged again.
 *
 * A rank has no standing at a time of which the daemon wrote none, unless it has just made progress.
 */
#ifndef RANKTRACE_OFFLINE_STALL_H
#define RANKTRACE_OFFLINE_STALL_H

#include "analyzers/offline/stall_check.h"
#include "analyzers/offline/store_ranks.h"

#define STALL_NEVER UINT64_MAX

struct stall {
	uint64_t until_ns; /* what was written holds so long */
	uint64_t every_ns; /* minimum distance of checks */
};

/* Time of the next check; next_ns: of the next row of standings, STALL_NEVER: none; is_end: a rank ends in it. */
uint64_t stall_check_after(const struct stall *stall, uint64_t after_ns, uint64_t next_ns, bool is_end);
void stall_stand(struct stall *stall, struct store_ranks *ranks, uint64_t now_ns, struct stall_check *checks);

#endif
