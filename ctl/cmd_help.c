/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl help [VERB]: from the table of verbs, and from what is in libexec/ranktrace. */
#include <ctype.h>
#include "ctl/tracectl.h"

static void help_all(void)
{
	puts("Usage: tracectl [--socket S] [--json] VERB [ARGUMENTS]\n\nVerbs:");
	for (size_t i = 0; i < verbs_count; i++)
		printf("  %-10s %s\n", verbs[i].name, verbs[i].help);
	external_list(stdout);
	puts("\nOptions:\n"
	     "  --socket S     the daemon's socket (also RANKTRACE_SOCKET), else " RANKTRACE_SOCKET "\n"
	     "  --state-dir D  for verbs that read the store: where it is, without asking the daemon\n"
	     "  --json         for programs\n"
	     "  --version      the version of tracectl\n"
	     "\nExamples:\n"
	     "  tracectl set L1=true --for 10m\n"
	     "  tracectl interval L1=10\n"
	     "  tracectl print all\n"
	     "  tracectl findings --since 1h --verbose\n"
	     "  tracectl timeline --since 10m -o slow.pftrace\n"
	     "  tracectl query 'select rank, count(*) n from steps group by rank'\n"
	     "\nExit codes: 0 done, 1 refused or failed, 2 usage, 3 daemon not reachable.");
}

int cmd_help(const struct options *options, int argc, char **argv)
{
	const struct verb *verb;
	char *args[] = {(char[]){"--help"}, NULL};

	if (argc == 0) {
		help_all();
		return EXIT_DONE;
	}
	if (argc > 1)
		return fail_argument("help", argv[1]);
	verb = verb_find(argv[0]);
	if (!verb && external_exists(argv[0]))
		return external_run(options, argv[0], 1, args);
	if (!verb)
		return fail(EXIT_USAGE, "unknown verb '%s'; tracectl help shows what there is", argv[0]);
	printf("Usage: tracectl %s %s\n\n%c%s.\n%s", verb->name, verb->usage, toupper(verb->help[0]), verb->help + 1,
		verb->more);
	return EXIT_DONE;
}
