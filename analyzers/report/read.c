/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the stores, one after the other: first who was there and what was found, then the rows. See report.h. */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/report/judge.h"
#include "analyzers/report/plots.h"

static void warn(void *arg, const char *sentence)
{
	report_note(arg, "%s", sentence);
}

static int add_store(struct report *report, const char *path)
{
	struct report_store *store = &report->store[report->stores];
	char folder[REPORT_NAME_BYTES * 4], clean[REPORT_NAME_BYTES];

	snprintf(folder, sizeof(folder), "%s", path);
	report_name(basename(folder), clean, sizeof(clean));
	store->path = strdup(path);
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

static int who(struct report_source *source, void *arg, char *error, size_t error_size)
{
	int r = report_read_ranks(source, error, error_size);

	(void)arg;
	return r < 0 ? r : report_read_findings(source, error, error_size);
}

static int rows(struct report_source *source, void *arg, char *error, size_t error_size)
{
	return report_read_rows(source, arg, error, error_size);
}

/* Over all stores. One that cannot be read is noted; -ENOENT where that is all of them. */
static int each_store(struct report *report, store_pass pass, void *arg, char *error, size_t error_size)
{
	const struct reader_options options = {.warning = warn, .arg = report};
	size_t opened = 0;

	for (uint32_t i = 0; i < report->stores; i++) {
		struct report_source source = {.report = report, .store = i};
		int r = reader_open(report->store[i].path, &options, &source.reader, error, error_size);

		if (r == 0) {
			opened++;
			r = pass(&source, arg, error, error_size);
			reader_close(source.reader);
		}
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			report_note(report, "%s", error);
	}
	return opened ? 0 : -ENOENT;
}

static int gather(struct report *report, char *error, size_t error_size)
{
	struct plots *plots;
	int r = each_store(report, who, NULL, error, error_size);

	if (r < 0)
		return r;
	report_merge(report);
	plots = plots_new(report);
	if (!plots) {
		snprintf(error, error_size, "out of memory");
		return -ENOMEM;
	}
	r = each_store(report, rows, plots, error, error_size);
	if (r == 0)
		r = plots_finish(plots);
	plots_free(plots);
	if (r == 0)
		r = report_settle(report);
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
	for (size_t i = 0; r == 0 && i < options->dirs; i++)
		r = add_store(report, options->dir[i]);
	if (r == 0)
		r = gather(report, error, error_size);
	if (r < 0) {
		report_free(report);
		return r;
	}
	*ret = report;
	return 0;
}
