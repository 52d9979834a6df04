/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public schema of the store. schema.def describes each table once; row structs (row.h), store_put_NAME()
 * (daemon), CREATE TABLE, INSERT, views, the reader's virtual tables and docs/schema.md derive from it. A new column is
 * one row there and its assignment in the producer.
 *
 * A segment is one SQLite file, complete in itself. A table NAME is kept compactly as NAME_raw (interned texts, times
 * as nanoseconds since the segment's base) and shown as the view NAME: times in ns since the epoch, texts spelled out,
 * former column names beside the current ones. Only the views are public. `PRAGMA user_version` is SCHEMA_VERSION;
 * readers accept every older version and refuse newer ones with a message.
 */
#ifndef RANKTRACE_STORE_SCHEMA_H
#define RANKTRACE_STORE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Version 2: drops.table_name; communicators.reason in place of trouble. Version 3: ranks.uid; stacks. Version 4:
 * gauges, kernel_messages, cards; drops.rank, uid, instance; findings.uid; memory_curve, memory_live, memory_failures;
 * host_samples.memory_stall_ns, swapped_bytes; profiles, samples, call_stacks. */
#define SCHEMA_VERSION 4
#define SCHEMA_COLUMNS_MAX 28		 /* stored columns of a table, and aliases */
#define SCHEMA_APPLICATION_ID 0x52545243 /* "RTRC", PRAGMA application_id */

enum schema_type {
	SCHEMA_INT,
	SCHEMA_TIME,	 /* given and shown in ns since the epoch, kept relative to the segment's base_ns */
	SCHEMA_DURATION, /* ns */
	SCHEMA_TEXT,	 /* interned */
	SCHEMA_REAL,
};

enum schema_unit { UNIT_NONE, UNIT_NS, UNIT_EPOCH_NS, UNIT_BYTES, UNIT_RATIO, UNIT_CARD_HOURS, UNIT_MAX };

enum schema_presence {
	PRESENCE_REQUIRED, /* every producer sets it */
	PRESENCE_OPTIONAL, /* NULL where unknown or not applicable */
	PRESENCE_KEY,	   /* of a SCHEMA_STATE table: one row per value */
};

struct schema_column {
	const char *name;
	enum schema_type type;
	enum schema_unit unit;
	enum schema_presence presence;
	const char *description;
	unsigned since;	      /* first schema version that has it; of an alias, the last that stored it by this name */
	const char *alias_of; /* not stored: shows that column under its former name */
};

enum schema_tier { TIER_EVENTS, TIER_SUMMARY, TIER_MAX };

/* How rows are kept. */
enum schema_kind {
	SCHEMA_LOG,   /* append only */
	SCHEMA_STATE, /* one row per value of its key column, the newest wins, across segments too. In segments of every
		       * tier: a segment that has rows with a column of the key's name holds the state rows they refer
		       * to. A row that is NULL but for its key removes the row of that key. */
	SCHEMA_NOW,   /* holds only what is true now: replaced as a whole; readers show the newest segment's */
};

struct schema_table {
	const char *name;
	const char *description;
	enum schema_tier tier; /* of a SCHEMA_STATE table: not used */
	enum schema_kind kind;
	unsigned since;
	struct schema_column columns[SCHEMA_COLUMNS_MAX]; /* stored ones, then aliases; ends with a NULL name */
};

/* Indices into schema_tables[]; the order is free, numbers are not on disk. */
#define TABLE(ID, name, tier, kind, since, description) TABLE_##ID,
#define COLUMN(name, type, unit, presence, since, description)
#define ALIAS(name, type, unit, of, until)
#define TABLE_END(ID, name)
enum schema_id {
#include "analyzers/store/schema.def"
	TABLE_MAX
};

extern const struct schema_table schema_tables[TABLE_MAX];
extern const char *const schema_unit_names[UNIT_MAX]; /* "" for UNIT_NONE */

/* Number of columns, with aliases; of stored ones, which come first. */
size_t schema_columns(const struct schema_table *table);
size_t schema_stored(const struct schema_table *table);
/* Index of the column of that name, -1 if none; index of the key column, -1 if none. */
int schema_column_find(const struct schema_table *table, const char *name);
int schema_key(const struct schema_table *table);
/* Name under which a file keeps a column, of those that it has (a bit each); NULL: it has none for it. */
const char *schema_column_in(const struct schema_table *table, uint64_t there, size_t column);
/* Whether segments of this tier hold the table. */
bool schema_in_tier(const struct schema_table *table, enum schema_tier tier);

#endif
