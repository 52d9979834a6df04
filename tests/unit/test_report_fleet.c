/* SPDX-License-Identifier: Apache-2.0 */
/* The report from the fleet's metrics: a day of two nodes, as a store of metrics answers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzers/report/render.h"
#include "analyzers/report/report.h"
#include "tests/test.h"

#define HOUR 3600
#define UNTIL 1795240800ULL /* Sat 21 Nov 06:00 UTC, s */
#define AT(hours_ago) (UNTIL - (hours_ago)*HOUR)
#define NS 1000000000ULL

static const char *refused; /* sentence of the store, NULL: it answers */
static unsigned asked;

struct answer {
	const char *query;
	char samples[4096];
};

static struct answer answers[16];
static size_t n_answers;

/* A sample of the answer to queries that begin so; labels: JSON without braces. */
static void sample(const char *query, const char *labels, double value)
{
	struct answer *answer = NULL;
	size_t used;

	for (size_t i = 0; i < n_answers && !answer; i++)
		answer = strcmp(answers[i].query, query) == 0 ? &answers[i] : NULL;
	if (!answer) {
		answer = &answers[n_answers++];
		*answer = (struct answer){.query = query};
	}
	used = strlen(answer->samples);
	snprintf(answer->samples + used, sizeof(answer->samples) - used, "%s{\"metric\":{%s},\"value\":[1,\"%.3f\"]}",
		used ? "," : "", labels, value);
}

static int ask(void *arg, const struct fleet_request *request, size_t count, double time_s, char *error, size_t size)
{
	static struct fleet_stream stream;
	const char *query = request->query;

	assert_int_equal(count, 1);
	asked++;
	assert_true(time_s == (double)UNTIL);
	assert_null(strchr(query, '$'));
	if (refused) {
		snprintf(error, size, "%s", refused);
		return -EACCES;
	}
	fleet_stream_begin(&stream, request->sample, request->arg);
	assert_int_equal(fleet_stream_feed(&stream, "[[[", 3), 0);
	for (size_t i = 0; i < n_answers; i++)
		if (strncmp(query, answers[i].query, strlen(answers[i].query)) == 0)
			return fleet_stream_feed(&stream, answers[i].samples, strlen(answers[i].samples));
	return 0;
}

#define FIRST "min_over_time(timestamp(ranktrace_rank_info)"
#define LAST "max_over_time(timestamp(ranktrace_rank_info)"
#define FOUND "max_over_time(timestamp(ranktrace_finding_info)"

static void rank(const char *node, int number, double first_s, double last_s)
{
	char labels[512];

	snprintf(labels, sizeof(labels),
		"\"instance\":\"%s:9797\",\"node\":\"%s\",\"job\":\"gpt\",\"rank\":\"%d\",\"pid\":\"%d\",\"uid\":"
		"\"1000\",\"card\":\"%d\","
		"\"world_size\":\"4\",\"local_rank\":\"%d\"",
		node, node, number, 100 + number, number % 2, number % 2);
	sample(LAST, labels, last_s);
	sample(FIRST, labels, first_s);
}

static void begin(void)
{
	memset(answers, 0, sizeof(answers));
	n_answers = 0;
	refused = NULL;
	asked = 0;
	sample("group by (instance, node)", "\"instance\":\"a:9797\",\"node\":\"a\"", 1);
	sample("group by (instance, node)", "\"instance\":\"b:9797\",\"node\":\"b\"", 1);
	for (int i = 0; i < 4; i++)
		rank(i < 2 ? "a" : "b", i, AT(20), UNTIL - 15);
	sample("max by (job) (increase(ranktrace_rank_steps_total", "\"job\":\"gpt\"", 72000);
	sample("quantile by (job)", "\"job\":\"gpt\"", 1.25);
}

#define LABELS_17 \
	"\"instance\":\"b:9797\",\"finding\":\"17\",\"job\":\"gpt\",\"rank\":\"3\",\"card\":\"1\",\"kind\":\"slow_" \
	"rank\",\"cause\":\"dataloader\",\"activity\":\"dataloader\""

static void slow_rank(void)
{
	/* Its sentence changes with its severity; it ended four hours ago, after six hours. */
	sample(FOUND, LABELS_17 ",\"severity\":\"notice\",\"sentence\":\"rank 3 slows its job by 8 %\"", AT(9));
	sample(FOUND, LABELS_17 ",\"severity\":\"warning\",\"sentence\":\"rank 3 slows its job by 24 %\"", AT(4));
	sample("last_over_time(ranktrace_finding_age_seconds", "\"instance\":\"b:9797\",\"finding\":\"17\"", 6 * HOUR);
	sample("last_over_time(ranktrace_finding_lost_card_seconds", "\"instance\":\"b:9797\",\"finding\":\"17\"",
		5 * HOUR);
	sample("last_over_time(ranktrace_finding_slowdown_ratio", "\"instance\":\"b:9797\",\"finding\":\"17\"", 1.24);
}

