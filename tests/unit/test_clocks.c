/* SPDX-License-Identifier: Apache-2.0 */
/* How far clocks are apart by steps alone, where a job ran more than once: runs of it are not taken for clocks. */
#define TEST_ALONE		      /* has a file of the analyzers within */
#include "analyzers/offline/clocks.c" /* NOLINT */
#include "tests/unit/offline_script.h"

#define STORES_MAX 8
#define S 1000000000LL
#define HOUR (3600 * S)

static struct clocks_store clocks[STORES_MAX];
static char path[STORES_MAX][PATH_MAX];
static size_t stores;
static uint64_t since_ns;

static int begin(void **state)
{
	stores = 0;
	since_ns = 0;
	off_make("job", false, true);
	return store_setup(state);
}

static const char *name_of(size_t i)
{
	static char name[16];

	snprintf(name, sizeof(name), "node-%zu", i);
	return name;
}

/* Of ranks first to last, by a clock that is that far ahead: the run that began then. */
static void add_run(size_t store, int first, int last, int64_t begin_ns, int64_t ahead_ns)
{
	off_write(name_of(store), first, last, begin_ns + ahead_ns);
	stores = store >= stores ? store + 1 : stores;
}

static void compare(void)
{
	for (size_t i = 0; i < stores; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/%s", dir, name_of(i));
		clocks[i] = (struct clocks_store){.path = path[i], .since_ns = since_ns};
	}
	assert_int_equal(clocks_compare(clocks, stores), 0);
}

static void assert_ahead(size_t store, int64_t ahead_ns)
{
	assert_true(llabs(clocks[store].offset_ns + ahead_ns) < S);
}

static void assert_together(void)
{
	compare();
	for (size_t i = 0; i < stores; i++)
		assert_int_equal(clocks[i].offset_ns, 0);
}

TEST_WITH(queued_again_on_other_nodes, begin, store_teardown)
{
	add_run(0, 0, 1, 0, 0);
	add_run(1, 2, 3, 0, 0);
	add_run(2, 0, 1, 2 * HOUR, 0);
	add_run(3, 2, 3, 2 * HOUR, 0);
	assert_together();
}

TEST_WITH(a_node_that_has_seen_one_run_of_two, begin, store_teardown)
{
	add_run(0, 0, 1, 0, 0);
	add_run(0, 0, 1, 2 * HOUR, 0);
	add_run(1, 2, 3, 2 * HOUR, 0);
	assert_together();
}

TEST_WITH(a_run_before_what_is_read, begin, store_teardown)
{
	add_run(2, 2, 3, 0, 0);
	add_run(0, 0, 1, 2 * HOUR, 0);
	add_run(1, 2, 3, 2 * HOUR, 100 * S);
	assert_together();
	since_ns = off.begin_ns + HOUR;
	compare();
	assert_ahead(0, 0);
	assert_ahead(1, 100 * S);
}

TEST_WITH(and_its_clock_is_ahead, begin, store_teardown)
{
	add_run(0, 0, 1, 0, 0);
	add_run(0, 0, 1, 2 * HOUR, 0);
	add_run(1, 2, 3, 2 * HOUR, 100 * S);
	compare();
	assert_ahead(0, 0);
	assert_ahead(1, 100 * S);
}

TEST_WITH(two_runs_and_a_clock_farther_ahead_than_they_are_apart, begin, store_teardown)
{
	for (int64_t run = 0; run < 2; run++) {
		add_run(0, 0, 1, run * 2 * HOUR, 0);
		add_run(1, 2, 3, run * 2 * HOUR, 3 * HOUR);
	}
	compare();
	assert_ahead(0, 0);
	assert_ahead(1, 3 * HOUR);
}

TEST_WITH(jobs_without_a_word, begin, store_teardown)
{
	off_make("", false, true);
	add_run(0, 0, 1, 0, 0);
	add_run(1, 2, 3, 2 * HOUR, 0);
	assert_together();
}

#define RUNS 300
#define STEPS_OF_RUN 100

