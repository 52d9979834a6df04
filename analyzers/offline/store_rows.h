/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a store to the aligner, for store_feed.c: how to ask for those of a table, and what to do with one. */
#ifndef RANKTRACE_OFFLINE_STORE_ROWS_H
#define RANKTRACE_OFFLINE_STORE_ROWS_H

#include "analyzers/gauges/hardware.h"
#include "analyzers/offline/store_ranks.h"
#include "analyzers/store/reader_scan.h"

/* A row on its way. */
struct store_row {
	struct reader_scan *scan;
	const struct store_feed_options *options;
	struct store_ranks *ranks;
	struct store_rank *rank; /* NULL: of none */
	struct align *align;
	struct hardware *hardware; /* of its node; NULL: not judged */
	uint64_t time_ns;	   /* at which it goes in */
};

/* Columns 0 to 2 of all tables, but 0 of those of no rank. */
enum { STORE_INSTANCE, STORE_START, STORE_DURATION };

struct store_table {
	struct reader_scanning scanning;
	/* False: passed over; NULL: none is. */
	bool (*accepts)(struct reader_scan *scan);
	/* By the clock of the store, when it goes in; 0: never. */
	int64_t (*time_ns)(struct reader_scan *scan);
	void (*feed)(const struct store_row *row);
	bool of_none;	   /* rows are of no rank */
	bool of_ended;	   /* also of ranks that are over */
	bool of_node;	   /* and not of training: they are there without it, too */
	bool with_waits;   /* of the time from then on that it lasts, what L3 saw goes in with it */
	uint64_t after_ns; /* it goes in after what is that much later */
	bool in_windows;   /* rows of one time belong together */
};

/* At the same time, in this order: stages come before the step that ends with them. Those from STORE_WAITS on go in
 * with samples. */
enum {
	STORE_STAGES,
	STORE_OPS,
	STORE_STEPS,
	STORE_SAMPLES,
	STORE_LAUNCHES,
	STORE_LOST,
	STORE_STANDINGS,
	STORE_CALLS,
	STORE_GAUGES,
	STORE_MESSAGES,
	STORE_WAITS
};
#define STORE_TABLES (STORE_WAITS + 2)
extern const struct store_table store_tables[STORE_TABLES];

/* Of steps, and of operations, beside those that all tables have. */
enum { STORE_STEP_STEP = STORE_DURATION + 1, STORE_STEP_UNSPLIT };
enum {
	STORE_OP_STEP = STORE_DURATION + 1,
	STORE_OP_COMMUNICATOR,
	STORE_OP_SEQ,
	STORE_OP_OP,
	STORE_OP_BYTES,
	STORE_OP_PEER,
	STORE_OP_DEVICE_START,
	STORE_OP_DEVICE_DURATION,
	STORE_OP_TIER,
	STORE_OP_FAMILY,
	STORE_OP_SEQ_FROM,
	STORE_OP_CAPTURED,
	STORE_OP_RESULT
};

/* Emits the launch gaps of a finished window. The gap of a rank is that of its busiest thread. */
void store_rows_launches_over(struct store_ranks *ranks, struct align *align);

#endif
