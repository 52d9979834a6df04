/* SPDX-License-Identifier: Apache-2.0 */
/* Pressure stall information of the node: /proc/pressure. */
#include "daemon/gauges/gauge.h"

/* Read in microseconds of stall; a share of time. */
#define US 1e-6

static const struct gauge pressure_gauges[] = {
	{"cpu_some", "ratio", GAUGE_RATE, US, 0.3, "time in which a task waited for a CPU"},
	{"memory_some", "ratio", GAUGE_RATE, US, 0.1, "time in which a task waited for memory"},
	{"memory_full", "ratio", GAUGE_RATE, US, 0.1, "time in which all tasks waited for memory"},
	{"io_some", "ratio", GAUGE_RATE, US, 0.3, "time in which a task waited for a disk"},
	{"io_full", "ratio", GAUGE_RATE, US, 0.3, "time in which all tasks waited for a disk"},
	{0},
};

static const struct {
	const char *file, *line;
} places[] = {
	{"cpu", "some"},
	{"memory", "some"},
	{"memory", "full"},
	{"io", "some"},
	{"io", "full"},
};
_Static_assert(ARRAY_SIZE(places) + 1 == ARRAY_SIZE(pressure_gauges), "a place for each gauge");

struct pressure {
	char folder[128];
};

/* total= of a line "some avg10=0.00 avg60=0.00 avg300=0.00 total=0"; a kernel built without, or with psi=0, has none.
 */
static bool gauge_pressure_total(const char *folder, size_t place, double *ret)
{
	char path[256], text[512];
	const char *line, *total;

	snprintf(path, sizeof(path), "%s/%s", folder, places[place].file);
	if (gauge_file(path, text, sizeof(text)) < 0)
		return false;
	line = strstr(text, places[place].line);
	total = line ? strstr(line, "total=") : NULL;
	if (!total)
		return false;
	*ret = strtod(total + strlen("total="), NULL);
	return true;
}

static int gauge_pressure_open(const struct gauge_roots *roots, void **ret, char *why, size_t why_size)
{
	struct pressure *pressure = calloc(1, sizeof(*pressure));
	double total;

	if (!pressure)
		return -ENOMEM;
	snprintf(pressure->folder, sizeof(pressure->folder), "%s/pressure", roots->proc);
	if (!gauge_pressure_total(pressure->folder, 0, &total)) {
		free(pressure);
		snprintf(why, why_size, "the kernel keeps no pressure stall information; boot it with psi=1");
		return -EOPNOTSUPP;
	}
	*ret = pressure;
	return 0;
}

static int gauge_pressure_read(void *state, struct gauge_batch *batch)
{
	const struct pressure *pressure = state;
	double total;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (gauge_pressure_total(pressure->folder, i, &total))
			gauge_sample(batch, &pressure_gauges[i], "", total);
	return 0;
}

const struct gauge_source gauge_source_pressure = {
	.name = "pressure",
	.summary = "pressure stall information of the node",
	.gauges = pressure_gauges,
	.rows_per_second = 1,
	.open = gauge_pressure_open,
	.group = {{.name = "pressure", .read = gauge_pressure_read}},
	.close = free,
};
