/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/lag.h"

static uint64_t lag_share(uint64_t now_ns, uint64_t before_ns, uint64_t late_ns)
{
	uint64_t share_ns = now_ns > before_ns ? now_ns - before_ns : 0;

	return share_ns < late_ns ? share_ns : late_ns;
}

struct lag_stop lag_run(struct lag *lag, uint64_t now_ns, uint64_t period_ns, const struct lag_thread *thread)
{
	uint64_t number = now_ns / LAG_SLOT_NS;
	struct lag_stop stop = {0};

	if (lag->last_ns && now_ns > lag->last_ns + period_ns)
		stop.late_ns = now_ns - lag->last_ns - period_ns;
	stop.thread.run_ns = lag_share(thread->run_ns, lag->last_thread.run_ns, stop.late_ns);
	stop.thread.ready_ns = lag_share(thread->ready_ns, lag->last_thread.ready_ns, stop.late_ns);
	lag->last_ns = now_ns;
	lag->last_thread = *thread;
	if (stop.late_ns > lag->max.late_ns)
		lag->max = stop;
	if (lag->slot[number % LAG_SLOTS].number != number) {
		lag->slot[number % LAG_SLOTS].number = number;
		lag->slot[number % LAG_SLOTS].max_ns = 0;
	}
	if (stop.late_ns > lag->slot[number % LAG_SLOTS].max_ns)
		lag->slot[number % LAG_SLOTS].max_ns = stop.late_ns;
	return stop;
}

uint64_t lag_last_minute(const struct lag *lag, uint64_t now_ns)
{
	uint64_t number = now_ns / LAG_SLOT_NS, max_ns = 0;

	for (int i = 0; i < LAG_SLOTS; i++)
		if (lag->slot[i].number + LAG_SLOTS > number && lag->slot[i].max_ns > max_ns)
			max_ns = lag->slot[i].max_ns;
	return max_ns;
}
