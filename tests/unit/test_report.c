/* SPDX-License-Identifier: Apache-2.0 */
/* The slow-card report on days made by hand: what it concludes, what it shows, and that no day can harm it. */
#include "tests/unit/store_fixture.h"

#include <jansson.h>

#include "analyzers/report/judge.h"
#include "analyzers/report/render.h"
#include "tests/report/report_script.h"

#define UNTIL (1795240800ULL * NSEC_PER_SEC) /* Sat 21 Nov 06:00 UTC */

static int setup(void **state)
{
	setenv("TZ", "UTC", 1);
	tzset();
	return store_setup(state);
}

static struct report *read_of(const char *const *dirs, size_t n, uint64_t since_ns, uint64_t until_ns, const char *job)
{
	struct stores stores = {0};
	const struct report_options how = {.since_ns = since_ns,
		.until_ns = until_ns,
		.now_ns = until_ns,
		.job = job,
		.stores = &stores,
		.compare_ns = 600 * NSEC_PER_SEC};
	struct report *report = NULL;
	char error[512] = "";

	for (size_t i = 0; i < n; i++)
		assert_int_equal(stores_add(&stores, dirs[i], error, sizeof(error)), 0);
	if (report_read(&how, &report, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	stores_free(&stores);
	return report;
}

static struct report *read_day(void)
{
	const char *dirs[] = {dir};

	return read_of(dirs, 1, UNTIL - SCRIPT_DAY, UNTIL, NULL);
}

static char *shown(void (*render)(FILE *out, const struct report *report), const struct report *report)
{
	static char *text; /* static, so that gcc sees no pointer to what is gone */
	static size_t size;
	FILE *out = open_memstream(&text, &size);

	render(out, report);
	assert_int_equal(fclose(out), 0);
	return text;
}

static json_t *json_of(const struct report *report)
{
	char *text = shown(render_json, report);
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	if (!root)
		fail_msg("%s in %s", error.text, text);
	free(text);
	return root;
}

static void has(const char *text, const char *part)
{
	const char *found = strstr(text, part);

	if (!found)
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void has_not(const char *text, const char *part)
{
	const char *found = strstr(text, part);

	if (found)
		fail_msg("\"%s\" is in:\n%.3000s", part, found);
}

static size_t lines_of(const char *text)
{
	size_t n = 0;

	while ((text = strchr(text, '\n'))) {
		n++;
		text++;
	}
	return n;
}

static json_int_t integer(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value))
		fail_msg("%s is no integer", key);
	return json_integer_value(value);
}

TEST_WITH(test_healthy, setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 2, 4);
	struct report *report;
	char *text;
	json_t *root;

	assert_int_equal(script_write(&script), 0);
	report = read_day();
	assert_int_equal(report->headline.verdict, REPORT_HEALTHY);
	text = shown(render_text, report);
	assert_string_equal(text,
		"Healthy: no slowdowns, no hangs; 8 cards on 2 nodes watched from Fri 20 Nov 06:00 to Sat 21 "
		"Nov 06:00, in 1 job\n");
	free(text);
	text = shown(render_markdown, report);
	assert_int_equal(lines_of(text), 1);
	free(text);
	text = shown(render_html, report);
	has(text, "HEALTHY");
	has(text, "Nothing: every rank was watched");
	has_not(text, "<article");
	free(text);
	root = json_of(report);
	assert_int_equal(integer(root, "resultCode"), 200);
	assert_true(
		json_is_false(json_object_get(root, "compute")) && json_is_false(json_object_get(root, "is_anomaly")));
	assert_string_equal(json_string_value(json_object_get(root, "anomaly_type")), "normal");
	assert_int_equal(json_array_size(json_object_get(root, "abnormalDetail")), 0);
	json_decref(root);
	assert_true(fabs(report->job[0].median_ns - 60e9) < 1e9);
	report_free(report);
}

/* The rank's plot, before and while it was slow. */
static void check_plot(const struct report_finding *finding)
{
	const struct report_plot *plot = finding->plot;
	size_t last;

	assert_non_null(plot);
	last = plot->buckets - 1;
	assert_string_equal(plot->what, "forward");
	assert_int_equal(plot->peers, 15);
	assert_true(plot->own[0] < 1.1 * plot->middle[0]);
	assert_true(plot->own[last] > 1.6 * plot->middle[last]);
	assert_true(plot->low[last] <= plot->middle[last] && plot->middle[last] <= plot->high[last]);
}

