/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/analyze, which is `tracectl analyze`: the daemon's detectors over what is stored: this node's
 * store, those of many nodes at once, or files of sysTrace. What is found is shown as `tracectl findings` shows it.
 * Exit codes: 0 done, with findings or without; 1 some of it could not be read, 2 usage.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "analyzers/offline/clocks.h"
#include "analyzers/offline/merge.h"
#include "analyzers/offline/store_feed.h"
#include "analyzers/tool/findings_made.h"
#include "analyzers/tool/findings_text.h"
#include "analyzers/tool/stores.h"

#define SINCE "1d"
#define DAY_NS 86400000000000ULL
#define PROGRESS_NS 250000000ULL

static const char usage[] =
	"usage: analyze [--since TIME] [--until TIME] [--dir FOLDER...] [--job ID] [--rank LIST] [--all] [--verbose]\n"
	"               [--csv|--json] [--state-dir DIR]\n"
	"Judges what is stored as the daemon does while it happens: one line a finding, the oldest first.\n"
	"  --since TIME     from then on: 30m, 12h, 7d ago, or a date and time (this node's store: " SINCE
	"; others: all)\n"
	"  --until TIME     up to then\n"
	"  --dir FOLDER...  stores of nodes, together: state folders, their db folders, or folders of such folders\n"
	"  --job ID         only ranks of this job\n"
	"  --rank LIST      findings of these ranks: 0,3-7 (all are judged)\n"
	"  --all            suspected ones, and those that were not confirmed, too\n"
	"  --verbose        with what was measured, what to look at, and what was read\n"
	"  --json           an array of objects, as of findings\n"
	"  --csv            comma-separated values (RFC 4180)\n"
	"  --state-dir DIR  the store, without --dir (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --help, --version\n";

enum format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON };

struct analyze {
	const char *state_dir, *job;
	char **folder;
	size_t folders;
	uint64_t now_ns, until_ns;
	struct findings_filter filter;
	enum format format;
	bool verbose, failed;
	struct stores stores;
	struct store_feed **feed; /* one a store; NULL: it could not be read */
	struct source *source;
	size_t sources;
	bool shows_progress;
	uint64_t progress_ns;
	uint64_t end_ns; /* newest event */
};

static void warn(void *arg, const char *sentence)
{
	struct analyze *analyze = arg;

	if (analyze->progress_ns)
		fputs("\r\033[K", stderr);
	analyze->progress_ns = 0;
	tool_warn(NULL, sentence);
}

static void progress(void *arg, uint64_t events, uint64_t now_ns)
{
	struct analyze *analyze = arg;
	uint64_t wall_ns = tool_now_ns();
	char time[TOOL_TEXT_BYTES];

	if (!analyze->shows_progress || wall_ns < analyze->progress_ns + PROGRESS_NS)
		return;
	analyze->progress_ns = wall_ns;
	fprintf(stderr, "\r\033[Kanalyze: %s, %.1f million events", tool_time(now_ns, time), (double)events / 1e6);
}

/* A store is some files at a time. */
static void allow_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void find_stores(struct analyze *analyze)
{
	char error[1024];

	for (size_t i = 0; i < analyze->folders; i++)
		if (stores_add(&analyze->stores, analyze->folder[i], error, sizeof(error)) < 0) {
			analyze->failed = true;
			(void)tool_fail(1, "%s", error);
		}
}

