/* SPDX-License-Identifier: Apache-2.0 */
/* Similar jobs of one node that run side by side: none of them ends or hides another. And when they end. */
#include "analyzers/offline/merge.h"
#include "analyzers/offline/store_feed.h"
#include "tests/unit/offline_script.h"

#define S NSEC_PER_SEC
#define SAMPLE_NS (10 * S)
#define STEP_NS (500 * OFF_MS)
#define BEGIN_AGO_NS (900 * S)

static struct off_found found;
static struct store *store;
static uint64_t origin_ns;

/* All times from the origin on. */
struct run {
	int64_t instance; /* of its rank 0 */
	int world;
	uint64_t start_ns, steps_end_ns; /* steps are made until then */
	uint64_t end_ns;		 /* and it is watched until then */
	uint64_t ended_ns;		 /* its recorded end; 0: it has not ended */
	int stopped;			 /* whose process is stopped from the end of its steps on; -1: nobody's */
};

static void run_rank(const struct run *run, int rank)
{
	store_put_ranks(store, &(struct row_ranks){.rank = field_int(rank),
				       .world_size = field_int(run->world),
				       .host = field_text("node"),
				       .pid = field_int(100 + run->instance + rank),
				       .start_time_ns = field_time(origin_ns + run->start_ns),
				       .first_seen_ns = field_time(origin_ns + run->start_ns + OFF_MS),
				       .last_seen_ns = field_time(
					       origin_ns + (run->ended_ns ? run->ended_ns : run->start_ns + OFF_MS)),
				       .ended = field_int(run->ended_ns != 0),
				       .instance = field_int(run->instance + rank)});
}

static void run_sample(const struct run *run, int rank, uint64_t start_ns, uint64_t end_ns)
{
	bool stands = end_ns > run->steps_end_ns;
	store_put_host_samples(store, &(struct row_host_samples){.rank = field_int(rank),
					      .start_ns = field_time(origin_ns + start_ns),
					      .duration_ns = field_duration(end_ns - start_ns),
					      .cpu_ns = field_duration(stands ? 0 : S),
					      .state = field_text(stands && rank == run->stopped ? "T" : "S"),
					      .instance = field_int(run->instance + rank)});
	for (uint64_t ns = start_ns; ns < end_ns; ns += S)
		if (ns >= run->steps_end_ns + 3 * S)
			store_put_standings(store, &(struct row_standings){.rank = field_int(rank),
							   .start_ns = field_time(origin_ns + ns),
							   .duration_ns = field_duration(S),
							   .state = field_text(rank == run->stopped ? "T" : "S"),
							   .progress_ns = field_time(origin_ns + run->steps_end_ns),
							   .step_end_ns = field_time(origin_ns + run->steps_end_ns),
							   .steps = field_int(100),
							   .cpu_ns = field_duration(S),
							   .instance = field_int(run->instance + rank)});
}

static void run_step(const struct run *run, int rank, int64_t step, uint64_t start_ns)
{
	store_put_steps(store, &(struct row_steps){.rank = field_int(rank),
				       .step = field_int(step),
				       .start_ns = field_time(origin_ns + start_ns),
				       .duration_ns = field_duration(STEP_NS),
				       .kind = field_text("train"),
				       .instance = field_int(run->instance + rank)});
}

/* What of it ends in that time. */
static void run_part(const struct run *run, uint64_t from_ns, uint64_t to_ns)
{
	for (int rank = 0; rank < run->world; rank++) {
		int64_t step = 0;

		for (uint64_t ns = run->start_ns + S; ns + STEP_NS <= run->steps_end_ns; ns += STEP_NS, step++)
			if (ns + STEP_NS > from_ns && ns + STEP_NS <= to_ns)
				run_step(run, rank, step, ns);
		for (uint64_t ns = run->start_ns; ns + SAMPLE_NS <= run->end_ns; ns += SAMPLE_NS)
			if (ns + SAMPLE_NS > from_ns && ns + SAMPLE_NS <= to_ns)
				run_sample(run, rank, ns, ns + SAMPLE_NS);
	}
}

static void on_warning(void *arg, const char *sentence)
{
	fail_msg("%s", sentence);
}