static void check_slow_json(const struct report *report)
{
	json_t *root = json_of(report), *one = json_array_get(json_object_get(root, "abnormalDetail"), 0), *info;

	assert_int_equal(integer(root, "resultCode"), 201);
	assert_true(json_is_true(json_object_get(root, "compute")));
	assert_true(json_is_false(json_object_get(root, "network")) && json_is_false(json_object_get(root, "storage")));
	assert_string_equal(json_string_value(json_object_get(root, "errorMsg")), "");
	assert_int_equal(integer(root, "timestamp"), UNTIL / NSEC_PER_SEC);
	assert_int_equal(json_array_size(json_object_get(root, "abnormalDetail")), 1);
	assert_int_equal(json_array_size(json_object_get(root, "normalDetail")), 15);
	assert_string_equal(json_string_value(json_object_get(one, "objectId")), "10");
	assert_string_equal(json_string_value(json_object_get(one, "serverIp")), "node002");
	assert_string_equal(json_string_value(json_object_get(one, "deviceInfo")), "rank_10");
	assert_string_equal(json_string_value(json_object_get(one, "kpiId")), "forward");
	assert_string_equal(json_string_value(json_object_get(one, "methodType")), "SPACE");
	assert_true(json_array_size(json_object_get(one, "kpiData")) > 50);
	assert_int_equal(json_array_size(json_object_get(one, "relaIds")), 15);
	assert_int_equal(json_array_size(json_object_get(one, "omittedDevices")), 0);
	assert_true(json_is_true(json_object_get(root, "is_anomaly")));
	assert_int_equal(integer(root, "anomaly_count_times"), 1);
	assert_string_equal(json_string_value(json_object_get(root, "anomaly_type")), "failSlow");
	assert_int_equal(integer(root, "start_time"), (UNTIL - SCRIPT_DAY) / 1000000);
	info = json_array_get(json_object_get(root, "anomaly_info"), 0);
	assert_string_equal(json_string_value(json_object_get(info, "anomaly_time")), "2026-11-20 16:00:00");
	assert_string_equal(json_string_value(json_object_get(info, "anomaly_training_time")), "32400.000ms");
	assert_string_equal(json_string_value(json_object_get(info, "normal_training_time")), "18000.000ms");
	assert_true(fabs(json_real_value(json_object_get(info, "anomaly_degree")) - 0.24) < 1e-9);
	one = json_array_get(json_object_get(json_object_get(root, "ranktrace"), "worst_cards"), 0);
	assert_true(json_is_true(json_object_get(one, "replace")));
	assert_int_equal(integer(one, "slow_days"), 7);
	json_decref(root);
}

TEST_WITH(test_slow, setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 4, 4);
	double lost = 0.24 / 1.24 * 16 * 14;
	struct report *report;
	char *text;

	script_one_slow(&script, 2, 2, 0.24);
	assert_int_equal(script_write(&script), 0);
	report = read_day();
	assert_int_equal(report->headline.verdict, REPORT_SLOW);
	assert_int_equal(report->findings, 1);
	assert_true(fabs(report->cost_card_hours - lost) < 0.01 * lost);
	assert_true(fabs(report->card_hours - 16 * 24) < 1);
	assert_string_equal(report->headline.which, "card 2 of node002 (rank 10 of llama-70b)");
	assert_string_equal(report->headline.since, "Fri 20 Nov 16:00, for 14 h so far");
	assert_string_equal(report->headline.why, "slow card: forward 32.4 s, peers 18 s");
	assert_string_equal(report->headline.todo, "replace the card: slow on 7 of 10 days");
	assert_true(judge_card_is_chronic(report, &report->card[report->worst[0]]));
	check_plot(&report->finding[0]);
	check_slow_json(report);
	text = shown(render_text, report);
	has(text, "card 2 of node002 (rank 10 of llama-70b) is slow: slow card. Lost: 43.4 of 384 "
		  "card-hours (11 %)");
	free(text);
	text = shown(render_html, report);
	has(text, "<h1>card 2 of node002 (rank 10 of llama-70b) is slow</h1>");
	has(text, "replace the card");
	free(text);
	report_free(report);
}

