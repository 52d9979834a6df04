/* SPDX-License-Identifier: Apache-2.0 */
/*
 * complete: for shells, what the last word of a command line can become. All of it comes from verbs.def and, for
 * programs, from the options in their --help:
 *
 *   two blanks, "-o, --output FILE", two blanks, what it does       deeper lines are not for people
 *
 * bash splits words at "=", so that L1=on comes as three: these are joined, and then only the value is written.
 */
#include "ctl/levels.h"
#include "ctl/tracectl.h"

struct complete {
	char **word; /* joined */
	int words;
	const char *current; /* what is written begins with it */
	bool splits;	     /* the shell takes what is behind "=" as a word */
	const struct verb *verb;
	bool has_verb;
};

/* By the name of a value. */
static const struct {
	const char *value;
	enum complete_kind kind;
} complete_values[] = {
	{"TIME", COMPLETE_TIMES},
	{"LENGTH", COMPLETE_LENGTHS},
	{"LIST", COMPLETE_RANKS},
	{"LEVELS", COMPLETE_LEVEL_LIST},
	{"FILE", COMPLETE_FILES},
	{"DIR", COMPLETE_FOLDERS},
	{"FOLDER", COMPLETE_FOLDERS},
	{"FOLDER...", COMPLETE_FOLDERS},
};

static const char *const complete_words[COMPLETE_KINDS] = {
	[COMPLETE_RANKS] = "0 0-7",
	[COMPLETE_TIMES] = "10m 1h 12h 1d 7d",
	[COMPLETE_LENGTHS] = "1m 10m 1h",
	[COMPLETE_LEVEL_LIST] = "L0 L1 L2 L3 L0,L1",
	[COMPLETE_FILES] = ":file",
	[COMPLETE_FOLDERS] = ":folder",
};

static const char complete_common[] = "--socket --state-dir --json --version --help";

/* A candidate, if it begins with the current word. */
static void complete_offer(const struct complete *complete, const char *text)
{
	const char *equals = strchr(complete->current, '=');

	if (*text != ':' && strncmp(text, complete->current, strlen(complete->current)) != 0)
		return;
	puts(*text != ':' && equals && complete->splits ? text + (equals + 1 - complete->current) : text);
}

/* Candidates separated by blanks, each behind what the current word has already. */
static void complete_offer_words(
	const struct complete *complete, const char *before, int before_length, const char *words)
{
	while (words && *words) {
		size_t length = strcspn(words, " ");
		char text[256];

		snprintf(text, sizeof(text), "%.*s%.*s", *words == ':' ? 0 : before_length, before, (int)length, words);
		complete_offer(complete, text);
		words += length + strspn(words + length, " ");
	}
}

static void complete_levels(const struct complete *complete, enum complete_kind kind)
{
	bool has_interval;
	const char *level;
	char text[64];

	for (size_t i = 0; (level = level_at(i, &has_interval)); i++) {
		size_t length = strlen(level);

		if (kind == COMPLETE_INTERVALS && !has_interval)
			continue;
		snprintf(text, sizeof(text), "%s%s", level, kind == COMPLETE_LEVELS ? "" : "=");
		if (kind == COMPLETE_SWITCHES && strncmp(complete->current, text, length + 1) == 0)
			complete_offer_words(complete, text, (int)length + 1, "on off");
		else if (strncmp(complete->current, text, length + 1) != 0 || kind == COMPLETE_LEVELS)
			complete_offer(complete, text);
	}
	if (kind == COMPLETE_LEVELS)
		complete_offer(complete, "all");
}

static void complete_verb(void *arg, const char *name)
{
	complete_offer(arg, name);
}

static void complete_kind(struct complete *complete, enum complete_kind kind)
{
	const char *equals = *complete->current == '-' ? strchr(complete->current, '=') : NULL;

	if (kind == COMPLETE_LEVELS || kind == COMPLETE_SWITCHES || kind == COMPLETE_INTERVALS)
		complete_levels(complete, kind);
	else
		complete_offer_words(complete, complete->current, equals ? (int)(equals + 1 - complete->current) : 0,
			complete_words[kind]);
	if (kind != COMPLETE_VERBS)
		return;
	for (size_t i = 0; i < verbs_count; i++)
		if (!verbs[i].hidden && (verbs[i].run || external_exists(verbs[i].name)))
			complete_offer(complete, verbs[i].name);
	external_each(complete_verb, complete);
}

static enum complete_kind complete_value_kind(const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(complete_values); i++)
		if (strcmp(complete_values[i].value, value) == 0)
			return complete_values[i].kind;
	return COMPLETE_NOTHING;
}

/* Calls with each option of the verb ("--since", "-o") and what its value is called, "" for none. */
typedef void (*complete_option)(void *arg, const char *option, const char *value);

/* "-o, --output FILE  the file" */
static void complete_help_line(const char *line, complete_option callback, void *arg)
{
	char option[4][64] = {{0}}, value[64] = "";
	int options = 0;

	while (*line == '-' && options < 4) {
		size_t length = strcspn(line, ", ");

		snprintf(option[options++], sizeof(option[0]), "%.*s", (int)length, line);
		line += length;
		if (strncmp(line, ", ", 2) == 0)
			line += 2;
	}
	if (*line == ' ' && line[1] != ' ')
		snprintf(value, sizeof(value), "%.*s", (int)strcspn(line + 1, " "), line + 1);
	for (int i = 0; i < options; i++)
		callback(arg, option[i], value);
}

