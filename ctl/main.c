/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracectl: finds the verb and the options that every verb takes, wherever they stand, and hands over the rest. A verb
 * without a function in verbs.def, or without a row, is a program in libexec/ranktrace.
 */
#include "analyzers/base/replace.h"
#include "ctl/tracectl.h"

/* The value of "--name V" or "--name=V" at argv[*i]. 1: it is that option, 0: it is not, -1: it has no value. */
static int main_value(const char *name, int argc, char **argv, int *i, const char **ret)
{
	size_t length = strlen(name);

	if (strncmp(argv[*i], name, length) != 0)
		return 0;
	if (argv[*i][length] == '=') {
		*ret = argv[*i] + length + 1;
		return **ret ? 1 : -1;
	}
	if (argv[*i][length])
		return 0;
	if (*i + 1 >= argc || !argv[*i + 1][0])
		return -1;
	*ret = argv[++*i];
	return 1;
}

struct line {
	struct command command;
	const char *verb;
	char **rest;
	int count;
	bool version;
	bool help;
	bool is_program; /* gets its options as they stand */
	bool words_only; /* nothing that follows is an option */
};

/* An option before the verb, or of one of ours: the common ones are taken out. */
static int main_option(struct line *line, char *arg)
{
	if (strcmp(arg, "--json") == 0)
		line->command.json = true;
	else if (strcmp(arg, "--version") == 0)
		line->version = true;
	else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
		line->help = true;
	else if (line->verb)
		line->rest[line->count++] = arg;
	else
		return ctl_fail(EXIT_USAGE, "unknown option '%s'; see tracectl help", arg);
	return EXIT_DONE;
}

static void main_word(struct line *line, char *word)
{
	const char *called = getenv("RANKTRACE_VERB"); /* of the program that runs this one */
	const struct verb *verb;

	if (line->verb) {
		line->rest[line->count++] = word;
		return;
	}
	verb = verb_find(word);
	line->verb = word;
	line->is_program = !verb || !verb->run;
	line->words_only = verb && verb->hidden; /* they stand for another line */
	if (verb)
		fail_verb(called && *called ? called : verb->name);
}

/* Returns an exit code. */
static int main_read(int argc, char **argv, struct line *line)
{
	int code = EXIT_DONE;

	for (int i = 1; i < argc && code == EXIT_DONE; i++) {
		char *arg = argv[i];
		int socket, state_dir;

		if (line->words_only || arg[0] != '-' || !arg[1]) {
			main_word(line, arg);
			continue;
		}
		socket = main_value("--socket", argc, argv, &i, &line->command.socket);
		state_dir = socket ? 0 : main_value("--state-dir", argc, argv, &i, &line->command.state_dir);
		if (socket < 0 || state_dir < 0)
			return ctl_fail(EXIT_USAGE, "%s needs a path", arg);
		if (socket || state_dir)
			continue;
		line->words_only = strcmp(arg, "--") == 0;
		if (line->is_program || (line->words_only && line->verb))
			line->rest[line->count++] = arg;
		else if (!line->words_only)
			code = main_option(line, arg);
	}
	return code;
}

static int main_run_program(const struct line *line)
{
	/* --json before the verb is meant for the program, too. */
	if (line->command.json && external_exists(line->verb)) {
		memmove(line->rest + 1, line->rest, (size_t)line->count * sizeof(*line->rest));
		line->rest[0] = (char[]){"--json"};
		return external_run(&line->command, line->verb, line->count + 1, line->rest);
	}
	if (external_exists(line->verb))
		return external_run(&line->command, line->verb, line->count, line->rest);
	if (verb_find(line->verb))
		return ctl_fail(EXIT_USAGE, "not installed here; RANKTRACE_LIBEXEC names the folder of such programs");
	return verb_unknown(line->verb);
}

static int main_dispatch(struct line *line)
{
	struct command *command = &line->command;
	int code;

	if (line->version) {
		puts("tracectl " RANKTRACE_VERSION);
		return EXIT_DONE;
	}
	if (!line->verb) {
		if (line->help)
			return cmd_help(command);
		return ctl_fail(EXIT_USAGE, "a verb is missing; see tracectl help");
	}
	command->verb = verb_find(line->verb);
	if (!command->verb || !command->verb->run)
		return main_run_program(line);
	if (line->help) {
		command->words = 1;
		command->word = (char *[]){(char *)command->verb->name};
		return cmd_help(command);
	}
	if (command->verb->hidden) {
		command->words = line->count;
		command->word = line->rest;
		return command->verb->run(command);
	}
	code = command_parse(command, line->count, line->rest);
	if (code == EXIT_DONE && command->state_dir)
		code = ctl_fail(EXIT_USAGE, "--state-dir does not apply: the verb queries the daemon");
	return code == EXIT_DONE ? command->verb->run(command) : code;
}

int main(int argc, char **argv)
{
	const char *socket = getenv("RANKTRACE_SOCKET");
	struct line line = {.command.socket = socket && *socket ? socket : RANKTRACE_SOCKET};
	int code, r;

	/* One more than there can be: for the --json that main_run_program() puts in front. */
	line.rest = calloc((size_t)argc + 2, sizeof(*line.rest));
	if (!line.rest)
		return ctl_fail(EXIT_REFUSED, "out of memory");
	code = main_read(argc, argv, &line);
	if (code == EXIT_DONE)
		code = main_dispatch(&line);
	/* An answer that nobody could read is not an answer. */
	r = replace_written(stdout);
	if (r < 0 && code == EXIT_DONE)
		code = ctl_fail(EXIT_REFUSED, "cannot write the answer: %s", strerror(-r));
	free(line.rest);
	return code;
}
