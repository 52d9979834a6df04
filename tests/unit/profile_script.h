/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job for the tests of profiles: ranks that make steps of pieces of code, in step with each other, and a sampler.
 * Each rank takes its own random time; who is early waits for the others in the backward pass or in an all-reduce.
 */
#ifndef RANKTRACE_TESTS_PROFILE_SCRIPT_H
#define RANKTRACE_TESTS_PROFILE_SCRIPT_H

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/fnv1a.h"
#include "analyzers/profile/profile.h"
#include "tests/test.h"

#define MS INT64_C(1000000)
#define SCRIPT_RANKS 4
#define SCRIPT_PIECES 32
#define SCRIPT_START_NS (INT64_C(1700000000) * 1000 * MS)

#define TORCH "/usr/lib/python3/dist-packages/torch/"
#define MAIN_AT(line) "python <module> (/job/train.py:120)\npython main (/job/train.py:" #line ")\n"

struct script_piece {
	const char *stage, *frames;
	double ms;
	bool off_cpu;
	const char *thread; /* another one than the main thread, beside the others; NULL: main */
};

#define ON(stage_of, ms_of, frames_of) \
	{ \
		.stage = (stage_of), .frames = (frames_of), .ms = (ms_of) \
	}
#define OFF(stage_of, ms_of, frames_of) \
	{ \
		.stage = (stage_of), .frames = (frames_of), .ms = (ms_of), .off_cpu = true \
	}
#define BESIDE(thread_of, stage_of, ms_of, frames_of) \
	{ \
		.stage = (stage_of), .frames = (frames_of), .ms = (ms_of), .thread = (thread_of) \
	}

/* What all ranks do. */
static const struct script_piece script_step[] = {
	ON("dataloader", 9,
		MAIN_AT(50) "python __next__ (" TORCH "utils/data/dataloader.py:630)\n"
			    "python collate (/job/data.py:20)"),
	ON("dataloader", 6,
		MAIN_AT(50) "python __next__ (" TORCH "utils/data/dataloader.py:634)\n"
			    "python fetch (" TORCH "utils/data/_utils/fetch.py:51)\n"
			    "python __getitem__ (/job/data.py:33)"),
	ON("forward", 30,
		MAIN_AT(54) "python forward (/job/gpt.py:40)\npython attention (/job/gpt.py:22)\n"
			    "native at::native::matmul (libtorch_cpu.so)"),
	ON("forward", 25,
		MAIN_AT(54) "python forward (/job/gpt.py:41)\npython mlp (/job/gpt.py:31)\n"
			    "python linear (" TORCH "nn/functional.py:114)"),
	ON("forward", 10, MAIN_AT(54) "python forward (/job/gpt.py:43)\npython norm (/job/gpt.py:35)"),
	ON("forward", 8,
		MAIN_AT(55) "python loss (/job/gpt.py:60)\npython cross_entropy (" TORCH "nn/functional.py:3026)"),
	ON("backward", 60,
		MAIN_AT(56) "python backward (" TORCH "_tensor.py:488)\n"
			    "python backward (" TORCH "autograd/__init__.py:197)"),
	ON("optimizer", 15,
		MAIN_AT(58) "python step (" TORCH "optim/adam.py:234)\npython adam (" TORCH "optim/adam.py:300)"),
	ON("", 2,
		MAIN_AT(59) "python log (/job/logger.py:12)\npython format "
			    "(/usr/lib/python3.11/logging/__init__.py:678)"),
};
static const struct script_piece script_wait[] = {
	OFF("backward", 0,
		MAIN_AT(56) "python backward (" TORCH "_tensor.py:488)\n"
			    "python backward (" TORCH "autograd/__init__.py:197)"),
	OFF("", 0, MAIN_AT(57) "python all_reduce (" TORCH "distributed/distributed_c10d.py:1700)\nkernel futex_wait"),
};

struct script;

/* Where it goes: a profile, or a store. */
struct script_sink {
	void (*sample)(struct script *s, const char *frames, const struct profile_sample *sample);
	void (*stage)(struct script *s, int rank, const char *stage, int64_t start_ns, int64_t duration_ns);
	void (*step)(struct script *s, int rank, unsigned step, int64_t start_ns, int64_t duration_ns);
};

struct script {
	const struct script_sink *sink; /* NULL: the profile */
	void *arg;
	struct profile *profile;
	int64_t number;	  /* of the profile, for the sink */
	int64_t start_ns; /* 0: SCRIPT_START_NS */
	uint64_t draw;
	unsigned steps;
	double hz;
	double jitter; /* of pieces, as a share */
	size_t wait;   /* of script_wait */
	double factor; /* of all pieces of the slow rank */
	bool stepless; /* steps are not known */
	int slow;
	struct script_piece fault[4]; /* of the slow rank, at the end of each step */
	size_t faults;
	size_t inflated;  /* number of a piece of script_step + 1, */
	double inflation; /* which takes so many times as long */
};

static inline double script_random(struct script *s)
{
	s->draw = s->draw * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(s->draw >> 11) / (double)(1ULL << 53);
}

