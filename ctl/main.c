/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracectl: finds the verb and the options that every verb takes, wherever they stand, and hands over the rest. A verb
 * that is not in verbs.c is a program in libexec/ranktrace.
 */
#include "ctl/tracectl.h"

/* The value of "--name V" or "--name=V" at argv[*i]. 1: it is that option, 0: it is not, -1: it has no value. */
static int option_value(const char *name, int argc, char **argv, int *i, const char **ret)
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
	struct options options;
	const char *verb;
	char **rest;
	int count;
	bool version;
	bool help;
};

/* Options of our own verbs are known here; a program gets its own as they stand. Returns an exit code. */
static int read_line(int argc, char **argv, struct line *line)
{
	bool words_only = false, external = false;

	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i];
		int socket, state_dir;

		if (words_only || arg[0] != '-' || !arg[1]) {
			if (!line->verb) {
				line->verb = arg;
				external = !verb_find(arg);
			} else {
				line->rest[line->count++] = argv[i];
			}
			continue;
		}
		socket = option_value("--socket", argc, argv, &i, &line->options.socket);
		state_dir = socket ? 0 : option_value("--state-dir", argc, argv, &i, &line->options.state_dir);
		if (socket < 0 || state_dir < 0)
			return fail(EXIT_USAGE, "%s needs a path", arg);
		if (socket || state_dir)
			continue;
		if (strcmp(arg, "--") == 0)
			words_only = true;
		if (external)
			line->rest[line->count++] = argv[i];
		else if (strcmp(arg, "--json") == 0)
			line->options.json = true;
		else if (strcmp(arg, "--version") == 0)
			line->version = true;
		else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
			line->help = true;
		else if (line->verb && !words_only)
			line->rest[line->count++] = argv[i];
		else if (!words_only)
			return fail(EXIT_USAGE, "unknown option '%s'; tracectl help shows what there is", arg);
	}
	return EXIT_DONE;
}

static int run_external(const struct line *line, int room)
{
	const char *nearest;

	/* --json before the verb is meant for the program, too. */
	if (line->options.json && line->count < room) {
		memmove(line->rest + 1, line->rest, (size_t)line->count * sizeof(*line->rest));
		line->rest[0] = (char[]){"--json"};
		return external_run(&line->options, line->verb, line->count + 1, line->rest);
	}
	if (external_exists(line->verb))
		return external_run(&line->options, line->verb, line->count, line->rest);
	nearest = verb_nearest(line->verb);
	if (nearest && strcmp(nearest, line->verb) == 0)
		return fail(EXIT_USAGE, "%s is not installed here; RANKTRACE_LIBEXEC names the folder of such programs",
			line->verb);
	if (nearest)
		return fail(EXIT_USAGE, "unknown verb '%s'; did you mean '%s'?", line->verb, nearest);
	fail(EXIT_USAGE, "unknown verb '%s'; verbs are:", line->verb);
	for (size_t i = 0; i < verbs_count; i++)
		fprintf(stderr, "  %-10s %s\n", verbs[i].name, verbs[i].help);
	external_list(stderr);
	return EXIT_USAGE;
}

static int dispatch(const struct line *line, int room)
{
	const struct verb *verb;

	if (line->version) {
		puts("tracectl " RANKTRACE_VERSION);
		return EXIT_DONE;
	}
	if (!line->verb) {
		if (line->help)
			return cmd_help(&line->options, 0, NULL);
		return fail(EXIT_USAGE, "a verb is missing; tracectl help shows what there is");
	}
	verb = verb_find(line->verb);
	if (!verb)
		return run_external(line, room);
	if (line->help)
		return cmd_help(&line->options, 1, (char *[]){(char *)verb->name});
	if (line->options.state_dir)
		return fail(EXIT_USAGE, "%s asks the daemon and has no use for --state-dir", verb->name);
	return verb->run(&line->options, line->count, line->rest);
}

int main(int argc, char **argv)
{
	const char *socket = getenv("RANKTRACE_SOCKET");
	struct line line = {.options.socket = socket && *socket ? socket : RANKTRACE_SOCKET};
	int code;

	/* One more than there can be: for the --json that run_external() puts in front. */
	line.rest = calloc((size_t)argc + 2, sizeof(*line.rest));
	if (!line.rest)
		return fail(EXIT_REFUSED, "out of memory");
	code = read_line(argc, argv, &line);
	if (code == EXIT_DONE)
		code = dispatch(&line, argc);
	/* An answer that nobody could read is not an answer. */
	if (fflush(stdout) != 0 && code == EXIT_DONE)
		code = fail(EXIT_REFUSED, "the answer could not be written");
	free(line.rest);
	return code;
}
