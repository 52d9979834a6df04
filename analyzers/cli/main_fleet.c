/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/fleet, which is `tracectl fleet`: jobs of all nodes, who is slow beside other nodes, and what the
 * nodes' daemons found, from a Prometheus-compatible store. Exit codes: 0 done; 1 the store refused, or its answer is
 * of no use; 2 usage; 3 no store answers, or not in time.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzers/base/term_table.h"
#include "analyzers/base/text.h"
#include "analyzers/base/units.h"
#include "analyzers/fleet/fleet_store.h"
#include "analyzers/tool/options.h"
#include "analyzers/tool/tool_json.h"

#define CMD_FLEET_SINCE "1h"
#define CMD_FLEET_SINCE_LEAST_S 120	       /* the last minute, and as much before */
#define CMD_FLEET_SINCE_MOST_S (30 * 86400ULL) /* of a store's usual retention */
#define CMD_FLEET_WATCH_MS 15000	       /* the store has nothing newer: scrapes and rules are 15 s apart */
#define CMD_FLEET_CONF RANKTRACE_SYSCONFDIR "/ranktrace.conf"
#define CMD_FLEET_SENTENCE 640

static const char usage[] =
	"usage: tracectl fleet [--url URL] [--job JOB] [--since TIME] [--json] [--watch] [--config FILE]\n"
	"Shows the jobs of all nodes, from the Prometheus-compatible store that scrapes the nodes: ranks, nodes, "
	"stages and\n"
	"links that are slower than those of other nodes, and the findings of the nodes.\n"
	"  --url URL      URL of the store, without /api/v1 (url in [fleet] of ranktrace.conf)\n"
	"  --job JOB      only this job\n"
	"  --since TIME   compare the last minute with the time since then: 30m, 12h ago, or a date and time "
	"(" CMD_FLEET_SINCE ")\n"
	"  --json         write an object; with --watch, one per line\n"
	"  --watch        keep running, and print again every 15 s\n"
	"  --config FILE  file with the section [fleet] (" CMD_FLEET_CONF ")\n"
	"  --help, --version\n";

struct cmd_fleet {
	const char *url, *job, *config;
	uint64_t since_ns;
	bool json, watch;
	struct fleet_api *api;
};

/* Verdicts of all jobs, in one array: FLEET_VERDICTS_MAX a job. */
struct cmd_fleet_result {
	struct fleet fleet;
	struct fleet_verdict *verdict;
	size_t *count; /* of each job */
};

static void cmd_fleet_result_free(struct cmd_fleet_result *result)
{
	fleet_free(&result->fleet);
	free(result->verdict);
	free(result->count);
}

static int cmd_fleet_judge(struct cmd_fleet_result *result)
{
	size_t jobs = result->fleet.jobs;
	int r = 0;

	result->verdict = calloc(jobs + 1, FLEET_VERDICTS_MAX * sizeof(*result->verdict));
	result->count = calloc(jobs + 1, sizeof(*result->count));
	if (!result->verdict || !result->count)
		return tool_fail(1, "out of memory");
	for (uint32_t job = 0; job < jobs && r == 0; job++) {
		r = fleet_judge(&result->fleet, job, &result->verdict[job * FLEET_VERDICTS_MAX], &result->count[job]);
		if (r == -EINVAL) {
			(void)tool_fail(0, "job %s has too many ranks to be judged", result->fleet.job[job].name);
			r = 0;
		}
	}
	return r < 0 ? tool_fail(1, "out of memory") : 0;
}

static size_t cmd_fleet_findings_of(const struct fleet *fleet, const char *job)
{
	size_t n = 0;

	for (size_t i = 0; i < fleet->findings; i++)
		n += strcmp(fleet->finding[i].job, job) == 0;
	return n;
}

static void cmd_fleet_time(struct term_table *table, double s)
{
	char buffer[UNITS_BYTES];

	if (s > 0)
		term_table_cell(table, TERM_PLAIN, "%s", units_duration((uint64_t)(s * 1e9), buffer));
	else
		term_table_cell(table, TERM_PLAIN, "-");
}

