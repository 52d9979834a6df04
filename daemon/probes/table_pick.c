/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of the tables are whose: each collector keeps those of the levels that it serves. */
#include "daemon/probes/table.h"

void probe_table_keep_levels(struct probe_table *table, uint32_t levels)
{
	size_t kept = 0;

	for (size_t i = 0; i < table->count; i++)
		if (levels & LEVEL_BIT(table->probe[i].level))
			table->probe[kept++] = table->probe[i];
	table->count = kept;
}