/* Slow on many days and not on this one; and a day further back sees what was so then. */
TEST_WITH(test_past, setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 4);
	const char *dirs[] = {dir};
	struct report *report;

	script_one_slow(&script, 0, 2, 0.24);
	memmove(&script.finding[0], &script.finding[1], --script.findings * sizeof(script.finding[0]));
	assert_int_equal(script_write(&script), 0);
	report = read_day();
	assert_int_equal(report->headline.verdict, REPORT_HEALTHY);
	has(report->headline.line, "; slow on most previous days: card 2 of node000");
	report_free(report);
	report = read_of(dirs, 1, UNTIL - 2 * SCRIPT_DAY, UNTIL - SCRIPT_DAY, NULL);
	assert_int_equal(report->findings, 1);
	report_free(report);
	/* Half of it is before the report begins: half of what it cost is left. */
	report = read_of(dirs, 1, UNTIL - 31 * SCRIPT_HOUR, UNTIL - SCRIPT_DAY, NULL);
	assert_true(fabs(report->cost_card_hours - 0.24 / 1.24 * 4 * 2) < 0.01);
	report_free(report);
}

TEST_WITH(test_gaps, setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 2, 4);
	struct report *report;
	char *text;

	script.gap_node = 1;
	script.gap_since_ns = 8 * SCRIPT_HOUR;
	script.gap_until_ns = 10 * SCRIPT_HOUR;
	script.drops = 5417;
	assert_int_equal(script_write(&script), 0);
	report = read_day();
	assert_int_equal(report->headline.verdict, REPORT_HEALTHY);
	assert_int_equal(report->gaps, 1);
	assert_int_equal(report->gap[0].ranks, 4);
	assert_true(report->gap[0].until_ns - report->gap[0].since_ns > 118 * 60 * NSEC_PER_SEC);
	assert_true(report->gap[0].until_ns - report->gap[0].since_ns < 122 * 60 * NSEC_PER_SEC);
	text = shown(render_text, report);
	has(text, "; not watched: 4.1 % of the cards' time");
	has(text, "  node001, all of its 4 ranks: Fri 20 Nov 14:0");
	has(text, "  node000: 5,417 records lost by ring (full), first at Fri 20 Nov 07:00\n");
	free(text);
	text = shown(render_html, report);
	has(text, "class=\"u\"");
	has(text, "; not watched for 1 h 5");
	free(text);
	report_free(report);
}

TEST_WITH(test_nothing, setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 2);
	const char *dirs[] = {dir};
	struct report *report;
	json_t *root;
	char *text;

	assert_int_equal(script_write(&script), 0);
	report = read_of(dirs, 1, UNTIL - 40 * SCRIPT_DAY, UNTIL - 39 * SCRIPT_DAY, NULL);
	assert_int_equal(report->headline.verdict, REPORT_UNSEEN);
	text = shown(render_text, report);
	has(text, "Nothing was watched from");
	assert_int_equal(lines_of(text), 1);
	free(text);
	root = json_of(report);
	has(json_string_value(json_object_get(root, "errorMsg")), "Nothing was watched");
	json_decref(root);
	report_free(report);
	report = read_of(dirs, 1, UNTIL - SCRIPT_DAY, UNTIL, "another job");
	assert_int_equal(report->headline.verdict, REPORT_UNSEEN);
	report_free(report);
	report = read_of(dirs, 1, UNTIL - SCRIPT_DAY, UNTIL, "llama-70b");
	assert_int_equal(report->headline.verdict, REPORT_HEALTHY);
	report_free(report);
}

