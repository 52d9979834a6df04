/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl findings: which findings of a store are shown, to whom, and how people write times and ranks. */
#include "analyzers/analyze/findings_rows.h"
#include "analyzers/cli/findings_text.h"
#include "analyzers/tool/tool.h"
#include "tests/unit/store_fixture.h"

#define HOUR (3600 * NSEC_PER_SEC)

static struct store *store;
static uint64_t now;

static int setup(void **state)
{
	if (store_setup(state) < 0)
		return -1;
	store = open_store();
	now = realtime_ns();
	return 0;
}

static int teardown(void **state)
{
	store_close(store);
	return store_teardown(state);
}

static void put(int64_t id, const char *state, int64_t rank, uint64_t since_ns, uint64_t until_ns, const char *others,
	const char *evidence, const char *sentence)
{
	store_put_findings(store, &(struct row_findings){
					  .kind = field_text("slow_rank"),
					  .cause = field_text("dataloader"),
					  .state = field_text(state),
					  .severity = field_text("warning"),
					  .confidence = field_real(0.75),
					  .tier = field_text("host"),
					  .job = field_text("llama"),
					  .host = field_text("node7"),
					  .rank = field_int_if(rank >= 0, rank),
					  .since_ns = field_time(since_ns),
					  .until_ns = field_time_if(until_ns, until_ns),
					  .cost_card_hours = field_real(1.5),
					  .others = field_text_if(others),
					  .evidence = field_text(evidence),
					  .sentence = field_text(sentence),
					  .uid = field_int(64999),
					  .finding = field_int(id),
				  });
}

static json_t *rows(const struct findings_filter *filter)
{
	struct reader *reader = open_reader();
	char error[512] = "";
	json_t *all;

	assert_int_equal(store_flush(store, now), 0);
	all = findings_rows(reader, filter, error, sizeof(error));
	if (!all)
		fail_msg("%s", error);
	reader_close(reader);
	return all;
}

/* The numbers of those that are shown, one digit each. */
static void shown(const struct findings_filter *filter, const char *expected)
{
	json_t *all = rows(filter);
	char got[32] = "";
	const json_t *row;
	size_t i;

	json_array_foreach(all, i, row) snprintf(got + strlen(got), sizeof(got) - strlen(got), "%d",
		(int)json_integer_value(json_object_get(row, "finding")));
	assert_string_equal(got, expected);
	json_decref(all);
}

TEST_WITH(test_which, setup, teardown)
{
	struct findings_filter filter = {.since_ns = now - 2 * HOUR};

	put(1, "open", 3, now - 9 * HOUR, 0, "", "[]", "old and still so");
	put(2, "closed", 4, now - 9 * HOUR, now - 8 * HOUR, "", "[]", "over long ago");
	put(3, "closed", 5, now - 3 * HOUR, now - HOUR, "", "[]", "over lately");
	put(4, "suspected", 3, now - HOUR, 0, "", "[]", "perhaps");
	put(5, "dropped", 3, now - HOUR, now - HOUR / 2, "", "[]", "perhaps not");
	put(6, "open", -1, now - HOUR / 4, 0, "7,10-12", "[]", "of several");
	shown(&filter, "136");
	filter.all = true;
	shown(&filter, "13456");
	filter.since_ns = 0;
	filter.all = false;
	shown(&filter, "1236");
	assert_int_equal(ranges_parse("3,11", &filter.ranks), 0);
	shown(&filter, "16");
	assert_int_equal(ranges_parse("8-9", &filter.ranks), 0);
	shown(&filter, "");
	/* A newer row of the same number is the one that counts. */
	put(1, "closed", 3, now - 9 * HOUR, now - 1, "", "[]", "over now");
	assert_int_equal(ranges_parse("3", &filter.ranks), 0);
	shown(&filter, "1");
}

static void shown_as_text(FILE *out, json_t *all, bool verbose)
{
	struct findings_text *text = findings_text_new(out, verbose);
	json_t *row;
	size_t i;

	assert_non_null(text);
	json_array_foreach(all, i, row) findings_text_add(text, row, now);
	findings_text_print(text);
	findings_text_free(text);
}

/* Evidence of older versions is shown by its name of today. */
TEST_WITH(test_alias, setup, teardown)
{
	struct findings_filter filter = {.since_ns = 0};
	json_t *all;

	put(1, "open", 3, now - HOUR, 0, "", "[{\"name\": \"hog\"}, {\"name\": \"run_delay\"}]", "x");
	all = rows(&filter);
	assert_string_equal(json_string_value(json_object_get(
				    json_array_get(json_object_get(json_array_get(all, 0), "evidence"), 0), "name")),
		"preemptor");
	assert_string_equal(json_string_value(json_object_get(
				    json_array_get(json_object_get(json_array_get(all, 0), "evidence"), 1), "name")),
		"run_delay");
	json_decref(all);
}