/* Of several stores, how far their clocks are apart. */
static int compare_clocks(struct analyze *analyze, struct clocks_store *clocks)
{
	size_t count = analyze->stores.count;

	for (size_t i = 0; i < count; i++)
		clocks[i] = (struct clocks_store){
			.path = analyze->stores.one[i].path,
			.is_db = analyze->stores.one[i].is_db,
			.since_ns = analyze->filter.since_ns,
			.until_ns = analyze->until_ns,
		};
	if (count > 1 && clocks_compare(clocks, count) < 0)
		return tool_fail(1, "out of memory");
	for (size_t i = 0; i < count; i++) {
		int64_t offset_ns = clocks[i].offset_ns;
		char apart[TOOL_TEXT_BYTES];

		if (offset_ns)
			fprintf(stderr, "analyze: the clock of %s is %s %s that of others; its times are corrected\n",
				clocks[i].path, tool_duration((uint64_t)llabs(offset_ns), apart),
				offset_ns < 0 ? "ahead of" : "behind");
	}
	return 0;
}

static int open_stores(struct analyze *analyze, const struct clocks_store *clocks)
{
	size_t count = analyze->stores.count;
	struct store_feed_options options = {
		.since_ns = analyze->filter.since_ns,
		.until_ns = analyze->until_ns,
		.job = analyze->job,
		.many = count > 1,
		.warning = warn,
		.arg = analyze,
	};
	char error[1024];

	analyze->feed = calloc(count + 1, sizeof(struct store_feed *));
	analyze->source = calloc(count + 1, sizeof(*analyze->source));
	if (!analyze->feed || !analyze->source)
		return tool_fail(1, "out of memory");
	for (size_t i = 0; i < count; i++) {
		const struct stores_one *one = &analyze->stores.one[i];

		options.is_db = one->is_db;
		options.offset_ns = clocks[i].offset_ns;
		if (store_feed_open(one->path, &options, &analyze->feed[i], error, sizeof(error)) < 0) {
			analyze->failed = true;
			(void)tool_fail(1, "%s: %s", one->path, error);
			continue;
		}
		analyze->source[analyze->sources++] = (struct source){&store_feed_source, analyze->feed[i]};
	}
	return 0;
}

static int judge(struct analyze *analyze, struct findings_made *made, struct framer_counts *ret)
{
	const struct merge_options options = {.warning = warn, .progress = progress, .arg = analyze};
	const struct detect_sink sink = {.finding = findings_made_tell, .arg = made};
	struct detect_options detectors;
	struct detect *detect;
	size_t failed = 0;
	int r = -ENOMEM;

	detect_options_default(&detectors);
	detect = detect_new(&detectors, &sink);
	if (detect)
		r = merge_run(analyze->source, analyze->sources, detect, &options, &analyze->end_ns, &failed);
	if (analyze->progress_ns)
		fputs("\r\033[K", stderr);
	analyze->failed = analyze->failed || failed > 0;
	if (detect)
		framer_counts(detect_framer(detect), ret);
	detect_free(detect);
	return r < 0 ? tool_fail(1, "out of memory") : 0;
}

static void add_up(const struct analyze *analyze, struct store_feed_counts *sum, struct findings_watched *watched)
{
	for (size_t i = 0; i < analyze->stores.count; i++) {
		struct store_feed_counts counts;

		if (!analyze->feed[i])
			continue;
		store_feed_counts(analyze->feed[i], &counts);
		sum->rows += counts.rows;
		sum->ranks_left_out += counts.ranks_left_out;
		sum->dropped += counts.dropped;
		watched->ranks += counts.ranks;
		if (counts.first_ns && (!watched->first_ns || counts.first_ns < watched->first_ns))
			watched->first_ns = counts.first_ns;
		if (counts.last_ns > watched->last_ns)
			watched->last_ns = counts.last_ns;
	}
}