/* A store keeps enough numbers of steps to be compared by, and of each the same ends as others do. */
TEST_WITH(more_runs_than_are_checked, begin, store_teardown)
{
	static struct clock_mark mark[STEPS_OF_RUN * RUNS];
	size_t count = 0;

	for (int64_t run = 0; run < RUNS; run++)
		for (int64_t step = 0; step < STEPS_OF_RUN; step++)
			mark[count++] = (struct clock_mark){.hash = (uint64_t)step, .end_ns = run * HOUR + step * S};
	count = clocks_sort_apart(mark, count);
	assert_int_equal(count, STEPS_OF_RUN * ENDS_MAX);
	assert_true(KEPT / ENDS_MAX >= ENOUGH);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(mark[i].hash, i / ENDS_MAX);
		assert_int_equal(mark[i].end_ns, (int64_t)(i % ENDS_MAX) * HOUR + (int64_t)(i / ENDS_MAX) * S);
	}
}

#define MANY 400

static struct clocks_store many[MANY];
static struct sample samples[MANY];

static void free_samples(void)
{
	for (size_t i = 0; i < MANY; i++)
		free(samples[i].mark);
	memset(samples, 0, sizeof(samples));
	memset(many, 0, sizeof(many));
}

/* Marks of its own, but for the last ones: they are those of a pair of stores, the second of which is an hour ahead. */
static void make_sample(size_t store)
{
	struct sample *sample = &samples[store];

	sample->marks = KEPT;
	sample->mark = calloc(KEPT, sizeof(*sample->mark));
	for (size_t i = 0; i < KEPT; i++) {
		bool common = i >= KEPT - ENOUGH;

		sample->mark[i] = (struct clock_mark){
			.hash = (i << 32) + (common ? store / 2 : store),
			.end_ns = HOUR + (int64_t)i * S + (int64_t)(store % 2) * HOUR,
		};
	}
}

TEST_WITH(many_stores_with_little_in_common, begin, store_teardown)
{
	for (size_t i = 0; i < MANY; i++)
		make_sample(i);
	assert_int_equal(clocks_place(many, samples, MANY), 0);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(many[i].offset_ns, i % 2 ? -HOUR : 0);
	free_samples();
}

#define COMMON 32

/* That store's next mark. */
static void mark_at(size_t store, uint64_t hash, int64_t end_ns)
{
	struct sample *sample = &samples[store];

	if (!sample->mark)
		sample->mark = calloc((size_t)2 * COMMON, sizeof(*sample->mark));
	sample->mark[sample->marks++] = (struct clock_mark){.hash = hash, .end_ns = end_ns};
}

/* The second one has nothing to do with the first one's run, but with the other run that the third one knows, too. */
TEST_WITH(a_run_that_is_aligned_later, begin, store_teardown)
{
	for (uint64_t i = 0; i < COMMON; i++) {
		int64_t end_ns = (int64_t)i * S;

		mark_at(0, i, end_ns + (i % 2 ? 21 : 1) * HOUR);
		mark_at(1, i, end_ns + 10 * HOUR + 100 * S);
		mark_at(2, i, end_ns + (i % 2 ? 10 : 1) * HOUR);
		mark_at(2, i, end_ns + (i % 2 ? 21 : 10) * HOUR);
	}
	assert_int_equal(clocks_place(many, samples, 3), 0);
	assert_int_equal(many[1].offset_ns, -100 * S);
	assert_int_equal(many[2].offset_ns, 0);
	free_samples();
}

/* Whatever else is common, too few marks or differences that do not agree give no offset. */
TEST_WITH(what_does_not_agree, begin, store_teardown)
{
	for (uint64_t i = 0; i < COMMON; i++) {
		mark_at(0, i, (int64_t)i * S);
		mark_at(1, i < COMMON - ENOUGH + 1 ? i + COMMON : i, (int64_t)i * S + HOUR);
		mark_at(2, i, (int64_t)(i * i) * 7 * S + HOUR);
	}
	assert_int_equal(clocks_place(many, samples, 3), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(many[i].offset_ns, 0);
	free_samples();
}

TEST_MAIN(NULL, NULL)
