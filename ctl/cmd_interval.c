/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl interval LEVEL=MINUTES...: how often a level that is on writes its dump. */
#include "ctl/client.h"
#include "ctl/levels.h"
#include "ctl/out.h"

#define INTERVAL_MAX 16
#define MINUTES_MAX 10080

static int parse_minutes(const char *level, const char *value, double *ret)
{
	char *end;
	double minutes = strtod(value, &end);

	/* strtod takes more than a plain number: blanks, signs, hexadecimals, nan. */
	if (!*value || *end || strspn(value, "0123456789.eE+-") != strlen(value) || !(minutes > 0) ||
		minutes > MINUTES_MAX)
		return fail(EXIT_USAGE,
			"the interval of %s cannot be '%s'; it is a number of minutes above 0, at most %d", level,
			value, MINUTES_MAX);
	*ret = minutes;
	return EXIT_DONE;
}

static int show(const struct options *options, const Ranktrace__Response *response, const Ranktrace__Request *request)
{
	const Ranktrace__LevelsBody *body = response->levels;
	json_t *all = options->json ? json_object() : NULL;

	for (size_t i = 0; i < request->n_interval; i++) {
		const char *level = request->interval[i]->level;

		if (options->json) {
			json_t *one = levels_json(body->n_levels, body->levels, level);

			json_object_update(all, one);
			json_decref(one);
			continue;
		}
		for (size_t l = 0; l < body->n_levels; l++)
			if (strcmp(body->levels[l]->level, level) == 0)
				printf("%s_interval: %g\n", level, body->levels[l]->interval_minutes);
	}
	return options->json ? out_json(all) : EXIT_DONE;
}

int cmd_interval(const struct options *options, int argc, char **argv)
{
	Ranktrace__LevelInterval intervals[INTERVAL_MAX], *list[INTERVAL_MAX];
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__Response *response = NULL;
	int code;

	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_INTERVAL;
	request.interval = list;
	if (argc == 0)
		return fail(EXIT_USAGE, "interval needs a level, like L1=10; usage: tracectl interval %s",
			verb_find("interval")->usage);
	if (argc > INTERVAL_MAX)
		return fail(EXIT_USAGE, "interval takes at most %d levels", INTERVAL_MAX);
	for (int i = 0; i < argc; i++) {
		char *value;

		if (argv[i][0] == '-')
			return fail_argument("interval", argv[i]);
		ranktrace__level_interval__init(&intervals[i]);
		code = level_split("interval", argv[i], true, &intervals[i].level, &value);
		if (code == EXIT_DONE)
			code = parse_minutes(intervals[i].level, value, &intervals[i].minutes);
		if (code != EXIT_DONE)
			return code;
		list[request.n_interval++] = &intervals[i];
	}
	code = client_ask(options, &request, &response);
	if (code == EXIT_DONE && response->body_case != RANKTRACE__RESPONSE__BODY_LEVELS)
		code = fail(EXIT_REFUSED, "the daemon answered something else than was asked");
	if (code == EXIT_DONE)
		code = show(options, response, &request);
	client_free(response);
	return code;
}
