/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/gauges/network_gauges.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECT_BYTES 72

/* Slot number modulo the length. */
struct network_slot {
	uint64_t number;
	float lost;
	float seconds; /* in which it was read */
};

struct network_gauge {
	char object[OBJECT_BYTES];
	const char *what;
	double last;
	uint64_t last_ns;
	struct network_slot slot[NETWORK_GAUGES_SLOTS];
};

struct network_gauges {
	size_t count;
	struct network_gauge *gauge[NETWORK_GAUGES_MAX];
};

struct network_gauges *network_gauges_new(void)
{
	return calloc(1, sizeof(struct network_gauges));
}

struct network_gauges *network_gauges_free(struct network_gauges *network)
{
	for (size_t i = 0; network && i < network->count; i++)
		free(network->gauge[i]);
	free(network);
	return NULL;
}

/* NULL: there are too many, or no memory. */
static struct network_gauge *network_gauge_get(struct network_gauges *network, const char *object, const char *what)
{
	struct network_gauge *gauge;

	for (size_t i = 0; i < network->count; i++)
		if (network->gauge[i]->what == what && strcmp(network->gauge[i]->object, object) == 0)
			return network->gauge[i];
	if (network->count == NETWORK_GAUGES_MAX || strlen(object) >= OBJECT_BYTES)
		return NULL;
	gauge = calloc(1, sizeof(*gauge));
	if (!gauge)
		return NULL;
	snprintf(gauge->object, sizeof(gauge->object), "%s", object);
	gauge->what = what;
	network->gauge[network->count++] = gauge;
	return gauge;
}

static void network_gauge_add(struct network_gauge *gauge, uint64_t time_ns, double lost, double seconds)
{
	uint64_t number = time_ns / NETWORK_GAUGES_SLOT_NS;
	struct network_slot *slot = &gauge->slot[number % NETWORK_GAUGES_SLOTS];

	if (slot->number != number)
		*slot = (struct network_slot){.number = number};
	slot->lost += (float)lost;
	slot->seconds += (float)seconds;
}

void network_gauges_sample(struct network_gauges *network, uint64_t time_ns, const char *object, const char *what,
	bool is_rate, double value)
{
	struct network_gauge *gauge = isfinite(value) && value >= 0 ? network_gauge_get(network, object, what) : NULL;
	double seconds, lost;

	if (!gauge || time_ns <= gauge->last_ns)
		return;
	seconds = (double)(time_ns - gauge->last_ns) * 1e-9;
	lost = is_rate ? value * seconds : value > gauge->last ? value - gauge->last : 0;
	if (gauge->last_ns)
		network_gauge_add(gauge, time_ns, lost, seconds);
	gauge->last = value;
	gauge->last_ns = time_ns;
}

/* A second, over the slots that begin in [since, until); NAN: none. */
static double network_gauge_rate(const struct network_gauge *gauge, uint64_t since_ns, uint64_t until_ns)
{
	double lost = 0, seconds = 0;

	for (size_t i = 0; i < NETWORK_GAUGES_SLOTS; i++) {
		const struct network_slot *slot = &gauge->slot[i];

		if (!(slot->seconds > 0) || slot->number * NETWORK_GAUGES_SLOT_NS < since_ns ||
			slot->number * NETWORK_GAUGES_SLOT_NS >= until_ns)
			continue;
		lost += (double)slot->lost;
		seconds += (double)slot->seconds;
	}
	return seconds > 0 ? lost / seconds : NAN;
}

struct network_growth {
	const struct network_gauge *gauge;
	double rate, before, times;
};

static void network_gauge_grown(
	const struct network_gauge *gauge, uint64_t since_ns, uint64_t until_ns, struct network_growth *best)
{
	/* The slot in which the finding began counts as a part of it. */
	uint64_t begin_ns = since_ns - since_ns % NETWORK_GAUGES_SLOT_NS;
	struct network_growth growth = {.gauge = gauge,
		.rate = network_gauge_rate(gauge, begin_ns, until_ns),
		.before = network_gauge_rate(gauge, 0, begin_ns)};

	growth.times = growth.rate / fmax(growth.before, NETWORK_GAUGES_LEAST / NETWORK_GAUGES_GROWTH);
	if (isfinite(growth.before) && growth.rate >= NETWORK_GAUGES_LEAST && growth.times >= NETWORK_GAUGES_GROWTH &&
		growth.times > best->times)
		*best = growth;
}

bool network_gauges_explain(const struct network_gauges *network, uint64_t now_ns, struct finding *finding)
{
	uint64_t until_ns = finding->until_ns ? finding->until_ns : now_ns;
	char detail[sizeof(finding->evidence->detail)];
	struct network_growth best = {.times = 0};
	const char *object;

	if (!network || finding->kind == FINDING_HARDWARE ||
		finding_cause_row(finding->cause)->part != FINDING_PART_NETWORK)
		return false;
	for (size_t i = 0; i < network->count; i++)
		network_gauge_grown(network->gauge[i], finding->since_ns, until_ns, &best);
	if (!best.gauge)
		return false;
	object = best.gauge->object;
	snprintf(detail, sizeof(detail), "%s%s%s%s", best.gauge->what, object[0] ? " (" : "", object,
		object[0] ? ")" : "");
	finding_add(finding, "network", "1/s", best.rate, best.before, detail);
	finding_write_sentence(finding);
	return true;
}
