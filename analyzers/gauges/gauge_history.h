/* SPDX-License-Identifier: Apache-2.0 */
/* The last minutes of a gauge, as weighted means of slots of equal length. Pure. */
#ifndef RANKTRACE_GAUGES_GAUGE_HISTORY_H
#define RANKTRACE_GAUGES_GAUGE_HISTORY_H

#include <stdint.h>

#define GAUGE_HISTORY_SLOT_NS 10000000000ULL
#define GAUGE_HISTORY_SLOTS 90 /* fifteen minutes of them: of a longer finding, its newest part */

struct gauge_slot {
	uint64_t number; /* time / GAUGE_HISTORY_SLOT_NS; in an array modulo its length */
	float sum;	 /* of value times weight */
	float weight;	 /* 0: none */
};

struct gauge_history {
	struct gauge_slot slot[GAUGE_HISTORY_SLOTS];
};

void gauge_history_add(struct gauge_history *history, uint64_t time_ns, double value, double weight);
/* Of one slot; NAN: nothing is known of it. */
double gauge_history_of(const struct gauge_history *history, uint64_t number);
/* Of all slots from that of since_ns up to that of until_ns; NAN: nothing is known of them. */
double gauge_history_mean(const struct gauge_history *history, uint64_t since_ns, uint64_t until_ns);

#endif
