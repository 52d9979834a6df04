/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl print [LEVEL|all]: the settings, in the text that users of sysTrace's print already parse. */
#include "ctl/client.h"
#include "ctl/levels.h"
#include "ctl/out.h"

static void print_one(const Ranktrace__Level *level)
{
	printf("%s: %s\n", level->level, level->on ? "true" : "false");
	if (level->interval_minutes > 0)
		printf("%s_interval: %g\n", level->level, level->interval_minutes);
}

static void print_all(const Ranktrace__LevelsBody *body)
{
	puts("Current settings:");
	for (size_t i = 0; i < body->n_levels; i++)
		printf("  %s: %s\n", body->levels[i]->level, body->levels[i]->on ? "true" : "false");
	for (size_t i = 0; i < body->n_levels; i++)
		if (body->levels[i]->interval_minutes > 0)
			printf("  %s_interval: %g\n", body->levels[i]->level, body->levels[i]->interval_minutes);
	for (size_t i = 0; i < body->n_levels; i++)
		if (body->levels[i]->raised)
			printf("%s is on because of a finding, for %s more\n", body->levels[i]->level,
				out_duration(body->levels[i]->remaining_ns, (char[OUT_BYTES]){0}));
}

int cmd_print(const struct options *options, int argc, char **argv)
{
	const char *only = argc && strcmp(argv[0], "all") != 0 ? argv[0] : NULL;
	const Ranktrace__LevelsBody *body;
	Ranktrace__Response *response;
	int code = EXIT_DONE;

	if (argc > 1)
		return fail_argument("print", argv[1]);
	if (only && only[0] == '-')
		return fail_argument("print", only);
	if (only && !level_known(only))
		return fail(EXIT_USAGE, "unknown level '%s'; print takes all or one of %s", only, level_words());
	code = client_get(options, RANKTRACE__REQUEST_TYPE__REQUEST_PRINT, RANKTRACE__RESPONSE__BODY_LEVELS, &response);
	if (code != EXIT_DONE)
		return code;
	body = response->levels;
	if (options->json)
		code = out_json(levels_json(body->n_levels, body->levels, only));
	else if (!only)
		print_all(body);
	for (size_t i = 0; only && !options->json && i < body->n_levels; i++)
		if (strcmp(body->levels[i]->level, only) == 0)
			print_one(body->levels[i]);
	client_free(response);
	return code;
}
