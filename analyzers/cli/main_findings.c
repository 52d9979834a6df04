/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/findings, which is `tracectl findings`: what was slow or hung, from the store, so
 * that it works with the daemon down. Exit codes: 0 done, with findings or without; 1 the store failed, 2 usage.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyzers/analyze/findings_rows.h"
#include "analyzers/cli/findings_text.h"
#include "analyzers/tool/options.h"
#include "analyzers/tool/tool_json.h"
#include "analyzers/tool/tool_rows.h"

#define FOLLOW_MS 1000
#define SINCE "1d"

static const char usage[] =
	"usage: tracectl findings [--since TIME] [--rank LIST] [--job JOB] [--all] [--episodes] [--verbose] [--follow] "
	"[--csv|--json]\n"
	"                         [--state-dir DIR]\n"
	"Shows slow and hung ranks and jobs, the newest last. Episodes of the same rank and activity are one line;\n"
	"short slow-downs are counted for each rank, and a hang that is suspected now is named at the end.\n"
	"  --since TIME     current then or later: 30m, 12h, 7d ago, or a date and time (" SINCE ")\n"
	"  --rank LIST      only these ranks: 0,3-7\n"
	"  --job JOB        only this job\n"
	"  --all            each episode, also those that are suspected or were not confirmed\n"
	"  --episodes       each episode on its own line, also short ones\n"
	"  --verbose        with measurements, stacks, advice and episodes\n"
	"  --follow         keep running; show each new finding and each change of state, cause, severity\n"
	"  --json           write an array of objects, one per episode; with --follow, one object per line\n"
	"  --csv            write comma-separated values (RFC 4180), one episode per line\n"
	"  --state-dir DIR  state folder (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --help, --version\n";

enum format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON };

struct findings {
	const char *state_dir;
	struct findings_filter filter;
	enum format format;
	bool follow;
	bool verbose;
	bool episodes; /* on lines of their own */
	struct findings_text *text;
	json_t *shown; /* number of a finding to what was shown of it, with --follow */
};

static int cmd_findings_fail(const char *error)
{
	return tool_fail(1, "%s", error);
}

static const char *cmd_findings_word(const json_t *row, const char *name)
{
	const char *text = json_string_value(json_object_get(row, name));

	return text ? text : "";
}

/* Whether it is new, or another one than was shown. */
static bool cmd_findings_is_news(struct findings *findings, const json_t *row)
{
	char key[32], state[128];
	const char *before;

	snprintf(key, sizeof(key), "%lld", (long long)json_integer_value(json_object_get(row, "finding")));
	snprintf(state, sizeof(state), "%.32s %.32s %.32s", cmd_findings_word(row, "state"),
		cmd_findings_word(row, "cause"), cmd_findings_word(row, "severity"));
	before = json_string_value(json_object_get(findings->shown, key));
	if (before && strcmp(before, state) == 0)
		return false;
	json_object_set_new(findings->shown, key, json_string(state));
	return true;
}

/* Text is shown by cmd_findings_show_end(). */
static void cmd_findings_show_row(const struct findings *findings, json_t *row)
{
	if (findings->format == FORMAT_CSV) {
		findings_csv_row(stdout, row);
	} else if (findings->format == FORMAT_JSON) {
		(void)tool_print(json_incref(row), JSON_COMPACT);
	} else {
		findings_text_add(findings->text, row, tool_now_ns());
	}
}

static void cmd_findings_show_end(const struct findings *findings)
{
	if (findings->format == FORMAT_TEXT)
		findings_text_print(findings->text);
}

static int cmd_findings_show_none(const struct findings *findings, struct reader *reader)
{
	struct findings_watched watched = {0};
	char error[1024];

	if (findings->format != FORMAT_TEXT)
		return 0;
	if (findings_watched(reader, &findings->filter, &watched, error, sizeof(error)) < 0)
		return cmd_findings_fail(error);
	findings_text_none(stdout, &watched, findings->filter.since_ns, tool_now_ns());
	return 0;
}

/* With --verbose, hangs and crashes get what their stacks show. */
static int cmd_findings_add_stacks(const struct findings *findings, struct reader *reader, json_t *rows)
{
	char error[1024] = "out of memory";
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *kind = cmd_findings_word(row, "kind");
		bool hang = strcmp(kind, "hang") == 0;
		json_t *lines;

		if (!findings->verbose || (!hang && strcmp(kind, "crash") != 0))
			continue;
		lines = (hang ? findings_stacks : findings_ends)(
			reader, json_integer_value(json_object_get(row, "finding")), error, sizeof(error));
		if (!lines)
			return cmd_findings_fail(error);
		json_object_set_new(row, "stacks", lines);
	}
	return 0;
}

/* Suspected hangs, at the end: of a job that makes no progress "no findings" is not the whole answer. */
static int cmd_findings_show_suspected(const struct findings *findings, struct reader *reader)
{
	struct findings_filter filter = findings->filter;
	char error[1024] = "out of memory";
	json_t *rows, *row;
	bool any = false;
	size_t i;

	if (findings->format != FORMAT_TEXT || filter.all)
		return 0;
	filter.all = true;
	rows = findings_rows(reader, &filter, error, sizeof(error));
	if (!rows)
		return cmd_findings_fail(error);
	json_array_foreach(rows, i, row)
	{
		const char *job = cmd_findings_word(row, "job");

		if (strcmp(cmd_findings_word(row, "state"), "suspected") != 0)
			continue;
		printf("%ssuspected, not confirmed: %s%s%s%s\n", any ? "" : "\n", cmd_findings_word(row, "sentence"),
			job[0] ? " (job " : "", job, job[0] ? ")" : "");
		any = true;
	}
	json_decref(rows);
	return 0;
}

