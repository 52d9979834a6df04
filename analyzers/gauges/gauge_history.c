/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/gauges/gauge_history.h"

#include <math.h>
#include <stddef.h>

void gauge_history_add(struct gauge_history *history, uint64_t time_ns, double value, double weight)
{
	uint64_t number = time_ns / GAUGE_HISTORY_SLOT_NS;
	struct gauge_slot *slot = &history->slot[number % GAUGE_HISTORY_SLOTS];

	if (slot->number != number)
		*slot = (struct gauge_slot){.number = number};
	slot->sum += (float)(value * weight);
	slot->weight += (float)weight;
}

double gauge_history_of(const struct gauge_history *history, uint64_t number)
{
	const struct gauge_slot *slot = &history->slot[number % GAUGE_HISTORY_SLOTS];

	return slot->number == number && slot->weight > 0 ? (double)slot->sum / (double)slot->weight : NAN;
}

double gauge_history_mean(const struct gauge_history *history, uint64_t since_ns, uint64_t until_ns)
{
	uint64_t first = since_ns / GAUGE_HISTORY_SLOT_NS, last = until_ns / GAUGE_HISTORY_SLOT_NS;
	double sum = 0, weight = 0;

	for (size_t i = 0; i < GAUGE_HISTORY_SLOTS; i++) {
		const struct gauge_slot *slot = &history->slot[i];

		if (slot->number < first || slot->number > last)
			continue;
		sum += (double)slot->sum;
		weight += (double)slot->weight;
	}
	return weight > 0 ? sum / weight : NAN;
}
