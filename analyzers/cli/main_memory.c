/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/memory, which is `tracectl memory`: which lines hold memory of a device, what leaks, why a request
 * failed, which calls failed. Reads what L2 has stored; works with the daemon down. Exit codes: 0 done; 1 the store
 * failed, or has nothing of it; 2 usage.
 */
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/cli/memory_read.h"

#define SINCE "1d"

static const char usage[] =
	"usage: tracectl memory [live | leaks | oom | fragmentation | copies | errors] [--rank LIST] [--job JOB]\n"
	"                       [--since TIME] [--json]\n"
	"                       [-o FILE] [--format FORMAT] [--allocated] [--state-dir DIR]\n"
	"Shows the device memory that L2 recorded (tracectl set L2=on).\n"
	"  live             bytes held, and the lines that hold them (default)\n"
	"  leaks            memory that grows from step to step, and its lines\n"
	"  oom              requests that the framework's allocator could not serve, and why\n"
	"  fragmentation    what the allocator has from the driver and cannot use, what that costs, which setting "
	"helps\n"
	"  copies           copies between host and devices: how much, how fast, which held their thread\n"
	"  errors           calls of the runtime and the driver that failed\n"
	"  --rank LIST      only ranks as in 0,3-7\n"
	"  --job JOB        only this job\n"
	"  --since TIME     data since then: 30m, 12h ago, or a date and time (" SINCE ")\n"
	"  --json           write an object\n"
	"  -o, --output FILE  draw the bytes held by each stack; - is standard output\n"
	"  --format FORMAT  html (a flame graph), folded, speedscope, pprof, snapshot, for PyTorch's memory_viz, or "
	"map, a\n"
	"                   page of segments over time (that of\n"
	"                   the suffix of FILE: .pickle is a snapshot; else html)\n"
	"  --allocated      draw the bytes allocated since L2 was on instead\n"
	"  --state-dir DIR  state folder (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --help, --version\n";

static const struct {
	const char *word, *none; /* none: said where nothing of it happened; NULL: what every allocator has */
	int (*run)(struct cmd_memory *cmd);
} cmd_memory_views[] = {
	{"live", NULL, cmd_memory_live},
	{"leaks", NULL, cmd_memory_leaks},
	{"oom", "no request for memory failed", cmd_memory_oom},
	{"fragmentation", NULL, cmd_memory_fragmentation},
	{"copies", "no copies", cmd_memory_copies},
	{"errors", "no call failed", cmd_memory_errors},
};

/* Exit code. */
static int cmd_memory_none(const struct cmd_memory *cmd, const char *none)
{
	char since[TOOL_TEXT_BYTES], who[256] = "";

	tool_time(cmd->since_ns, since);
	if (cmd->job)
		snprintf(who, sizeof(who), " of job %.200s", cmd->job);
	if (none && cmd->pools) {
		printf("%s%s since %s\n", none, who, since);
		return tool_written();
	}
	return tool_fail(1, "no memory of devices%s%s is stored since %s; L2 records it: tracectl set L2=on",
		cmd->ranks.count ? " of these ranks" : "", who, since);
}

#define VIEWS (sizeof(cmd_memory_views) / sizeof(cmd_memory_views[0]))

static int cmd_memory_run(struct cmd_memory *cmd, size_t view)
{
	int r;

	cmd->pool = calloc(MEMORY_POOLS_MAX, sizeof(*cmd->pool));
	cmd->list = json_array();
	if (!cmd->pool || !cmd->list)
		return tool_fail(1, "out of memory");
	r = tool_open(&cmd->state_dir, false, &cmd->reader);
	if (r == 0)
		r = cmd_memory_read_curves(cmd);
	if (r == 0)
		r = cmd_memory_read_cards(cmd);
	if (r == 0 && (cmd->output || cmd->format))
		return cmd_memory_picture(cmd, cmd->format, cmd->output, cmd->allocated);
	if (r == 0)
		r = cmd_memory_views[view].run(cmd);
	if (r)
		return r;
	if (cmd->json) {
		json_t *object = json_pack("{s:O}", cmd_memory_views[view].word, cmd->list);

		json_dumpf(object, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(object);
	}
	if (!cmd->rows && !(cmd->json && cmd->pools))
		return cmd_memory_none(cmd, cmd_memory_views[view].none);
	return tool_written();
}

/* 0: go on; else the exit code plus one. */
static int cmd_memory_parse(int argc, char **argv, struct cmd_memory *cmd, size_t *ret_view)
{
	const struct tool_option options[] = {
		{"state-dir", .text = &cmd->state_dir},
		{"rank", .ranks = &cmd->ranks},
		{"job", .text = &cmd->job},
		{"since", .time_ns = &cmd->since_ns},
		{"json", .flag = &cmd->json},
		{"output", 'o', .text = &cmd->output},
		{"format", .text = &cmd->format},
		{"allocated", .flag = &cmd->allocated},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));

	if (r)
		return r;
	*ret_view = 0;
	if (optind < argc) {
		while (*ret_view < VIEWS && strcmp(cmd_memory_views[*ret_view].word, argv[optind]))
			++*ret_view;
		if (*ret_view == VIEWS)
			return 1 + tool_fail(2, "'%s' is no view: live, leaks, oom, fragmentation, copies or errors",
					   argv[optind]);
		optind++;
	}
	if ((cmd->output || cmd->format) && (*ret_view || cmd->json))
		return 1 + tool_fail(2, "-o and --format draw the view live; they exclude the other views and --json");
	if (cmd->allocated && !cmd->output && !cmd->format)
		return 1 + tool_fail(2, "--allocated needs -o or --format");
	if ((cmd->output || cmd->format) && !cmd_memory_has_format(cmd->format, cmd->output))
		return 1 + tool_fail(2, "--format takes html, folded, speedscope, pprof, snapshot or map, not '%s'",
				   cmd->format);
	if (!cmd->since_ns)
		(void)tool_since(SINCE, tool_now_ns(), &cmd->since_ns);
	return tool_options_end(argc, argv);
}

int main(int argc, char **argv)
{
	struct cmd_memory cmd = {0};
	size_t view;
	int r, code;

	tool_begin("memory", argv);
	r = cmd_memory_parse(argc, argv, &cmd, &view);
	if (r)
		return r - 1;
	code = cmd_memory_run(&cmd, view);
	for (size_t i = 0; i < cmd.pools; i++)
		free(cmd.pool[i].place);
	free(cmd.pool);
	json_decref(cmd.list);
	reader_close(cmd.reader);
	return code;
}
