/* SPDX-License-Identifier: Apache-2.0 */
/* The cards of this node as their drivers describe them: filled by gauges, read by whoever shows ranks. */
#ifndef RANKTRACE_DAEMON_GAUGES_GAUGE_CARDS_H
#define RANKTRACE_DAEMON_GAUGES_GAUGE_CARDS_H

#include "daemon/gauges/gauge.h"

#define GAUGE_CARDS_MAX 64

struct gauge_cards {
	size_t count;
	struct gauge_card card[GAUGE_CARDS_MAX];
};

/* The card that a rank names `word` (ranks.card): number of its device node, or UUID. NULL: not known. cards may be
 * NULL. */
const struct gauge_card *gauge_cards_find(const struct gauge_cards *cards, const char *word);

#endif
