/* SPDX-License-Identifier: Apache-2.0 */
/* What the report concludes: which findings accuse a card, which only remark, the worst cards, and the headline. Pure.
 */
#ifndef RANKTRACE_REPORT_JUDGE_H
#define RANKTRACE_REPORT_JUDGE_H

#include "analyzers/report/report.h"

/* Whether it says that a card (or what feeds it) is slow, rather than a job or a network. */
bool judge_accuses(const struct finding *finding);
/* Whether the card itself, or its links, may be what is at fault. */
bool judge_is_hardware(enum finding_cause cause);
/* How work is divided: nothing is wrong with a machine. */
bool judge_is_remark(const struct finding *finding);

/* Over in less than a minute, and in less than a thousandth of the report's time: nothing to do about it in the
 * morning. */
bool judge_is_brief(const struct finding *finding, uint64_t length_ns);
/* The name of the evidence that shows a cause best; "" where the first one does. */
const char *judge_evidence_of(enum finding_cause cause);

/* What a consumer of sysTrace's results asks. */
enum finding_part judge_part_of(const struct finding *finding);

/* Fills the report's conclusions: costs, worst cards, headline. */
void report_judge(struct report *report);

/* What to do about a card, over all its days: "replace it", "look at the storage", ... */
void judge_card_advice(const struct report *report, const struct report_card *card, char *ret, size_t size);
/* Whether it is to be replaced. */
bool judge_card_is_chronic(const struct report *report, const struct report_card *card);
/* Days on which it was slow, of so many with data. */
void judge_card_days(const struct report *report, const struct report_card *card, uint32_t *ret_slow, uint32_t *ret_of);

#endif
