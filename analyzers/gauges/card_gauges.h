/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a card is slow, by its own gauges: pure. Fed with samples of cards (daemon/gauges), asked about findings.
 *
 * A rule is a row: a gauge that differs, since the finding began, from the median of the node's other cards in use, or
 * where there are none, from the card's own past in use. What holds for all cards alike (a power limit that each of them
 * reaches) makes none of them slower than the others and explains nothing. The first rule that fits is the finding's
 * cause, and remains so while the finding lasts; the others add what else differs, and since when.
 */
#ifndef RANKTRACE_GAUGES_CARD_GAUGES_H
#define RANKTRACE_GAUGES_CARD_GAUGES_H

#include "analyzers/finding/finding.h"

#define CARD_GAUGES_CARDS_MAX 64
/* Two readings of eight cards: 1.2 ms of CPU each, of 5 ms a second, are one in 2 s */
#define CARD_GAUGES_FRESH_NS 5000000000ULL

struct card_gauges;

struct card_gauges *card_gauges_new(void);
struct card_gauges *card_gauges_free(struct card_gauges *cards);
/* A card, and the number of its device node (-1: unknown), by which ranks name it. */
void card_gauges_card(struct card_gauges *cards, const char *object, int minor);
/* object: the card, or "CARD/PID NAME" of a process on it. Other names and objects are ignored. */
void card_gauges_sample(
	struct card_gauges *cards, uint64_t time_ns, const char *object, const char *name, double value);
/* W, as read at most CARD_GAUGES_FRESH_NS ago; NAN: not known. card: as ranks name it. cards may be NULL. */
double card_gauges_power(const struct card_gauges *cards, const char *card, uint64_t now_ns);
/* Sets cause, evidence and sentence where a rule fits; utc_ns: of now_ns. Changes nothing else, and nothing of findings that are not about
 * a slow rank whose card may be the cause. cards may be NULL. */
bool card_gauges_explain(struct card_gauges *cards, uint64_t now_ns, uint64_t utc_ns, struct finding *finding);

#endif