static void complete_each_option(const struct complete *complete, complete_option callback, void *arg)
{
	const struct verb *verb = complete->verb;
	char *help = NULL, *rest, name[64];

	callback(arg, "--socket", "FILE");
	if (!verb) {
		callback(arg, "--state-dir", "DIR");
		return;
	}
	for (const struct verb_option *o = verb->run ? verb->option : NULL; o && o->name; o++) {
		snprintf(name, sizeof(name), "--%s", o->name);
		callback(arg, name, o->value ? o->value : "");
	}
	help = verb->run ? NULL : external_help(verb->name);
	rest = help;
	for (char *line; rest && (line = strsep(&rest, "\n"));)
		if (strncmp(line, "  -", 3) == 0)
			complete_help_line(line + 2, callback, arg);
	free(help);
}

static void complete_offer_option(void *arg, const char *option, const char *value)
{
	const struct complete *complete = arg;
	bool is_short = option[1] != '-';

	if (!is_short)
		complete_offer(complete, option);
}

struct complete_search {
	const char *option; /* up to its "=" */
	size_t length;
	bool found;
	char value[64];
};

static void complete_compare(void *arg, const char *option, const char *value)
{
	struct complete_search *search = arg;

	if (strlen(option) != search->length || strncmp(option, search->option, search->length) != 0)
		return;
	search->found = true;
	snprintf(search->value, sizeof(search->value), "%s", value);
}

/* What the value of an option is called; "" for none. */
static const char *complete_value_of(
	const struct complete *complete, const char *option, size_t length, struct complete_search *search)
{
	*search = (struct complete_search){.option = option, .length = length};
	complete_each_option(complete, complete_compare, search);
	return search->value;
}

/* Joins "L1", "=", "on". */
static void complete_join(struct complete *complete, const struct command *command)
{
	for (int i = 0; i < command->words; i++) {
		char **last = complete->words ? &complete->word[complete->words - 1] : NULL;
		bool after = i && strcmp(command->word[i - 1], "=") == 0, is = strcmp(command->word[i], "=") == 0;
		char *both = NULL;

		if (last && (is || after) && asprintf(&both, "%s%s", *last, command->word[i]) >= 0) {
			free(*last);
			*last = both;
			complete->splits = i + 1 == command->words;
		} else {
			complete->word[complete->words++] = strdup(command->word[i]);
		}
	}
	if (!complete->words || (complete->splits && !strchr(complete->word[complete->words - 1], '=')))
		complete->splits = false;
}

/* The first word that is no option and no value of a common one. */
static void complete_find_verb(struct complete *complete)
{
	for (int i = 0; i + 1 < complete->words && !complete->has_verb; i++) {
		if (strcmp(complete->word[i], "--socket") == 0 || strcmp(complete->word[i], "--state-dir") == 0) {
			i++;
		} else if (complete->word[i][0] != '-') {
			complete->verb = verb_find(complete->word[i]);
			complete->has_verb = true;
		}
	}
}

/* Whether folders may follow: behind "--dir FOLDER...", repeatedly. */
static bool complete_takes_folders(const struct complete *complete)
{
	struct complete_search search;

	for (int i = 0; i + 1 < complete->words; i++)
		if (complete->word[i][0] == '-' &&
			strcmp(complete_value_of(complete, complete->word[i], strlen(complete->word[i]), &search),
				"FOLDER...") == 0)
			return true;
	return false;
}

static void complete_write(struct complete *complete)
{
	const char *before = complete->words > 1 ? complete->word[complete->words - 2] : "", *value = "";
	const char *equals = strchr(complete->current, '=');
	struct complete_search search;

	if (*complete->current == '-' && equals)
		value = complete_value_of(complete, complete->current, (size_t)(equals - complete->current), &search);
	else if (*before == '-')
		value = complete_value_of(complete, before, strlen(before), &search);
	if (*value) {
		complete_kind(complete, complete_value_kind(value));
		return;
	}
	if (!complete->has_verb) {
		complete_kind(complete, COMPLETE_VERBS);
		complete_offer_words(complete, "", 0, complete_common);
		return;
	}
	if (complete->verb && complete->verb->run && *complete->current != '-')
		complete_kind(complete, complete->verb->completion);
	if (*complete->current != '-' && complete_takes_folders(complete))
		complete_kind(complete, COMPLETE_FOLDERS);
	complete_each_option(complete, complete_offer_option, complete);
}

int cmd_complete(const struct command *command)
{
	struct complete complete = {.word = calloc((size_t)command->words + 1, sizeof(char *))};

	if (!complete.word)
		return ctl_fail(EXIT_REFUSED, "out of memory");
	complete_join(&complete, command);
	complete.current = complete.words ? complete.word[complete.words - 1] : "";
	complete_find_verb(&complete);
	if (complete.current)
		complete_write(&complete);
	for (int i = 0; i < complete.words; i++)
		free(complete.word[i]);
	free(complete.word);
	return EXIT_DONE;
}
