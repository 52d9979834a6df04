/* SPDX-License-Identifier: Apache-2.0 */
/* See options.h. */
#include "analyzers/tool/options.h"

#include <assert.h>
#include <getopt.h>

static int tool_options_set(const struct tool_option *option, const char *value, uint64_t now_ns)
{
	if (option->flag)
		*option->flag = true;
	if (option->text)
		*option->text = value;
	if (option->time_ns && tool_since(value, now_ns, option->time_ns) < 0)
		return 1 + tool_fail(2, "--%s takes a time ago (30m, 12h, 7d) or a date, not \"%s\"", option->name,
				   value);
	if (option->ranks && ranges_parse(value, option->ranks) < 0)
		return 1 + tool_fail(2, "--%s takes ranks as in 0,3-7, not \"%s\"", option->name, value);
	return option->call ? option->call(option->arg, value) : 0;
}

int tool_options(int argc, char **argv, const char *usage, const struct tool_option *options, size_t count)
{
	enum { HELP = 256, VERSION, FIRST };
	struct option table[TOOL_OPTIONS_MAX + 3] = {
		{"help", no_argument, NULL, HELP},
		{"version", no_argument, NULL, VERSION},
	};
	char letters[2 * TOOL_OPTIONS_MAX + 1] = "";
	uint64_t now_ns = tool_now_ns();
	int id, index, r = 0;

	assert(count <= TOOL_OPTIONS_MAX);
	for (size_t i = 0, used = 0; i < count; i++) {
		const struct tool_option *option = &options[i];

		table[2 + i] = (struct option){option->name, option->flag ? no_argument : required_argument, NULL,
			option->letter ? option->letter : FIRST + (int)i};
		if (option->letter)
			letters[used++] = option->letter;
		if (option->letter && !option->flag)
			letters[used++] = ':';
	}
	while (r == 0 && (id = getopt_long(argc, argv, letters, table, NULL)) != -1) {
		if (id == '?')
			return 1 + tool_see_help(); /* getopt_long printed what is wrong */
		for (index = 0; table[index].val != id;)
			index++;
		r = index == 0	 ? 1 + tool_usage(usage)
		    : index == 1 ? 1 + tool_version()
				 : tool_options_set(&options[index - 2], optarg, now_ns);
	}
	return r;
}

int tool_options_end(int argc, char **argv)
{
	return optind < argc ? 1 + tool_fail(2, "unexpected \"%s\"; see --help", argv[optind]) : 0;
}
