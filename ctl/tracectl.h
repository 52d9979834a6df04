/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What verbs of tracectl share. To add one: its row in verbs.def, its function in cmd_NAME.c, and its section in
 * man/tracectl.1.
 */
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

#define LEVELS_MAX 16 /* in one request */
#define COMPLETE_WORDS_MAX 1024
#define VERB_OPTIONS_MAX 8

enum exit_code {
	EXIT_DONE = 0,
	EXIT_REFUSED = 1,     /* refused or failed */
	EXIT_USAGE = 2,	      /* unknown verb, level or value */
	EXIT_UNREACHABLE = 3, /* no daemon answers */
};

/* A command line, as the verb's row allows it. */
struct command {
	const struct verb *verb;
	const char *socket;
	const char *state_dir; /* NULL: ask the daemon */
	bool json;
	int words;
	char **word;
	const char *value[VERB_OPTIONS_MAX]; /* of the verb's options; "" for one that takes none; NULL: not given */
};

/* What a word can be completed to. */
enum complete_kind {
	COMPLETE_NOTHING,
	COMPLETE_VERBS,
	COMPLETE_LEVELS,
	COMPLETE_SWITCHES,  /* L1=on */
	COMPLETE_INTERVALS, /* L1= */
	COMPLETE_RANKS,
	COMPLETE_TIMES,
	COMPLETE_LENGTHS,
	COMPLETE_LEVEL_LIST, /* L0,L1 */
	COMPLETE_FILES,
	COMPLETE_FOLDERS,
	COMPLETE_KINDS
};

struct verb_option {
	const char *name;  /* without "--"; NULL ends the list */
	const char *value; /* what it is called; NULL: takes none */
	const char *help;
};

struct verb {
	const char *name;
	int (*run)(const struct command *command); /* yields an exit code; NULL: a program of libexec/ranktrace */
	const char *arguments;
	enum complete_kind completion;
	int words_min, words_max;
	const char *summary, *help, *exits;
	const struct verb_option *option;
	bool hidden;
};

/* The table, and its end. */
extern const struct verb verbs[];
extern const size_t verbs_count;
const struct verb *verb_find(const char *name);
/* Writes that the word is no verb, with the verb or the two that it most likely stands for. Returns EXIT_USAGE. */
int verb_unknown(const char *word);
/* "set LEVEL=VALUE... [--for LENGTH] [--json]" */
void verb_usage(const struct verb *verb, FILE *out);

#define VERB(name, ...) int cmd_##name(const struct command *command);
#define HIDDEN(name, ...) int cmd_##name(const struct command *command);
#define PROGRAM(...)
#include "ctl/verbs.def"
#undef VERB
#undef HIDDEN
#undef PROGRAM

/* Whether words and options fit the verb's row. EXIT_DONE, or EXIT_USAGE with the sentence. */
int command_parse(struct command *command, int count, char **word);
/* The value of an option in the row; NULL where it was not given. */
const char *command_option(const struct command *command, const char *name);

/* A verb that is a program in libexec/ranktrace; returns only where it did not run. */
int external_run(const struct command *command, const char *verb, int argc, char **argv);
bool external_exists(const char *verb);
/* Calls for each program that has no row. */
void external_each(void (*callback)(void *arg, const char *name), void *arg);
/* What `VERB --help` writes, for free(); NULL where it does not. Only for programs with a row. */
char *external_help(const char *verb);

/* Sentences begin with "tracectl VERB: " from here on. */
void fail_verb(const char *verb);
/* Writes the sentence on stderr and yields the code, so that a failure is one statement. */
int ctl_fail(enum exit_code code, const char *format, ...) _printf_(2, 3);
/* Usage error, with the usage of the verb behind the sentence. */
int fail_usage(const struct verb *verb, const char *format, ...) _printf_(2, 3);

#endif
