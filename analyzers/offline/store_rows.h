/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a store to the framer, for store_feed.c: one function a table. Which columns they get: there. */
#ifndef RANKTRACE_OFFLINE_STORE_ROWS_H
#define RANKTRACE_OFFLINE_STORE_ROWS_H

#include "analyzers/offline/store_ranks.h"

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
