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

int probe_table_load_dirs(struct probe_table *table, const char *const *dirs, size_t count, uint32_t levels,
	char *error, size_t error_size)
{
	for (size_t i = 0; i < count; i++) {
		int r = probe_table_load_dir(table, dirs[i], error, error_size);

		if (r < 0)
			return r;
	}
	probe_table_keep_levels(table, levels);
	return 0;
}
