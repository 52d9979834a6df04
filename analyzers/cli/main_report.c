/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/report, which is `tracectl report`: the slow-card report of the last day, from the store of this
 * node, those of many or the fleet's metrics, with the daemon up or down. Exit codes: 0 done, whatever was found; 1
 * failed, or not all of the folders could be read; 2 usage; 3 the store of the metrics does not answer.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzers/base/units.h"
#include "analyzers/report/publish.h"
#include "analyzers/report/render.h"
#include "analyzers/store/stores.h"
#include "analyzers/tool/options.h"

#define SINCE "24h"
#define COMPARE_MAX "20m"
#define COMPARE_MAX_NS 604800000000000ULL /* a week is the most that --compare-max takes */

static const char usage[] =
	"usage: tracectl report [--since TIME] [--until TIME] [--job J] [--rank LIST] "
	"[--text|--markdown|--json|--html] [-o FILE]\n"
	"                       [--state-dir DIR | --dir FOLDER... [--compare-max LENGTH] | --fleet URL] [--journal] "
	"[--keep DIR "
	"[--keep-max "
	"N]]\n"
	"Shows which card was slow, since when, why, what it cost and what to do. A healthy fleet is one line.\n"
	"  --since TIME     start of the period: 24h, 7d ago, or a date and time (" SINCE ")\n"
	"  --until TIME     end of the period (now)\n"
	"  --job J          only this job\n"
	"  --rank LIST      only these ranks, compared with all ranks of their jobs: 0,3-7\n"
	"  --text, --markdown, --json, --html\n"
	"                   format (text); HTML is one file without external resources\n"
	"  -o, --output FILE  write to FILE, which is replaced atomically, instead of standard output\n"
	"  --dir FOLDER...  report these stores of nodes together: state folders, db folders, or folders of such\n"
	"  --compare-max LENGTH  time limit for the comparison of ranks of one job on several nodes (" COMPARE_MAX
	");\n"
	"                   0: only the findings of the nodes' daemons\n"
	"  --fleet URL      report all nodes from the Prometheus-compatible store of their metrics (\"\": url in "
	"[fleet] of\n"
	"                   ranktrace.conf)\n"
	"  --state-dir DIR  state folder of this node (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --journal        also send the text to the journal, as ranktrace-report\n"
	"  --keep DIR       also write text, JSON and HTML to DIR, and remove old ones\n"
	"  --keep-max N     number of reports to keep in DIR (30)\n"
	"  --help, --version\n"
	"The service sets these options by the variables RANKTRACE_REPORT_SINCE, _DIRS (separated by :), _FLEET, "
	"_COMPARE_MAX, _KEEP and "
	"_KEEP_MAX.\n";

struct program {
	const char *since, *until, *output, *keep, *state_dir, *fleet;
	unsigned long keep_max;
	bool journal, partly; /* partly: not every folder that was named is there */
	void (*render)(FILE *out, const struct report *report);
	bool dir; /* --dir was given */
	struct report_options options;
	struct stores stores;
};

static int cmd_report_write_output(const struct program *program, const struct report *report)
{
	char error[512];

	if (!program->output || strcmp(program->output, "-") == 0) {
		program->render(stdout, report);
		return tool_written();
	}
	if (publish_file(program->output, program->render, report, error, sizeof(error)) < 0)
		return tool_fail(1, "%s", error);
	return 0;
}

/* 0, or the exit code after a sentence. */
static int cmd_report_read_stores(struct program *program, struct report **ret)
{
	char error[1024] = "";
	int status;

	if (!program->stores.count && program->partly)
		return 1;
	if (!program->stores.count) {
		status = tool_state_dir(program->state_dir, &program->state_dir);
		if (status)
			return status;
		if (stores_add_state(&program->stores, program->state_dir) < 0)
			return tool_fail(1, "out of memory");
	}
	program->options.stores = &program->stores;
	return report_read(&program->options, ret, error, sizeof(error)) < 0 ? tool_fail(1, "%s", error) : 0;
}

