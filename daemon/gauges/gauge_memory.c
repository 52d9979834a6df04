/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the node: /proc/meminfo and /proc/vmstat, lines of "KEY VALUE". */
#include "daemon/gauges/gauge.h"

#define KIB 1024.0
#define GIB (1024.0 * 1024 * 1024)
#define TEXT_BYTES 32768 /* /proc/vmstat has some 180 lines of 30 bytes */

static const struct gauge memory_gauges[] = {
	{"available", "bytes", GAUGE_LEVEL, KIB, 8 * GIB, "memory that programs can get without swap"},
	{"dirty", "bytes", GAUGE_LEVEL, KIB, GIB, "data that waits to be written to disks"},
	{"swap_free", "bytes", GAUGE_LEVEL, KIB, GIB, "free swap"},
	{"major_faults", "1/s", GAUGE_RATE, 1, 1000, "page faults of all processes that read from a disk"},
	{"swapped_in", "pages/s", GAUGE_RATE, 1, 1000, "pages read from swap"},
	{"swapped_out", "pages/s", GAUGE_RATE, 1, 1000, "pages written to swap"},
	{"direct_reclaim", "pages/s", GAUGE_RATE, 1, 1000, "pages that programs scanned themselves to get memory"},
	{"compaction_stalls", "1/s", GAUGE_RATE, 1, 100, "allocations that waited for compaction"},
	{"numa_other", "pages/s", GAUGE_RATE, 1, 1000,
		"pages that programs got from another NUMA node than that of their CPU"},
	{"numa_miss", "pages/s", GAUGE_RATE, 1, 1000,
		"pages from another NUMA node than the one asked for, which had none left"},
	{"numa_migrated", "pages/s", GAUGE_RATE, 1, 1000, "pages that the kernel moved to another NUMA node"},
	{"oom_kills", "1", GAUGE_COUNT, 1, 0, "processes killed for memory since boot"},
	{0},
};

/* Where each of them is. */
static const struct {
	const char *file, *key;
} places[] = {
	{"meminfo", "MemAvailable:"},
	{"meminfo", "Dirty:"},
	{"meminfo", "SwapFree:"},
	{"vmstat", "pgmajfault"},
	{"vmstat", "pswpin"},
	{"vmstat", "pswpout"},
	{"vmstat", "pgscan_direct"},
	{"vmstat", "compact_stall"},
	{"vmstat", "numa_other"},
	{"vmstat", "numa_miss"},
	{"vmstat", "numa_pages_migrated"},
	{"vmstat", "oom_kill"},
};
_Static_assert(ARRAY_SIZE(places) + 1 == ARRAY_SIZE(memory_gauges), "a place for each gauge");

struct memory {
	char proc[128];
	char text[TEXT_BYTES];
};

static int gauge_memory_open(const struct gauge_roots *roots, void **ret, char *why, size_t why_size)
{
	struct memory *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return -ENOMEM;
	(void)copy_text(memory->proc, sizeof(memory->proc), roots->proc);
	*ret = memory;
	return 0;
}

/* The value of the line with this key; false: there is none. */
static bool gauge_memory_find(const char *text, const char *key, double *ret)
{
	size_t length = strlen(key);
	const char *line = text;
	char *end;

	while (line && (strncmp(line, key, length) != 0 || (line[length] != ' ' && line[length] != '\t'))) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	if (!line)
		return false;
	*ret = strtod(line + length, &end);
	return end != line + length;
}

static int gauge_memory_read(void *state, struct gauge_batch *batch)
{
	struct memory *memory = state;
	const char *file = "";
	char path[256];
	bool is_read = false;
	double value;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (!streq(places[i].file, file)) {
			file = places[i].file;
			snprintf(path, sizeof(path), "%s/%s", memory->proc, file);
			is_read = gauge_file(path, memory->text, sizeof(memory->text)) >= 0;
		}
		if (is_read && gauge_memory_find(memory->text, places[i].key, &value))
			gauge_sample(batch, &memory_gauges[i], "", value);
	}
	return 0;
}

const struct gauge_source gauge_source_memory = {
	.name = "memory",
	.summary = "memory, swap and reclaim of the node",
	.gauges = memory_gauges,
	.rows_per_second = 2,
	.open = gauge_memory_open,
	.group = {{.name = "memory", .read = gauge_memory_read}},
	.close = free,
};