static void say_read(const struct analyze *analyze, const struct store_feed_counts *sum,
	const struct findings_watched *watched, const struct framer_counts *framer)
{
	char first[TOOL_TEXT_BYTES], last[TOOL_TEXT_BYTES];

	if (sum->ranks_left_out + framer->ranks_left_out)
		fprintf(stderr,
			"analyze: warning: %llu ranks were left out: too many, or nothing tells where their steps "
			"belong\n",
			(unsigned long long)(sum->ranks_left_out + framer->ranks_left_out));
	if (!analyze->verbose || analyze->format != FORMAT_TEXT || !watched->first_ns)
		return;
	printf("read: %llu rows of %llu ranks in %zu store%s, from %s to %s; %llu steps judged, of all ranks "
	       "together\n",
		(unsigned long long)sum->rows, (unsigned long long)watched->ranks, analyze->sources,
		analyze->sources == 1 ? "" : "s", tool_time(watched->first_ns, first),
		tool_time(watched->last_ns, last), (unsigned long long)framer->frames);
	if (sum->dropped + framer->dropped)
		printf("left out: %llu rows whose times or numbers make no sense\n",
			(unsigned long long)(sum->dropped + framer->dropped));
}

/* As of the newest event: what was so then may be long over. */
static void show(const struct analyze *analyze, json_t *rows, const struct findings_watched *watched)
{
	const json_t *row;
	size_t i;

	if (analyze->format == FORMAT_JSON) {
		json_dumpf(rows, stdout, JSON_INDENT(2));
		putchar('\n');
		return;
	}
	if (analyze->format == FORMAT_CSV) {
		findings_csv_header(stdout);
		json_array_foreach(rows, i, row) findings_csv_row(stdout, row);
		return;
	}
	if (json_array_size(rows))
		findings_text_header(stdout);
	else
		findings_text_none(stdout, watched, analyze->filter.since_ns, analyze->now_ns);
	json_array_foreach(rows, i, row) findings_text_row(stdout, row, analyze->verbose, analyze->end_ns);
}

static int report(struct analyze *analyze, const struct findings_made *made, const struct framer_counts *framer)
{
	json_t *rows = findings_made_rows(made, &analyze->filter);
	struct findings_watched watched = {0};
	struct store_feed_counts sum = {0};

	if (!rows)
		return tool_fail(1, "out of memory");
	add_up(analyze, &sum, &watched);
	show(analyze, rows, &watched);
	json_decref(rows);
	say_read(analyze, &sum, &watched, framer);
	if (findings_made_left_out(made))
		fprintf(stderr, "analyze: warning: %llu more findings are not shown\n",
			(unsigned long long)findings_made_left_out(made));
	if (fflush(stdout) != 0 || ferror(stdout))
		return tool_fail(1, "cannot write: %s", strerror(errno));
	return 0;
}

static int run(struct analyze *analyze)
{
	struct findings_made *made = findings_made_new();
	struct framer_counts framer = {0};
	struct clocks_store *clocks;
	int status = made ? 0 : tool_fail(1, "out of memory");

	allow_files();
	find_stores(analyze);
	clocks = calloc(analyze->stores.count + 1, sizeof(*clocks));
	if (status == 0)
		status = clocks ? compare_clocks(analyze, clocks) : tool_fail(1, "out of memory");
	if (status == 0)
		status = open_stores(analyze, clocks);
	free(clocks);
	if (status == 0 && !analyze->sources)
		status = 1; /* and it was said why */
	if (status == 0)
		status = judge(analyze, made, &framer);
	if (status == 0)
		status = report(analyze, made, &framer);
	for (size_t i = 0; analyze->feed && i < analyze->stores.count; i++)
		store_feed_close(analyze->feed[i]);
	free(analyze->feed);
	free(analyze->source);
	stores_free(&analyze->stores);
	findings_made_free(made);
	return status ? status : analyze->failed ? 1 : 0;
}

enum option_id { SET_STATE_DIR, SET_DIR, SET_SINCE, SET_UNTIL, SET_JOB, SET_RANK, SET_HELP, SET_VERSION };

static int set_time(const char *name, const char *value, uint64_t now_ns, uint64_t *ret)
{
	if (tool_since(value, now_ns, ret) < 0)
		return 1 + tool_fail(2, "--%s takes a time ago (30m, 12h, 7d) or a date, not \"%s\"", name, value);
	return 0;
}

