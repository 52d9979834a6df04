/* SPDX-License-Identifier: Apache-2.0 */
/* See analysis.h. */
#include "analyzers/analyze/analysis.h"
#include "analyzers/base/array.h"
#include "analyzers/base/clock.h"
#include "analyzers/base/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "analyzers/offline/clocks.h"
#include "analyzers/offline/merge.h"
#include "analyzers/offline/store_feed.h"
#include "analyzers/offline/systrace/systrace_feed.h"
#include "analyzers/store/stores.h"

#define PROGRESS_NS 250000000ULL

struct running {
	const struct analysis_options *options;
	struct analysis *analysis;
	struct stores stores;
	struct store_feed **feed; /* one a store; NULL: it could not be read */
	struct source *source;
	struct systrace_feed *systrace;
	uint64_t progress_ns; /* when it was shown last, 0: nothing of it is on the screen */
	uint64_t begin_ns;
};

static void clear_progress(struct running *running)
{
	if (running->progress_ns)
		fputs("\r\033[K", stderr);
	running->progress_ns = 0;
}

static void analysis_warn(void *arg, const char *sentence)
{
	struct running *running = arg;

	clear_progress(running);
	if (running->options->warning)
		running->options->warning(running->options->arg, sentence);
	else
		tool_warn(NULL, sentence);
}

static bool is_due(struct running *running)
{
	uint64_t now_ns = tool_now_ns();

	if (!running->options->shows_progress || now_ns < running->progress_ns + PROGRESS_NS)
		return false;
	running->progress_ns = now_ns;
	return true;
}

static bool show_judging(void *arg, uint64_t events, uint64_t now_ns)
{
	struct running *running = arg;
	const struct analysis_options *options = running->options;
	char time[TOOL_TEXT_BYTES];

	if (is_due(running))
		fprintf(stderr, "\r\033[Kjudging: %s, %.1f million events", tool_time(now_ns, time),
			(double)events / 1e6);
	running->analysis->enough =
		options->enough_ns && clock_ns(CLOCK_MONOTONIC) - running->begin_ns >= options->enough_ns;
	return !running->analysis->enough;
}

static void show_reading(void *arg, uint64_t files, uint64_t records)
{
	if (is_due(arg))
		fprintf(stderr, "\r\033[Kreading: %llu files, %.1f million records", (unsigned long long)files,
			(double)records / 1e6);
}

