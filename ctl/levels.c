/* SPDX-License-Identifier: Apache-2.0 */
/* Words about levels that several verbs read or show. */
#include <strings.h>
#include "ctl/levels.h"
#include "ctl/out.h"

static const struct {
	const char *word;
	double interval_minutes; /* 0: has none */
} levels[] = {
#define LEVEL(id, word, on, interval_minutes) {word, interval_minutes},
#include "proto/levels.def"
#undef LEVEL
};

/* Every word after a comma; the first comma is left out by level_list(). */
static const char words[] =
#define LEVEL(id, word, on, interval_minutes) ", " word
#include "proto/levels.def"
#undef LEVEL
	;

const char *level_list(void)
{
	return words + strlen(", ");
}

/* Index, or the number of levels where it is none. */
static size_t level_find(const char *text)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(levels) && strcasecmp(levels[i].word, text) != 0)
		i++;
	return i;
}

const char *level_word(const char *text)
{
	size_t i = level_find(text);

	return i < ARRAY_SIZE(levels) ? levels[i].word : NULL;
}

const char *level_at(size_t i, bool *ret_has_interval)
{
	if (i >= ARRAY_SIZE(levels))
		return NULL;
	*ret_has_interval = levels[i].interval_minutes > 0;
	return levels[i].word;
}

int level_split(const struct verb *verb, char *text, bool needs_interval, const char **ret_level, char **ret_value)
{
	char *equals = strchr(text, '=');
	size_t level;

	if (!equals)
		return fail_usage(verb, "'%s' is not %.*s", text, (int)strcspn(verb->arguments, "."), verb->arguments);
	*equals = 0;
	level = level_find(text);
	if (level == ARRAY_SIZE(levels))
		return ctl_fail(EXIT_USAGE, "unknown level '%s'; levels and switches are %s", text,
			needs_interval ? "L1, L2 and L3" : level_list());
	if (needs_interval && levels[level].interval_minutes <= 0)
		return ctl_fail(EXIT_USAGE, "%s has no interval; L1, L2 and L3 have one", levels[level].word);
	*ret_level = levels[level].word;
	*ret_value = equals + 1;
	return EXIT_DONE;
}

json_t *level_json(size_t count, Ranktrace__Level *const *list, const char *only)
{
	json_t *all = json_object();

	for (size_t i = 0; i < count; i++) {
		json_t *item;

		if (only && strcmp(list[i]->level, only) != 0)
			continue;
		item = json_object();
		json_object_set_new(item, "on", json_boolean(list[i]->on));
		if (list[i]->remaining_ns)
			json_object_set_new(item, "remaining_ns", json_integer((json_int_t)list[i]->remaining_ns));
		if (list[i]->raised)
			json_object_set_new(item, "raised", json_true());
		if (list[i]->sampled)
			json_object_set_new(item, "coverage", json_real(list[i]->coverage));
		if (list[i]->interval_minutes > 0)
			json_object_set_new(item, "interval_minutes", json_real(list[i]->interval_minutes));
		json_object_set_new(all, list[i]->level, item);
	}
	return all;
}