/* Short slow-downs are counted and not announced: one line, which says so. */
TEST_WITH(test_brief, setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 2);
	struct report *report;
	struct finding *f;
	char *text;

	for (uint64_t i = 1; i <= 3; i++) {
		f = script_slow(
			&script, FINDING_SLOW_RANK, CAUSE_PREEMPTION, 0, 1, i * SCRIPT_HOUR, 20 * SCRIPT_SECOND, 0.3);
		finding_add(f, "run_delay", "ns", 2, 1, NULL);
		f->severity = SEVERITY_INFO;
	}
	assert_int_equal(script_write(&script), 0);
	report = read_day();
	assert_int_equal(report->headline.verdict, REPORT_HEALTHY);
	has(report->headline.line, "Healthy: no lasting slowdowns, no hangs; ");
	has(report->headline.line, "; 3 short slowdowns");
	assert_int_equal(report->worsts, 0);
	assert_int_equal(report->brief_ranks, 1);
	assert_int_equal(report->brief[0].count, 3);
	assert_true(report->brief[0].lasted_ns == 60 * SCRIPT_SECOND);
	assert_true(fabs(report->cost_card_hours - 3 * 0.3 / 1.3 * 2 * 20 / 3600) < 1e-6);
	text = shown(render_html, report);
	has(text, "rank 1 of llama-70b: 3 short slow-downs, 1 min in all");
	free(text);
	report_free(report);
	/* Of three in a month, a rate by the day would be 0. */
	report = read_of((const char *[]){dir}, 1, UNTIL - 30 * SCRIPT_DAY, UNTIL, NULL);
	text = shown(render_html, report);
	has(text, "3 short slow-downs, 1 min in all");
	free(text);
	report_free(report);
}

/* A cause that is its activity is written once. */
TEST_WITH(test_why_once, setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 2);
	struct report *report;
	struct finding *f;
	char *text;

	f = script_slow(&script, FINDING_SLOW_RANK, CAUSE_PYTHON, 0, 1, SCRIPT_HOUR, SCRIPT_HOUR, 0.3);
	f->activity = ACTIVITY_OUTSIDE;
	assert_int_equal(script_write(&script), 0);
	report = read_day();
	text = shown(render_text, report);
	has(text, "Python outside all stages");
	assert_null(strstr(text, "stages: slow host"));
	free(text);
	report_free(report);
}

/* Jobs of one name are of two users: each has its own ranks and findings, and is shown with its user. */
TEST_WITH(test_users, setup, store_teardown)
{
	const uint64_t now_ns = realtime_ns();
	const char *dirs[] = {dir};
	struct store *store = open_store();
	struct report *report;
	json_t *root, *jobs;
	char *text;

	for (int64_t i = 0; i < 2; i++) {
		store_put_ranks(store, &(struct row_ranks){.rank = field_int(0),
					       .world_size = field_int(1),
					       .job = field_text("llama"),
					       .host = field_text("a"),
					       .card = field_text(i ? "1" : "0"),
					       .uid = field_int(64990 + i),
					       .ended = field_int(0),
					       .first_seen_ns = field_time(now_ns - 60 * NSEC_PER_SEC),
					       .instance = field_int(1 + i)});
		put_step(store, 1 + i, 1, now_ns - 30 * NSEC_PER_SEC);
	}
	store_put_findings(store, &(struct row_findings){.kind = field_text("hang"),
					  .cause = field_text("unknown"),
					  .state = field_text("open"),
					  .severity = field_text("critical"),
					  .tier = field_text("host"),
					  .job = field_text("llama"),
					  .rank = field_int(0),
					  .host = field_text("a"),
					  .since_ns = field_time(now_ns - 20 * NSEC_PER_SEC),
					  .evidence = field_text("[]"),
					  .sentence = field_text("rank 0 hangs"),
					  .uid = field_int(64991),
					  .finding = field_int(7)});
	assert_int_equal(store_flush(store, now_ns), 0);
	store_close(store);
	report = read_of(dirs, 1, now_ns - 120 * NSEC_PER_SEC, now_ns, NULL);
	assert_int_equal(report->jobs, 2);
	assert_int_equal(report->job[0].ranks, 1);
	assert_int_equal(report->findings, 1);
	assert_int_equal(report->job[report->finding[0].job].uid, 64991);
	assert_string_equal(report->card[report->finding[0].card].name, "1");
	has(report->headline.title, "llama (user 64991)");
	text = shown(render_text, report);
	has(text, "llama (user 64990)");
	free(text);
	root = json_of(report);
	jobs = json_object_get(json_object_get(root, "ranktrace"), "jobs");
	assert_int_equal(integer(json_array_get(jobs, 1), "uid"), 64991);
	json_decref(root);
	report_free(report);
}

