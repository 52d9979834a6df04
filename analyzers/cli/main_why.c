/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/why, which is `tracectl why`: where the time of one step, or of some time, of one rank went, beside
 * its usual step and its peers. Works with the daemon down. Exit codes: 0 done; 1 the store failed, or has no such
 * step; 2 usage.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "analyzers/cli/why_read.h"

#define SINCE "1m"

static const char usage[] =
	"usage: tracectl why --rank RANK [--step N | --since TIME [--until TIME]] [--job JOB] [--json] [--state-dir "
	"DIR]\n"
	"Shows where the time of a rank's step went: the excess of each part over its usual value, and the peers' "
	"values.\n"
	"The excesses add up to that of the step.\n"
	"  --rank RANK      the rank\n"
	"  --step N         explain this step (tracectl query 'SELECT rank, step FROM steps' lists them)\n"
	"  --since TIME     explain the mean of the steps since then: 30s, 5m ago, or a date and time (" SINCE ")\n"
	"  --until TIME     end of the window (now)\n"
	"  --job JOB        only this job (the newest that has the rank)\n"
	"  --json           write an object\n"
	"  --state-dir DIR  state folder (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --help, --version\n";

static int cmd_why_explain(struct cmd_why *cmd)
{
	struct why_result result;
	uint64_t job, other;
	int r;

	if (!why_job(cmd->why, 0, &job))
		return cmd_why_no_steps(cmd);
	if (why_job(cmd->why, 1, &other))
		(void)tool_fail(0, "several jobs have a rank %" PRId64 " then; this is the newest (--job)",
			cmd->ranks.range[0].first);
	if (why_choose(cmd->why, job) < 0)
		return tool_fail(1, "out of memory");
	r = cmd_why_read_thread(cmd);
	if (r)
		return r;
	r = why_explain(cmd->why, &result);
	if (r < 0)
		return tool_fail(1, "the store has no ordinary steps of this rank within five minutes to compare with");
	r = cmd_why_read_details(cmd, &result);
	if (r)
		return r;
	if (cmd->json)
		return cmd_why_json(cmd, &result) ?: tool_written();
	cmd_why_text(stdout, cmd, &result);
	return tool_written();
}

static int cmd_why_run(struct cmd_why *cmd)
{
	int status = tool_open(&cmd->state_dir, false, &cmd->reader);

	if (status)
		return status;
	status = cmd->step ? cmd_why_find_step(cmd) : 0;
	if (!status) {
		cmd->why = why_new(&(struct why_options){.rank = (int32_t)cmd->ranks.range[0].first,
			.since_ns = cmd->since_ns,
			.until_ns = cmd->until_ns});
		status = cmd->why ? cmd_why_feed(cmd) : tool_fail(1, "out of memory");
	}
	if (!status)
		status = cmd_why_explain(cmd);
	why_free(cmd->why);
	reader_close(cmd->reader);
	return status;
}

static int cmd_why_take_step(void *arg, const char *value)
{
	struct cmd_why *cmd = arg;
	char *end;

	errno = 0;
	cmd->step = strtoull(value, &end, 10);
	if (errno || *end || end == value || value[0] == '-' || !cmd->step || cmd->step > INT64_MAX)
		return 1 + tool_fail(2, "--step takes the number of a step, from 1, not '%s'", value);
	return 0;
}

static int cmd_why_parse(int argc, char **argv, struct cmd_why *cmd)
{
	const struct tool_option options[] = {
		{"state-dir", .text = &cmd->state_dir},
		{"rank", .ranks = &cmd->ranks},
		{"step", .call = cmd_why_take_step, .arg = cmd},
		{"since", .time_ns = &cmd->since_ns},
		{"until", .time_ns = &cmd->until_ns},
		{"job", .text = &cmd->job},
		{"json", .flag = &cmd->json},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));

	if (r)
		return r;
	if (cmd->ranks.count != 1 || cmd->ranks.range[0].first != cmd->ranks.range[0].last)
		return 1 + tool_fail(2, "--rank with one rank is needed: tracectl why --rank 3");
	if (cmd->step && (cmd->since_ns || cmd->until_ns))
		return 1 + tool_fail(2, "--step excludes --since and --until");
	if (!cmd->until_ns)
		cmd->until_ns = tool_now_ns();
	if (!cmd->since_ns)
		(void)tool_since(SINCE, cmd->until_ns, &cmd->since_ns);
	if (cmd->since_ns >= cmd->until_ns)
		return 1 + tool_fail(2, "--since is not before --until");
	return tool_options_end(argc, argv);
}

int main(int argc, char **argv)
{
	struct cmd_why cmd = {0};
	int r;

	tool_begin("why", argv);
	r = cmd_why_parse(argc, argv, &cmd);
	return r ? r - 1 : cmd_why_run(&cmd);
}
