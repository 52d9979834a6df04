/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a store to the framer, for store_feed.c: one function a table. Which columns they get: there. */
#ifndef RANKTRACE_OFFLINE_STORE_ROWS_H
#define RANKTRACE_OFFLINE_STORE_ROWS_H

#include "analyzers/offline/store_ranks.h"

/* Beside what was not done (only recorded into a graph, or refused), those that the host only queued say nothing of who
 * waits: gloo works on the host and is followed to its end, of the others the device's time counts. */
#define STORE_OPS_THAT_TELL \
	" from collectives where communicator is not null and seq > 0 and seq_from <> 'attach'" \
	" and coalesce(captured, 0) = 0 and coalesce(result, 0) = 0" \
	" and ((tier = 'device' and device_start_ns is not null and device_duration_ns is not null)" \
	" or (family = 'gloo' and host_duration_ns is not null))"
#define STORE_OP_END \
	"case when tier = 'device' then max(device_start_ns + device_duration_ns, host_start_ns)" \
	" else host_start_ns + host_duration_ns end"

/* A row on its way. */
struct store_row {
	sqlite3_stmt *statement;
	const struct store_feed_options *options;
	struct store_ranks *ranks;
	struct store_rank *rank; /* NULL: of none */
	struct framer *framer;
};

void store_row_stage(const struct store_row *row);
void store_row_step(const struct store_row *row);
void store_row_op(const struct store_row *row);
void store_row_lost(const struct store_row *row);
/* With what store_row_wait() noted since the rank's sample before. */
void store_row_sample(const struct store_row *row);
void store_row_wait(const struct store_row *row);
/* Of a window: the rank as a whole was without a launch for no longer than the busiest of its threads. Told when the
 * window is over. */
void store_row_launches(const struct store_row *row);
void store_rows_launches_over(struct store_ranks *ranks, struct framer *framer);

#endif
