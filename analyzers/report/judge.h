/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conclusions of the report: which findings concern a card, which are notes, the worst cards, and the headline. Pure.
 */
#ifndef RANKTRACE_REPORT_JUDGE_H
#define RANKTRACE_REPORT_JUDGE_H

#include "analyzers/report/report.h"

/* Concerns one card (or its input), not a job or a network. */
bool judge_accuses(const struct finding *finding);
/* The card or its links may be faulty. */
bool judge_is_hardware(enum finding_cause cause);
/* Work imbalance: no machine is at fault. */
bool judge_is_remark(const struct finding *finding);

/* Shorter than a minute and than a thousandth of the report's period. */
bool judge_is_brief(const struct finding *finding, uint64_t length_ns);
/* Name of the best evidence for a cause; "": the first one. */
const char *judge_evidence_of(enum finding_cause cause);

/* Part of sysTrace's results. */
enum finding_part judge_part_of(const struct finding *finding);

/* Sets costs, worst cards and the headline. */
void report_judge(struct report *report);

/* Advice on a card, over all its days: "replace the card: slow on 7 of 10 days", ... */
void judge_card_advice(const struct report *report, const struct report_card *card, char *ret, size_t size);
/* To be replaced. */
bool judge_card_is_chronic(const struct report *report, const struct report_card *card);
/* Days on which it was slow, of the days with data. */
void judge_card_days(const struct report *report, const struct report_card *card, uint32_t *ret_slow, uint32_t *ret_of);

#endif