/* As tracectl fleet: 3: the store does not answer. */
static int cmd_report_read_fleet(struct program *program, struct report **ret)
{
	struct report_fleet fleet = {
		.ask = fleet_api_query, .name = program->fleet[0] ? program->fleet : "the fleet's store"};
	struct fleet_api *api = NULL;
	char error[1024] = "";
	int r = fleet_conf_open(program->fleet[0] ? program->fleet : NULL, NULL, &api, error, sizeof(error));

	if (r < 0)
		return tool_fail(r == -EINVAL ? 2 : 1, "%s", error);
	fleet.arg = api;
	program->options.fleet = &fleet;
	r = report_read(&program->options, ret, error, sizeof(error));
	fleet_api_close(api);
	return r < 0 ? tool_fail(r == -EHOSTUNREACH || r == -ETIMEDOUT ? 3 : 1, "%s", error) : 0;
}

static int cmd_report_run(struct program *program)
{
	struct report *report = NULL;
	char error[1024] = "";
	int status;

	program->options.shows_progress = isatty(STDERR_FILENO);
	status = program->fleet ? cmd_report_read_fleet(program, &report) : cmd_report_read_stores(program, &report);
	if (status)
		return status;
	status = cmd_report_write_output(program, report);
	if (program->keep && publish_keep(program->keep, program->keep_max, report, error, sizeof(error)) < 0)
		status = tool_fail(1, "%s", error);
	if (program->journal && publish_journal(report) < 0)
		status = tool_fail(1, "cannot send the report to the journal");
	report_free(report);
	return status ? status : program->partly;
}

static int cmd_report_set_keep_max(void *arg, const char *value)
{
	struct program *program = arg;
	char *end;

	program->keep_max = strtoul(value, &end, 10);
	if (end == value || *end || *value == '-' || !program->keep_max || program->keep_max > PUBLISH_KEEP_MAX)
		return 1 + tool_fail(2, "--keep-max takes a number from 1 to %d, not '%s'", PUBLISH_KEEP_MAX, value);
	return 0;
}

static int cmd_report_set_compare_max(void *arg, const char *value)
{
	uint64_t *compare_ns = &((struct program *)arg)->options.compare_ns;

	if (units_parse_duration(value, compare_ns) < 0)
		return 1 + tool_fail(2, "--compare-max takes a length of time (90s, 20m, 2h) or 0, not '%s'", value);
	if (*compare_ns > COMPARE_MAX_NS)
		*compare_ns = COMPARE_MAX_NS;
	return 0;
}

/* One that is not there does not keep the others from being reported. */
static void cmd_report_set_folder(struct program *program, const char *value)
{
	char error[512];

	if (stores_add(&program->stores, value, error, sizeof(error)) < 0)
		program->partly = tool_fail(1, "%s", error);
}

static int cmd_report_set_dir(void *arg, const char *value)
{
	struct program *program = arg;

	program->dir = true;
	cmd_report_set_folder(program, value);
	return 0;
}

static int cmd_report_set_times(struct program *program)
{
	struct report_options *options = &program->options;

	options->now_ns = options->until_ns = tool_now_ns();
	if (program->until && tool_since(program->until, options->now_ns, &options->until_ns) < 0)
		return 1 + tool_fail(2,
				   "--until takes a time ago (30m, 12h, 7d), a time of day (14:02) or a date, not '%s'",
				   program->until);
	if (options->until_ns < options->now_ns)
		options->now_ns = options->until_ns; /* findings open at that time are shown as of then */
	if (tool_since(program->since, options->now_ns, &options->since_ns) < 0)
		return 1 + tool_fail(2,
				   "--since takes a time ago (30m, 12h, 7d), a time of day (14:02) or a date, not '%s'",
				   program->since);
	if (options->since_ns >= options->until_ns)
		return 1 + tool_fail(2, "--since is not before --until (which is now, where it is not given)");
	return 0;
}