static int cmd_fleet_text_jobs(const struct cmd_fleet_result *result)
{
	static const struct term_column columns[] = {{.name = "JOB", .min = 12}, {.name = "RANKS", .right = true},
		{.name = "NODES", .right = true, .optional = true}, {.name = "STEP", .right = true},
		{.name = "USUAL", .right = true}, {.name = "SLOWER", .right = true},
		{.name = "LOST CARD-HOURS", .right = true, .optional = true},
		{.name = "FINDINGS", .right = true, .optional = true}};
	const struct fleet *fleet = &result->fleet;
	struct term_table *table = term_table_new(columns, sizeof(columns) / sizeof(columns[0]));

	for (uint32_t job = 0; job < fleet->jobs; job++) {
		double step = fleet_step_of(fleet, job, false), usual = fleet_step_of(fleet, job, true);
		char name[sizeof(fleet->job[job].name)];

		snprintf(name, sizeof(name), "%s", fleet->job[job].name);
		term_table_cell(table, TERM_PLAIN, "%s", name[0] ? text_clean(name) : "-");
		term_table_cell(table, TERM_PLAIN, "%zu", fleet_ranks_of(fleet, job).count);
		term_table_cell(table, TERM_PLAIN, "%zu", fleet_nodes_of(fleet, job));
		cmd_fleet_time(table, step);
		cmd_fleet_time(table, usual);
		if (step > 0 && usual > 0)
			term_table_cell(table, TERM_PLAIN, "%.0f %%", 100 * (step / usual - 1));
		else
			term_table_cell(table, TERM_PLAIN, "-");
		term_table_cell(table, TERM_PLAIN, "%.1f", fleet->job[job].lost_card_hours);
		term_table_cell(table, TERM_PLAIN, "%zu",
			cmd_fleet_findings_of(fleet, fleet->job[job].name) + result->count[job]);
	}
	if (!table)
		return tool_fail(1, "out of memory");
	term_table_print(table, stdout, 0);
	term_table_free(table);
	return 0;
}

static int cmd_fleet_text(const struct cmd_fleet_result *result)
{
	const struct fleet *fleet = &result->fleet;
	char sentence[CMD_FLEET_SENTENCE], name[sizeof(fleet->node[0].name)];
	int status;

	if (!fleet->ranks) {
		puts("no ranks: no node that this store scrapes has one");
		return 0;
	}
	status = cmd_fleet_text_jobs(result);
	for (uint32_t job = 0; job < fleet->jobs; job++)
		for (size_t i = 0; i < result->count[job]; i++) {
			fleet_sentence(
				fleet, &result->verdict[job * FLEET_VERDICTS_MAX + i], sentence, sizeof(sentence));
			printf("fleet: %s\n", sentence);
		}
	for (size_t i = 0; i < fleet->findings; i++) {
		snprintf(name, sizeof(name), "%s", fleet->node[fleet->finding[i].node].name);
		printf("%s: %s\n", text_clean(name), fleet->finding[i].sentence);
	}
	return status;
}

static json_t *cmd_fleet_number(double value)
{
	return isfinite(value) && value > 0 ? json_real(value) : json_null();
}

static json_t *cmd_fleet_json_verdict(const struct fleet *fleet, const struct fleet_verdict *verdict)
{
	char sentence[CMD_FLEET_SENTENCE];
	json_t *nodes = json_array();
	bool work = verdict->activity < ACTIVITY_MAX;

	for (size_t i = 0; i < verdict->nodes && i < FLEET_NODES_SHOWN && verdict->kind != FLEET_JOB; i++)
		json_array_append_new(nodes, json_string(fleet->node[verdict->node[i]].name));
	fleet_sentence(fleet, verdict, sentence, sizeof(sentence));
	return json_pack("{s:s, s:s, s:o, s:i, s:i, s:o, s:s, s:s, s:b, s:f, s:o, s:o, s:f, s:s}", "kind",
		fleet_kind_word(verdict->kind), "job", fleet->job[verdict->job].name, "nodes", nodes, "nodes_count",
		(int)verdict->nodes, "first_rank", verdict->kind < FLEET_LINK ? verdict->first : -1, "last_rank",
		verdict->kind < FLEET_LINK ? json_integer(verdict->last) : json_null(), "activity",
		work ? activity_word(verdict->activity) : "", "operation", verdict->operation, "beside_peers",
		verdict->peers, "growth", verdict->growth, "seconds", cmd_fleet_number(verdict->value), "usual_seconds",
		cmd_fleet_number(verdict->usual), "lost_cards", verdict->cards, "sentence", sentence);
}

