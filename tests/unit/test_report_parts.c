/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the slow-card report: series, tables, folders, what is kept, several nodes' stores. */
#include "tests/unit/store_fixture.h"

#include <sys/stat.h>

#include "analyzers/report/model.h"
#include "analyzers/report/publish.h"
#include "analyzers/report/render.h"
#include "analyzers/report/words.h"
#include "tests/report/report_script.h"

#define UNTIL (1795240800ULL * NSEC_PER_SEC) /* Sat 21 Nov 06:00 UTC */

static int setup(void **state)
{
	setenv("TZ", "UTC", 1);
	tzset();
	return store_setup(state);
}

TEST(test_series)
{
	struct series *series = plot_series_new(1000, 241000);
	double values[] = {4, 1, 3, 2};

	assert_null(plot_series_new(5, 5));
	assert_true(isnan(plot_series_quantile(series, 0, 0.5)));
	assert_int_equal(plot_series_bucket(series, 999), -1);
	assert_int_equal(plot_series_bucket(series, 1000), 0);
	assert_int_equal(plot_series_bucket(series, 240999), SERIES_BUCKETS - 1);
	assert_int_equal(plot_series_bucket(series, 241000), -1);
	for (uint64_t i = 1; i <= 1000; i++)
		plot_series_add(series, 1500, i * 1000000);
	plot_series_add(series, 5, 1); /* out of its time */
	plot_series_add(series, 100000, 0);
	plot_series_add(series, 200000, UINT64_MAX);
	assert_int_equal(plot_series_count(series, 0), 1000);
	assert_true(fabs(plot_series_quantile(series, 0, 0.5) - 500e6) < 10e6);
	assert_true(fabs(plot_series_quantile(series, 0, 0.9) - 900e6) < 18e6);
	assert_true(plot_series_quantile(series, 0, 0) < 1.1e6 && plot_series_quantile(series, 0, 1) > 980e6);
	assert_true(fabs(plot_series_quantile_all(series, 0.5) - 500e6) < 10e6);
	plot_series_free(series);
	series = plot_series_new(0, 240);
	for (uint64_t i = 0; i < 240; i++)
		plot_series_add(series, i, 123456789);
	assert_true(fabs(plot_series_quantile(series, 7, 0.5) - 123456789) < 1);
	plot_series_free(series);
	assert_true(values_quantile(values, 4, 0.5) == 2.5 && values_quantile(values, 4, 1) == 4);
	assert_true(isnan(values_quantile(values, 0, 0.5)));
}

static char *table_of(bool markdown)
{
	static const char *const headers[] = {"NAME", ">COUNT", NULL};
	static char *text;
	static size_t size;
	FILE *out = open_memstream(&text, &size);
	struct table *table = table_new(headers, markdown);

	table_add(table, "a|b<c");
	table_add(table, "7");
	table_add(table, "\xc3\xa9");
	table_add(table, "1,000");
	table_end(table, out, "  ");
	assert_int_equal(fclose(out), 0);
	return text;
}

TEST(test_table)
{
	char *text = table_of(false);

	assert_string_equal(text, "  NAME   COUNT\n  a|b<c      7\n  \xc3\xa9      1,000\n");
	free(text);
	text = table_of(true);
	assert_string_equal(text, "| NAME | COUNT |\n|---|---:|\n| a\\|b&lt;c | 7 |\n| \xc3\xa9 | 1,000 |\n");
	free(text);
}