static int analysis_fail(struct running *running, const char *error)
{
	running->analysis->failed = true;
	if (running->options->warning) {
		analysis_warn(running, error);
		return 1;
	}
	clear_progress(running);
	return tool_fail(1, "%s", error);
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

static void say_clock(struct running *running, const struct clocks_store *clock)
{
	uint64_t apart_ns = (uint64_t)llabs(clock->offset_ns);
	struct analysis *analysis = running->analysis;
	char apart[TOOL_TEXT_BYTES];

	if (!apart_ns)
		return;
	analysis->clocks++;
	if (apart_ns > analysis->clocks_apart_ns)
		analysis->clocks_apart_ns = apart_ns;
	if (!running->options->warning)
		(void)tool_fail(0, "the clock of %s is %s %s others; its times are corrected", clock->path,
			units_duration(apart_ns, apart), clock->offset_ns < 0 ? "ahead of" : "behind");
}

/* Of several stores, how far their clocks are apart. */
static int compare_clocks(struct running *running, struct clocks_store *clocks)
{
	const struct stores *stores = &running->stores;

	for (size_t i = 0; i < stores->count; i++)
		clocks[i] = (struct clocks_store){
			.path = stores->one[i].path,
			.is_db = stores->one[i].is_db,
			.since_ns = running->options->since_ns,
			.until_ns = running->options->until_ns,
		};
	if (stores->count > 1 && clocks_compare(clocks, stores->count) < 0)
		return analysis_fail(running, "out of memory");
	for (size_t i = 0; i < stores->count; i++)
		say_clock(running, &clocks[i]);
	return 0;
}

static void analysis_open_store(struct running *running, size_t i, const struct clocks_store *clock)
{
	const struct store_feed_options options = {
		.since_ns = running->options->since_ns,
		.until_ns = running->options->until_ns,
		.job = running->options->job,
		.offset_ns = clock->offset_ns,
		.is_db = running->stores.one[i].is_db,
		.many = running->stores.count > 1,
		.warning = analysis_warn,
		.arg = running,
	};
	char error[1024];

	if (store_feed_open(running->stores.one[i].path, &options, &running->feed[i], error, sizeof(error)) < 0) {
		(void)analysis_fail(running, error);
		return;
	}
	running->source[running->analysis->sources++] = (struct source){&store_feed_source, running->feed[i]};
}

static int open_stores(struct running *running)
{
	const struct analysis_options *options = running->options;
	struct clocks_store *clocks;
	char error[1024];
	int status;

	allow_files();
	for (size_t i = 0; i < options->folders; i++)
		if (stores_add(&running->stores, options->folder[i], error, sizeof(error)) < 0)
			(void)analysis_fail(running, error);
	running->feed = calloc(running->stores.count + 1, sizeof(struct store_feed *));
	running->source = calloc(running->stores.count + 1, sizeof(*running->source));
	clocks = calloc(running->stores.count + 1, sizeof(*clocks));
	status = running->feed && running->source && clocks ? compare_clocks(running, clocks)
							    : analysis_fail(running, "out of memory");
	for (size_t i = 0; i < running->stores.count && status == 0; i++)
		analysis_open_store(running, i, &clocks[i]);
	free(clocks);
	return status ? status : running->analysis->sources ? 0 : 1;
}

static int open_systrace(struct running *running)
{
	const struct systrace_options options = {
		.since_ns = running->options->since_ns,
		.until_ns = running->options->until_ns,
		.job = running->options->job,
		.warning = analysis_warn,
		.progress = show_reading,
		.arg = running,
	};
	char error[1024];

	running->source = calloc(1, sizeof(*running->source));
	if (!running->source)
		return analysis_fail(running, "out of memory");
	if (systrace_feed_open(running->options->systrace, &options, &running->systrace, error, sizeof(error)) < 0)
		return analysis_fail(running, error);
	running->source[running->analysis->sources++] = (struct source){&systrace_feed_source, running->systrace};
	return 0;
}

static int analysis_judge(struct running *running)
{
	const struct merge_options options = {.warning = analysis_warn, .progress = show_judging, .arg = running};
	struct analysis *analysis = running->analysis;
	const struct detect_sink sink = {.finding = findings_made_publish, .arg = analysis->made};
	struct detect_options detectors;
	struct detect *detect;
	size_t failed = 0;
	int r = -ENOMEM;

	detect_options_default(&detectors);
	if (running->options->detectors)
		detectors = *running->options->detectors;
	detect = detect_new(&detectors, &sink);
	if (detect) {
		r = merge_run(running->source, analysis->sources, detect, &options, &analysis->end_ns, &failed);
		align_counts(detect_align(detect), &analysis->align);
	}
	clear_progress(running);
	detect_free(detect);
	analysis->failed = analysis->failed || failed > 0;
	return r < 0 ? analysis_fail(running, "out of memory") : 0;
}

static void analysis_widen(struct findings_watched *watched, uint64_t first_ns, uint64_t last_ns)
{
	if (first_ns && (!watched->first_ns || first_ns < watched->first_ns))
		watched->first_ns = first_ns;
	if (last_ns > watched->last_ns)
		watched->last_ns = last_ns;
}

/* What the daemon that wrote the store judged then. It is an addition: without it, the rest holds. */
static void analysis_add_stored(struct running *running, const struct stores_one *store)
{
	const struct reader_options options = {.is_db = store->is_db};
	const struct findings_filter filter = {.since_ns = running->options->since_ns, .hangs = true};
	const char *job = running->options->job;
	uint64_t until_ns = running->options->until_ns;
	struct reader *reader;
	json_t *rows = NULL, *row;
	char error[1024];
	size_t i;

	if (reader_open(store->path, &options, &reader, error, sizeof(error)) == 0) {
		rows = findings_rows(reader, &filter, error, sizeof(error));
		reader_close(reader);
	}
	if (!rows) {
		(void)analysis_fail(running, error);
		return;
	}
	if (!running->analysis->stored)
		running->analysis->stored = json_array();
	json_array_foreach(rows, i, row)
	{
		const char *of = json_string_value(json_object_get(row, "job"));

		if ((!until_ns || (uint64_t)json_integer_value(json_object_get(row, "since_ns")) < until_ns) &&
			(!job || (of && strcmp(of, job) == 0)))
			json_array_append(running->analysis->stored, row);
	}
	json_decref(rows);
}

static void analysis_add_store(struct running *running, size_t i)
{
	struct analysis *analysis = running->analysis;
	struct store_feed_counts counts;

	store_feed_counts(running->feed[i], &counts);
	if (!counts.has_standings)
		analysis_add_stored(running, &running->stores.one[i]);
	analysis->rows += counts.rows;
	analysis->ranks_left_out += counts.ranks_left_out;
	analysis->dropped += counts.dropped;
	analysis->watched.ranks += counts.ranks;
	analysis_widen(&analysis->watched, counts.first_ns, counts.last_ns);
}

static void add_systrace(struct running *running)
{
	struct analysis *analysis = running->analysis;
	struct systrace_counts counts;

	systrace_feed_counts(running->systrace, &counts);
	analysis->sources = counts.files;
	analysis->failed = analysis->failed || counts.files_failed > 0 || counts.jobs_refused > 0;
	analysis->rows = counts.records;
	analysis->dropped = counts.dropped;
	analysis->left_out = counts.left_out;
	analysis->ops = counts.ops;
	analysis->coll_not_joined = counts.coll_not_joined;
	analysis->jobs_refused = counts.jobs_refused;
	analysis->watched.ranks = counts.ranks;
	analysis_widen(&analysis->watched, counts.first_ns, counts.last_ns);
}

static void analysis_add_up(struct running *running)
{
	for (size_t i = 0; i < running->stores.count; i++)
		if (running->feed[i])
			analysis_add_store(running, i);
	if (running->systrace)
		add_systrace(running);
	running->analysis->ranks_left_out += running->analysis->align.ranks_left_out;
	running->analysis->dropped += running->analysis->align.dropped;
}

int analysis_run(const struct analysis_options *options, struct analysis *ret)
{
	struct running running = {.options = options, .analysis = ret, .begin_ns = clock_ns(CLOCK_MONOTONIC)};
	int status;

	*ret = (struct analysis){.made = findings_made_new()};
	status = !ret->made	     ? analysis_fail(&running, "out of memory")
		 : options->systrace ? open_systrace(&running)
				     : open_stores(&running);
	if (status == 0)
		status = analysis_judge(&running);
	if (status == 0)
		analysis_add_up(&running);
	for (size_t i = 0; running.feed && i < running.stores.count; i++)
		store_feed_close(running.feed[i]);
	systrace_feed_close(running.systrace);
	free(running.feed);
	free(running.source);
	stores_free(&running.stores);
	return status;
}

void analysis_free(struct analysis *analysis)
{
	findings_made_free(analysis->made);
	json_decref(analysis->stored);
}

static size_t analysis_place_of(const json_t *rows, const json_t *row)
{
	json_int_t since_ns = json_integer_value(json_object_get(row, "since_ns"));

	return array_first_not(i, json_array_size(rows),
		json_integer_value(json_object_get(json_array_get(rows, i), "since_ns")) <= since_ns);
}

json_t *analysis_rows(const struct analysis *analysis, const struct findings_filter *filter)
{
	json_t *rows = findings_made_rows(analysis->made, filter), *row;
	size_t i;

	if (rows)
		json_array_foreach(analysis->stored, i, row) if (findings_row_is_wanted(filter, row))
			json_array_insert(rows, analysis_place_of(rows, row), row);
	return rows;
}
