/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/analyze, which is `tracectl analyze`: the daemon's detectors over what is stored: this node's
 * store, those of many nodes at once, or files of sysTrace. What is found is shown as `tracectl findings` shows it.
 * Exit codes: 0 done, with findings or without; 1 some of it could not be read or judged, 2
 * usage.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzers/detect/detect.h"
#include "analyzers/analyze/analysis.h"
#include "analyzers/cli/findings_text.h"
#include "analyzers/tool/options.h"
#include "analyzers/tool/tool_json.h"

#define SINCE "1d"
#define DAY_NS 86400000000000ULL

static const char usage[] =
	"usage: tracectl analyze [--since TIME] [--until TIME] [--dir FOLDER...] [--job ID] [--rank LIST] [--all] "
	"[--verbose]\n"
	"                        [--csv|--json] [--state-dir DIR] [THRESHOLD...]\n"
	"       tracectl analyze --from-systrace DIR [OPTION...]\n"
	"Runs the detectors of the daemon on stored data: one line per finding, the oldest first.\n"
	"  --since TIME     data since then: 30m, 12h, 7d ago, or a date and time (this node's store: " SINCE
	"; others: all)\n"
	"  --until TIME     data up to then\n"
	"  --dir FOLDER...  analyze these stores of nodes together: state folders, db folders, or folders of such\n"
	"  --from-systrace DIR  read files of sysTrace instead: *.timeline, hccl_activity-*.csv\n"
	"  --job ID         only this job\n"
	"  --rank LIST      only findings of these ranks: 0,3-7 (all ranks are judged)\n"
	"  --all            also findings that are suspected or were not confirmed\n"
	"  --verbose        with measurements, advice and what was read\n"
	"  --json           write an array of objects, as tracectl findings does\n"
	"  --csv            write comma-separated values (RFC 4180)\n"
	"  --state-dir DIR  state folder, without --dir (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --help, --version\n"
	"Thresholds, as in [findings] of ranktrace.conf(5):\n"
	"  --notice-percent N   minimum growth of the step for a notice (5)\n"
	"  --notice-after LENGTH  minimum duration of a notice (10s)\n"
	"  --warning-percent N  the same for a warning (10)\n"
	"  --warning-after LENGTH  (30s)\n"
	"  --critical-percent N  the same for a critical finding (50)\n"
	"  --critical-after LENGTH  (1m)\n"
	"  --job-percent N      minimum growth of the step if no rank is named (10)\n"
	"  --slow-percent N     minimum excess of a communicator's transfers over its peers' (5)\n"
	"  --gain-percent N     minimum share of the step that an imbalance or slow communicator costs (3)\n"
	"  --hang-after LENGTH  time without progress after which a job is hung (30s)\n"
	"  --hang-busy-after LENGTH  the same if the rank that others wait for computes (10m)\n";

enum format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON };

struct analyze {
	struct analysis_options options;
	struct detect_options detectors;
	struct findings_filter filter;
	const char *state_dir;
	char **folder;
	size_t folders;
	uint64_t now_ns;
	enum format format;
	bool verbose;
};

static void cmd_analyze_warn_of(uint64_t count, const char *what)
{
	if (count)
		fprintf(stderr, "%s: warning: %llu %s\n", tool_name(), (unsigned long long)count, what);
}

/* What is missing is reported without --verbose, too. */
static void cmd_analyze_say_read(const struct analyze *analyze, const struct analysis *analysis)
{
	char first[TOOL_TEXT_BYTES], last[TOOL_TEXT_BYTES];

	cmd_analyze_warn_of(
		analysis->ranks_left_out, "ranks were left out: too many, or the position of their steps is unknown");
	cmd_analyze_warn_of(analysis->left_out,
		"records were left out: they are too many at once; --since and --until take part of them");
	cmd_analyze_warn_of(findings_made_left_out(analysis->made), "more findings are not shown");
	if (!analyze->verbose || analyze->format != FORMAT_TEXT || !analysis->watched.first_ns)
		return;
	printf("read: %llu rows of %llu ranks in %llu %s%s, from %s to %s; %llu steps judged, each of all ranks\n",
		(unsigned long long)analysis->rows, (unsigned long long)analysis->watched.ranks,
		(unsigned long long)analysis->sources, analyze->options.systrace ? "file" : "store",
		analysis->sources == 1 ? "" : "s", tool_time(analysis->watched.first_ns, first),
		tool_time(analysis->watched.last_ns, last), (unsigned long long)analysis->align.frames);
	if (analysis->dropped)
		printf("left out: %llu rows with invalid times or numbers\n", (unsigned long long)analysis->dropped);
	if (analysis->ops)
		printf("operations: %llu, of which %llu are not joined with those of other ranks\n",
			(unsigned long long)analysis->ops, (unsigned long long)analysis->coll_not_joined);
}

/* As of the newest event: what was so then may be long over. */
static void cmd_analyze_show(const struct analyze *analyze, const json_t *rows, const struct analysis *analysis)
{
	struct findings_watched watched = analysis->watched;
	struct findings_text *text = findings_text_new(stdout, analyze->verbose);
	json_t *row;
	size_t i;

	watched.chosen = analyze->filter.ranks.count > 0;
	if (analyze->format == FORMAT_JSON) {
		(void)tool_print(json_incref((json_t *)rows), JSON_INDENT(2));
		findings_text_free(text);
		return;
	}
	if (analyze->format == FORMAT_CSV)
		findings_csv_header(stdout);
	else if (!json_array_size(rows))
		findings_text_none(stdout, &watched, analyze->filter.since_ns, analyze->now_ns);
	json_array_foreach(rows, i, row)
	{
		if (analyze->format == FORMAT_CSV)
			findings_csv_row(stdout, row);
		else if (text)
			findings_text_add(text, row, analysis->end_ns);
	}
	if (text && analyze->format == FORMAT_TEXT && json_array_size(rows))
		findings_text_print(text);
	findings_text_free(text);
}