static struct report *read_day(void)
{
	static const struct report_fleet fleet = {.ask = ask, .name = "http://store"};
	const struct report_options options = {
		.since_ns = AT(24) * NS, .until_ns = UNTIL * NS, .now_ns = UNTIL * NS, .fleet = &fleet};
	struct report *report = NULL;
	char error[1024] = "";

	if (report_read(&options, &report, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	return report;
}

TEST(a_slow_rank)
{
	struct report *report;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	begin();
	slow_rank();
	report = read_day();
	assert_int_equal(report->nodes, 2);
	assert_int_equal(report->ranks, 4);
	assert_int_equal(report->jobs, 1);
	assert_int_equal(report->job[0].world, 4);
	assert_int_equal(report->job[0].steps, 72000);
	assert_true(report->job[0].median_ns == 1.25e9);
	assert_int_equal(report->findings, 1);
	assert_int_equal(report->finding[0].is.since_ns, AT(10) * NS);
	assert_int_equal(report->finding[0].is.until_ns, AT(4) * NS);
	assert_int_equal(report->finding[0].is.severity, SEVERITY_WARNING);
	assert_string_equal(report->finding[0].is.sentence, "rank 3 slows its job by 24 %");
	assert_string_equal(report->finding[0].is.host, "b");
	assert_true(report->finding[0].cost_card_hours == 5);
	assert_true(report->card_hours > 79.9 && report->card_hours < 80.1);
	assert_int_equal(report->unseen_slots, 0);
	render_text(out, report);
	fclose(out);
	print_message("%s", text);
	assert_non_null(strstr(text, "card 1 of b (rank 3 of gpt)"));
	assert_non_null(strstr(text, "data loading"));
	free(text);
	report_free(report);
}

/* What lasts is open; a job whose ranks run on two nodes has one finding of both. */
TEST(what_lasts)
{
	struct report *report;

	begin();
	slow_rank();
	sample("ranktrace_finding_info", LABELS_17, 1);
	for (int i = 0; i < 2; i++) {
		char labels[256];

		snprintf(labels, sizeof(labels),
			"\"instance\":\"%s:9797\",\"finding\":\"%d\",\"job\":\"gpt\",\"rank\":\"\",\"kind\":\"hang\","
			"\"severity\":\"critical\","
			"\"cause\":\"stopped\",\"sentence\":\"gpt hangs\"",
			i ? "b" : "a", 18 + i);
		sample(FOUND, labels, AT(2));
	}
	sample("up{", "\"instance\":\"b:9797\",\"job\":\"ranktrace\"", 0);
	report = read_day();
	assert_int_equal(report->findings, 2);
	for (size_t i = 0; i < report->findings; i++)
		if (report->finding[i].is.kind == FINDING_SLOW_RANK)
			assert_int_equal(report->finding[i].is.until_ns, 0);
		else
			assert_int_equal(report->finding[i].reported_by, 2);
	assert_non_null(strstr(report->note[0], "b: its daemon does not answer now"));
	report_free(report);
}

/* A finding of the last seconds: no time of the period's has it yet. */
TEST(a_new_one)
{
	struct report *report;

	begin();
	sample("timestamp(ranktrace_finding_info)",
		LABELS_17 ",\"severity\":\"warning\",\"sentence\":\"rank 3 slows its job by 24 %\"", UNTIL - 3);
	sample("ranktrace_finding_info", LABELS_17, 1);
	sample("last_over_time(ranktrace_finding_age_seconds", "\"instance\":\"b:9797\",\"finding\":\"17\"", 2);
	report = read_day();
	assert_int_equal(report->findings, 1);
	assert_int_equal(report->finding[0].is.since_ns, (UNTIL - 5) * NS);
	assert_int_equal(report->finding[0].is.until_ns, 0);
	report_free(report);
}

TEST(a_healthy_day)
{
	struct report *report;

	begin();
	report = read_day();
	assert_int_equal(report->headline.verdict, REPORT_HEALTHY);
	report_free(report);
	/* Nothing at all. */
	memset(answers, 0, sizeof(answers));
	n_answers = 0;
	report = read_day();
	assert_int_equal(report->headline.verdict, REPORT_UNSEEN);
	report_free(report);
}

TEST(a_refusal_ends_it)
{
	static const struct report_fleet fleet = {.ask = ask, .name = "http://store"};
	const struct report_options options = {
		.since_ns = AT(24) * NS, .until_ns = UNTIL * NS, .now_ns = UNTIL * NS, .fleet = &fleet};
	struct report *report = NULL;
	char error[1024] = "";

	begin();
	refused = "no";
	assert_int_equal(report_read(&options, &report, error, sizeof(error)), -EACCES);
	assert_string_equal(error, "no");
	assert_int_equal(asked, 1);
}

static int setup(void **state)
{
	setenv("TZ", "UTC", 1);
	tzset();
	return 0;
}

TEST_MAIN(setup, NULL)
