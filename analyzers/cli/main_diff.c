/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/diff, which is `tracectl diff`: what a rank does that its peers do not, or that it did not do
 * before, from stored profiles. Exit codes: 0 done, with a difference or without; 1 the store or the file failed, or
 * there is no such profile; 2 usage.
 */
#include <errno.h>
#include <string.h>

#include "analyzers/base/text.h"
#include "analyzers/cli/profile_run.h"
#include "analyzers/steps/activity.h"
#include "analyzers/tool/tool_json.h"
#include "analyzers/tool/tool_rows.h"

static const char usage[] =
	"usage: tracectl diff --rank R [--profile N | --since TIME] [--past | --before N | --until TIME]\n"
	"                     [--stage STAGE] [--job JOB] [--json | --line | -o FILE.html] [--state-dir DIR]\n"
	"Shows in which functions and lines a rank spends more time per step than its peers, from the newest profile "
	"with\n"
	"both; tracectl profile takes one.\n"
	"  --rank R         the rank\n"
	"  --profile N      use profile N of the store\n"
	"  --since TIME     use the newest profile since then: 30m, 12h ago, or a date and time\n"
	"  --past           compare the rank with itself in the newest earlier profile\n"
	"  --before N       compare the rank with itself in profile N\n"
	"  --until TIME     compare the rank with itself in the newest profile that ended by then and that no\n"
	"                   suspicion caused\n"
	"  --stage STAGE    compare only this part of the step: dataloader, forward, ..., outside (of all stages)\n"
	"  --job JOB        only this job\n"
	"  --json           write an object\n"
	"  --line           write one line for programs: ns of the rank, ns of its peers, step or second, function "
	"and\n"
	"                   line; none if no function counts\n"
	"  -o, --output FILE  write a page with two flame graphs side by side; - is standard output\n"
	"  --state-dir DIR  state folder (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --help, --version\n";

struct run {
	const char *state_dir, *output, *stage;
	struct flame_choice choice, past;
	uint64_t since_ns, until_ns;
	bool json, line, is_past;
	struct profile *profile;
	struct flame_source source, before;
	struct profile_diff diff;
	struct flame_view view;
};

/* 0: go on; else the exit code plus one. */
static int cmd_diff_parse(int argc, char **argv, struct run *run)
{
	const struct tool_option options[] = {
		{"output", 'o', .text = &run->output},
		{"profile", .call = profile_run_number, .arg = &run->choice.number},
		{"since", .time_ns = &run->since_ns},
		{"past", .flag = &run->is_past},
		{"before", .call = profile_run_number, .arg = &run->past.number},
		{"until", .time_ns = &run->until_ns},
		{"rank", .ranks = &run->choice.ranks},
		{"stage", .text = &run->stage},
		{"job", .text = &run->choice.job},
		{"json", .flag = &run->json},
		{"line", .flag = &run->line},
		{"state-dir", .text = &run->state_dir},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));

	if (r == 0)
		r = tool_options_end(argc, argv);
	if (r)
		return r;
	if (run->choice.ranks.count != 1 || run->choice.ranks.range[0].first != run->choice.ranks.range[0].last)
		return 1 + tool_fail(2, "--rank R is needed: the rank to compare");
	if (run->json + run->line + (run->output != NULL) > 1)
		return 1 + tool_fail(2, "--json, --line and -o exclude each other");
	run->choice.since_ns = (int64_t)run->since_ns;
	run->is_past = run->is_past || run->past.number || run->until_ns;
	run->choice.peers = !run->is_past;
	return 0;
}

static int cmd_diff_read(struct run *run)
{
	struct reader *reader = NULL;
	char error[1024] = "out of memory";
	int code = tool_open(&run->state_dir, true, &reader);

	if (code)
		return code;
	if (flame_read(reader, &run->choice, false, run->profile, &run->source, error, sizeof(error)) < 0)
		code = tool_fail(1, "%s", error);
	if (code == 0 && run->is_past) {
		run->past.ranks = run->choice.ranks;
		run->past.job = run->source.ranks ? run->source.rank[0].job : NULL;
		run->past.before_ns = run->until_ns ? (int64_t)run->until_ns : run->source.start_ns;
		run->past.usual = run->until_ns != 0;
		/* Jobs without a name are one only as long as their processes live. */
		if (run->source.ranks && !run->source.rank[0].job[0])
			run->past.instance = run->source.rank[0].instance;
		if (flame_read(reader, &run->past, true, run->profile, &run->before, error, sizeof(error)) < 0)
			code = tool_fail(1, "nothing to compare with: %s", error);
	}
	reader_close(reader);
	return code;
}

static int cmd_diff_compare(struct run *run)
{
	int64_t rank = run->choice.ranks.range[0].first, past = rank + FLAME_PAST;
	const struct profile_comparison of = {.rank = rank,
		.peers = &past,
		.peers_count = run->is_past,
		.stage = run->stage && strcmp(run->stage, activity_word(ACTIVITY_OUTSIDE)) == 0 ? "" : run->stage};
	int r = profile_compare(run->profile, &of, &run->diff);

	if (r == -ENOENT && !run->is_past && run->source.ranks < 2)
		return tool_fail(1,
			"profile %lld has no peer of rank %lld; tracectl profile without --rank takes one of all ranks",
			(long long)run->source.number, (long long)rank);
	if (r == -ENOENT)
		return tool_fail(1, "profile %lld has no samples of rank %lld, or none to compare with",
			(long long)run->source.number, (long long)rank);
	if (r == -ENODATA)
		return tool_fail(1, "profile %lld has no samples of rank %lld in stage '%s'",
			(long long)run->source.number, (long long)rank, run->stage);
	if (r < 0)
		return tool_fail(1, "cannot compare: %s", strerror(-r));
	run->diff.past = run->is_past;
	run->view = (struct flame_view){.profile = run->profile,
		.source = &run->source,
		.past = run->is_past ? &run->before : NULL,
		.diff = &run->diff};
	return 0;
}

static void cmd_diff_show_line(const struct profile_diff *diff)
{
	char place[STACK_PLACE_BYTES];

	if (diff->rows && diff->row[0].sure)
		printf("%.0f %.0f %s %s\n", diff->row[0].total_ns, diff->row[0].peers_total_ns,
			diff->seconds ? "second" : "step",
			text_clean((char *)stack_frame_text(diff->row[0].frame, false, place, sizeof(place))));
}

static int cmd_diff_show(const struct run *run)
{
	if (run->output)
		return profile_run_write(&run->view, flame_format_find(NULL, NULL), run->output);
	if (run->line) {
		cmd_diff_show_line(&run->diff);
		return tool_written();
	}
	if (!run->json) {
		flame_diff_table(&run->view, stdout);
		return tool_written();
	}
	return tool_print(flame_diff_json(&run->view), JSON_INDENT(2)) ?: tool_written();
}

int main(int argc, char **argv)
{
	struct run run = {.state_dir = NULL};
	int r, code;

	tool_begin("diff", argv);
	r = cmd_diff_parse(argc, argv, &run);
	if (r)
		return r - 1;
	run.profile = profile_new();
	code = run.profile ? cmd_diff_read(&run) : tool_fail(1, "out of memory");
	if (code == 0)
		code = cmd_diff_compare(&run);
	if (code == 0)
		code = cmd_diff_show(&run);
	profile_diff_free(&run.diff);
	flame_source_free(&run.source);
	flame_source_free(&run.before);
	profile_free(run.profile);
	return code;
}
