/* SPDX-License-Identifier: Apache-2.0 */
/* See options.h. */
#include "analyzers/tool/options.h"

#include <assert.h>
#include <getopt.h>
#include <string.h>

static int tool_options_set(const struct tool_option *option, const char *value, uint64_t now_ns)
{
	if (option->flag)
		*option->flag = true;
	if (option->text)
		*option->text = value;
	if (option->time_ns && tool_since(value, now_ns, option->time_ns) < 0)
		return 1 + tool_fail(2,
				   "--%s takes a time ago (30m, 12h, 7d), a time of day (14:02) or a date, not '%s'",
				   option->name, value);
	if (option->time_ns && strcmp(option->name, "since") == 0 && *option->time_ns > now_ns)
		return 1 + tool_fail(2, "--since %s is in the future", value);
	if (option->ranks && ranges_parse(value, option->ranks) < 0)
		return 1 + tool_fail(2, "--%s takes ranks as in 0,3-7, not '%s'", option->name, value);
	return option->call ? option->call(option->arg, value) : 0;
}

/* What getopt_long() refused, with the answer's letter. */
static int tool_options_refuse(const struct option *table, int id, const char *word)
{
	const struct option *known = table;

	while (known->name && known->val != optopt)
		known++;
	if (!optopt || !known->name)
		return tool_fail_usage("unknown option '%s'", word);
	return tool_fail_usage(id == ':' ? "--%s needs a value" : "--%s takes no value", known->name);
}

int tool_options(int argc, char **argv, const char *usage, const struct tool_option *options, size_t count)
{
	enum { HELP = 256, VERSION, FIRST };
	struct option table[TOOL_OPTIONS_MAX + 3] = {
		{"help", no_argument, NULL, HELP},
		{"version", no_argument, NULL, VERSION},
	};
	char letters[2 * TOOL_OPTIONS_MAX + 2] = ":";
	uint64_t now_ns = tool_now_ns();
	int id, index, r = 0;

	assert(count <= TOOL_OPTIONS_MAX);
	for (size_t i = 0, used = 1; i < count; i++) {
		const struct tool_option *option = &options[i];

		table[2 + i] = (struct option){option->name, option->flag ? no_argument : required_argument, NULL,
			option->letter ? option->letter : FIRST + (int)i};
		if (option->letter)
			letters[used++] = option->letter;
		if (option->letter && !option->flag)
			letters[used++] = ':';
	}
	opterr = 0;
	while (r == 0 && (id = getopt_long(argc, argv, letters, table, NULL)) != -1) {
		if (id == '?' || id == ':')
			return 1 + tool_options_refuse(table, id, argv[optind - 1]);
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
	return optind < argc ? 1 + tool_fail_usage("unexpected '%s'", argv[optind]) : 0;
}