static int cmd_fleet_json(const struct cmd_fleet_result *result, bool compact)
{
	const struct fleet *fleet = &result->fleet;
	json_t *jobs = json_array(), *verdicts = json_array(), *findings = json_array();

	for (uint32_t job = 0; job < fleet->jobs; job++) {
		json_array_append_new(
			jobs, json_pack("{s:s, s:i, s:i, s:o, s:o, s:f}", "job", fleet->job[job].name, "ranks",
				      (int)fleet_ranks_of(fleet, job).count, "nodes", (int)fleet_nodes_of(fleet, job),
				      "step_seconds", cmd_fleet_number(fleet_step_of(fleet, job, false)),
				      "usual_step_seconds", cmd_fleet_number(fleet_step_of(fleet, job, true)),
				      "lost_card_hours", fleet->job[job].lost_card_hours));
		for (size_t i = 0; i < result->count[job]; i++)
			json_array_append_new(verdicts,
				cmd_fleet_json_verdict(fleet, &result->verdict[job * FLEET_VERDICTS_MAX + i]));
	}
	for (size_t i = 0; i < fleet->findings; i++) {
		const struct fleet_finding *finding = &fleet->finding[i];

		json_array_append_new(
			findings, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:s}", "node",
					  fleet->node[finding->node].name, "finding", finding->number, "job",
					  finding->job, "rank", finding->rank, "kind", finding->kind, "severity",
					  finding->severity, "cause", finding->cause, "age_seconds",
					  cmd_fleet_number(finding->age_seconds), "lost_card_seconds",
					  cmd_fleet_number(finding->lost_card_seconds), "sentence", finding->sentence));
	}
	return tool_print(tool_object("jobs", jobs, "fleet", verdicts, "findings", findings, NULL),
		compact ? JSON_COMPACT : JSON_INDENT(2));
}

/* 0, or the exit code after a sentence. */
static int cmd_fleet_show(struct cmd_fleet *cmd)
{
	struct fleet_read_options options = {.job = cmd->job, .since_s = (tool_now_ns() - cmd->since_ns) / 1000000000};
	struct cmd_fleet_result result = {0};
	char error[1024] = "out of memory";
	int r = fleet_read(&options, fleet_api_query, cmd->api, &result.fleet, error, sizeof(error)), status;

	if (r < 0) {
		cmd_fleet_result_free(&result);
		return tool_fail(r == -EHOSTUNREACH || r == -ETIMEDOUT ? 3 : 1, "%s", error);
	}
	status = cmd_fleet_judge(&result);
	if (!status && result.fleet.ranks && !result.fleet.recorded)
		tool_warn(NULL, "the store has no ranktrace_rank_minute_step_seconds, so nothing is compared: no rank "
				"has run for 10 s, or its daemon is older");
	if (!status && !cmd->json && cmd->watch && isatty(STDOUT_FILENO))
		fputs("\033[H\033[2J", stdout);
	if (!status)
		status = cmd->json ? cmd_fleet_json(&result, cmd->watch) : cmd_fleet_text(&result);
	cmd_fleet_result_free(&result);
	return status ? status : tool_written();
}

static int cmd_fleet_run(struct cmd_fleet *cmd)
{
	struct pollfd reader = {.fd = STDOUT_FILENO};
	uint64_t window_ns = tool_now_ns() - cmd->since_ns;
	int status = cmd_fleet_show(cmd);

	/* A store that restarts is there again later. */
	while (cmd->watch) {
		if (poll(&reader, 1, CMD_FLEET_WATCH_MS) > 0 && reader.revents & (POLLERR | POLLNVAL))
			return tool_fail(1, "standard output is closed");
		cmd->since_ns = tool_now_ns() - window_ns;
		status = cmd_fleet_show(cmd);
		if (ferror(stdout))
			return status;
	}
	return status;
}

/* 0: go on; else the exit code plus one. */
static int cmd_fleet_parse(int argc, char **argv, struct cmd_fleet *cmd)
{
	const struct tool_option options[] = {
		{"url", .text = &cmd->url},
		{"job", .text = &cmd->job},
		{"config", .text = &cmd->config},
		{"since", .time_ns = &cmd->since_ns},
		{"json", .flag = &cmd->json},
		{"watch", .flag = &cmd->watch},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));
	uint64_t now_ns = tool_now_ns(), since_s;

	if (r)
		return r;
	since_s = cmd->since_ns < now_ns ? (now_ns - cmd->since_ns) / 1000000000 : 0;
	if (since_s < CMD_FLEET_SINCE_LEAST_S || since_s > CMD_FLEET_SINCE_MOST_S)
		return 1 + tool_fail(2, "--since is at least 2m and at most 30d ago");
	return tool_options_end(argc, argv);
}

int main(int argc, char **argv)
{
	struct cmd_fleet cmd = {0};
	char error[1024] = "";
	int r;

	tool_begin("fleet", argv);
	(void)tool_since(CMD_FLEET_SINCE, tool_now_ns(), &cmd.since_ns);
	r = cmd_fleet_parse(argc, argv, &cmd);
	if (r)
		return r - 1;
	r = fleet_conf_open(cmd.url, cmd.config, &cmd.api, error, sizeof(error));
	r = r < 0 ? tool_fail(r == -EINVAL ? 2 : 1, "%s", error) : cmd_fleet_run(&cmd);
	fleet_api_close(cmd.api);
	return r;
}
