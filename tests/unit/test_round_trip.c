/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store, and the dump of it in sysTrace's form read back: the detectors say the same of both. Of what the form has no
 * place for (cards, members of groups, nanoseconds of stages, the end of the last step) nothing is asked.
 */
#include <math.h>

#include "analyzers/dump/dump_run.h"
#include "analyzers/analyze/analysis.h"
#include "tests/unit/dump_script.h"
#include "tests/unit/offline_script.h"

static char node[PATH_MAX], dumps[PATH_MAX];

static int setup(void **state)
{
	int r = store_setup(state);

	snprintf(node, sizeof(node), "%s/node-a", dir);
	snprintf(dumps, sizeof(dumps), "%s/dump", dir);
	return r;
}

static struct dump_options how_of(bool extend, uint64_t now_ns, uint64_t window_ns)
{
	return (struct dump_options){.state_dir = node,
		.dir = dumps,
		.kinds = (1U << DUMP_KIND_MAX) - 1,
		.extend = extend,
		.now_ns = now_ns,
		.window_ns = window_ns,
		.bytes_max = 1 << 30,
		.age_max_ns = 1000 * window_ns,
		.warning = warned};
}

static void judge(const char *systrace, struct analysis *ret, json_t **ret_rows)
{
	char *folders[] = {node};
	const struct findings_filter filter = {.since_ns = 0};
	const struct analysis_options how = {.folder = folders,
		.folders = systrace ? 0 : 1,
		.systrace = systrace,
		.until_ns = realtime_ns() + 3600 * NSEC_PER_SEC};

	assert_int_equal(analysis_run(&how, ret), 0);
	assert_false(ret->failed);
	*ret_rows = analysis_rows(ret, &filter);
	assert_non_null(*ret_rows);
	analysis_free(ret);
}

static const char *word(const json_t *rows, size_t i, const char *key)
{
	const char *text = json_string_value(json_object_get(json_array_get(rows, i), key));

	return text ? text : "";
}

static json_int_t number(const json_t *rows, size_t i, const char *key)
{
	return json_integer_value(json_object_get(json_array_get(rows, i), key));
}

/* Whom, why, since when, and how much. */
static void same_findings(const json_t *ours, const json_t *theirs)
{
	static const char *const words[] = {"kind", "cause", "state", "job", "host"};

	assert_int_equal(json_array_size(ours), json_array_size(theirs));
	for (size_t i = 0; i < json_array_size(ours); i++) {
		double slowdown = json_real_value(json_object_get(json_array_get(ours, i), "slowdown"));

		for (size_t j = 0; j < ARRAY_SIZE(words); j++)
			assert_string_equal(word(ours, i, words[j]), word(theirs, i, words[j]));
		assert_int_equal(number(ours, i, "rank"), number(theirs, i, "rank"));
		assert_int_equal(number(ours, i, "since_step"), number(theirs, i, "since_step"));
		assert_true(llabs(number(ours, i, "since_ns") - number(theirs, i, "since_ns")) < 1000000);
		assert_true(fabs(slowdown - json_real_value(json_object_get(json_array_get(theirs, i), "slowdown"))) <
			    0.02);
	}
}

/* The step that was not followed by another has no end in the dump. */
static void same(size_t findings)
{
	struct analysis ours, theirs;
	json_t *of_store, *of_dump;

	judge(NULL, &ours, &of_store);
	judge(dumps, &theirs, &of_dump);
	assert_int_equal(json_array_size(of_store), findings);
	same_findings(of_store, of_dump);
	assert_int_equal(ours.watched.ranks, OFF_RANKS);
	assert_int_equal(theirs.watched.ranks, OFF_RANKS);
	assert_int_equal(ours.align.frames, OFF_STEPS);
	assert_int_equal(theirs.align.frames, OFF_STEPS - 1);
	assert_int_equal(theirs.ops, off.ops ? OFF_STEPS * OFF_BUCKETS * OFF_RANKS : 0);
	assert_int_equal(theirs.coll_not_joined, 0);
	assert_int_equal(theirs.dropped, 0);
	assert_int_equal(theirs.left_out, 0);
	json_decref(of_store);
	json_decref(of_dump);
}

static void on_demand(bool ops, bool healthy)
{
	struct dump_options how = how_of(false, realtime_ns(), 3600 * NSEC_PER_SEC);

	off_make("job", ops, healthy);
	off_write("node-a", 0, OFF_RANKS - 1, 0);
	assert_true(dump_with(&how) > 0);
	same(healthy ? 0 : 1);
}

TEST_WITH(test_stages, setup, store_teardown)
{
	on_demand(false, false);
}

TEST_WITH(test_operations, setup, store_teardown)
{
	on_demand(true, false);
}

TEST_WITH(test_healthy, setup, store_teardown)
{
	on_demand(true, true);
}

/* The daemon's own folder, of which the files were moved away twice meanwhile: windows are one run again. */
TEST_WITH(test_windows, setup, store_teardown)
{
	uint64_t window_ns = 3600 * NSEC_PER_SEC, now_ns = realtime_ns() / window_ns * window_ns;
	struct dump_options how;
	long rows = 0;

	off_make("job", true, false);
	for (int part = 0; part < 3; part++) {
		off_write_part("node-a", 0, OFF_RANKS - 1, 0, off.events * (size_t)part / 3,
			off.events * (size_t)(part + 1) / 3);
		how = how_of(true, now_ns + (uint64_t)part * window_ns, window_ns);
		rows += dump_with(&how);
	}
	assert_true(rows > 0);
	same(1);
}

TEST_MAIN(NULL, NULL)