static void judge(const struct run *run, size_t runs)
{
	const struct merge_options merging = {.warning = on_warning};
	const struct store_feed_options all = {.warning = on_warning};
	struct detect *detect = off_detect(&found);
	struct store_feed *feed = NULL;
	struct source source;
	char error[512], path[PATH_MAX];
	uint64_t end_ns;
	size_t failed;

	origin_ns = realtime_ns() - BEGIN_AGO_NS;
	store = off_store("node");
	for (size_t i = 0; i < runs; i++)
		for (int rank = 0; rank < run[i].world; rank++)
			run_rank(&run[i], rank);
	for (uint64_t ns = 0; ns < BEGIN_AGO_NS; ns += SAMPLE_NS)
		for (size_t i = 0; i < runs; i++)
			run_part(&run[i], ns, ns + SAMPLE_NS);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	store_close(store);
	snprintf(path, sizeof(path), "%s/node", dir);
	assert_int_equal(store_feed_open(path, &all, &feed, error, sizeof(error)), 0);
	source = (struct source){&store_feed_source, feed};
	assert_int_equal(merge_run(&source, 1, detect, &merging, &end_ns, &failed), 0);
	store_feed_close(feed);
	detect_free(detect);
}

/* The first one stops while the second one goes on. */
static void side_by_side(int world)
{
	const struct run run[] = {
		{.instance = 1, .world = world, .steps_end_ns = 400 * S, .end_ns = 500 * S, .stopped = 0},
		{.instance = 11,
			.world = world,
			.start_ns = 200 * S,
			.steps_end_ns = 600 * S,
			.end_ns = 600 * S,
			.stopped = -1},
	};
	const struct finding *hang;

	judge(run, 2);
	hang = off_only(&found, FINDING_HANG);
	assert_non_null(hang);
	assert_string_equal(finding_cause_word(hang->cause), finding_cause_word(CAUSE_STOPPED));
	assert_int_equal(hang->rank, 0);
	assert_true(hang->since_ns >= origin_ns + 399 * S && hang->since_ns <= origin_ns + 401 * S);
	assert_int_equal(hang->state, FINDING_OPEN);
}

TEST_WITH(single_processes, store_setup, store_teardown)
{
	side_by_side(1);
}

TEST_WITH(of_several_ranks, store_setup, store_teardown)
{
	side_by_side(2);
}

/* The second one begins while the last sample of the first one is being taken. */
TEST_WITH(begun_at_the_end, store_setup, store_teardown)
{
	const struct run run[] = {
		{.instance = 1, .world = 1, .steps_end_ns = 400 * S, .end_ns = 500 * S, .stopped = 0},
		{.instance = 11,
			.world = 1,
			.start_ns = 503 * S,
			.steps_end_ns = 508 * S,
			.end_ns = 508 * S,
			.stopped = -1},
	};
	const struct finding *hang;

	judge(run, 2);
	hang = off_only(&found, FINDING_HANG);
	assert_non_null(hang);
	assert_int_equal(hang->state, FINDING_OPEN);
}

/* The daemon was killed with the first one, and nobody saw its end. */
TEST_WITH(one_after_the_other, store_setup, store_teardown)
{
	const struct run run[] = {
		{.instance = 1, .world = 2, .steps_end_ns = 200 * S, .end_ns = 200 * S, .stopped = -1},
		{.instance = 11,
			.world = 2,
			.start_ns = 300 * S,
			.steps_end_ns = 600 * S,
			.end_ns = 700 * S,
			.stopped = 1},
	};
	const struct finding *hang;

	judge(run, 2);
	hang = off_only(&found, FINDING_HANG);
	assert_non_null(hang);
	assert_int_equal(hang->rank, 1);
}

/* The clock was set back by two minutes during the hang. */
TEST_WITH(ended_by_another_clock, store_setup, store_teardown)
{
	const struct run run = {
		.instance = 1,
		.world = 2,
		.steps_end_ns = 400 * S,
		.end_ns = 500 * S,
		.ended_ns = 380 * S,
		.stopped = 1,
	};
	const struct finding *hang;

	judge(&run, 1);
	hang = off_only(&found, FINDING_HANG);
	assert_non_null(hang);
	assert_int_equal(hang->rank, 1);
	assert_int_equal(hang->state, FINDING_CLOSED);
	assert_true(hang->until_ns >= origin_ns + 499 * S && hang->until_ns <= origin_ns + 505 * S);
}

TEST_MAIN(NULL, NULL)
