/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same training with a data loader in the training process and with one of four worker processes (data/README.md):
 * the data loader must be named. The two runs are combined as two ranks of one job, and in sequence as one job that
 * became slow. Each has 12 steps; they recur by turns.
 */
#include "analyzers/judge/judge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"
#include "tests/traces/found.h"

#define STEPS 12
#define US 1000ULL

enum run { WORKERS_4, WORKERS_0, RUNS };
static const char *const run_names[RUNS] = {"workers_4", "workers_0"};

static struct frame_rank step_of[RUNS][STEPS];
static size_t steps[RUNS];

/* Without the waits that are added later. Where the short syncs lie is not known: in forward, as they are few. */
static void split(struct frame_rank *rank)
{
	uint64_t *ns = rank->activity_ns;

	assert_true(ns[ACTIVITY_SYNC] <= ns[ACTIVITY_FORWARD]);
	ns[ACTIVITY_FORWARD] -= ns[ACTIVITY_SYNC];
	ns[ACTIVITY_OUTSIDE] = rank->step_ns;
	for (int i = ACTIVITY_OUTSIDE + 1; i < ACTIVITY_MAX; i++) {
		assert_true(ns[i] <= ns[ACTIVITY_OUTSIDE]);
		ns[ACTIVITY_OUTSIDE] -= ns[i];
	}
}

static void read_line(const char *line)
{
	char run[32], trace[32];
	unsigned long long step, length, loader, forward, zero, backward, optimizer, sync;
	int fields = sscanf(line, "%31[^,],%31[^,],%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu", run, trace, &step, &length,
		&loader, &forward, &zero, &backward, &optimizer, &sync);

	if (fields != 10)
		return;
	for (size_t i = 0; i < RUNS; i++) {
		struct frame_rank *rank = &step_of[i][steps[i]];

		if (strcmp(run, run_names[i]) != 0)
			continue;
		assert_true(steps[i]++ < STEPS);
		*rank = (struct frame_rank){.here = true, .step_ns = length * US};
		rank->activity_ns[ACTIVITY_DATALOADER] = loader * US;
		rank->activity_ns[ACTIVITY_FORWARD] = forward * US;
		rank->activity_ns[ACTIVITY_ZERO_GRAD] = zero * US;
		rank->activity_ns[ACTIVITY_BACKWARD] = backward * US;
		rank->activity_ns[ACTIVITY_OPTIMIZER] = optimizer * US;
		rank->activity_ns[ACTIVITY_SYNC] = sync * US;
		split(rank);
		rank->host = frame_host_unknown();
	}
}

static int read_steps(void **state)
{
	FILE *file = fopen(KINETO_DATA "/steps.csv", "r");
	char line[256];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		read_line(line);
	fclose(file);
	assert_int_equal(steps[WORKERS_0], STEPS);
	assert_int_equal(steps[WORKERS_4], STEPS);
	return 0;
}

/* Without a card: from the start, stages alone do not distinguish a late host from one that a full device queue
 * hides. */
static struct frame_who who[2] = {
	{.rank = 0, .node = 0, .stage = FRAME_NONE}, {.rank = 1, .node = 0, .stage = FRAME_NONE}};
static struct frame_rank ranks[2];
static struct frame frame;

/* Step i of both, as under DistributedDataParallel: both leave backward together, the first one waits in it. Nothing
 * else is changed. */
static void both(size_t i, enum run first, enum run second, size_t shift)
{
	uint64_t longest;

	ranks[0] = step_of[first][i % STEPS];
	ranks[1] = step_of[second][(i + shift) % STEPS];
	longest = ranks[0].step_ns > ranks[1].step_ns ? ranks[0].step_ns : ranks[1].step_ns;
	for (size_t r = 0; r < 2; r++) {
		ranks[r].activity_ns[ACTIVITY_BACKWARD] += longest - ranks[r].step_ns;
		ranks[r].step_ns = longest;
	}
	frame = (struct frame){.step = i + 1,
		.class = FRAME_TRAIN,
		.tier = FRAME_TIER_STAGES,
		.world_size = 2,
		.cards = 2,
		.ranks = 2,
		.who = who,
		.rank = ranks};
}

#define ROUNDS 10 /* of all steps: 25 s */

/* Of two ranks, or of the first alone: `before` steps of the first run, then as many of the second. */
static void judged(size_t of, enum run before, enum run after, enum run peer)
{
	const struct judge_sink sink = {.finding = on_finding};
	struct judge_options options;
	uint64_t next_id = 1, now_ns = 0;
	struct judge *judge;

	judge_options_default(&options);
	judge = judge_new(&options, "job", &sink, &next_id);
	assert_non_null(judge);
	n_found = 0;
	for (size_t i = 0; i < 2 * ROUNDS * STEPS; i++) {
		both(i, i < ROUNDS * STEPS ? before : after, peer, 1);
		if (of == 1)
			ranks[0] = step_of[i < ROUNDS * STEPS ? before : after][i % STEPS];
		frame.ranks = frame.world_size = frame.cards = (uint32_t)of;
		now_ns += ranks[0].step_ns;
		for (size_t r = 0; r < of; r++)
			ranks[r].end_ns = now_ns;
		assert_int_equal(judge_frame(judge, &frame, NULL), 0);
	}
	judge_close(judge);
	judge_free(judge);
}

TEST(the_rank_and_its_data_loader_are_named)
{
	for (enum run first = WORKERS_4; first < RUNS; first++) {
		judged(2, first, first, first == WORKERS_4 ? WORKERS_0 : WORKERS_4);
		assert_int_equal(n_found, 1);
		print_message("%s\n", found[0].sentence);
		assert_int_equal(found[0].kind, FINDING_SLOW_RANK);
		assert_int_equal(found[0].rank, first == WORKERS_4);
		assert_int_equal(found[0].activity, ACTIVITY_DATALOADER);
		assert_string_equal(finding_cause_word(found[0].cause), "dataloader");
		assert_true(found[0].evidence[0].value > 40e6 && found[0].evidence[0].peers < 3e6);
	}
}

TEST(two_alike_are_no_case)
{
	for (enum run run = WORKERS_4; run < RUNS; run++) {
		judged(2, run, run, run);
		assert_int_equal(n_found, 0);
	}
}

TEST(the_rank_that_becomes_slow_is_named)
{
	judged(2, WORKERS_4, WORKERS_0, WORKERS_4);
	assert_int_equal(n_found, 1);
	assert_int_equal(found[0].rank, 0);
	assert_int_equal(found[0].activity, ACTIVITY_DATALOADER);
	assert_true(found[0].since_step > ROUNDS * STEPS - 10 && found[0].since_step <= ROUNDS * STEPS + 10);
}

/* One rank without peers: its data loading beside its own past. */
TEST(the_job_that_becomes_slow)
{
	judged(1, WORKERS_4, WORKERS_0, WORKERS_4);
	assert_int_equal(n_found, 1);
	print_message("%s\n", found[0].sentence);
	assert_int_equal(found[0].kind, FINDING_SLOW_JOB);
	assert_int_equal(found[0].activity, ACTIVITY_DATALOADER);
}

TEST_MAIN(read_steps, NULL)
