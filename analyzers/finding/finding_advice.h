/* SPDX-License-Identifier: Apache-2.0 */
/* What to do about a finding: of its cause, of its activity, and of the side where it loses its time. Pure. */
#ifndef RANKTRACE_FINDING_FINDING_ADVICE_H
#define RANKTRACE_FINDING_FINDING_ADVICE_H

#include "analyzers/finding/finding_groups.h"

/* Imperative, never "". A rank that is late on its host is never sent to its card's clocks. */
const char *finding_advice(enum finding_cause cause, enum activity activity, enum finding_side side);
/* The card itself, or its links, may be at fault. */
bool finding_blames_card(enum finding_cause cause, enum activity activity, enum finding_side side);

#endif
