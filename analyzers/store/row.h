/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the store as structs, one per table of schema.def: `struct row_stages` has a field per column, typed by the
 * column's type, so a time does not fit where a duration belongs. A field that is not set is NULL.
 *
 *   store_put_steps(store, &(struct row_steps){
 *           .rank = field_int(rank->number),
 *           .start_ns = field_time(start_ns),
 *           ...
 *   });
 *
 * A row is an array of struct store_value in the order of the columns.
 */
#ifndef RANKTRACE_ANALYZERS_STORE_ROW_H
#define RANKTRACE_ANALYZERS_STORE_ROW_H

#include <math.h>

#include "analyzers/store/schema.h"

/* Texts are copied by store_put_*(). A NULL text is NULL. */
struct store_value {
	enum { STORE_NULL, STORE_INT, STORE_TEXT, STORE_REAL } type;
	union {
		int64_t integer;
		const char *text;
		double real;
	};
};

/* One struct per column type. Times are UTC, in ns. */
struct field_int {
	struct store_value value;
};
struct field_time {
	struct store_value value;
};
struct field_duration {
	struct store_value value;
};
struct field_text {
	struct store_value value;
};
struct field_real {
	struct store_value value;
};

static inline struct field_int field_int(int64_t x)
{
	return (struct field_int){{.type = STORE_INT, .integer = x}};
}

static inline struct field_time field_time(uint64_t utc_ns)
{
	return (struct field_time){{.type = STORE_INT, .integer = (int64_t)utc_ns}};
}

static inline struct field_duration field_duration(uint64_t ns)
{
	return (struct field_duration){{.type = STORE_INT, .integer = (int64_t)ns}};
}

/* NULL is NULL. The text is copied by store_put_*(). */
static inline struct field_text field_text(const char *text)
{
	return (struct field_text){{.type = text ? STORE_TEXT : STORE_NULL, .text = text}};
}

/* What is not finite is NULL. */
static inline struct field_real field_real(double x)
{
	return (struct field_real){{.type = isfinite(x) ? STORE_REAL : STORE_NULL, .real = x}};
}

/* NULL unless known. */
static inline struct field_int field_int_if(bool known, int64_t x)
{
	return known ? field_int(x) : (struct field_int){0};
}

static inline struct field_time field_time_if(bool known, uint64_t utc_ns)
{
	return known ? field_time(utc_ns) : (struct field_time){0};
}

static inline struct field_duration field_duration_if(bool known, uint64_t ns)
{
	return known ? field_duration(ns) : (struct field_duration){0};
}

static inline struct field_real field_real_if(bool known, double x)
{
	return known ? field_real(x) : (struct field_real){0};
}

/* An empty text is NULL, too. */
static inline struct field_text field_text_if(const char *text)
{
	return field_text(text && text[0] ? text : NULL);
}

#define STORE_FIELD_INT struct field_int
#define STORE_FIELD_TIME struct field_time
#define STORE_FIELD_DURATION struct field_duration
#define STORE_FIELD_TEXT struct field_text
#define STORE_FIELD_REAL struct field_real

/* clang-format off */
/* struct row_NAME */
#define TABLE(ID, name, tier, kind, since, description) struct row_##name {
#define COLUMN(name, type, unit, presence, since, description) STORE_FIELD_##type name;
#define ALIAS(name, type, unit, of, until)
#define TABLE_END(ID, name) };
#include "analyzers/store/schema.def"

#undef STORE_FIELD_INT
#undef STORE_FIELD_TIME
#undef STORE_FIELD_DURATION
#undef STORE_FIELD_TEXT
#undef STORE_FIELD_REAL

/* COLUMNS_ID: stored columns of each table. */
#define TABLE(ID, name, tier, kind, since, description) COLUMNS_##ID = 0
#define COLUMN(name, type, unit, presence, since, description) +1
#define ALIAS(name, type, unit, of, until)
#define TABLE_END(ID, name) ,
enum row_columns {
#include "analyzers/store/schema.def"
};

#define TABLE(ID, name, tier, kind, since, description) \
	_Static_assert(sizeof(struct row_##name) == COLUMNS_##ID * sizeof(struct store_value), #name ": no array of values"); \
	_Static_assert(COLUMNS_##ID <= SCHEMA_COLUMNS_MAX, #name ": too many columns");
#define COLUMN(name, type, unit, presence, since, description)
#define ALIAS(name, type, unit, of, until)
#define TABLE_END(ID, name)
#include "analyzers/store/schema.def"
/* clang-format on */

#endif
