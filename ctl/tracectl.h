/* SPDX-License-Identifier: Apache-2.0 */
/* What all verbs of tracectl share: exit codes, options, and how to say what is wrong. */
#ifndef RANKTRACE_TRACECTL_H
#define RANKTRACE_TRACECTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define _printf_(a, b) __attribute__((format(printf, a, b)))

enum exit_code {
	EXIT_DONE = 0,
	EXIT_REFUSED = 1,     /* refused or failed */
	EXIT_USAGE = 2,	      /* unknown verb, level or value */
	EXIT_UNREACHABLE = 3, /* no daemon answers */
};

struct options {
	const char *socket;
	const char *state_dir; /* NULL: ask the daemon */
	bool json;
};

/* Arguments of a verb without its name and the common options. Returns an exit code. */
typedef int (*verb_function)(const struct options *options, int argc, char **argv);

struct verb {
	const char *name;
	verb_function run;
	const char *usage; /* what follows "tracectl NAME" */
	const char *help;  /* one line */
	const char *more;  /* lines for `help VERB`, "" if the line says it all */
};

/* The table, and its end. */
extern const struct verb verbs[];
extern const size_t verbs_count;
const struct verb *verb_find(const char *name);
/* The known word that is nearest to a mistyped one, NULL if none is near. */
const char *verb_nearest(const char *word);

int cmd_set(const struct options *options, int argc, char **argv);
int cmd_interval(const struct options *options, int argc, char **argv);
int cmd_print(const struct options *options, int argc, char **argv);
int cmd_status(const struct options *options, int argc, char **argv);
int cmd_ranks(const struct options *options, int argc, char **argv);
int cmd_ops(const struct options *options, int argc, char **argv);
int cmd_check(const struct options *options, int argc, char **argv);
int cmd_help(const struct options *options, int argc, char **argv);

/* A verb that is a program in libexec/ranktrace; returns only where it did not run. */
int external_run(const struct options *options, const char *verb, int argc, char **argv);
bool external_exists(const char *verb);
/* Writes a line for each. */
void external_list(FILE *f);
/* What one of ours does, in a line; NULL of others' programs. */
const char *program_help(const char *name);

/* Writes "tracectl: SENTENCE" on stderr and yields the code, so that a failure is one statement. */
int fail(enum exit_code code, const char *format, ...) _printf_(2, 3);
/* Usage error where a verb takes no (more) arguments. */
int fail_argument(const char *verb, const char *argument);

#endif
