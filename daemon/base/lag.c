/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/lag.h"

uint64_t lag_run(struct lag *lag, uint64_t now_ns, uint64_t period_ns)
{
	uint64_t number = now_ns / LAG_SLOT_NS, late_ns = 0;

	if (lag->last_ns && now_ns > lag->last_ns + period_ns)
		late_ns = now_ns - lag->last_ns - period_ns;
	lag->last_ns = now_ns;
	if (late_ns > lag->max_ns)
		lag->max_ns = late_ns;
	if (lag->slot[number % LAG_SLOTS].number != number) {
		lag->slot[number % LAG_SLOTS].number = number;
		lag->slot[number % LAG_SLOTS].max_ns = 0;
	}
	if (late_ns > lag->slot[number % LAG_SLOTS].max_ns)
		lag->slot[number % LAG_SLOTS].max_ns = late_ns;
	return late_ns;
}

uint64_t lag_last_minute(const struct lag *lag, uint64_t now_ns)
{
	uint64_t number = now_ns / LAG_SLOT_NS, max_ns = 0;

	for (int i = 0; i < LAG_SLOTS; i++)
		if (lag->slot[i].number + LAG_SLOTS > number && lag->slot[i].max_ns > max_ns)
			max_ns = lag->slot[i].max_ns;
	return max_ns;
}
