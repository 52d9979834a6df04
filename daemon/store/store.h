/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rolling store: STATE_DIR/db/{events,summary}-<UTC start>-<n>.db, one SQLite file a time window, WAL, one
 * transaction a batch. The caller, the loop, puts rows into a batch in memory and passes it to a thread, which alone
 * writes: no call waits for the disk but store_open(), store_close() and store_flush(). A row waits until the next
 * store_pass() and for the batch before it; kill -9 loses no more than that and corrupts nothing. Rows that wait are
 * bounded (QUEUE_ROWS, QUEUE_MIB of limits.def); beyond, they are dropped and counted, as where the disk is slow.
 * Retention unlinks whole files, oldest first, by size and age. A full disk: unlink the oldest closed segment
 * and try again; with none left, drop the batch, count it (view `drops`, tracectl status) and recover when there is
 * space. A corrupt segment is renamed to NAME.corrupt with a sentence (the newest 3 of those are kept). One writer: a
 * lock on STATE_DIR/lock (flock). Summaries (steps, drops) may take a quarter of what events may, on top; a segment is
 * rolled early at an eighth of its tier's size. The newest 4096 identities and state rows are remembered.
 *
 * Schema: analyzers/store/schema.h.
 */
#ifndef RANKTRACE_DAEMON_STORE_STORE_H
#define RANKTRACE_DAEMON_STORE_STORE_H

#include "analyzers/store/row.h"
#include "daemon/base/util.h"

struct store;

struct store_options {
	const char *state_dir;
	uint64_t segment_ns;
	uint64_t events_size_bytes_max;
	uint64_t events_age_ns_max;
	uint64_t summary_age_ns_max;
};

/* Why rows are dropped. */
enum store_lost {
	STORE_LOST_DISK,    /* disk full */
	STORE_LOST_ERROR,   /* the segment could not be written */
	STORE_LOST_QUEUE,   /* too many rows waited in memory */
	STORE_LOST_REFUSED, /* no row of its table: a value of another type, or without the key */
	STORE_LOST_MAX,
};

#define STORE_DROPS_MAX (TABLE_MAX * STORE_LOST_MAX)

struct store_status {
	uint64_t segments; /* this and sizes: as of the last batch */
	uint64_t size_bytes;
	uint64_t oldest_ns; /* UTC; 0 where empty */
	uint64_t newest_ns;
	uint64_t rows;	       /* written since start */
	uint64_t rows_dropped; /* since start: the sum of drops[]; the view `drops` has them, too */
	uint64_t rows_pending; /* in memory */
	uint64_t segments_removed;
	uint64_t segments_corrupt;
	char reason[256]; /* the last sentence about something wrong that is still wrong, "" if none */
	struct store_drop {
		const char *table;
		const char *reason;
		uint64_t rows; /* since start */
	} drops[STORE_DROPS_MAX];
	size_t drops_count;
};

/* -EBUSY: another daemon has this state folder. -EPERM, with a logged sentence: another user can write in it. Creates
 * the folders. Rolls back to nothing on failure. */
int store_open(const struct store_options *options, struct store **ret);
/* Writes what waits and closes, within 5 s (CLOSE_NS); what could not be written is counted in the log. */
struct store *store_close(struct store *store);

/* Queues a row of a table: store_put_steps(store, &(struct row_steps){.rank = field_int(0), ...}). Does not wait for
 * the disk. A row that is refused or dropped counts as a drop of its table: tracectl status and the view `drops` show
 * it. */
#define TABLE(ID, name, tier, kind, since, description) \
	static inline void store_put_##name(struct store *store, const struct row_##name *row) \
	{ \
		store_put_values(store, TABLE_##ID, (const struct store_value *)(const void *)row); \
	}
#define COLUMN(name, type, unit, presence, since, description)
#define ALIAS(name, type, unit, of, until)
#define TABLE_END(ID, name)
/* Puts a row as values in the order of the table's stored columns, where the table is known at run time only. */
void store_put_values(struct store *store, enum schema_id table, const struct store_value *values);
#include "analyzers/store/schema.def"
/* Removes the row of that key from a SCHEMA_STATE table. */
void store_remove(struct store *store, enum schema_id table, int64_t key);
/* For SCHEMA_NOW tables: forget what it holds; rows put after this are the new content. */
int store_replace(struct store *store, enum schema_id table);
/*
 * Passes what waits to the writer, which also rolls segments and applies retention. now is UTC. False: the writer has
 * not finished what it has; nothing was passed. At once.
 */
bool store_pass(struct store *store, uint64_t now_ns);
/*
 * The same, and waits until it is written, for programs without a loop. Returns 0 or what kept rows from the disk:
 * -ENOSPC and others dropped and counted them, -EAGAIN (another process writes the file) keeps them.
 */
int store_flush(struct store *store, uint64_t now_ns);

/* CLOCK_MONOTONIC to UTC with the offset that holds now; notes steps of the clock in the view `clock`. */
uint64_t store_utc_ns(struct store *store, uint64_t monotonic_ns);

/* The number of a process identity, from 1, the same in all segments and after restarts. */
int store_instance(struct store *store, const char *boot_id, uint32_t pid, uint64_t start_time_ns, int64_t *ret);
/* The last step number stored for an instance, 0 if none. */
int store_last_step(struct store *store, int64_t instance, int64_t *ret);

void store_status(struct store *store, struct store_status *ret);

#endif
