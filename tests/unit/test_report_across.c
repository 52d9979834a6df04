/* SPDX-License-Identifier: Apache-2.0 */
/* The report over stores of several nodes: who is slow among the ranks of other nodes, reported once. */
#include "tests/unit/offline_script.h"

#include <math.h>
#include <sys/stat.h>

#include "analyzers/report/render.h"
#include "tests/report/report_script.h"

static struct report *read_at(uint64_t now_ns, uint64_t compare_ns, const char *job)
{
	struct stores stores = {0};
	const struct report_options how = {.since_ns = off.begin_ns - NSEC_PER_SEC,
		.until_ns = now_ns,
		.now_ns = now_ns,
		.job = job,
		.stores = &stores,
		.compare_ns = compare_ns};
	struct report *report = NULL;
	char error[512] = "";

	assert_int_equal(stores_add(&stores, dir, error, sizeof(error)), 0);
	if (report_read(&how, &report, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	stores_free(&stores);
	return report;
}

static struct report *read_with(uint64_t compare_ns, const char *job)
{
	return read_at(realtime_ns(), compare_ns, job);
}

static struct report *read_all(void)
{
	return read_with(600 * NSEC_PER_SEC, NULL);
}

static bool shows(void (*render)(FILE *out, const struct report *report), const struct report *report, const char *part)
{
	static char *text;
	static size_t size;
	FILE *out = open_memstream(&text, &size);
	bool found;

	render(out, report);
	assert_int_equal(fclose(out), 0);
	found = strstr(text, part) != NULL;
	free(text);
	return found;
}

/* A finding of a node's daemon; times from the beginning. */
static void publish(
	const char *node, enum finding_kind kind, int32_t rank, uint64_t after_s, uint64_t lasted_s, double cost)
{
	struct store *store = off_store(node);
	struct finding f = {.id = 1 + after_s,
		.kind = kind,
		.cause = kind == FINDING_SLOW_RANK ? CAUSE_DATALOADER : CAUSE_UNKNOWN,
		.state = lasted_s ? FINDING_CLOSED : FINDING_OPEN,
		.severity = SEVERITY_WARNING,
		.confidence = 0.8,
		.rank = rank,
		.since_step = 1,
		.since_ns = off.begin_ns + after_s * NSEC_PER_SEC,
		.slowdown = 1.5,
		.cost_card_hours = cost};

	f.noticed_ns = f.since_ns;
	f.until_ns = lasted_s ? f.since_ns + lasted_s * NSEC_PER_SEC : 0;
	snprintf(f.job, sizeof(f.job), "%s", off.job);
	if (rank >= 0)
		snprintf(f.host, sizeof(f.host), "%s", node);
	script_put_finding(store, &f);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	store_close(store);
}

/* Each node has two ranks: none of them sees three peers. */
static void make(bool healthy)
{
	off_make("job", true, healthy);
	off_write("node-a", 0, 1, 0);
	off_write("node-b", 2, 3, 0);
}

TEST_WITH(test_found, store_setup, store_teardown)
{
	struct report *report;

	make(false);
	report = read_with(0, NULL);
	assert_int_equal(report->headline.verdict, REPORT_HEALTHY);
	assert_int_equal(report->compared, 0);
	report_free(report);
	report = read_all();
	assert_int_equal(report->compared, 2);
	assert_int_equal(report->headline.verdict, REPORT_SLOW);
	assert_int_equal(report->findings, 1);
	assert_int_equal(report->finding[0].is.rank, OFF_SLOW);
	assert_int_equal(report->finding[0].is.cause, CAUSE_DATALOADER);
	assert_int_equal(report->finding[0].reported_by, 0);
	assert_true(report->finding[0].across);
	assert_string_equal(report->headline.which, "card 1 of node-b (rank 3 of job)");
	assert_int_equal(report->cards_slow, 1);
	assert_int_equal(report->card[report->worst[0]].slow_days, 1);
	assert_true(shows(render_text, report,
		"\n  1: found by comparing ranks across 2 nodes; not reported by any single node"));
	assert_true(shows(render_markdown, report, "\n1: found by comparing ranks across 2 nodes"));
	assert_true(shows(render_html, report, "; found by comparing nodes; not reported by any single node"));
	assert_true(shows(render_json, report, "\"told_by_nodes\": 0"));
	assert_true(shows(render_json, report, "\"across_nodes\": true"));
	report_free(report);
	report = read_with(600 * NSEC_PER_SEC, "another");
	assert_int_equal(report->findings, 0);
	report_free(report);
}

TEST_WITH(test_healthy, store_setup, store_teardown)
{
	struct report *report;

	make(true);
	report = read_all();
	assert_int_equal(report->compared, 2);
	assert_int_equal(report->headline.verdict, REPORT_HEALTHY);
	assert_false(shows(render_text, report, "across"));
	report_free(report);
}

/* One daemon published it, in two pieces, and each called its job slow: one finding over all that time. */
TEST_WITH(test_once, store_setup, store_teardown)
{
	struct report *report;
	double past;

	make(false);
	publish("node-b", FINDING_SLOW_RANK, OFF_SLOW, OFF_FROM_S, 5, 0.001);
	publish("node-b", FINDING_SLOW_RANK, OFF_SLOW, OFF_FROM_S + 7, 0, 0.001);
	publish("node-a", FINDING_SLOW_JOB, -1, OFF_FROM_S + 1, 0, 0.002);
	publish("node-b", FINDING_SLOW_JOB, -1, OFF_FROM_S + 1, 0, 0.002);
	report = read_with(0, NULL);
	assert_int_equal(report->findings, 3);
	past = report->card[report->worst[0]].past_card_hours;
	report_free(report);
	report = read_all();
	assert_int_equal(report->findings, 1);
	assert_int_equal(report->explained, 1);
	assert_int_equal(report->finding[0].reported_by, 2);
	assert_true(report->finding[0].across);
	assert_int_equal(report->finding[0].is.until_ns, 0);
	assert_true(report->finding[0].is.since_ns < off.begin_ns + (OFF_FROM_S + 1) * NSEC_PER_SEC);
	assert_true(report->finding[0].cost_card_hours > 0.003);
	assert_true(fabs(report->card[report->worst[0]].past_card_hours - past) < 1e-9);
	assert_false(shows(render_text, report, ": found by comparing"));
	assert_true(shows(render_text, report, "1 slow job reported by single nodes is explained"));
	assert_true(shows(render_html, report, "and found by comparing nodes"));
	report_free(report);
}

/* A job that is slow for another reason, or much more, is kept. */
TEST_WITH(test_not_explained, store_setup, store_teardown)
{
	struct report *report;

	make(false);
	publish("node-a", FINDING_SLOW_JOB, -1, OFF_FROM_S + 1, 0, 5);
	report = read_all();
	assert_int_equal(report->findings, 2);
	assert_int_equal(report->explained, 0);
	report_free(report);
}

/* A job that one node has all of was judged there, and nothing is judged again. */
TEST_WITH(test_one_node, store_setup, store_teardown)
{
	struct report *report;

	off_make("job", true, false);
	off_write("node-a", 0, OFF_RANKS - 1, 0);
	off_make("other", true, true);
	off_write("node-b", 0, OFF_RANKS - 1, 0);
	report = read_all();
	assert_int_equal(report->compared, 0);
	assert_int_equal(report->findings, 0);
	report_free(report);
}

/* The rows end long before the report does: what was so then is over. */
TEST_WITH(test_over, store_setup, store_teardown)
{
	struct report *report;
	uint64_t end_ns;

	make(false);
	end_ns = off.event[off.events - 1].end_ns;
	report = read_at(realtime_ns() + 3600 * NSEC_PER_SEC, 600 * NSEC_PER_SEC, NULL);
	assert_int_equal(report->findings, 1);
	assert_true(report->finding[0].is.until_ns > end_ns - NSEC_PER_SEC && report->finding[0].is.until_ns <= end_ns);
	report_free(report);
}

/* A clock that is behind is said, and changes nothing. */
TEST_WITH(test_clocks, store_setup, store_teardown)
{
	struct report *report;
	bool said = false;

	off_make("job", true, false);
	off_write("node-a", 0, 1, 0);
	off_write("node-b", 2, 3, -40 * (int64_t)NSEC_PER_SEC);
	off.begin_ns -= 40 * NSEC_PER_SEC;
	report = read_all();
	assert_int_equal(report->findings, 1);
	assert_int_equal(report->finding[0].is.rank, OFF_SLOW);
	for (size_t i = 0; i < report->notes; i++)
		said |= strstr(report->note[i], "the clocks of 1 node are up to 40 s off") != NULL;
	assert_true(said);
	report_free(report);
}

/* There is no time for all of it: that is said. */
TEST_WITH(test_enough, store_setup, store_teardown)
{
	struct report *report;
	bool said = false;

	make(false);
	report = read_with(1, NULL);
	assert_int_equal(report->compared, 2);
	for (size_t i = 0; i < report->notes; i++)
		said |= strstr(report->note[i], "were compared up to") != NULL;
	assert_true(said);
	assert_true(report->compared_until_ns < report->until_ns);
	report_free(report);
}

/* Healthy or with nothing left, a report is not silent about a segment that cannot be read. */
TEST_WITH(test_unread, store_setup, store_teardown)
{
	struct report *report;

	off_make("job", false, false);
	off_write("node-a", 0, OFF_RANKS - 1, 0);
	report = read_all();
	assert_int_equal(report->headline.verdict, REPORT_HEALTHY);
	assert_false(shows(render_text, report, "cannot be read"));
	report_free(report);
	sh("echo this is no database >'%s/node-a/db/summary-20261121T000000Z-000999.db'", dir);
	report = read_all();
	assert_int_equal(report->headline.verdict, REPORT_HEALTHY);
	assert_true(shows(render_text, report, "000999.db cannot be read"));
	report_free(report);
	sh("cd '%s/node-a/db' && for f in *; do echo this is no database >$f; done", dir);
	report = read_all();
	assert_int_equal(report->headline.verdict, REPORT_UNSEEN);
	assert_true(shows(render_text, report, "cannot be read"));
	report_free(report);
}

TEST_MAIN(NULL, NULL)
