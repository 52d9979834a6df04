/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs: a new one is its cmd_VERB.c, its line in tracectl.h, and a row here. */
#include "ctl/tracectl.h"

const struct verb verbs[] = {
	{"set", cmd_set, "LEVEL=true|false... [--for TIME] [--json]", "turn collection levels on or off",
		"Levels are L0 (steps and stages), L1 (communication), L2 (memory) and L3 (operating system).\n"
		"A switch of its own, whatever its level is: L1.launches (launches of kernels, in sampled windows).\n"
		"--for 10m turns what is turned on off again after that time (s, m, h, d; no unit: seconds).\n"
		"Answers when probes are attached or detached, and says what happened.\n"},
	{"interval", cmd_interval, "LEVEL=MINUTES... [--json]", "set the dump interval of L1, L2 or L3",
		"Minutes may have a fraction; they are above 0 and at most 10080 (a week).\n"
		"By default 5, of L3 2.\n"
		"A dump adds what is new to the files of sysTrace in dump/ of the state folder; L0 has its interval "
		"in\n"
		"ranktrace.conf. tracectl dump writes them on demand, tracectl status says what was written last.\n"},
	{"print", cmd_print, "[LEVEL|all] [--json]", "show levels, switches and intervals", ""},
	{"status", cmd_status, "[--json]", "show collectors, drops, the store and the daemon's own cost", ""},
	{"ranks", cmd_ranks, "[--json]", "show the training ranks of this node and what each is in now", ""},
	{"ops", cmd_ops, "[--rank LIST] [--json]", "show where ranks stand on their communicators, and who is missing",
		"For each communicator the verdict first, then each rank of this node: the last operation that it\n"
		"entered and the last that is complete (number, operation, bytes), and for how long. Needs L1 on.\n"
		"--rank 0,3-7 shows the communicators of these ranks; all members are judged.\n"},
	{"check", cmd_check, "[--json]", "show what this machine allows, what each level sees, and what to do",
		"With the daemon down it runs ranktraced --check instead. Exit code 1: something is missing.\n"},
	{"help", cmd_help, "[VERB]", "show this, or more about a verb", ""},
};
const size_t verbs_count = ARRAY_SIZE(verbs);

const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; i < verbs_count; i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

/* Verbs that are programs of libexec/ranktrace; they read the store, so that they work with the daemon down. */
static const struct {
	const char *name, *help;
} programs[] = {
	{"findings", "show what is slow or stands still, since when, why, and what it costs"},
	{"report", "show the slow cards of the last day on one page"},
	{"timeline", "write what was seen as a trace for ui.perfetto.dev"},
	{"analyze", "judge what is stored once more, also of many nodes together"},
	{"dump", "write what is stored as the files of sysTrace"},
	{"query", "ask the store in SQL"},
};

const char *program_help(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (strcmp(programs[i].name, name) == 0)
			return programs[i].help;
	return NULL;
}

#define WORD_BYTES 24

/* Levenshtein's distance of two short words. */
static unsigned distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	unsigned row[WORD_BYTES + 1];

	if (n > WORD_BYTES || m > WORD_BYTES)
		return WORD_BYTES;
	for (size_t j = 0; j <= m; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			unsigned best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[m];
}

const char *verb_nearest(const char *word)
{
	const char *nearest = NULL;
	unsigned best = 3; /* farther ones are no help */

	for (size_t i = 0; i < verbs_count; i++) {
		unsigned d = distance(word, verbs[i].name);

		if (d < best) {
			best = d;
			nearest = verbs[i].name;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		unsigned d = distance(word, programs[i].name);

		if (d < best) {
			best = d;
			nearest = programs[i].name;
		}
	}
	return nearest;
}
