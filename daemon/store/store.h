/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rolling store: STATE_DIR/db/{events,summary}-<UTC start>-<n>.db, one SQLite file a time window, WAL, one
 * transaction a batch. At most flush_interval of rows is in memory; kill -9 loses no more than that and corrupts
 * nothing. Retention unlinks whole files, oldest first, by size and age. A full disk: unlink the oldest closed segment
 * and try again; with none left, drop the batch, count it (view `drops`, tracectl status) and recover when there is room.
 * A corrupt segment is renamed to NAME.corrupt with a sentence (the newest 3 of those are kept). One writer: a lock on
 * STATE_DIR/lock (flock). Summaries (steps, drops) may take a quarter of what events may, on top; a segment is rolled
 * early at an eighth of its tier's size. The newest 4096 identities and state rows are remembered.
 *
 * Schema: analyzers/store/schema.h.
 */
#ifndef RANKTRACE_DAEMON_STORE_STORE_H
#define RANKTRACE_DAEMON_STORE_STORE_H

#include "analyzers/store/schema.h"
#include "daemon/base/util.h"

struct store;

struct store_options {
	const char *state_dir;
	uint64_t segment_ns;
	uint64_t events_size_bytes_max;
	uint64_t events_age_ns_max;
	uint64_t summary_age_ns_max;
	uint64_t flush_interval_ns;     /* the caller's promise to call store_flush(); nothing here has a timer */
};

/* A value in the order of the table's columns. Texts are copied. NULL is shown as SQL NULL. */
struct store_value {
	enum { STORE_NULL, STORE_INT, STORE_TEXT, STORE_REAL } type;
	union {
		int64_t integer;
		const char *text;
		double real;
	};
};

#define V_INT(x) ((struct store_value){.type = STORE_INT, .integer = (int64_t)(x)})
#define V_TEXT(x) ((struct store_value){.type = STORE_TEXT, .text = (x)})
#define V_REAL(x) ((struct store_value){.type = STORE_REAL, .real = (x)})
#define V_NULL ((struct store_value){.type = STORE_NULL})

struct store_status {
	uint64_t segments;
	uint64_t size_bytes;
	uint64_t oldest_ns;       /* UTC; 0 where empty */
	uint64_t newest_ns;
	uint64_t rows;            /* written since start */
	uint64_t rows_dropped;    /* since start, for want of disk or memory; the view `drops` says which */
	uint64_t rows_pending;    /* in memory */
	uint64_t segments_removed;
	uint64_t segments_corrupt;
	char trouble[256];        /* the last sentence about something wrong that is still wrong, "" if none */
};

/* -EBUSY: another daemon has this state folder. Creates the folders. Rolls back to nothing on failure. */
int store_open(const struct store_options *options, struct store **ret);
/* Flushes and closes; what could not be written is counted in the log. */
struct store *store_close(struct store *store);

/* Queues a row. values has as many entries as the table has columns. TIME values are UTC ns. Never blocks on the disk
 * beyond one flush; never fails for want of disk (drops are counted). */
int store_put(struct store *store, enum schema_id table, const struct store_value *values, size_t count);
/* For SCHEMA_NOW tables: forget what it holds; rows put after this are the new content. */
int store_replace(struct store *store, enum schema_id table);
/* Writes what waits. Called by the loop; also rolls segments and applies retention. now is UTC. Returns 0 or what kept
 * rows from the disk: -ENOSPC and others dropped and counted them, -EAGAIN (somebody else writes the file) keeps them. */
int store_flush(struct store *store, uint64_t now_ns);

/* CLOCK_MONOTONIC to UTC with the offset that holds now; notes steps of the clock in the view `clock`. */
uint64_t store_utc_ns(struct store *store, uint64_t monotonic_ns);

/* The number of a process identity, from 1, the same in all segments and after restarts. */
int store_instance(struct store *store, const char *boot_id, uint32_t pid, uint64_t start_time_ns, int64_t *ret);
/* The last step number stored for an instance, 0 if none. */
int store_last_step(struct store *store, int64_t instance, int64_t *ret);

void store_status(struct store *store, struct store_status *ret);

#endif
