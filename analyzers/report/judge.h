/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conclusions of the report: which findings concern a card, which are notes, the worst cards, and the headline. Pure.
 */
#ifndef RANKTRACE_REPORT_JUDGE_H
#define RANKTRACE_REPORT_JUDGE_H

#include "analyzers/report/report.h"

/* Concerns one card, its host or its input, not a job or a network: also a rank that hangs. */
bool judge_accuses(const struct finding *finding);
/* Work imbalance: no machine is at fault. */
bool judge_is_remark(const struct finding *finding);
/* Name of the best evidence for a cause; "": the first one. */
const char *judge_evidence_of(enum finding_cause cause);

/* Part of sysTrace's results. */
enum finding_part judge_part_of(const struct finding *finding);

/* Sets costs, worst cards and the headline. */
void report_judge(struct report *report);

/* What to do about a finding, from its evidence. */
const char *judge_advice(const struct finding *finding);
/* Advice on a card, over all its days: "replace the card: slow on 7 of 10 days", ... */
void judge_card_advice(const struct report *report, const struct report_card *card, char *ret, size_t size);
/* To be replaced. */
bool judge_card_is_chronic(const struct report *report, const struct report_card *card);
/* Days on which it was slow, of the days with data. */
void judge_card_days(const struct report *report, const struct report_card *card, uint32_t *ret_slow, uint32_t *ret_of);

#endif
