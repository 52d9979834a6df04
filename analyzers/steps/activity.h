/* SPDX-License-Identifier: Apache-2.0 */
/* The activities that a rank's step is split into: rows of activities.def. Pure tables. */
#ifndef RANKTRACE_STEPS_ACTIVITY_H
#define RANKTRACE_STEPS_ACTIVITY_H

#include "analyzers/steps/stage_names.h"

enum activity {
#define ACTIVITY(id, word, title, stage, waits, cause) ACTIVITY_##id,
#include "analyzers/steps/activities.def"
#undef ACTIVITY
	ACTIVITY_MAX
};

enum activity_waits { ACTIVITY_NEVER, ACTIVITY_CARD, ACTIVITY_ALWAYS };

/* ACTIVITY_COMPUTE is no part of the split: it names work that is known from waits in collectives alone. */
const char *activity_word(enum activity activity);  /* "dataloader"; "" for ACTIVITY_MAX */
const char *activity_title(enum activity activity); /* "data loading"; "" for ACTIVITY_MAX */
enum activity activity_parse(const char *word);	    /* ACTIVITY_MAX for an unknown word */
enum activity activity_of_stage(enum stage_kind kind);
/* Whether a rank may wait for other ranks in it. */
bool activity_may_wait(enum activity activity, bool cards);

#endif
