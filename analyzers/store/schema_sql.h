/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQL and file names derived from the schema, for the store that writes segments and the reader. Pure text: no database
 * is touched here.
 */
#ifndef RANKTRACE_STORE_SCHEMA_SQL_H
#define RANKTRACE_STORE_SCHEMA_SQL_H

#include "analyzers/store/schema.h"

#define SCHEMA_SQL_BYTES 32768
#define SEGMENT_NAME_BYTES 64

/* Everything of an empty segment but `meta`'s rows: idempotent. Returns 0 or -ENOBUFS. */
int schema_create_sql(enum schema_tier tier, int64_t base_ns, char *ret, size_t size);
/* INSERT into NAME_raw with one parameter per stored column (SCHEMA_STATE: replaces the row with the same key). */
int schema_insert_sql(const struct schema_table *table, char *ret, size_t size);
/* What sqlite3_declare_vtab() takes, or with a key CREATE TABLE NAME with the view's columns. */
int schema_declare_sql(const struct schema_table *table, char *ret, size_t size);

/* Deletes the rows of a SCHEMA_STATE table (as declared above) that only say that there is none. */
int schema_tidy_sql(const struct schema_table *table, char *ret, size_t size);

extern const char *const schema_tier_names[TIER_MAX];

/* TIER-YYYYMMDDTHHMMSSZ-NNNNNN.db: tier, first second of the window, number. Numbers rise with each segment of a store,
 * whatever the clock does; they give the order. */
struct segment_name {
	enum schema_tier tier;
	int64_t base_ns;
	uint64_t number;
};

int segment_name_format(const struct segment_name *name, char *ret, size_t size);
int segment_name_parse(const char *text, struct segment_name *ret); /* -EINVAL */

#endif
