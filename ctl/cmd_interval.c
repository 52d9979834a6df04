/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl interval LEVEL=MINUTES...: how often a level that is on writes its dump. */
#include "ctl/client.h"
#include "ctl/levels.h"
#include "ctl/out.h"

#define MINUTES_MAX 10080

static int interval_parse(const char *level, const char *value, double *ret)
{
	char *end;
	double minutes = strtod(value, &end);

	/* strtod takes more than a plain number: blanks, signs, hexadecimals, nan. */
	if (!*value || *end || strspn(value, "0123456789.eE+-") != strlen(value) || !(minutes > 0) ||
		minutes > MINUTES_MAX)
		return ctl_fail(EXIT_USAGE,
			"the interval of %s cannot be '%s'; it is a number of minutes above 0, at most %d", level,
			value, MINUTES_MAX);
	*ret = minutes;
	return EXIT_DONE;
}

static int interval_show(
	const struct command *command, const Ranktrace__Response *response, const Ranktrace__Request *request)
{
	const Ranktrace__LevelsBody *body = response->levels;
	json_t *all = command->json ? json_object() : NULL;

	for (size_t i = 0; i < request->n_interval; i++) {
		const char *level = request->interval[i]->level;

		if (command->json) {
			json_t *one = level_json(body->n_levels, body->levels, level);

			json_object_update(all, one);
			json_decref(one);
			continue;
		}
		for (size_t l = 0; l < body->n_levels; l++)
			if (strcmp(body->levels[l]->level, level) == 0)
				printf("%s_interval: %g\n", level, body->levels[l]->interval_minutes);
	}
	return command->json ? out_json(all) : EXIT_DONE;
}

int cmd_interval(const struct command *command)
{
	Ranktrace__LevelInterval intervals[LEVELS_MAX], *list[LEVELS_MAX];
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__Response *response = NULL;
	int code = EXIT_DONE;

	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_INTERVAL;
	request.interval = list;
	for (int i = 0; i < command->words && code == EXIT_DONE; i++) {
		Ranktrace__LevelInterval *item = &intervals[i];
		const char *level;
		char *value;

		ranktrace__level_interval__init(item);
		code = level_split(command->verb, command->word[i], true, &level, &value);
		if (code == EXIT_DONE)
			code = interval_parse(level, value, &item->minutes);
		if (code == EXIT_DONE)
			item->level = (char *)level;
		list[request.n_interval++] = item;
	}
	if (code == EXIT_DONE)
		code = client_ask(command, &request, RANKTRACE__RESPONSE__BODY_LEVELS, &response);
	if (code == EXIT_DONE)
		code = interval_show(command, response, &request);
	client_free(response);
	return code;
}