static inline void script_profile_sample(struct script *s, const char *frames, const struct profile_sample *sample)
{
	assert_int_equal(profile_add_stack(s->profile, sample->stack, frames, 0), 0);
	assert_int_equal(profile_add_sample(s->profile, sample), 0);
}

static inline void script_profile_stage(
	struct script *s, int rank, const char *stage, int64_t start_ns, int64_t duration_ns)
{
	assert_int_equal(profile_add_stage(s->profile, rank, 100 + rank, stage, start_ns, duration_ns), 0);
}

static inline void script_profile_step(struct script *s, int rank, unsigned step, int64_t start_ns, int64_t duration_ns)
{
	assert_int_equal(profile_add_step(s->profile, rank, start_ns, duration_ns), 0);
}

static const struct script_sink script_profile = {script_profile_sample, script_profile_stage, script_profile_step};

/* Near 1; a tenth of the pieces is far above it. */
static inline double script_jitter(struct script *s)
{
	double r = 1 + s->jitter * (script_random(s) + script_random(s) + script_random(s) - 1.5);

	return script_random(s) < 0.02 ? 1.5 * r : r;
}

static inline void script_sample(
	struct script *s, int rank, const struct script_piece *piece, int64_t at_ns, int64_t weight_ns)
{
	int64_t id = (int64_t)fnv1a_text(FNV1A_START, piece->frames);
	struct profile_sample sample = {.rank = rank,
		.thread_id = piece->thread ? 200 + rank : 100 + rank,
		.thread_name = piece->thread ? piece->thread : "python3",
		.start_ns = at_ns,
		.duration_ns = weight_ns,
		.weight_ns = weight_ns,
		.stack = id,
		.main = !piece->thread,
		.off_cpu = piece->off_cpu};

	s->sink->sample(s, piece->frames, &sample);
}

/* Runs a piece from *now_ns on. */
static inline void script_run(
	struct script *s, int rank, const struct script_piece *piece, double ms, int64_t *now_ns, int64_t *tick_ns)
{
	int64_t end_ns = *now_ns + (int64_t)(ms * 1e6), period_ns = (int64_t)(1e9 / s->hz);
	int64_t tick = piece->thread ? *now_ns + (int64_t)(script_random(s) * (double)period_ns) : *tick_ns;

	if (piece->off_cpu) {
		if (end_ns - *now_ns >= MS)
			script_sample(s, rank, piece, *now_ns, end_ns - *now_ns);
	} else {
		/* The clock that samples counts time on the CPU. */
		for (; tick < end_ns; tick += period_ns)
			if (tick >= *now_ns)
				script_sample(s, rank, piece, tick, period_ns);
	}
	if (piece->thread)
		return;
	while (*tick_ns < end_ns)
		*tick_ns += period_ns;
	if (*piece->stage)
		s->sink->stage(s, rank, piece->stage, *now_ns, end_ns - *now_ns);
	*now_ns = end_ns;
}

static inline double script_piece_ms(struct script *s, int rank, size_t i)
{
	double ms = script_step[i].ms * script_jitter(s);

	if (rank == s->slow && s->inflated == i + 1)
		ms *= s->inflation;
	return rank == s->slow && s->factor > 0 ? ms * s->factor : ms;
}

static inline void script_make(struct script *s)
{
	int64_t now_ns[SCRIPT_RANKS], tick_ns[SCRIPT_RANKS];

	if (!s->sink) {
		s->sink = &script_profile;
		s->profile = profile_new();
		assert_non_null(s->profile);
	}
	for (int rank = 0; rank < SCRIPT_RANKS; rank++) {
		now_ns[rank] = s->start_ns ? s->start_ns : SCRIPT_START_NS;
		tick_ns[rank] = now_ns[rank] + (int64_t)(script_random(s) * 20e6);
	}
	for (unsigned step = 0; step < s->steps; step++) {
		int64_t start_ns = now_ns[0], latest_ns = 0;

		for (int rank = 0; rank < SCRIPT_RANKS; rank++) {
			for (size_t i = 0; i < sizeof(script_step) / sizeof(script_step[0]); i++)
				script_run(s, rank, &script_step[i], script_piece_ms(s, rank, i), &now_ns[rank],
					&tick_ns[rank]);
			for (size_t i = 0; i < s->faults && rank == s->slow; i++)
				script_run(s, rank, &s->fault[i], s->fault[i].ms * script_jitter(s), &now_ns[rank],
					&tick_ns[rank]);
			latest_ns = now_ns[rank] > latest_ns ? now_ns[rank] : latest_ns;
		}
		for (int rank = 0; rank < SCRIPT_RANKS; rank++) {
			script_run(s, rank, &script_wait[s->wait], (double)(latest_ns - now_ns[rank]) / 1e6 + 2,
				&now_ns[rank], &tick_ns[rank]);
			now_ns[rank] = latest_ns + 2 * MS;
			if (!s->stepless)
				s->sink->step(s, rank, step, start_ns, now_ns[rank] - start_ns);
		}
	}
}

#endif
