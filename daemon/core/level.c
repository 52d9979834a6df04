/* SPDX-License-Identifier: Apache-2.0 */
/* The table of levels: names, what is on by default, dump intervals. Asks no other room. See levels.h. */
#include <math.h>
#include "daemon/core/levels.h"

static const struct {
	const char *name;
	bool on;
	double interval_minutes;
} table[] = {
#define LEVEL(id, word, on, interval_minutes) [LEVEL_##id] = {word, on, interval_minutes},
#include "proto/levels.def"
#undef LEVEL
};
_Static_assert(ARRAY_SIZE(table) == LEVEL_MAX, "a row a level");

/* Every word after a comma; the first comma is left out by level_words(). */
static const char words[] =
#define LEVEL(id, word, on, interval_minutes) ", " word
#include "proto/levels.def"
#undef LEVEL
	;

int level_parse(const char *text, enum level *ret)
{
	for (enum level l = 0; l < LEVEL_MAX; l++) {
		if (streq(text, table[l].name)) {
			*ret = l;
			return 0;
		}
	}
	return -EINVAL;
}

const char *level_name(enum level level)
{
	return table[level].name;
}

const char *level_words(void)
{
	return words + strlen(", ");
}

bool level_has_interval(enum level level)
{
	return table[level].interval_minutes > 0;
}

bool level_interval_good(double minutes)
{
	return isfinite(minutes) && minutes > 0 && minutes <= LEVEL_INTERVAL_MINUTES_MAX;
}

void levels_defaults(struct levels *levels)
{
	*levels = (struct levels){0};
	for (enum level l = 0; l < LEVEL_MAX; l++) {
		levels->on[l] = table[l].on;
		levels->interval_minutes[l] = table[l].interval_minutes;
	}
}