/* What a store holds goes to terminals and programs. */
TEST_WITH(test_hostile, setup, teardown)
{
	struct findings_filter filter = {.since_ns = 0};
	char *text = NULL, *dumped;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	json_t *all;

	put(1, "open", 3, now - HOUR, 0, "3-", "{not json", "esc \033[31m and \xff\xfe");
	put(2, "open", 3, now - HOUR, 0, "", "[1, null, {\"name\": 5, \"unit\": [], \"value\": \"x\"}]",
		"evidence of a kind");
	all = rows(&filter);
	assert_int_equal(json_array_size(all), 2);
	dumped = json_dumps(all, 0);
	assert_non_null(dumped);
	assert_null(strchr(dumped, '\033'));
	free(dumped);
	shown_as_text(out, all, true);
	findings_csv_header(out);
	findings_csv_row(out, json_array_get(all, 1));
	fclose(out);
	assert_null(strchr(text, '\033'));
	assert_non_null(strstr(text, "esc ?[31m and ??"));
	free(text);
	json_decref(all);
}

TEST_WITH(test_text, setup, teardown)
{
	struct findings_filter filter = {.since_ns = 0};
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	json_t *all;

	put(1, "open", 3, now - 90 * NSEC_PER_SEC, 0, "",
		"[{\"name\":\"dataloader\",\"unit\":\"ns\",\"value\":310000000,\"peers\":12000000,\"detail\":\"\"},"
		"{\"name\":\"state\",\"unit\":\"1\",\"value\":1,\"peers\":null,\"detail\":\"T\"}]",
		"rank 3 is slow");
	all = rows(&filter);
	shown_as_text(out, all, true);
	fclose(out);
	assert_non_null(strstr(text, "LASTS       STATE  SEVERITY  CARD-HOURS  USER   JOB    FINDING\n"));
	assert_non_null(strstr(text, "1 min 30 s  open   warning          1.5  64999  llama  rank 3 is slow\n"));
	assert_non_null(strstr(text, "dataloader  310 ms         12 ms"));
	assert_non_null(strstr(text, "what to do: check the storage"));
	assert_non_null(strstr(text, "\n    job llama, host node7\n"));
	free(text);
	json_decref(all);
}

/* A crash has no length. */
TEST_WITH(test_moment, setup, teardown)
{
	struct findings_filter filter = {.since_ns = 0};
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	json_t *all;

	put(1, "closed", 3, now - HOUR, now - HOUR, "", "[]", "ended with an error");
	all = rows(&filter);
	shown_as_text(out, all, false);
	fclose(out);
	assert_non_null(strstr(text, "  -      closed  warning"));
	free(text);
	json_decref(all);
}

/* Episodes of the same rank and activity are one line; short ones are counted. */
TEST_WITH(test_groups, setup, teardown)
{
	struct findings_filter filter = {.since_ns = 0};
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	struct findings_text *shown_text = findings_text_new(out, true);
	json_t *all;

	put(1, "closed", 3, now - HOUR, now - HOUR + 60 * NSEC_PER_SEC, "", "[]", "the first");
	put(2, "closed", 4, now - HOUR / 2, now - HOUR / 2 + 5 * NSEC_PER_SEC, "", "[]", "another rank");
	put(3, "open", 3, now - 30 * NSEC_PER_SEC, 0, "", "[]", "the second");
	put(4, "open", 3, now - 20 * NSEC_PER_SEC, 0, "", "[]", "another user's");
	all = rows(&filter);
	json_object_set_new(json_array_get(all, 3), "uid", json_integer(64998));
	json_object_set_new(json_array_get(all, 2), "cost_card_hours", json_real(2.5));
	json_object_set_new(json_array_get(all, 1), "severity", json_string("info"));
	assert_true(findings_text_add_groups(shown_text, all, now));
	findings_text_print(shown_text);
	findings_text_free(shown_text);
	fclose(out);
	assert_non_null(strstr(
		text, "1 min 30 s  open   warning            4  64999  llama  the second; recurred 1 time since "));
	assert_non_null(strstr(text, ", 1 min 30 s in all, 4.0 card-hours\n"));
	assert_null(strstr(text, "the first"));
	assert_null(strstr(text, "another rank"));
	assert_non_null(strstr(text, "64998  llama  another user's\n"));
	assert_non_null(strstr(text, "    episode 1: "));
	assert_non_null(strstr(text, "    episode 3: "));
	assert_non_null(strstr(text, "\nrank 4 of llama: 1 short slow-down, 5 s in all\n"));
	free(text);
	json_decref(all);
}

static void none(const struct findings_watched *watched, const char *expected)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	findings_text_none(out, watched, now - HOUR, now);
	fclose(out);
	if (!strstr(text, expected))
		fail_msg("\"%s\" is not in \"%s\"", expected, text);
	free(text);
}

