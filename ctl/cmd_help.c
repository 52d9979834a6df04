/* SPDX-License-Identifier: Apache-2.0 */
/* help: what verbs.def says. */
#include <ctype.h>
#include "analyzers/base/term.h"
#include "ctl/tracectl.h"

#define SUMMARY_COLUMN 13

static void help_line(const char *name, const char *summary)
{
	printf("  %-10s ", name);
	term_wrap(stdout, summary, SUMMARY_COLUMN, SUMMARY_COLUMN, term_width(stdout));
	putchar('\n');
}

static void help_program(void *arg, const char *name)
{
	char text[320];

	snprintf(text, sizeof(text), "a program of its own: tracectl help %.255s", name);
	help_line(name, text);
}

static void help_all(void)
{
	puts("Usage: tracectl [--socket S] [--json] VERB [ARGUMENTS]\n\nVerbs:");
	for (size_t i = 0; i < verbs_count; i++)
		if (!verbs[i].hidden && (verbs[i].run || external_exists(verbs[i].name)))
			help_line(verbs[i].name, verbs[i].summary);
	external_each(help_program, NULL);
	puts("\nOptions:\n"
	     "  --socket S     the daemon's socket (also RANKTRACE_SOCKET), else " RANKTRACE_SOCKET "\n"
	     "  --state-dir D  for verbs that read the store: where it is, without asking the daemon\n"
	     "  --json         for programs\n"
	     "  --version      the version of tracectl\n"
	     "\nExamples:\n"
	     "  tracectl set L1=on --for 10m\n"
	     "  tracectl interval L1=10\n"
	     "  tracectl print all\n"
	     "  tracectl findings --since 1h --verbose\n"
	     "  tracectl timeline --since 10m -o slow.pftrace\n"
	     "  tracectl query 'select rank, count(*) n from steps group by rank'\n"
	     "\nExit codes: 0 done, 1 refused or failed, 2 usage, 3 daemon not reachable.\n"
	     "Colours are for terminals; NO_COLOR=1 turns them off.");
}

static void help_verb(const struct verb *verb)
{
	fputs("Usage: tracectl ", stdout);
	verb_usage(verb, stdout);
	printf("\n\n%c%s.\n%s", toupper((unsigned char)verb->summary[0]), verb->summary + 1, verb->help);
	for (const struct verb_option *o = verb->option; o->name; o++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
		printf("  %-14s %s\n", left, o->help);
	}
	printf("Exit codes: %s.\n", verb->exits);
}

int cmd_help(const struct command *command)
{
	char *args[] = {(char[]){"--help"}, NULL};
	const struct verb *verb;

	if (!command->words) {
		help_all();
		return EXIT_DONE;
	}
	verb = verb_find(command->word[0]);
	if ((!verb || !verb->run) && external_exists(command->word[0]))
		return external_run(command, command->word[0], 1, args);
	if (verb && verb->run) {
		help_verb(verb);
		return EXIT_DONE;
	}
	return verb ? ctl_fail(EXIT_USAGE, "not installed here: '%s'; see tracectl help", command->word[0])
		    : verb_unknown(command->word[0]);
}