/* Of what was lost nothing can be found. */
static int cmd_findings_show_lost(const struct findings *findings, struct reader *reader)
{
	char error[1024];
	uint64_t lost = 0;

	if (findings->format != FORMAT_TEXT)
		return 0;
	if (findings_lost(reader, &findings->filter, &lost, error, sizeof(error)) < 0)
		return cmd_findings_fail(error);
	if (lost)
		printf("\n%" PRIu64 " record%s of this time %s lost: see tracectl query 'SELECT * FROM drops'\n", lost,
			lost == 1 ? "" : "s", lost == 1 ? "is" : "are");
	return 0;
}

static int cmd_findings_show_once(struct findings *findings, struct reader *reader)
{
	char error[1024] = "out of memory";
	json_t *rows = findings_rows(reader, &findings->filter, error, sizeof(error));
	json_t *row;
	int status = 0;
	size_t i;

	if (!rows)
		return cmd_findings_fail(error);
	status = cmd_findings_add_stacks(findings, reader, rows);
	if (status) {
		json_decref(rows);
		return status;
	}
	if (findings->format == FORMAT_JSON) {
		(void)tool_print(json_incref(rows), JSON_INDENT(2));
	} else {
		if (findings->format == FORMAT_CSV)
			findings_csv_header(stdout);
		if (findings->format == FORMAT_TEXT && !findings->episodes) {
			if (!findings_text_add_groups(findings->text, rows, tool_now_ns()))
				status = cmd_findings_fail("out of memory");
		} else {
			json_array_foreach(rows, i, row) cmd_findings_show_row(findings, row);
		}
		if (json_array_size(rows))
			cmd_findings_show_end(findings);
		if (!json_array_size(rows))
			status = cmd_findings_show_none(findings, reader);
		if (!status)
			status = cmd_findings_show_suspected(findings, reader);
		if (!status)
			status = cmd_findings_show_lost(findings, reader);
	}
	json_decref(rows);
	return status ? status : tool_written();
}

static int cmd_findings_follow(struct findings *findings, struct reader *reader)
{
	struct pollfd reader_of_stdout = {.fd = STDOUT_FILENO};
	char error[1024] = "out of memory";
	json_t *row;
	size_t i;

	if (findings->format == FORMAT_CSV)
		findings_csv_header(stdout);
	for (;;) {
		json_t *rows = findings_rows(reader, &findings->filter, error, sizeof(error));
		int status;

		if (!rows)
			return cmd_findings_fail(error);
		status = cmd_findings_add_stacks(findings, reader, rows);
		if (status) {
			json_decref(rows);
			return status;
		}
		json_array_foreach(rows, i, row) if (cmd_findings_is_news(findings, row))
			cmd_findings_show_row(findings, row);
		cmd_findings_show_end(findings);
		json_decref(rows);
		status = tool_written();
		if (status)
			return status;
		/* As `findings --follow | head -1` in a quiet fleet: nobody would ever be written to again. */
		if (poll(&reader_of_stdout, 1, FOLLOW_MS) > 0 && reader_of_stdout.revents & (POLLERR | POLLNVAL))
			return cmd_findings_fail("standard output is closed");
	}
}

static int cmd_findings_run(struct findings *findings)
{
	struct reader *reader = NULL;
	int status = tool_open(&findings->state_dir, false, &reader);

	if (status)
		return status;
	findings->shown = json_object();
	findings->text = findings_text_new(stdout, findings->verbose);
	if (!findings->shown || !findings->text)
		status = cmd_findings_fail("out of memory");
	else
		status = findings->follow ? cmd_findings_follow(findings, reader)
					  : cmd_findings_show_once(findings, reader);
	findings_text_free(findings->text);
	json_decref(findings->shown);
	reader_close(reader);
	return status;
}

/* 0: go on; else the exit code plus one. */
static int cmd_findings_parse(int argc, char **argv, struct findings *findings)
{
	bool csv = false, json = false;
	const struct tool_option options[] = {
		{"state-dir", .text = &findings->state_dir},
		{"since", .time_ns = &findings->filter.since_ns},
		{"rank", .ranks = &findings->filter.ranks},
		{"job", .text = &findings->filter.job},
		{"all", .flag = &findings->filter.all},
		{"episodes", .flag = &findings->episodes},
		{"verbose", .flag = &findings->verbose},
		{"follow", .flag = &findings->follow},
		{"csv", .flag = &csv},
		{"json", .flag = &json},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));

	if (r)
		return r;
	if (csv && json)
		return 1 + tool_fail(2, "--csv and --json exclude each other");
	findings->episodes |= findings->filter.all || findings->follow;
	findings->format = csv ? FORMAT_CSV : json ? FORMAT_JSON : FORMAT_TEXT;
	return tool_options_end(argc, argv);
}

int main(int argc, char **argv)
{
	struct findings findings = {0};
	int r;

	tool_begin("findings", argv);
	(void)tool_since(SINCE, tool_now_ns(), &findings.filter.since_ns);
	r = cmd_findings_parse(argc, argv, &findings);
	return r ? r - 1 : cmd_findings_run(&findings);
}