static int cmd_analyze_report(const struct analyze *analyze, const struct analysis *analysis)
{
	json_t *rows = analysis_rows(analysis, &analyze->filter);

	if (!rows)
		return tool_fail(1, "out of memory");
	cmd_analyze_show(analyze, rows, analysis);
	json_decref(rows);
	cmd_analyze_say_read(analyze, analysis);
	return tool_written() || analysis->failed ? 1 : 0;
}

static int cmd_analyze_run(const struct analyze *analyze)
{
	struct analysis analysis;
	int status = analysis_run(&analyze->options, &analysis);

	if (status == 0)
		status = cmd_analyze_report(analyze, &analysis);
	analysis_free(&analysis);
	return status;
}

static int cmd_analyze_set_folder(void *arg, const char *value)
{
	struct analyze *analyze = arg;

	analyze->folder[analyze->folders++] = (char *)value;
	return 0;
}

struct analyze_threshold {
	struct analyze *analyze;
	size_t which;
};

static int cmd_analyze_set_threshold(void *arg, const char *value)
{
	const struct analyze_threshold *of = arg;

	if (threshold_set(of->which, value, &of->analyze->detectors) < 0)
		return 1 + tool_fail(2, "--%s takes %s, not '%s'", thresholds[of->which].name,
				   thresholds[of->which].expected, value);
	return 0;
}

/* What was not said. */
static int cmd_analyze_settle(struct analyze *analyze)
{
	struct analysis_options *options = &analyze->options;

	if (options->systrace && analyze->folders)
		return 1 + tool_fail(2, "--dir and --from-systrace exclude each other");
	if (!options->systrace && !analyze->folders) {
		int code = tool_state_dir(analyze->state_dir, &analyze->state_dir);

		if (code)
			return 1 + code;
		analyze->folder[analyze->folders++] = (char *)analyze->state_dir;
		if (!analyze->filter.since_ns)
			(void)tool_since(SINCE, analyze->now_ns, &analyze->filter.since_ns);
	}
	/* What is said to be later than tomorrow makes no sense. */
	if (!options->until_ns)
		options->until_ns = analyze->now_ns + DAY_NS;
	if (options->until_ns <= analyze->filter.since_ns)
		return 1 + tool_fail(2, "--since is not before --until (which is now, where it is not given)");
	options->detectors = &analyze->detectors;
	options->since_ns = analyze->filter.since_ns;
	options->folder = analyze->folder;
	options->folders = analyze->folders;
	options->shows_progress = isatty(STDERR_FILENO);
	return 0;
}

/* 0: go on; else the exit code plus one. */
static int cmd_analyze_parse(int argc, char **argv, struct analyze *analyze)
{
	bool csv = false, json = false;
	struct analyze_threshold threshold[THRESHOLDS];
	struct tool_option options[TOOL_OPTIONS_MAX] = {
		{"state-dir", .text = &analyze->state_dir},
		{"dir", .call = cmd_analyze_set_folder, .arg = analyze},
		{"from-systrace", .text = &analyze->options.systrace},
		{"since", .time_ns = &analyze->filter.since_ns},
		{"until", .time_ns = &analyze->options.until_ns},
		{"job", .text = &analyze->options.job},
		{"rank", .ranks = &analyze->filter.ranks},
		{"all", .flag = &analyze->filter.all},
		{"verbose", .flag = &analyze->verbose},
		{"csv", .flag = &csv},
		{"json", .flag = &json},
	};
	size_t count = 0;
	int r;

	while (options[count].name)
		count++;
	for (size_t i = 0; i < THRESHOLDS; i++) {
		threshold[i] = (struct analyze_threshold){analyze, i};
		options[count++] = (struct tool_option){
			thresholds[i].name, .call = cmd_analyze_set_threshold, .arg = &threshold[i]};
	}
	r = tool_options(argc, argv, usage, options, count);
	if (r)
		return r;
	if (csv && json)
		return 1 + tool_fail(2, "--csv and --json exclude each other");
	while (analyze->folders && optind < argc)
		analyze->folder[analyze->folders++] = argv[optind++];
	r = tool_options_end(argc, argv);
	if (r)
		return r;
	analyze->format = csv ? FORMAT_CSV : json ? FORMAT_JSON : FORMAT_TEXT;
	return cmd_analyze_settle(analyze);
}

int main(int argc, char **argv)
{
	struct analyze analyze = {.now_ns = tool_now_ns()};
	int r;

	tool_begin("analyze", argv);
	detect_options_default(&analyze.detectors);
	analyze.folder = calloc((size_t)argc + 1, sizeof(char *));
	if (!analyze.folder)
		return tool_fail(1, "out of memory");
	r = cmd_analyze_parse(argc, argv, &analyze);
	r = r ? r - 1 : cmd_analyze_run(&analyze);
	free(analyze.folder);
	return r;
}
