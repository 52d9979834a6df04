/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl analyze: which stores a folder means, what becomes of those that cannot be read, and what is shown. */
#include "analyzers/analyze/analysis.h"
#include "analyzers/cli/findings_text.h"
#include "analyzers/store/stores.h"
#include "tests/unit/offline_script.h"

#include <math.h>

static char path_of[8][PATH_MAX];

/* A path below dir; each number has one. */
static char *below(int number, const char *name)
{
	snprintf(path_of[number], sizeof(path_of[number]), "%s/%s", dir, name);
	return path_of[number];
}

TEST_WITH(test_stores, store_setup, store_teardown)
{
	struct stores stores = {.count = 0};
	char error[512] = "";

	off_make("job", false, true);
	off_write("node-b", 2, 3, 0);
	off_write("node-a", 0, 1, 0);
	sh("mkdir '%s/empty'", dir);
	sh("cd '%s' && cp -r node-a/db renamed", dir);
	assert_int_equal(stores_add(&stores, below(0, "node-a"), error, sizeof(error)), 0);
	assert_int_equal(stores.count, 1);
	assert_false(stores.one[0].is_db);
	/* The same one, by its db. */
	assert_int_equal(stores_add(&stores, below(1, "node-a/db"), error, sizeof(error)), 0);
	assert_int_equal(stores.count, 1);
	/* And all that are in the folder. */
	assert_int_equal(stores_add(&stores, dir, error, sizeof(error)), 0);
	assert_int_equal(stores.count, 3);
	assert_string_equal(stores.one[1].path, below(2, "node-b"));
	assert_string_equal(stores.one[2].path, below(3, "renamed"));
	assert_true(stores.one[2].is_db);
	assert_int_equal(stores_add(&stores, below(4, "empty"), error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "/empty is no store of ranktrace"));
	assert_int_equal(stores_add(&stores, below(4, "nowhere"), error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "cannot read"));
	assert_int_equal(stores_add(&stores, "/dev/null", error, sizeof(error)), -ENOTDIR);
	assert_int_equal(stores.count, 3);
	stores_free(&stores);
}

static json_t *rows_of_run(const struct analysis_options *how, struct analysis *analysis, int status)
{
	const struct findings_filter filter = {.since_ns = how->since_ns};
	json_t *rows;

	assert_int_equal(analysis_run(how, analysis), status);
	rows = analysis_rows(analysis, &filter);
	assert_non_null(rows);
	analysis_free(analysis);
	return rows;
}

static struct analysis_options of_folders(char *const *folders, size_t count)
{
	return (struct analysis_options){
		.folder = folders, .folders = count, .until_ns = realtime_ns() + 3600 * NSEC_PER_SEC};
}

/* What is shown is what the view of findings shows of the same. */
TEST_WITH(test_rows, store_setup, store_teardown)
{
	const struct schema_table *table = &schema_tables[TABLE_FINDINGS];
	char *folders[1] = {NULL};
	struct analysis_options how = of_folders(folders, 1);
	struct analysis analysis;
	const char *name;
	json_t *rows, *row, *value;
	size_t i = 0;

	off_make("job", true, false);
	off_write("node-a", 0, OFF_RANKS - 1, 0);
	folders[0] = below(0, "node-a");
	rows = rows_of_run(&how, &analysis, 0);
	assert_false(analysis.failed);
	assert_int_equal(analysis.sources, 1);
	assert_int_equal(analysis.watched.ranks, OFF_RANKS);
	assert_int_equal(analysis.rows, OFF_EVENTS);
	assert_int_equal(analysis.align.frames, OFF_STEPS);
	assert_int_equal(json_array_size(rows), 1);
	row = json_array_get(rows, 0);
	json_object_foreach(row, name, value) assert_string_equal(name, table->columns[i++].name);
	assert_int_equal(i, schema_columns(table));
	assert_string_equal(json_string_value(json_object_get(row, "kind")), "slow_rank");
	assert_string_equal(json_string_value(json_object_get(row, "cause")), "dataloader");
	assert_string_equal(json_string_value(json_object_get(row, "activity")), "dataloader");
	assert_string_equal(json_string_value(json_object_get(row, "severity")), "warning");
	assert_string_equal(json_string_value(json_object_get(row, "host")), "node-a");
	assert_string_equal(json_string_value(json_object_get(row, "state")), "open");
	assert_int_equal(json_integer_value(json_object_get(row, "rank")), OFF_SLOW);
	assert_true(
		json_is_null(json_object_get(row, "until_ns")) && json_is_null(json_object_get(row, "communicator")));
	assert_true(json_array_size(json_object_get(row, "evidence")) > 0);
	json_decref(rows);
}

static void put_stored(struct store *store, int64_t id, const char *kind, const char *job, uint64_t since_ns)
{
	store_put_findings(store, &(struct row_findings){
					  .kind = field_text(kind),
					  .cause = field_text("unknown"),
					  .state = field_text("closed"),
					  .severity = field_text("critical"),
					  .tier = field_text("host"),
					  .job = field_text(job),
					  .since_ns = field_time(since_ns),
					  .evidence = field_text("[]"),
					  .sentence = field_text("stored"),
					  .finding = field_int(id),
				  });
}