TEST_WITH(test_words, setup, store_teardown)
{
	char text[WORDS_BYTES];

	assert_string_equal(words_count(1234567, text), "1,234,567");
	assert_string_equal(words_count(0, text), "0");
	assert_string_equal(words_hours(0.0341, text), "0.034");
	assert_string_equal(words_hours(3.207, text), "3.21");
	assert_string_equal(words_hours(2150.4, text), "2,150");
	assert_string_equal(words_hours(NAN, text), "0");
	assert_string_equal(words_percent(0.0012, text), "0.12 %");
	assert_string_equal(words_percent(INFINITY, text), "0 %");
	assert_string_equal(words_value(NAN, "ns", text), "-");
	assert_string_equal(words_value(24000, "1", text), "24,000");
	assert_string_equal(words_value(1.5e9, "ns a step", text), "1.5 s");
	assert_string_equal(words_many(1, "card", "cards", text), "1 card");
	assert_string_equal(words_many(2, "card", "cards", text), "2 cards");
	assert_string_equal(words_when(UNTIL, text), "Sat 21 Nov 06:00");
	assert_string_equal(words_why(&(struct finding){.kind = FINDING_SLOW_RANK,
					      .cause = CAUSE_SYNCHRONIZATION,
					      .activity = ACTIVITY_SYNC},
				    text),
		"device synchronization");
	assert_string_equal(words_why(&(struct finding){.kind = FINDING_SLOW_RANK,
					      .cause = CAUSE_SYNCHRONIZATION,
					      .activity = ACTIVITY_OUTSIDE},
				    text),
		"Python outside all stages: device synchronizations");
}

static struct report *read_stores(const struct stores *stores)
{
	const struct report_options how = {
		.since_ns = UNTIL - SCRIPT_DAY, .until_ns = UNTIL, .now_ns = UNTIL, .stores = stores};
	struct report *report = NULL;
	char error[512] = "";

	if (report_read(&how, &report, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	return report;
}

/* Two nodes report one slow job, and each its own card; a third folder is no store. */
/* A finding has the name of its own job, or of none: a day has many short jobs. */
TEST(test_jobs)
{
	struct stores stores = {0};
	struct report *report = report_new(
		&(struct report_options){.since_ns = UNTIL - SCRIPT_DAY, .until_ns = UNTIL, .stores = &stores});
	uint32_t job = 0;
	char name[32];

	assert_non_null(report);
	for (unsigned i = 0; i < REPORT_JOBS_MAX + 10; i++) {
		snprintf(name, sizeof(name), "job-%u", i);
		job = report_job_of(report, name, 1000);
		assert_int_equal(job, i < REPORT_JOBS_MAX - 1 ? i : REPORT_JOBS_MAX - 1);
		assert_string_equal(words_job(&report->job[job]), i < REPORT_JOBS_MAX - 1 ? name : "other jobs");
	}
	assert_int_equal(report->notes, 1);
	assert_non_null(strstr(report->note[0], "more than 1023 jobs"));
	report_free(report);
}

/* A rank without a card is no card. */
TEST_WITH(test_cards, setup, store_teardown)
{
	struct stores stores = {0};
	struct report *report = report_new(
		&(struct report_options){.since_ns = UNTIL - SCRIPT_DAY, .until_ns = UNTIL, .stores = &stores});
	char text[WORDS_BYTES];
	uint32_t node;

	assert_non_null(report);
	node = report_node_of(report, "node-a");
	assert_string_equal(words_card(report, report_card_of(report, node, "2", 2, 10), text), "card 2 of node-a");
	assert_string_equal(
		words_card(report, report_card_of(report, node, "", 2, 10), text), "local rank 2 of node-a");
	assert_string_equal(words_card(report, report_card_of(report, node, "", -1, 10), text), "rank 10 of node-a");
	assert_string_equal(
		words_card(report, report_card_of(report, node, "GPU-1f", 2, 10), text), "GPU-1f of node-a");
	report_free(report);
}

TEST_WITH(test_nodes, setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 3, 2);
	struct stores stores = {0};
	struct report *report;
	char error[512] = "", path[PATH_MAX];

	script.split = script.bystander = true;
	script.step_ns = script.sample_ns = 600 * SCRIPT_SECOND;
	for (uint32_t node = 0; node < 3; node++)
		finding_add(script_slow(&script, FINDING_SLOW_JOB, CAUSE_UNKNOWN, node, -1, (5 - node) * SCRIPT_HOUR,
				    4 * SCRIPT_HOUR, 0.1 + 0.1 * node),
			"step_time", "ns", 2, 1, NULL);
	finding_add(script_slow(&script, FINDING_SLOW_RANK, CAUSE_DATALOADER, 1, 1, SCRIPT_HOUR, 0, 0.1), "dataloader",
		"ns", 2, 1, NULL);
	assert_int_equal(script_write(&script), 0);
	snprintf(path, sizeof(path), "%s/empty", dir);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(stores_add(&stores, path, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "is no store"));
	assert_int_equal(stores_add(&stores, dir, error, sizeof(error)), 0);
	assert_int_equal(stores.count, 3);
	snprintf(path, sizeof(path), "%s/gone", dir);
	assert_int_equal(stores_add_state(&stores, path), 0); /* the reader says what is wrong */
	report = read_stores(&stores);
	assert_int_equal(report->nodes_here, 3);
	assert_int_equal(report->cards_here, 6);
	assert_int_equal(report->job[0].ranks, 6);
	assert_int_equal(report->findings, 2);
	assert_int_equal(report->finding[0].is.kind, FINDING_SLOW_JOB);
	assert_int_equal(report->finding[0].reported_by, 3);
	assert_true(fabs(report->finding[0].is.slowdown - 1.3) < 1e-9);
	assert_int_equal(report->finding[1].reported_by, 1);
	assert_true(report->notes >= 1);
	report_free(report);
	stores_free(&stores);
}

static size_t kept(const char *folder, const char *suffix)
{
	char command[PATH_MAX + 64];
	FILE *listed;
	int n = -1;

	snprintf(command, sizeof(command), "ls %s/report-*%s 2>/dev/null | wc -l", folder, suffix);
	listed = popen(command, "r");
	assert_int_equal(fscanf(listed, "%d", &n), 1);
	pclose(listed);
	return (size_t)n;
}

TEST_WITH(test_keep, setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 1);
	struct stores stores = {0};
	char error[512] = "", folder[PATH_MAX], latest[PATH_MAX + 32], other[PATH_MAX + 32], to[64] = "";
	struct report *report;

