/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gauges/gauge_cards.h"

#include "analyzers/gauges/hardware.h"

const struct gauge_card *gauge_cards_find(const struct gauge_cards *cards, const char *word)
{
	for (size_t i = 0; cards && i < cards->count; i++)
		if (hardware_card_is(cards->card[i].object, cards->card[i].minor, word))
			return &cards->card[i];
	return NULL;
}
