/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl print [LEVEL|all]: the settings, in the text that users of sysTrace's print already parse. */
#include "ctl/client.h"
#include "ctl/levels.h"
#include "ctl/out.h"

static void print_level(const Ranktrace__Level *level)
{
	printf("%s: %s\n", level->level, level->on ? "true" : "false");
	if (level->interval_minutes > 0)
		printf("%s_interval: %g\n", level->level, level->interval_minutes);
}

static void print_levels(const Ranktrace__LevelsBody *body)
{
	puts("Current settings:");
	for (size_t i = 0; i < body->n_levels; i++)
		printf("  %s: %s\n", body->levels[i]->level, body->levels[i]->on ? "true" : "false");
	for (size_t i = 0; i < body->n_levels; i++)
		if (body->levels[i]->interval_minutes > 0)
			printf("  %s_interval: %g\n", body->levels[i]->level, body->levels[i]->interval_minutes);
	for (size_t i = 0; i < body->n_levels; i++)
		if (body->levels[i]->remaining_ns)
			printf("%s is on%s for %s more\n", body->levels[i]->level,
				body->levels[i]->raised ? ", turned on by the daemon," : "",
				units_duration(body->levels[i]->remaining_ns, (char[UNITS_BYTES]){0}));
	for (size_t i = 0; i < body->n_levels; i++)
		if (body->levels[i]->sampled)
			printf("%s is on in windows, %.3g %% of the time: all the time exceeds the budget (tracectl "
			       "status)\n",
				body->levels[i]->level, 100 * body->levels[i]->coverage);
}

int cmd_print(const struct command *command)
{
	const char *word = command->words ? command->word[0] : "all", *only = level_word(word);
	const Ranktrace__LevelsBody *body;
	Ranktrace__Response *response = NULL;
	int code;

	if (!only && strcmp(word, "all") != 0)
		return ctl_fail(EXIT_USAGE, "unknown level '%s'; it is all or one of %s", word, level_list());
	code = client_get(command, RANKTRACE__REQUEST_TYPE__REQUEST_PRINT, RANKTRACE__RESPONSE__BODY_LEVELS, &response);
	if (code != EXIT_DONE)
		return code;
	body = response->levels;
	if (command->json)
		code = out_json(level_json(body->n_levels, body->levels, only));
	else if (!only)
		print_levels(body);
	for (size_t i = 0; only && !command->json && i < body->n_levels; i++)
		if (strcmp(body->levels[i]->level, only) == 0)
			print_level(body->levels[i]);
	client_free(response);
	return code;
}
