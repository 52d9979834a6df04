/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/steps/activity.h"

#include <stddef.h>
#include <string.h>

static const struct activity_row {
	const char *word, *title;
	enum stage_kind stage;
	enum activity_waits waits;
} rows[ACTIVITY_MAX] = {
#define ACTIVITY(id, word, title, stage, waits, cause) [ACTIVITY_##id] = {#word, title, stage, ACTIVITY_##waits},
#include "analyzers/steps/activities.def"
#undef ACTIVITY
};

const char *activity_word(enum activity activity)
{
	return (unsigned)activity < ACTIVITY_MAX ? rows[activity].word : "";
}

const char *activity_title(enum activity activity)
{
	return (unsigned)activity < ACTIVITY_MAX ? rows[activity].title : "";
}

enum activity activity_parse(const char *word)
{
	size_t i = 0;

	while (i < ACTIVITY_MAX && strcmp(rows[i].word, word))
		i++;
	return (enum activity)i;
}

enum activity activity_of_stage(enum stage_kind kind)
{
	for (size_t i = 0; i < ACTIVITY_MAX; i++) {
		if (rows[i].stage == kind && kind != STAGE_KIND_MAX)
			return (enum activity)i;
	}
	return ACTIVITY_MARK;
}

bool activity_may_wait(enum activity activity, bool cards)
{
	if ((unsigned)activity >= ACTIVITY_MAX)
		return false;
	return rows[activity].waits == ACTIVITY_ALWAYS || (cards && rows[activity].waits == ACTIVITY_CARD);
}
