/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's public schema: one row a table, its columns as data. CREATE TABLE, INSERT, the view for people, the
 * reader's virtual tables and the documentation all derive from it; to add a table, add a row to schema.c and its name
 * to the enum (and nothing else). A changed column of a table raises SCHEMA_VERSION.
 *
 * A segment is one SQLite file, complete in itself. A table NAME is kept compactly as NAME_raw (interned texts, times as
 * nanoseconds since the segment's base) and shown as the view NAME: times in ns since the epoch, texts spelled out.
 * Only the views are public. `PRAGMA user_version` is SCHEMA_VERSION; readers refuse newer ones with a sentence.
 */
#ifndef RANKTRACE_STORE_SCHEMA_H
#define RANKTRACE_STORE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCHEMA_VERSION 1
#define SCHEMA_COLUMNS_MAX 24
#define SCHEMA_APPLICATION_ID 0x52545243 /* "RTRC", PRAGMA application_id */

enum schema_type {
	SCHEMA_INT,
	SCHEMA_TIME,     /* given and shown in ns since the epoch, kept relative to the segment's base_ns */
	SCHEMA_DURATION, /* ns */
	SCHEMA_TEXT,     /* interned */
	SCHEMA_REAL,
};

struct schema_column {
	const char *name;
	enum schema_type type;
	const char *description; /* with unit */
	bool key;                /* of a SCHEMA_STATE table: one row a value of it */
};

enum schema_tier { TIER_EVENTS, TIER_SUMMARY, TIER_MAX };

/* How rows are kept. */
enum schema_kind {
	SCHEMA_LOG,    /* append only */
	SCHEMA_STATE,  /* one row a value of its key column, the newest wins, across segments too. In segments of every
			* tier: a segment that has rows with a column of the key's name holds the state rows they mean.
			* A row of which all but the key is NULL takes the row of that key away. */
	SCHEMA_NOW,    /* holds only what is true now: replaced as a whole; readers show the newest segment's */
};

struct schema_table {
	const char *name;
	const char *description;
	enum schema_tier tier; /* of a SCHEMA_STATE table: not used */
	enum schema_kind kind;
	struct schema_column columns[SCHEMA_COLUMNS_MAX]; /* ends with a NULL name */
};

/* Indices into schema_tables[]; the order is free, numbers are not on disk. */
enum schema_id { TABLE_RANKS, TABLE_STEPS, TABLE_STAGES, TABLE_IN_FLIGHT, TABLE_CUT_STAGES, TABLE_OFFCPU, TABLE_OFFCPU_SUM,
		 TABLE_LAUNCHES, TABLE_DROPS, TABLE_CLOCK, TABLE_COLLECTIVES, TABLE_COMMUNICATORS, TABLE_COLLECTIVE_GROUPS, TABLE_ALLOCATIONS,
		 TABLE_FINDINGS, TABLE_HOST_SAMPLES, TABLE_MAX };

extern const struct schema_table schema_tables[TABLE_MAX];

/* Number of columns; index of the column of that name, -1 if none; index of the key column, -1 if none. */
size_t schema_columns(const struct schema_table *table);
int schema_column_find(const struct schema_table *table, const char *name);
int schema_key(const struct schema_table *table);
/* Whether segments of this tier hold the table. */
bool schema_in_tier(const struct schema_table *table, enum schema_tier tier);

#endif
