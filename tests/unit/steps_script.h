/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scripts of one-letter marks for the tests of analyzers/steps/steps.h, and what the analyzer reported for them. Upper
 * case begins, lower case ends, each mark one microsecond after the last, any other character lets a microsecond pass:
 *   L data loader  F DDP forward  Z zero_grad  B backward  O optimizer  P another optimizer  K checkpoint  G gc  S sync
 *   U user's "mine"
 */
#ifndef RANKTRACE_TESTS_STEPS_SCRIPT_H
#define RANKTRACE_TESTS_STEPS_SCRIPT_H

#include "analyzers/steps/steps.h"

#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

#define ROWS_MAX 40000
#define US 1000ULL

struct row {
	int64_t step;
	char stage[STEPS_NAME_BYTES], name[STEPS_NAME_BYTES];
	uint64_t start_ns, duration_ns;
	uint32_t thread_id, depth;
	bool is_step, unsplit;
};

static struct row rows[ROWS_MAX];
static size_t n_rows;
static struct steps *steps;
static uint64_t now_ns;

static inline void on_stage(void *arg, const struct steps_stage *stage)
{
	struct row *row = &rows[n_rows++];

	assert_ptr_equal(arg, rows);
	assert_true(n_rows < ROWS_MAX);
	*row = (struct row){.step = stage->step,
		.start_ns = stage->start_ns,
		.duration_ns = stage->duration_ns,
		.thread_id = stage->thread_id,
		.depth = stage->depth};
	strcpy(row->stage, stage->stage);
	strcpy(row->name, stage->name);
}

static inline void on_step(void *arg, const struct steps_step *step)
{
	struct row *row = &rows[n_rows++];

	assert_ptr_equal(arg, rows);
	assert_true(n_rows < ROWS_MAX);
	*row = (struct row){.step = step->step,
		.start_ns = step->start_ns,
		.duration_ns = step->duration_ns,
		.is_step = true,
		.unsplit = step->unsplit};
	strcpy(row->name, step->kind);
}

static inline void start(int64_t first, bool from_start)
{
	const struct steps_sink sink = {on_stage, on_step, rows};

	steps_free(steps);
	steps = steps_new(&sink, first, from_start);
	assert_non_null(steps);
	n_rows = 0;
	now_ns = 1000 * US;
}

static const struct letter {
	char letter;
	const char *stage, *name;
} letters[] = {
	{'L', NULL, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"},
	{'F', NULL, "DistributedDataParallel.forward"},
	{'Z', NULL, "Optimizer.zero_grad#SGD.zero_grad"},
	{'B', "backward", ""},
	{'O', NULL, "Optimizer.step#SGD.step"},
	{'P', NULL, "Optimizer.step#Adam.step"},
	{'K', "checkpoint", ""},
	{'G', "gc", ""},
	{'S', "sync", "cudaStreamSynchronize"},
	{'U', NULL, "mine"},
};

static inline void feed(uint32_t thread_id, enum steps_edge edge, const char *stage, const char *name)
{
	const struct steps_mark mark = {
		.time_ns = now_ns, .thread_id = thread_id, .edge = edge, .stage = stage, .name = name};

	steps_feed(steps, &mark);
}

static inline void play_on(uint32_t thread_id, const char *script)
{
	for (; *script; script++) {
		now_ns += US;
		for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
			if (*script == letters[i].letter)
				feed(thread_id, STEPS_BEGIN, letters[i].stage, letters[i].name);
			else if (*script == letters[i].letter + 'a' - 'A')
				feed(thread_id, STEPS_END, letters[i].stage, NULL);
		}
	}
}

static inline void play(const char *script)
{
	play_on(1, script);
}

static inline void repeat(const char *script, int times)
{
	for (int i = 0; i < times; i++)
		play(script);
}

static inline size_t count_steps(const char *kind)
{
	size_t n = 0;

	for (size_t i = 0; i < n_rows; i++)
		n += rows[i].is_step && (!kind || strcmp(rows[i].name, kind) == 0);
	return n;
}

static inline size_t count_stages(const char *stage, int64_t step)
{
	size_t n = 0;

	for (size_t i = 0; i < n_rows; i++)
		n += !rows[i].is_step && strcmp(rows[i].stage, stage) == 0 && rows[i].step == step;
	return n;
}

static inline const struct row *find(const char *stage, int64_t step)
{
	for (size_t i = 0; i < n_rows; i++) {
		if (stage ? !rows[i].is_step && strcmp(rows[i].stage, stage) == 0 && rows[i].step == step
			  : rows[i].is_step && rows[i].step == step)
			return &rows[i];
	}
	fail_msg("no %s of step %lld", stage ? stage : "step", (long long)step);
	return NULL;
}

static inline struct steps_counts counts(void)
{
	struct steps_counts ret;

	steps_counts(steps, &ret);
	return ret;
}

/* Steps rise by one, do not overlap; stages start within their step and come before it unless they end after it. */
static inline void check_invariants(int64_t first)
{
	uint64_t end_ns = 0;
	int64_t next = first;

	for (size_t i = 0; i < n_rows; i++) {
		if (!rows[i].is_step)
			continue;
		assert_int_equal(rows[i].step, next);
		assert_true(rows[i].start_ns >= end_ns);
		end_ns = rows[i].start_ns + rows[i].duration_ns;
		assert_true(end_ns >= rows[i].start_ns);
		next++;
	}
	assert_int_equal(steps_next(steps), next);
	for (size_t i = 0; i < n_rows; i++) {
		const struct row *step;

		if (rows[i].is_step || rows[i].step == STEPS_NONE || rows[i].step == next)
			continue;
		assert_in_range(rows[i].step, first, next);
		step = find(NULL, rows[i].step);
		assert_true(rows[i].start_ns >= step->start_ns);
		assert_true(rows[i].start_ns <= step->start_ns + step->duration_ns);
		if (rows[i].start_ns + rows[i].duration_ns < step->start_ns + step->duration_ns)
			assert_true(&rows[i] < step);
	}
}

static inline int done(void **state)
{
	steps = steps_free(steps);
	assert_null(steps_free(NULL));
	return 0;
}

#endif
