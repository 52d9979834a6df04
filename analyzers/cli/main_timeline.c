/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/timeline, which is `tracectl timeline`: a window of the store as a trace for Perfetto or Chrome.
 * Works with the daemon down, and over the stores of several nodes. Exit codes: 0 done; 1 the store or the file failed,
 * or nothing was seen in the window; 2 usage.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "analyzers/base/replace.h"
#include "analyzers/timeline/timeline.h"
#include "analyzers/store/stores.h"
#include "analyzers/tool/options.h"

#define SINCE "10m"
#define BUFFER_BYTES (1UL << 20)

static const char usage[] =
	"usage: tracectl timeline [--since TIME] [--until TIME] [--rank LIST] [--job JOB] [--chrome] [-o FILE]\n"
	"                         [--state-dir DIR | --dir FOLDER...] [--verbose]\n"
	"Writes the data of a time window as a trace for ui.perfetto.dev or trace_processor.\n"
	"  --since TIME     start of the window: 30m, 12h ago, or a date and time (" SINCE ")\n"
	"  --until TIME     end of the window (now)\n"
	"  --rank LIST      only these ranks: 0,3-7\n"
	"  --job JOB        only this job\n"
	"  -o, --output FILE  write to FILE (standard output, but not to a terminal)\n"
	"  --chrome         write JSON for chrome://tracing instead of Perfetto's protobuf\n"
	"  --dir FOLDER...  read these stores of nodes together: state folders, db folders, or folders of such\n"
	"  --state-dir DIR  state folder (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --verbose        report what was written\n"
	"  --help, --version\n";

struct run {
	struct stores stores;
	const char *state_dir, *output;
	uint64_t since_ns, until_ns;
	struct timeline_options options;
	const struct trace_format *format;
	bool verbose;
	FILE *out;
	bool shown; /* a progress line stands on the terminal */
};

static struct replace output;

/* An interrupt leaves no half of a file. */
static void cmd_timeline_interrupted(int number)
{
	if (output.fresh[0])
		unlink(output.fresh);
	_exit(128 + number);
}

static bool cmd_timeline_to_stdout(const struct run *run)
{
	return !run->output || strcmp(run->output, "-") == 0;
}

static void cmd_timeline_show_progress(void *arg, const char *what, double done)
{
	struct run *run = arg;

	run->shown = true;
	fprintf(stderr, "\r\033[K%s: %s %3.0f %%", tool_name(), what, 100 * done);
}

static void cmd_timeline_end_progress(struct run *run)
{
	if (run->shown)
		fputs("\r\033[K", stderr);
	run->shown = false;
}

static void cmd_timeline_warn(void *arg, const char *sentence)
{
	cmd_timeline_end_progress(arg);
	tool_warn(NULL, sentence);
}

static int cmd_timeline_open_output(struct run *run)
{
	int r;

	if (cmd_timeline_to_stdout(run)) {
		if (run->format == &trace_perfetto && isatty(STDOUT_FILENO))
			return tool_fail(2, "refusing to write a trace to a terminal; use -o FILE");
		run->out = stdout;
		return 0;
	}
	r = replace_begin(&output, run->output);
	run->out = output.out;
	return r < 0 ? tool_fail_write(run->output, r) : 0;
}

static int cmd_timeline_close_output(struct run *run, int status)
{
	int r;

	if (run->out == stdout)
		return status;
	r = replace_end(&output, status ? -ECANCELED : 0, false);
	return status == 0 && r < 0 ? tool_fail_write(run->output, r) : status;
}

static void cmd_timeline_warn_of(const char *format, uint64_t count)
{
	char sentence[160];

	if (!count)
		return;
	snprintf(sentence, sizeof(sentence), format, count);
	tool_warn(NULL, sentence);
}

static void cmd_timeline_summary(
	const struct run *run, const struct trace_counts *trace, const struct timeline_counts *counts)
{
	cmd_timeline_warn_of(
		"%" PRIu64 " rows are of processes that the store does not know, and are left out", counts->unknown);
	cmd_timeline_warn_of("%" PRIu64 " rows found no track: too many of them cross each other; they are left out",
		counts->crowded);
	cmd_timeline_warn_of("%" PRIu64 " rows have no time that can be shown, and are left out", counts->odd);
	if (run->verbose || isatty(STDERR_FILENO))
		fprintf(stderr,
			"%s: %" PRIu64 " processes of ranks, %" PRIu64 " tracks, %" PRIu64 " slices (%" PRIu64
			" not ended), %" PRIu64 " instants, %" PRIu64 " flows, %" PRIu64 " counter values, %" PRIu64
			" bytes\n",
			tool_name(), counts->ranks, trace->tracks, trace->slices, trace->open, trace->instants,
			trace->arrows, trace->values, trace->bytes);
}

