/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that hold memory, as a table and as JSON. */
#include <math.h>
#include <stdio.h>

#include "analyzers/base/term_table.h"
#include "analyzers/cli/memory_read.h"

static double cmd_memory_low(const struct memory_place *place)
{
	return fmax(place->live - sqrt(place->below2), 0);
}

static double cmd_memory_high(const struct memory_place *place)
{
	return place->live + sqrt(place->above2);
}

void cmd_memory_print_places(const struct memory_pool *pool, bool grown, size_t shown)
{
	const struct term_column columns[] = {{.name = "HELD", .right = true}, {.name = "95 % INTERVAL", .right = true},
		{.name = grown ? "GROWN" : "ALLOCATED", .right = true}, {.name = "BLOCKS", .right = true},
		{.name = "WHERE", .min = 30, .wraps = true}};
	struct term_table *table = term_table_new(columns, sizeof(columns) / sizeof(columns[0]));
	double rest = 0;

	for (size_t i = 0; table && i < pool->places; i++) {
		const struct memory_place *place = &pool->place[i];

		if (i >= shown || (place->live <= 0 && place->live_first <= 0)) {
			rest += place->live;
			continue;
		}
		term_table_cell(table, TERM_PLAIN, "%s", cmd_memory_bytes(place->live).text);
		if (place->below2 + place->above2 > 0)
			term_table_cell(table, TERM_PLAIN, "%s to %s", cmd_memory_bytes(cmd_memory_low(place)).text,
				cmd_memory_bytes(cmd_memory_high(place)).text);
		else
			term_table_cell(table, TERM_PLAIN, "exact");
		term_table_cell(table, TERM_PLAIN, "%s",
			cmd_memory_bytes(grown ? place->live - place->live_first : place->alloc).text);
		term_table_cell(table, TERM_PLAIN, "%.0f", place->blocks);
		term_table_cell(table, TERM_PLAIN, "%s", place->text);
	}
	if (table)
		term_table_print(table, stdout, 2);
	term_table_free(table);
	if (rest > 0)
		printf("  other lines hold %s\n", cmd_memory_bytes(rest).text);
}

json_t *cmd_memory_json_places(const struct memory_pool *pool)
{
	json_t *places = json_array();

	for (size_t i = 0; i < pool->places; i++) {
		const struct memory_place *place = &pool->place[i];

		json_array_append_new(
			places, json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "where", place->text,
					"live_bytes", place->live, "error_bytes", sqrt(place->error2), "low_bytes",
					cmd_memory_low(place), "high_bytes", cmd_memory_high(place), "grown_bytes",
					place->live - place->live_first, "live_blocks", place->blocks, "alloc_bytes",
					place->alloc, "alloc_blocks", place->alloc_blocks));
	}
	return places;
}