	assert_int_equal(script_write(&script), 0);
	assert_int_equal(stores_add(&stores, dir, error, sizeof(error)), 0);
	report = read_stores(&stores);
	snprintf(folder, sizeof(folder), "%s/report", dir);
	snprintf(other, sizeof(other), "%s/report-notes.txt", folder);
	for (unsigned i = 0; i < 5; i++) {
		if (publish_keep(folder, 3, report, error, sizeof(error)) < 0)
			fail_msg("%s", error);
		report->now_ns += SCRIPT_DAY;
		if (i == 0)
			fclose(fopen(other, "w"));
	}
	assert_int_equal(kept(folder, "Z.txt"), 3);
	assert_int_equal(kept(folder, "Z.json"), 3);
	assert_int_equal(kept(folder, "Z.html"), 3);
	assert_int_equal(access(other, F_OK), 0);
	snprintf(latest, sizeof(latest), "%s/latest.html", folder);
	assert_true(readlink(latest, to, sizeof(to) - 1) > 0);
	assert_string_equal(to, "report-20261125T060000Z.html");
	assert_int_equal(access(latest, R_OK), 0);
	assert_int_equal(publish_file("/nowhere/x", render_text, report, error, sizeof(error)), -ENOENT);
	assert_string_equal(error, "cannot write /nowhere/x: No such file or directory");
	assert_int_equal(publish_file("/dev/full", render_html, report, error, sizeof(error)), -ENOSPC);
	assert_int_equal(publish_file("/dev/null", render_html, report, error, sizeof(error)), 0);
	assert_int_equal(publish_keep("/dev/null/x", 3, report, error, sizeof(error)), -ENOTDIR);
	report_free(report);
	stores_free(&stores);
}

TEST_MAIN(NULL, NULL)
