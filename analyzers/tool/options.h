/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of a program of libexec/ranktrace, from a table of its options. */
#ifndef RANKTRACE_TOOL_OPTIONS_H
#define RANKTRACE_TOOL_OPTIONS_H

#include "analyzers/tool/tool.h"

#define TOOL_OPTIONS_MAX 32

/* Exactly one of flag, text, time_ns, ranks and call is set. Only a flag takes no value. */
struct tool_option {
	const char *name;
	char letter; /* short form; 0: none */
	bool *flag;
	const char **text;
	uint64_t *time_ns; /* a time ago or a date, as tool_since() */
	struct ranges *ranks;
	int (*call)(void *arg, const char *value); /* 0: go on; else the exit code plus one */
	void *arg;
};

/* --help and --version come with it. optind is then the first word that is no option. 0: go on; else the exit code plus
 * one, after a message. */
int tool_options(int argc, char **argv, const char *usage, const struct tool_option *options, size_t count);
/* After tool_options(), of a program that takes no other words: refuses them. Returns as that does. */
int tool_options_end(int argc, char **argv);

#endif