TEST_WITH(test_none, setup, teardown)
{
	const struct row_host_samples row = {.rank = field_int(0),
		.start_ns = field_time(now - HOUR / 2),
		.duration_ns = field_duration(10 * NSEC_PER_SEC),
		.cpu_ns = field_duration(1),
		.major_faults = field_int(0),
		.resident_bytes = field_int(4096),
		.state = field_text("R"),
		.instance = field_int(1)};
	const struct findings_filter all = {.since_ns = now - HOUR}, late = {.since_ns = now - HOUR / 4};
	struct findings_filter some = all;
	struct findings_watched watched = {0};
	struct reader *reader;
	char error[512];

	none(&watched, "no rank was watched");
	store_put_host_samples(store, &row);
	assert_int_equal(store_flush(store, now), 0);
	reader = open_reader();
	assert_int_equal(findings_watched(reader, &all, &watched, error, sizeof(error)), 0);
	assert_int_equal(watched.ranks, 1);
	none(&watched, "1 rank was watched since");
	none(&watched, "the last one until");
	assert_int_equal(findings_watched(reader, &late, &watched, error, sizeof(error)), 0);
	assert_int_equal(watched.ranks, 0);
	/* Rank 0 was watched; nothing may be said of others. */
	assert_int_equal(ranges_parse("3,77-80", &some.ranks), 0);
	assert_int_equal(findings_watched(reader, &some, &watched, error, sizeof(error)), 0);
	none(&watched, "no findings of these ranks since");
	none(&watched, "none of them was watched");
	assert_int_equal(ranges_parse("77,0-2", &some.ranks), 0);
	assert_int_equal(findings_watched(reader, &some, &watched, error, sizeof(error)), 0);
	none(&watched, "no findings of these ranks: 1 rank was watched since");
	watched.only_them = false;
	none(&watched, "no findings of these ranks: 1 rank in all was watched since");
	some = (struct findings_filter){.since_ns = all.since_ns, .job = "another"};
	assert_int_equal(findings_watched(reader, &some, &watched, error, sizeof(error)), 0);
	assert_true(watched.chosen && watched.ranks == 0);
	reader_close(reader);
}

TEST(findings_of_a_job)
{
	const struct findings_filter any = {0}, llama = {.job = "llama"};
	json_t *row = json_pack("{s:s, s:i}", "job", "llama", "rank", 4), *node = json_pack("{s:n}", "job");

	assert_true(findings_row_is_wanted(&any, row) && findings_row_is_wanted(&any, node));
	assert_true(findings_row_is_wanted(&llama, row) && !findings_row_is_wanted(&llama, node));
	json_object_set_new(row, "job", json_string("llama2"));
	assert_false(findings_row_is_wanted(&llama, row));
	json_decref(row);
	json_decref(node);
}

TEST(test_words)
{
	struct ranges ranks;
	uint64_t ns, noon = 1795262400ULL * NSEC_PER_SEC;

	assert_int_equal(tool_since("10m", noon, &ns), 0);
	assert_true(noon - ns == 600 * NSEC_PER_SEC);
	assert_int_equal(tool_since("90", noon, &ns), 0);
	assert_true(noon - ns == 90 * NSEC_PER_SEC);
	assert_int_equal(tool_since("1.5h", noon, &ns), 0);
	assert_true(noon - ns == 5400 * NSEC_PER_SEC);
	assert_int_equal(tool_since("99999999d", noon, &ns), 0);
	assert_int_equal(ns, 0);
	setenv("TZ", "UTC", 1);
	tzset();
	assert_int_equal(tool_since("2026-11-21 12:30", noon, &ns), 0);
	assert_true(ns == 1795264200ULL * NSEC_PER_SEC);
	assert_int_equal(tool_since("2026-11-21", noon, &ns), 0);
	/* The last time that it was: today, or yesterday. */
	assert_int_equal(tool_since("11:59:30", noon, &ns), 0);
	assert_true(noon - ns == 30 * NSEC_PER_SEC);
	assert_int_equal(tool_since("12:00", noon, &ns), 0);
	assert_true(ns == noon);
	assert_int_equal(tool_since("12:01", noon, &ns), 0);
	assert_true(noon - ns == 86340 * NSEC_PER_SEC);
	for (const char *const *bad = (const char *const[]){"", "m", "-5m", "10x", "nan", "yesterday", "2026-13-01",
		     "10m ", "25:00", "12:60", "12:00:", "12:00x", NULL};
		*bad; bad++)
		assert_int_equal(tool_since(*bad, noon, &ns), -EINVAL);
	assert_int_equal(ranges_parse("0,3-7", &ranks), 0);
	assert_true(ranges_have(&ranks, 0) && ranges_have(&ranks, 7) && !ranges_have(&ranks, 2));
	for (const char *const *bad = (const char *const[]){"", ",", "3-", "-3", "7-3", "1,", "a", "1 ", "1000001",
		     "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", NULL};
		*bad; bad++)
		assert_int_equal(ranges_parse(*bad, &ranks), -EINVAL);
}

TEST_MAIN(NULL, NULL)
