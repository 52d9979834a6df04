/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the stores one after another: first ranks and findings, then rows. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/report/judge.h"
#include "analyzers/report/plots.h"

static void report_read_warn(void *arg, const char *sentence)
{
	struct report *report = arg;

	report->unread = true;
	report_note(report, "%s", sentence);
}

/* A folder named db takes the name of its parent. */
static int report_read_add_store(struct report *report, const struct stores_one *one)
{
	struct report_store *store = &report->store[report->stores];
	char folder[PATH_MAX], clean[REPORT_NAME_BYTES];
	const char *name;

	snprintf(folder, sizeof(folder), "%s", one->path);
	name = basename(folder);
	if (one->is_db && strcmp(name, "db") == 0) {
		snprintf(folder, sizeof(folder), "%s", one->path);
		name = basename(dirname(folder));
	}
	report_name(name, clean, sizeof(clean));
	store->is_db = one->is_db;
	store->path = strdup(one->path);
	store->name = strdup(clean);
	if (!store->path || !store->name) {
		free(store->path);
		free(store->name);
		return -ENOMEM;
	}
	report->stores++;
	return 0;
}

typedef int (*store_pass)(struct report_source *source, void *arg, char *error, size_t error_size);

static int report_read_overview(struct report_source *source, void *arg, char *error, size_t error_size)
{
	int r = report_read_ranks(source, error, error_size);

	return r < 0 ? r : report_read_findings(source, error, error_size);
}

/* Where rows go. */
struct report_into {
	struct plots *plots;
	struct splits *splits;
};

static int report_read_rows_into(struct report_source *source, void *arg, char *error, size_t error_size)
{
	const struct report_into *into = arg;

	return report_read_rows(source, into->plots, into->splits, error, error_size);
}

/* Runs a pass over all stores; unreadable ones are noted. -ENOENT: all are unreadable. */
static int each_store(struct report *report, store_pass pass, void *arg, char *error, size_t error_size)
{
	struct reader_options options = {.warning = report_read_warn, .arg = report};
	size_t opened = 0;

	for (uint32_t i = 0; i < report->stores; i++) {
		struct report_source source = {.report = report, .store = i};
		int r;

		options.is_db = report->store[i].is_db;
		r = reader_open(report->store[i].path, &options, &source.reader, error, error_size);

		if (r == 0) {
			opened++;
			r = pass(&source, arg, error, error_size);
			reader_close(source.reader);
		}
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			report_read_warn(report, error);
	}
	return opened ? 0 : -ENOENT;
}

static int report_read_gather_rows(struct report *report, char *error, size_t error_size)
{
	struct report_into into = {.splits = splits_new(report)};
	int window[REPORT_JOBS_MAX], r = into.splits ? report_heat_want(report, into.splits, window) : -ENOMEM;

	if (r == 0)
		into.plots = plots_new(report, into.splits);
	if (!into.plots) {
		snprintf(error, error_size, "out of memory");
		splits_free(into.splits);
		return -ENOMEM;
	}
	r = each_store(report, report_read_rows_into, &into, error, error_size);
	if (r == 0)
		r = plots_finish(into.plots);
	plots_free(into.plots);
	if (r == 0)
		r = report_settle(report);
	/* Findings may have been dropped. */
	if (r == 0)
		r = report_group(report);
	if (r == 0)
		r = report_heat_make(report, into.splits, window);
	splits_free(into.splits);
	return r;
}

static int report_read_gather(
	struct report *report, const struct report_options *options, char *error, size_t error_size)
{
	int r = each_store(report, report_read_overview, NULL, error, error_size);

	if (r == 0 && options->compare_ns && report_across(report, options) < 0) {
		snprintf(error, error_size, "out of memory");
		r = -ENOMEM;
	}
	if (r < 0)
		return r;
	report_merge(report);
	r = report_group(report);
	if (r == 0)
		r = report_read_gather_rows(report, error, error_size);
	if (r < 0)
		return r;
	report_memory_make(report);
	report_watch(report);
	report_judge(report);
	return 0;
}

/* Metrics have no rows: no plots, and no comparison of steps. */
static int report_read_gather_fleet(
	struct report *report, const struct report_options *options, char *error, size_t error_size)
{
	int r = report_read_fleet(report, options->fleet, error, error_size);

	if (r < 0)
		return r;
	report_merge(report);
	r = report_settle(report);
	if (r == 0)
		r = report_group(report);
	if (r < 0)
		return r;
	report_watch(report);
	report_judge(report);
	return 0;
}

int report_read(const struct report_options *options, struct report **ret, char *error, size_t error_size)
{
	struct report *report = report_new(options);
	int r = report ? 0 : -ENOMEM;

	snprintf(error, error_size, "out of memory");
	for (size_t i = 0; r == 0 && !options->fleet && i < options->stores->count; i++)
		r = report_read_add_store(report, &options->stores->one[i]);
	if (r == 0)
		r = options->fleet ? report_read_gather_fleet(report, options, error, error_size)
				   : report_read_gather(report, options, error, error_size);
	if (r < 0) {
		report_free(report);
		return r;
	}
	*ret = report;
	return 0;
}