/* Hangs of a store without standings are those that its daemon found; what else it found is judged again. */
TEST_WITH(test_stored_hangs, store_setup, store_teardown)
{
	char *folders[1] = {NULL};
	struct analysis_options how = of_folders(folders, 1);
	struct analysis analysis;
	struct store *store;
	uint64_t now_ns = realtime_ns();
	json_t *rows;

	off_make("job", true, false);
	off_write("node-a", 0, OFF_RANKS - 1, 0);
	store = off_store("node-a");
	put_stored(store, 1, "hang", "job", now_ns);
	put_stored(store, 2, "slow_rank", "job", now_ns);
	put_stored(store, 3, "mismatch", "job", now_ns - 1);
	put_stored(store, 4, "hang", "another", now_ns);
	assert_int_equal(store_flush(store, now_ns), 0);
	store_close(store);
	folders[0] = below(0, "node-a");
	how.job = "job";
	rows = rows_of_run(&how, &analysis, 0);
	assert_int_equal(json_array_size(rows), 3);
	assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "kind")), "slow_rank");
	assert_string_not_equal(json_string_value(json_object_get(json_array_get(rows, 0), "sentence")), "stored");
	assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 1), "kind")), "mismatch");
	assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 2), "kind")), "hang");
	json_decref(rows);
}

/* Of three nodes one is not there, one is damaged and one was written by a newer version: the fourth is judged. */
TEST_WITH(test_bad, store_setup, store_teardown)
{
	char *folders[4] = {NULL};
	struct analysis_options how = of_folders(folders, 4);
	struct analysis analysis;
	json_t *rows;

	off_make("job", false, false);
	off_write("good", 0, OFF_RANKS - 1, 0);
	off_write("damaged", 0, OFF_RANKS - 1, 0);
	off_write("newer", 0, OFF_RANKS - 1, 0);
	sh("for f in '%s'/damaged/db/*.db; do head -c 100 \"$f\" >\"$f.x\"; head -c 20000 /dev/zero >>\"$f.x\"; mv "
	   "\"$f.x\" \"$f\"; done",
		dir);
	sh("for f in '%s'/newer/db/*.db; do printf '\\0\\0\\0\\143' | dd of=\"$f\" bs=1 seek=60 conv=notrunc "
	   "status=none; done",
		dir);
	folders[0] = below(0, "nowhere");
	folders[1] = below(1, "damaged");
	folders[2] = below(2, "newer");
	folders[3] = below(3, "good");
	rows = rows_of_run(&how, &analysis, 0);
	assert_true(analysis.failed);
	assert_int_equal(analysis.watched.ranks, OFF_RANKS);
	assert_int_equal(json_array_size(rows), 1);
	json_decref(rows);
	/* Only those that are not there. */
	how.folders = 1;
	rows = rows_of_run(&how, &analysis, 1);
	assert_int_equal(json_array_size(rows), 0);
	json_decref(rows);
}

TEST_WITH(test_range, store_setup, store_teardown)
{
	char *folders[1] = {NULL}, *text = NULL;
	struct analysis_options how = of_folders(folders, 1);
	struct analysis analysis;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	off_make("job", true, false);
	off_write("node-a", 0, OFF_RANKS - 1, 0);
	folders[0] = below(0, "node-a");
	how.until_ns = off.begin_ns + 5 * NSEC_PER_SEC; /* before the first step */
	json_decref(rows_of_run(&how, &analysis, 0));
	assert_int_equal(analysis.rows, 0);
	findings_text_none(out, &analysis.watched, 0, realtime_ns());
	fclose(out);
	assert_string_equal(text, "no findings, and no rank was watched\n");
	free(text);
	/* From after OFF_FROM on: what is slow all the time is slow beside its peers. */
	how.until_ns = realtime_ns() + NSEC_PER_SEC;
	how.since_ns = off.event[off.events * 3 / 5].end_ns;
	{
		json_t *rows = rows_of_run(&how, &analysis, 0);

		assert_true(analysis.rows > 0 && analysis.rows < OFF_EVENTS);
		assert_int_equal(json_array_size(rows), 1);
		assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 0), "rank")), OFF_SLOW);
		json_decref(rows);
	}
	how.job = "another";
	json_decref(rows_of_run(&how, &analysis, 0));
	assert_int_equal(analysis.rows, 0);
}

/* A newer update replaces the previous one; bounds hold; texts are escaped. */
TEST(test_made)
{
	struct findings_filter filter = {.since_ns = 0};
	struct findings_made *made = findings_made_new();
	struct finding f = {.id = 2,
		.state = FINDING_SUSPECTED,
		.rank = 1,
		.since_ns = 20,
		.slowdown = NAN,
		.cost_card_hours = INFINITY};
	json_t *rows;

	findings_made_publish(made, &f);
	f.id = 1;
	f.since_ns = 30;
	f.state = FINDING_OPEN;
	snprintf(f.sentence, sizeof(f.sentence), "esc \033[31m and \xff");
	findings_made_publish(made, &f);
	rows = findings_made_rows(made, &filter);
	assert_int_equal(json_array_size(rows), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "sentence")), "esc ?[31m and ?");
	assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "cost_card_hours")));
	json_decref(rows);
	f.id = 2;
	f.state = FINDING_CLOSED;
	f.since_ns = 20;
	f.until_ns = 40;
	findings_made_publish(made, &f);
	rows = findings_made_rows(made, &filter);
	assert_int_equal(json_array_size(rows), 2);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 0), "finding")), 2);
	json_decref(rows);
	filter.since_ns = 41; /* what was over by then is not shown */
	rows = findings_made_rows(made, &filter);
	assert_int_equal(json_array_size(rows), 1);
	json_decref(rows);
	for (f.id = 3; f.id < FINDINGS_MADE_MAX + 8; f.id++)
		findings_made_publish(made, &f);
	assert_int_equal(findings_made_left_out(made), 7);
	findings_made_free(made);
}

TEST_MAIN(NULL, NULL)