/* A killed daemon left a finding open and ranks without an end: neither is current. */
TEST_WITH(test_stale, setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 2);
	const char *dirs[] = {dir};
	struct report *report;

	script_one_slow(&script, 0, 1, 0.3);
	assert_int_equal(script_write(&script), 0);
	report = read_of(dirs, 1, UNTIL + SCRIPT_HOUR, UNTIL + SCRIPT_DAY, NULL);
	assert_int_equal(report->headline.verdict, REPORT_UNSEEN);
	assert_int_equal(report->findings, 0);
	assert_int_equal(report->cards_here, 0);
	report_free(report);
	/* It fell silent in the middle of the report's time: since then nobody watched. */
	report = read_of(dirs, 1, UNTIL - 12 * SCRIPT_HOUR, UNTIL + 12 * SCRIPT_HOUR, NULL);
	assert_int_equal(report->headline.verdict, REPORT_SLOW);
	assert_int_equal(report->gaps, 1);
	assert_int_equal(report->gap[0].ranks, 2);
	assert_true(report->gap[0].until_ns - report->gap[0].since_ns > 11 * SCRIPT_HOUR);
	report_free(report);
}

static void check_hostile(const struct report *report)
{
	static const char *const bad[] = {"<script", "<img", "\033", "\xff", "onerror=x>", "<b>x"};
	char *text = shown(render_html, report);

	has(text, "&lt;script&gt;");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		has_not(text, bad[i]);
	free(text);
	text = shown(render_text, report);
	has_not(text, "\033");
	free(text);
	text = shown(render_markdown, report);
	has_not(text, "| evil |");
	has_not(text, "<script");
	free(text);
	json_decref(json_of(report));
}

/* Names come from jobs, and rows perhaps from an enemy. */
TEST_WITH(test_hostile, setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 2);
	struct finding *f;
	struct report *report;

	script.job = "<script>alert('\033[2J')</script>";
	script.host = "\"><img src=x onerror=x>\xff| evil |";
	f = script_slow(&script, FINDING_SLOW_RANK, CAUSE_COMPUTE, 0, 1, SCRIPT_HOUR, 0, 0.3);
	finding_add(f, "<b>x", "ns", NAN, INFINITY, "<img src=//x>");
	finding_add(f, "forward", "\xff\xff", 1e300, -1e300, "]]>");
	snprintf(f->sentence, sizeof(f->sentence), "<script>\xc3(\033</title>");
	snprintf(f->card, sizeof(f->card), "%s", "' onload='x");
	f->cost_card_hours = 1e300;
	f = script_slow(&script, FINDING_HANG, CAUSE_MISSING, 0, -1, 2 * SCRIPT_HOUR, 1, 0);
	f->until_ns = f->since_ns - 5;
	f->since_step = UINT64_MAX;
	f = script_slow(&script, FINDING_SLOW_COMMUNICATION, CAUSE_LINK, 0, 0, 3 * SCRIPT_HOUR, SCRIPT_HOUR, 0.1);
	snprintf(f->communicator, sizeof(f->communicator), "' OR 1=1 --");
	finding_add(f, "transfer", "ns", 1, 2, "");
	assert_int_equal(script_write(&script), 0);
	report = read_day();
	assert_int_equal(report->findings, 3);
	check_hostile(report);
	report_free(report);
}

/* Rows that no daemon writes. */
TEST_WITH(test_nonsense, setup, store_teardown)
{
	struct store *store = open_store();
	struct report *report;

	for (int64_t i = 0; i < 40; i++) {
		const struct row_ranks rank = {.rank = field_int(i * i * i * 100000 - 3),
			.world_size = field_int(i % 2 ? INT64_MAX : -7),
			.local_rank = field_int(-i),
			.pid = field_int(1),
			.start_time_ns = field_time(INT64_MIN),
			.first_seen_ns = field_time(i % 3 ? 0 : UNTIL - 5 + i),
			.last_seen_ns = field_time(i % 3 ? (int64_t)UNTIL - 20 + i : INT64_MAX),
			.ended = field_int(i % 2),
			.instance = field_int(i)};
		const struct row_steps step = {.rank = field_int(i),
			.step = field_int(-1),
			.start_ns = field_time(UNTIL - SCRIPT_DAY + (uint64_t)i),
			.duration_ns = field_duration(i % 2 ? INT64_MAX : -5),
			.instance = field_int(i)};
		const struct row_host_samples sample = {.rank = field_int(i),
			.start_ns = field_time(UNTIL - (uint64_t)i),
			.duration_ns = field_duration(i % 2 ? INT64_MAX : 0),
			.cpu_ns = field_duration(-1),
			.run_delay_ns = field_duration(INT64_MAX),
			.major_faults = field_int(-4),
			.instance = field_int(i)};

		store_put_ranks(store, &rank);
		store_put_steps(store, &step);
		store_put_host_samples(store, &sample);
	}
	store_close(store);
	report = read_day();
	free(shown(render_html, report));
	free(shown(render_text, report));
	json_decref(json_of(report));
	report_free(report);
}