static const struct {
	const char *name;
	void (*render)(FILE *out, const struct report *report);
} formats[] = {{"text", render_text}, {"markdown", render_markdown}, {"json", render_json}, {"html", render_html}};
#define FORMATS (sizeof(formats) / sizeof(formats[0]))

static int cmd_report_parse(int argc, char **argv, struct program *program)
{
	bool chosen[FORMATS] = {0};
	const struct tool_option options[] = {
		{"dir", .call = cmd_report_set_dir, .arg = program},
		{"fleet", .text = &program->fleet},
		{"state-dir", .text = &program->state_dir},
		{"since", .text = &program->since},
		{"until", .text = &program->until},
		{"rank", .ranks = &program->options.ranks},
		{"job", .text = &program->options.job},
		{"keep", .text = &program->keep},
		{"keep-max", .call = cmd_report_set_keep_max, .arg = program},
		{"compare-max", .call = cmd_report_set_compare_max, .arg = program},
		{"output", 'o', .text = &program->output},
		{"journal", .flag = &program->journal},
		{formats[0].name, .flag = &chosen[0]},
		{formats[1].name, .flag = &chosen[1]},
		{formats[2].name, .flag = &chosen[2]},
		{formats[3].name, .flag = &chosen[3]},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0])), count = 0;

	/* Folders after --dir FOLDER belong to it: a shell writes them for --dir NODES/... */
	while (r == 0 && program->dir && optind < argc)
		cmd_report_set_folder(program, argv[optind++]);
	if (r == 0)
		r = tool_options_end(argc, argv);
	if (r)
		return r;
	if (program->fleet && (program->dir || program->state_dir))
		return 1 + tool_fail(2, "--fleet and the folders of stores exclude each other");
	for (size_t i = 0; i < FORMATS; i++)
		if (chosen[i]) {
			program->render = formats[i].render;
			count++;
		}
	if (count > 1)
		return 1 + tool_fail(2, "--text, --markdown, --json and --html exclude each other");
	return cmd_report_set_times(program);
}

/* What the service's configuration says; the command line has the last word. */
static int cmd_report_from_environment(struct program *program)
{
	const char *since = getenv("RANKTRACE_REPORT_SINCE"), *keep = getenv("RANKTRACE_REPORT_KEEP");
	const char *keep_max = getenv("RANKTRACE_REPORT_KEEP_MAX"),
		   *compare_max = getenv("RANKTRACE_REPORT_COMPARE_MAX");
	int r = cmd_report_set_compare_max(program, compare_max && *compare_max ? compare_max : COMPARE_MAX);

	program->since = since && *since ? since : SINCE;
	program->keep = keep && *keep ? keep : NULL;
	return r == 0 && keep_max && *keep_max ? cmd_report_set_keep_max(program, keep_max) : r;
}

/* Folders of stores from the environment, where the command line names none. */
static void cmd_report_folders_from_environment(struct program *program)
{
	const char *dirs = getenv("RANKTRACE_REPORT_DIRS"), *fleet = getenv("RANKTRACE_REPORT_FLEET");
	bool named = program->dir || program->state_dir || program->fleet;
	char *copy = dirs && *dirs && !named ? strdup(dirs) : NULL, *rest = copy;

	for (char *dir; rest && (dir = strsep(&rest, ":"));)
		if (*dir)
			cmd_report_set_folder(program, dir);
	free(copy);
	if (fleet && *fleet && !named && !program->stores.count)
		program->fleet = fleet;
}

int main(int argc, char **argv)
{
	struct program program = {.render = render_text, .keep_max = 30};
	int r;

	tool_begin("report", argv);
	r = cmd_report_from_environment(&program);
	if (r == 0)
		r = cmd_report_parse(argc, argv, &program);
	if (r == 0)
		cmd_report_folders_from_environment(&program);
	r = r ? r - 1 : cmd_report_run(&program);
	stores_free(&program.stores);
	return r;
}
