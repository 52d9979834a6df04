/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes are what a judge has learned, as a file in the state folder holds it, of two ranks. One that is taken
 * judges a job that is healthy, slow and healthy again: its findings' figures are finite, and what it has learned then,
 * if it has, is taken, too.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "analyzers/judge/judge.h"

#define RANKS 2
#define STEPS 120

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void on_finding(void *arg, const struct finding *finding)
{
	check(isfinite(finding->slowdown) && isfinite(finding->cost_card_hours) && finding->cost_card_hours >= 0);
	check(finding->confidence >= 0 && finding->confidence <= 1);
	for (size_t i = 0; i < finding->evidences; i++)
		check(isfinite(finding->evidence[i].value));
}

static void job_runs(struct judge *judge, const struct frame_who *who, uint64_t now_ns)
{
	struct frame_rank rank[RANKS];
	struct frame frame = {.class = FRAME_TRAIN,
		.tier = FRAME_TIER_STAGES,
		.world_size = RANKS,
		.cards = RANKS,
		.ranks = RANKS,
		.who = who,
		.rank = rank};

	for (frame.step = 1; frame.step <= STEPS; frame.step++) {
		uint64_t slow_ns = frame.step > STEPS / 3 && frame.step < 2 * STEPS / 3 ? 300000000 : 0;

		now_ns += 600000000 + slow_ns;
		for (size_t r = 0; r < RANKS; r++) {
			rank[r] = (struct frame_rank){.here = true,
				.step_ns = 600000000 + slow_ns,
				.end_ns = now_ns,
				.host = frame_host_unknown()};
			rank[r].activity_ns[ACTIVITY_DATALOADER] = r == 1 ? slow_ns : 0;
			rank[r].activity_ns[ACTIVITY_BACKWARD] = 600000000 + (r == 1 ? 0 : slow_ns);
		}
		check(judge_frame(judge, &frame, NULL) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct judge_sink sink = {.finding = on_finding};
	const struct frame_who who[RANKS] = {
		{.rank = 0, .pid = 1000, .host = "a"}, {.rank = 1, .pid = 1001, .host = "a"}};
	const struct frame first = {.ranks = RANKS, .who = who};
	json_t *learned = json_loadb((const char *)data, size, 0, NULL), *again;
	uint64_t next_id = 1, now_ns = 1000000000000;
	struct judge *judge, *next;
	struct judge_options options;

	judge_options_default(&options);
	judge = judge_new(&options, "job", &sink, &next_id);
	next = judge_new(&options, "job", &sink, &next_id);
	check(judge && next);
	if (judge_resume(judge, learned, &first, now_ns) == 0) {
		job_runs(judge, who, now_ns);
		again = judge_learned(judge);
		check(!again || judge_resume(next, again, &first, now_ns + 100000000000) == 0);
		json_decref(again);
	}
	judge_close(judge);
	judge_free(judge);
	judge_free(next);
	json_decref(learned);
	return 0;
}