/* Two attempts of two ranks: 30 steps and 50, of rank 1 one less in each. */
TEST_WITH(steps_of_all_attempts_count, setup, store_teardown)
{
	struct store *store = open_store();
	struct report *report;

	for (int64_t i = 0; i < 4; i++) {
		const uint64_t begin_ns = UNTIL - (i < 2 ? 2 : 1) * 600 * NSEC_PER_SEC;
		const struct row_ranks rank = {.rank = field_int(i % 2),
			.world_size = field_int(2),
			.job = field_text("again"),
			.pid = field_int(100 + i),
			.first_seen_ns = field_time(begin_ns),
			.last_seen_ns = field_time(begin_ns + 500 * NSEC_PER_SEC),
			.ended = field_int(1),
			.instance = field_int(i + 1)};

		store_put_ranks(store, &rank);
		for (int64_t n = i % 2; n < (i < 2 ? 30 : 50); n++) {
			const struct row_steps step = {.rank = field_int(i % 2),
				.step = field_int(n),
				.start_ns = field_time(begin_ns + (uint64_t)n * NSEC_PER_SEC),
				.duration_ns = field_duration(NSEC_PER_SEC),
				.instance = field_int(i + 1)};

			store_put_steps(store, &step);
		}
	}
	store_close(store);
	report = read_day();
	assert_int_equal(report->jobs, 1);
	assert_int_equal(report->job[0].ranks, 2);
	assert_int_equal(report->job[0].restarts, 2);
	assert_int_equal(report->job[0].steps, 80);
	report_free(report);
}

static void check_twelve(const struct report *report)
{
	size_t plots = 0;

	assert_int_equal(report->findings, 12);
	assert_int_equal(report->remarks, 1);
	assert_true(report->finding[11].remark);
	assert_int_equal(report->cards_here, 1024);
	assert_int_equal(report->nodes_here, 128);
	assert_int_equal(report->job[0].ranks, 1024);
	assert_string_equal(report->headline.which, "card 3 of node017 (rank 139 of llama-70b)");
	for (size_t i = 0; i < report->findings; i++)
		plots += report->finding[i].plot != NULL;
	assert_true(plots >= 9);
	for (size_t i = 1; i < 11; i++)
		assert_true(report->finding[i - 1].cost_card_hours >= report->finding[i].cost_card_hours);
}

/* A day of 1,024 ranks, in large steps so that it is made soon. */
TEST_WITH(test_twelve, setup, store_teardown)
{
	static const char *const parts[] = {"compute", "network", "storage"};
	struct script script = script_healthy(dir, UNTIL, 128, 8);
	struct report *report;
	json_t *root;
	char *text;

	script.step_ns = script.sample_ns = 450 * SCRIPT_SECOND;
	script_twelve(&script);
	assert_int_equal(script_write(&script), 0);
	report = read_day();
	check_twelve(report);
	text = shown(render_text, report);
	assert_true(lines_of(text) < 50);
	free(text);
	text = shown(render_html, report);
	assert_true(strlen(text) < 300000);
	has(text, "<article id=\"f12\">");
	free(text);
	root = json_of(report);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		assert_true(json_is_true(json_object_get(root, parts[i])));
	assert_int_equal(json_array_size(json_object_get(root, "abnormalDetail")), 11);
	assert_int_equal(
		json_array_size(json_object_get(json_array_get(json_object_get(root, "abnormalDetail"), 0), "relaIds")),
		16);
	json_decref(root);
	report_free(report);
}

TEST_MAIN(NULL, NULL)