static int cmd_timeline_write_trace(struct run *run, struct trace *trace)
{
	struct timeline_counts counts = {0};
	char error[1024] = "", from[TOOL_TEXT_BYTES], to[TOOL_TEXT_BYTES];
	int r = timeline_write(&run->options, trace, &counts, error, sizeof(error));

	cmd_timeline_end_progress(run);
	if (r < 0 && !trace->error)
		return tool_fail(1, "%s", error);
	if (!trace->error && trace->counts.slices + trace->counts.instants + trace->counts.values == 0)
		return tool_fail(1, "nothing was seen from %s to %s%s", tool_time(run->since_ns, from),
			tool_time(run->until_ns, to),
			run->options.ranks.count || run->options.job ? " of these ranks" : "");
	if (trace->error || trace_finish(trace) < 0)
		return tool_fail(1, "cannot write %s: %s", cmd_timeline_to_stdout(run) ? "the trace" : run->output,
			strerror(-trace->error));
	cmd_timeline_summary(run, &trace->counts, &counts);
	return 0;
}

static int cmd_timeline_go(struct run *run)
{
	struct trace_options options = {.title = "ranktrace " RANKTRACE_VERSION};
	struct trace *trace = NULL;
	int status = cmd_timeline_open_output(run);

	if (status)
		return status;
	(void)setvbuf(run->out, NULL, _IOFBF, BUFFER_BYTES);
	options.out = run->out;
	options.base_ns = run->options.since_ns;
	if (run->format == &trace_chrome && options.base_ns > TIMELINE_LOOKBACK_NS)
		options.base_ns -= TIMELINE_LOOKBACK_NS; /* nothing has a time below 0 */
	if (trace_open(run->format, &options, &trace) < 0)
		status = tool_fail(1, "out of memory");
	else
		status = cmd_timeline_write_trace(run, trace);
	trace_close(trace);
	return cmd_timeline_close_output(run, status);
}

static int cmd_timeline_add_stores(void *arg, const char *folder)
{
	struct run *run = arg;
	char error[1024];

	return stores_add(&run->stores, folder, error, sizeof(error)) < 0 ? 1 + tool_fail(1, "%s", error) : 0;
}

/* 0: go on; else the exit code plus one. */
static int cmd_timeline_parse(int argc, char **argv, struct run *run)
{
	bool chrome = false;
	const struct tool_option options[] = {
		{"output", 'o', .text = &run->output},
		{"dir", .call = cmd_timeline_add_stores, .arg = run},
		{"state-dir", .text = &run->state_dir},
		{"since", .time_ns = &run->since_ns},
		{"until", .time_ns = &run->until_ns},
		{"rank", .ranks = &run->options.ranks},
		{"job", .text = &run->options.job},
		{"chrome", .flag = &chrome},
		{"verbose", .flag = &run->verbose},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));

	/* Further folders may follow --dir. */
	while (r == 0 && run->stores.count && optind < argc)
		r = cmd_timeline_add_stores(run, argv[optind++]);
	if (r == 0)
		r = tool_options_end(argc, argv);
	if (r)
		return r;
	if (run->since_ns >= run->until_ns)
		return 1 + tool_fail(2, "--since is not before --until (which is now, where it is not given)");
	if (run->until_ns > INT64_MAX / 2)
		return 1 + tool_fail(2, "--until is too far in the future");
	if (run->stores.count && run->state_dir)
		return 1 + tool_fail(2, "--dir and --state-dir exclude each other");
	run->format = chrome ? &trace_chrome : &trace_perfetto;
	return 0;
}

/* This node's store, where none is named. */
static int cmd_timeline_open(struct run *run)
{
	int code = tool_state_dir(run->state_dir, &run->state_dir);

	return code ? 1 + code : cmd_timeline_add_stores(run, run->state_dir);
}

int main(int argc, char **argv)
{
	struct run run = {.options.warning = cmd_timeline_warn, .until_ns = tool_now_ns()};
	int r;

	tool_begin("timeline", argv);
	signal(SIGINT, cmd_timeline_interrupted);
	signal(SIGTERM, cmd_timeline_interrupted);
	(void)tool_since(SINCE, run.until_ns, &run.since_ns);
	r = cmd_timeline_parse(argc, argv, &run);
	if (r == 0 && !run.stores.count)
		r = cmd_timeline_open(&run);
	if (r == 0) {
		run.options.store = run.stores.one;
		run.options.stores = run.stores.count;
		run.options.since_ns = (int64_t)run.since_ns;
		run.options.until_ns = (int64_t)run.until_ns;
		run.options.progress = isatty(STDERR_FILENO) ? cmd_timeline_show_progress : NULL;
		run.options.arg = &run;
		r = 1 + cmd_timeline_go(&run);
	}
	stores_free(&run.stores);
	return r - 1;
}
