/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of schema.def as data. See schema.h. */
#include "analyzers/store/schema.h"

#include <string.h>

const char *const schema_unit_names[UNIT_MAX] = {
	[UNIT_NONE] = "",
	[UNIT_NS] = "ns",
	[UNIT_EPOCH_NS] = "ns since the epoch",
	[UNIT_BYTES] = "bytes",
	[UNIT_RATIO] = "ratio",
	[UNIT_CARD_HOURS] = "card hours",
};

/* clang-format off */
#define TABLE(ID, name, tier, kind, since, description) \
	[TABLE_##ID] = {#name, description, TIER_##tier, SCHEMA_##kind, since, {
#define COLUMN(name, type, unit, presence, since, description) \
	{#name, SCHEMA_##type, UNIT_##unit, PRESENCE_##presence, description, since, NULL},
#define ALIAS(name, type, unit, of, until) \
	{#name, SCHEMA_##type, UNIT_##unit, PRESENCE_OPTIONAL, "former name of " #of, until, #of},
#define TABLE_END(ID, name) }},
const struct schema_table schema_tables[TABLE_MAX] = {
#include "analyzers/store/schema.def"
};
/* clang-format on */

/* Times and durations have their unit; versions are those of the schema. */
#define TABLE(ID, name, tier, kind, since, description) \
	_Static_assert(since >= 1 && since <= SCHEMA_VERSION, #name ": no such schema version");
#define COLUMN(name, type, unit, presence, since, description) \
	_Static_assert((SCHEMA_##type == SCHEMA_TIME) == (UNIT_##unit == UNIT_EPOCH_NS), #name ": unit of a time"); \
	_Static_assert((SCHEMA_##type == SCHEMA_DURATION) == (UNIT_##unit == UNIT_NS), #name ": unit of a duration"); \
	_Static_assert(since >= 1 && since <= SCHEMA_VERSION, #name ": no such schema version");
#define ALIAS(name, type, unit, of, until) \
	_Static_assert(until >= 1 && until < SCHEMA_VERSION, #name ": a former name is of an earlier version");
#define TABLE_END(ID, name)
#include "analyzers/store/schema.def"

/* A table of states has one key, an integer; others have none. */
#define TABLE(ID, name, tier, kind, since, description) _Static_assert((SCHEMA_##kind == SCHEMA_STATE) == (0
#define COLUMN(name, type, unit, presence, since, description) \
	+(PRESENCE_##presence == PRESENCE_KEY ? SCHEMA_##type == SCHEMA_INT ? 1 : 2 : 0)
#define ALIAS(name, type, unit, of, until)
#define TABLE_END(ID, name) ), #name ": one integer key in a table of states, none in others");
/* clang-format off */
#include "analyzers/store/schema.def"
/* clang-format on */

size_t schema_columns(const struct schema_table *table)
{
	size_t n = 0;

	while (n < SCHEMA_COLUMNS_MAX && table->columns[n].name)
		n++;
	return n;
}

size_t schema_stored(const struct schema_table *table)
{
	size_t n = 0;

	while (n < SCHEMA_COLUMNS_MAX && table->columns[n].name && !table->columns[n].alias_of)
		n++;
	return n;
}

int schema_column_find(const struct schema_table *table, const char *name)
{
	for (size_t i = 0; i < schema_columns(table); i++)
		if (strcmp(table->columns[i].name, name) == 0)
			return (int)i;
	return -1;
}

int schema_key(const struct schema_table *table)
{
	for (size_t i = 0; i < schema_columns(table); i++)
		if (table->columns[i].presence == PRESENCE_KEY)
			return (int)i;
	return -1;
}

const char *schema_column_in(const struct schema_table *table, uint64_t there, size_t column)
{
	const char *of =
		table->columns[column].alias_of ? table->columns[column].alias_of : table->columns[column].name;

	for (size_t i = 0; i < schema_columns(table); i++) {
		const struct schema_column *at = &table->columns[i];

		if (there & (1ULL << i) && strcmp(at->alias_of ? at->alias_of : at->name, of) == 0)
			return at->name;
	}
	return NULL;
}

bool schema_in_tier(const struct schema_table *table, enum schema_tier tier)
{
	return table->kind == SCHEMA_STATE || table->tier == tier;
}
