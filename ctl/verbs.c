/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs, from verbs.def. */
#include "analyzers/base/nearest.h"
#include "ctl/tracectl.h"

#define EXITS "0 done, 1 refused or failed, 2 usage, 3 daemon not reachable"
#define OPTION(option_name, value_name, text) {option_name, value_name, text},
#define JSON OPTION("json", NULL, "output for programs")
#define NO_OPTIONS

#define VERB_ROW(id, is_hidden, words, kind, least, most, line, text, codes, ...) \
	{#id, cmd_##id, words, kind, least, most, line, text, codes, \
		(const struct verb_option[]){__VA_ARGS__{NULL, NULL, NULL}}, is_hidden},
#define VERB(id, ...) VERB_ROW(id, false, __VA_ARGS__)
#define HIDDEN(id, ...) VERB_ROW(id, true, __VA_ARGS__)
#define PROGRAM(id, line) {.name = #id, .summary = line},

const struct verb verbs[] = {
#include "ctl/verbs.def"
};
const size_t verbs_count = ARRAY_SIZE(verbs);

const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; i < verbs_count; i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

int verb_unknown(const char *word)
{
	struct nearest nearest = NEAREST(word);
	const char *begun[2] = {NULL, NULL}; /* verbs that begin with it */
	unsigned count = 0;

	for (size_t i = 0; i < verbs_count; i++) {
		if (verbs[i].hidden)
			continue;
		nearest_try(&nearest, verbs[i].name);
		if (*word && strncmp(verbs[i].name, word, strlen(word)) == 0 && count++ < 2)
			begun[count - 1] = verbs[i].name;
	}
	if (count == 2)
		return ctl_fail(EXIT_USAGE, "unknown verb '%s'; did you mean '%s' or '%s'?", word, begun[0], begun[1]);
	if (count < 2 && nearest.found)
		return ctl_fail(EXIT_USAGE, "unknown verb '%s'; did you mean '%s'?", word, nearest.found);
	return ctl_fail(EXIT_USAGE, "unknown verb '%s'; see tracectl help", word);
}

void verb_usage(const struct verb *verb, FILE *out)
{
	fprintf(out, "%s%s%s", verb->name, *verb->arguments ? " " : "", verb->arguments);
	for (const struct verb_option *o = verb->option; o->name; o++)
		fprintf(out, " [--%s%s%s]", o->name, o->value ? " " : "", o->value ? o->value : "");
}

const char *command_option(const struct command *command, const char *name)
{
	for (size_t i = 0; command->verb->option[i].name; i++)
		if (strcmp(command->verb->option[i].name, name) == 0)
			return command->value[i];
	return NULL;
}

/* "--NAME", "--NAME VALUE" or "--NAME=VALUE" at word[*i]. */
static int command_parse_option(struct command *command, int count, char **word, int *i)
{
	const char *name = word[*i] + 2, *equals = strchr(name, '=');
	size_t length = equals ? (size_t)(equals - name) : strlen(name);

	for (size_t n = 0; strncmp(word[*i], "--", 2) == 0 && command->verb->option[n].name; n++) {
		const struct verb_option *option = &command->verb->option[n];

		if (strlen(option->name) != length || strncmp(option->name, name, length) != 0)
			continue;
		if (!option->value && equals)
			return fail_usage(command->verb, "--%s takes no value", option->name);
		command->value[n] = "";
		if (option->value)
			command->value[n] = equals ? equals + 1 : *i + 1 < count ? word[++*i] : "";
		if (option->value && !*command->value[n])
			return fail_usage(command->verb, "--%s needs a value: %s", option->name, option->help);
		return EXIT_DONE;
	}
	return fail_usage(command->verb, "unknown option '%s'", word[*i]);
}

int command_parse(struct command *command, int count, char **word)
{
	bool words_only = false;

	command->word = word;
	for (int i = 0; i < count; i++) {
		int code = EXIT_DONE;

		if (!words_only && strcmp(word[i], "--") == 0)
			words_only = true;
		else if (!words_only && word[i][0] == '-' && word[i][1])
			code = command_parse_option(command, count, word, &i);
		else
			command->word[command->words++] = word[i];
		if (code != EXIT_DONE)
			return code;
	}
	if (command->words > command->verb->words_max && command->verb->words_max <= 1)
		return fail_usage(command->verb, "unexpected '%s'", command->word[command->verb->words_max]);
	if (command->words > command->verb->words_max)
		return fail_usage(command->verb, "at most %d are taken", command->verb->words_max);
	if (command->words < command->verb->words_min)
		return fail_usage(command->verb, "%s is missing", command->verb->arguments);
	return EXIT_DONE;
}
