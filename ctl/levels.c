/* SPDX-License-Identifier: Apache-2.0 */
/* Words about levels that several verbs read or show. */
#include "ctl/levels.h"
#include "ctl/out.h"

bool level_known(const char *text)
{
	return text[0] == 'L' && text[1] >= '0' && text[1] <= '3' && !text[2];
}

int level_split(const char *verb, char *text, bool has_l0, char **ret_level, char **ret_value)
{
	char *equals = strchr(text, '=');

	if (!equals)
		return fail(EXIT_USAGE, "'%s' is not LEVEL=VALUE; usage: tracectl %s %s", text, verb,
			verb_find(verb)->usage);
	*equals = 0;
	if (!level_known(text))
		return fail(EXIT_USAGE, "unknown level '%s'; levels are %sL1, L2 and L3", text, has_l0 ? "L0, " : "");
	if (!has_l0 && text[1] == '0')
		return fail(EXIT_USAGE, "L0 has no %s; L1, L2 and L3 have one", verb);
	*ret_level = text;
	*ret_value = equals + 1;
	return EXIT_DONE;
}

json_t *levels_json(size_t count, Ranktrace__Level *const *levels, const char *only)
{
	json_t *all = json_object();

	for (size_t i = 0; i < count; i++) {
		json_t *item;

		if (only && strcmp(levels[i]->level, only) != 0)
			continue;
		item = json_object();
		json_object_set_new(item, "on", json_boolean(levels[i]->on));
		if (levels[i]->remaining_ns)
			json_object_set_new(item, "remaining_ns", json_integer((json_int_t)levels[i]->remaining_ns));
		if (levels[i]->interval_minutes > 0)
			json_object_set_new(item, "interval_minutes", json_real(levels[i]->interval_minutes));
		json_object_set_new(all, levels[i]->level, item);
	}
	return all;
}