static int set(struct analyze *analyze, enum option_id id, char *value)
{
	switch (id) {
	case SET_STATE_DIR:
		analyze->state_dir = value;
		return 0;
	case SET_DIR:
		analyze->folder[analyze->folders++] = value;
		return 0;
	case SET_SINCE:
		return set_time("since", value, analyze->now_ns, &analyze->filter.since_ns);
	case SET_UNTIL:
		return set_time("until", value, analyze->now_ns, &analyze->until_ns);
	case SET_JOB:
		analyze->job = value;
		return 0;
	case SET_RANK:
		if (tool_ranks_parse(value, &analyze->filter.ranks) < 0)
			return 1 + tool_fail(2, "--rank takes ranks as in 0,3-7, not \"%s\"", value);
		return 0;
	case SET_HELP:
		return 1 + tool_usage(usage);
	case SET_VERSION:
		return 1 + tool_version();
	}
	return 1 + 2;
}

/* What was not said. */
static int settle(struct analyze *analyze)
{
	if (!analyze->folders) {
		analyze->folder[analyze->folders++] = (char *)analyze->state_dir;
		if (!analyze->filter.since_ns)
			(void)tool_since(SINCE, analyze->now_ns, &analyze->filter.since_ns);
	}
	/* What is said to be later than tomorrow makes no sense. */
	if (!analyze->until_ns)
		analyze->until_ns = analyze->now_ns + DAY_NS;
	if (analyze->until_ns <= analyze->filter.since_ns)
		return 1 + tool_fail(2, "--until is not after --since: there is nothing between");
	analyze->shows_progress = isatty(STDERR_FILENO);
	return 0;
}

/* 0: go on; else the exit code plus one. */
static int parse(int argc, char **argv, struct analyze *analyze)
{
	int csv = 0, json = 0, all = 0, verbose = 0, id, r = 0;
	const struct option options[] = {
		{"state-dir", required_argument, NULL, SET_STATE_DIR},
		{"dir", required_argument, NULL, SET_DIR},
		{"since", required_argument, NULL, SET_SINCE},
		{"until", required_argument, NULL, SET_UNTIL},
		{"job", required_argument, NULL, SET_JOB},
		{"rank", required_argument, NULL, SET_RANK},
		{"help", no_argument, NULL, SET_HELP},
		{"version", no_argument, NULL, SET_VERSION},
		{"all", no_argument, &all, 1},
		{"verbose", no_argument, &verbose, 1},
		{"csv", no_argument, &csv, 1},
		{"json", no_argument, &json, 1},
		{0},
	};
	int index = 0;

	while (r == 0 && (id = getopt_long(argc, argv, "", options, &index)) != -1) {
		if (id == '?')
			return 1 + 2; /* getopt_long has said what is wrong */
		if (!options[index].flag)
			r = set(analyze, (enum option_id)id, optarg);
	}
	if (r)
		return r;
	if (csv && json)
		return 1 + tool_fail(2, "--csv and --json exclude each other");
	if (optind != argc && !analyze->folders)
		return 1 + tool_fail(2, "unexpected \"%s\"; see --help", argv[optind]);
	while (optind < argc)
		analyze->folder[analyze->folders++] = argv[optind++];
	analyze->format = csv ? FORMAT_CSV : json ? FORMAT_JSON : FORMAT_TEXT;
	analyze->filter.all = all;
	analyze->verbose = verbose;
	return settle(analyze);
}

int main(int argc, char **argv)
{
	struct analyze analyze = {.state_dir = tool_state_dir(), .now_ns = tool_now_ns()};
	int r;

	tool_begin("analyze", argv);
	analyze.folder = calloc((size_t)argc + 1, sizeof(char *));
	if (!analyze.folder)
		return tool_fail(1, "out of memory");
	r = parse(argc, argv, &analyze);
	r = r ? r - 1 : run(&analyze);
	free(analyze.folder);
	return r;
}
