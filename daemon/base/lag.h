/* SPDX-License-Identifier: Apache-2.0 */
/* How late something periodic runs: the longest delay ever, and in the last minute (to 5 s). Times are of one clock. */
#ifndef RANKTRACE_DAEMON_BASE_LAG_H
#define RANKTRACE_DAEMON_BASE_LAG_H

#include <stdint.h>

#define LAG_SLOTS 12
#define LAG_SLOT_NS 5000000000ULL

struct lag {
	uint64_t last_ns; /* of the run before; 0: none yet */
	uint64_t max_ns;
	struct {
		uint64_t number, max_ns; /* number: of its 5 s, from 0 of the clock */
	} slot[LAG_SLOTS];
};

/* A run at now_ns, which was due period_ns after the one before. Yields how late it is. */
uint64_t lag_run(struct lag *lag, uint64_t now_ns, uint64_t period_ns);
uint64_t lag_last_minute(const struct lag *lag, uint64_t now_ns);

#endif
