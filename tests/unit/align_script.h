/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of up to 8 ranks for the tests of analyzers/align/align.h, and copies of the frames that came of it. Times
 * in ms where not said otherwise.
 */
#ifndef RANKTRACE_TESTS_ALIGN_SCRIPT_H
#define RANKTRACE_TESTS_ALIGN_SCRIPT_H

#include "analyzers/align/align.h"
#include "analyzers/steps/steps.h"
#include "tests/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ULL
#define RANKS 8
#define FRAMES_MAX 4096
#define COLL_MAX 160

struct seen {
	uint32_t job;
	struct frame frame;
	struct frame_rank rank[RANKS];
	struct frame_who who[RANKS];
	size_t here;
	struct frame_op op[COLL_MAX];
	struct frame_group group[COLL_MAX];
};

static struct seen *seen;
static size_t n_seen;
static struct align *align;
static int process[RANKS];
static uint64_t start_ns = 1000000 * MS;

static inline void on_frame(void *arg, uint32_t job, const struct frame *frame)
{
	struct seen *one = &seen[n_seen++];

	assert_null(arg);
	assert_true(n_seen < FRAMES_MAX);
	*one = (struct seen){.job = job, .frame = *frame};
	assert_true(frame->ranks <= RANKS);
	assert_true(frame->ops <= COLL_MAX && frame->groups <= COLL_MAX);
	memcpy(one->rank, frame->rank, frame->ranks * sizeof(*frame->rank));
	memcpy(one->who, frame->who, frame->ranks * sizeof(*frame->who));
	for (size_t i = 0; i < frame->ops; i++) {
		one->op[i] = frame->op[i];
		assert_true(frame->op[i].group < frame->groups && frame->op[i].rank < frame->ranks);
		assert_true(frame->rank[frame->op[i].rank].here);
	}
	for (size_t i = 0; i < frame->groups; i++) {
		one->group[i] = frame->group[i];
		assert_true(frame->group[i].comm < frame->comms);
	}
	for (size_t i = 0; i < frame->ranks; i++)
		one->here += frame->rank[i].here;
	for (size_t i = 0; i + 1 < n_seen; i++) { /* numbers never go back */
		if (seen[i].job == job)
			assert_true(seen[i].frame.step < frame->step);
	}
}

static inline void begin(void)
{
	align_free(align);
	align = align_new(&(struct align_sink){.frame = on_frame});
	assert_non_null(align);
	if (!seen)
		seen = calloc(FRAMES_MAX, sizeof(*seen));
	assert_non_null(seen);
	n_seen = 0;
}

static inline int rank_of(const char *job, int32_t rank, uint32_t world, const char *host, bool from_start)
{
	return align_rank_new(align, &(struct align_rank){.job = job,
					     .rank = rank,
					     .world_size = world,
					     .host = host,
					     .card = "",
					     .start_ns = start_ns,
					     .uid = ALIGN_UID_UNKNOWN,
					     .from_start = from_start});
}

static inline void begin_job(int ranks, bool from_start)
{
	begin();
	for (int i = 0; i < ranks; i++) {
		process[i] = rank_of("job", i, (uint32_t)ranks, "node", from_start);
		assert_true(process[i] >= 0);
	}
}

static inline void step_at(int rank, int64_t step, uint64_t from, uint64_t length)
{
	align_step(align, process[rank],
		&(struct align_step){.step = step, .start_ns = start_ns + from * MS, .duration_ns = length * MS});
}

static inline void stage_at(int rank, int64_t step, enum stage_kind kind, uint64_t from, uint64_t length)
{
	align_stage(align, process[rank],
		&(struct align_stage){.step = step,
			.kind = kind,
			.start_ns = start_ns + from * MS,
			.duration_ns = length * MS,
			.thread_id = 1});
}

static inline void op_on(int rank, const char *communicator, uint64_t seq, int64_t step, uint64_t from, uint64_t length,
	enum frame_tier tier)
{
	align_op(align, process[rank],
		&(struct align_op){.communicator = communicator,
			.seq = seq,
			.op = "AllReduce",
			.step = step,
			.start_ns = start_ns + from * MS,
			.duration_ns = length * MS,
			.bytes = 4096,
			.peer = -1,
			.tier = tier});
}

static inline void op_at(int rank, uint64_t seq, int64_t step, uint64_t from, uint64_t length)
{
	op_on(rank, "00000000000000aa", seq, step, from, length, FRAME_TIER_HOST);
}

static inline void at(uint64_t now)
{
	align_advance(align, start_ns + now * MS);
}

/* Steps of 100 ms, numbered and ending alike. */
static inline void steps_alike(int ranks, int64_t first, int64_t last)
{
	for (int64_t step = first; step <= last; step++) {
		for (int i = 0; i < ranks; i++)
			step_at(i, step, (uint64_t)(step - 1) * 100, 100);
		at((uint64_t)step * 100);
	}
}

static inline struct align_counts counts(void)
{
	struct align_counts ret;

	align_counts(align, &ret);
	return ret;
}

static inline int done(void **state)
{
	align = align_free(align);
	assert_null(align_free(NULL));
	free(seen);
	seen = NULL;
	return 0;
}

/* Two ranks in steps of 100 ms, from 1. */
#define NTH(step) ((uint64_t)((step)-1))

static inline void both_step(int64_t step)
{
	step_at(0, step, NTH(step) * 100, 100);
	step_at(1, step, NTH(step) * 100, 100);
}

static inline void both_ops(int64_t step, enum frame_tier tier)
{
	for (int i = 0; i < 2; i++) {
		op_on(i, "00000000000000aa", NTH(step) * 2 + 1, step, NTH(step) * 100 + 40, 10, tier);
		op_on(i, "00000000000000aa", NTH(step) * 2 + 2, step, NTH(step) * 100 + 60, 10, tier);
	}
}

#endif
