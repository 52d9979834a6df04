/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of profile/.
 *
 *  profile.c        what was fed, interned
 *  profile_parts.c  steps and stages: which part of its rank's time a sample is in
 *  profile_fold.c   equal stacks as one
 *  profile_diff.c   comparison with peers
 */
#ifndef RANKTRACE_PROFILE_PROFILE_INTERNAL_H
#define RANKTRACE_PROFILE_PROFILE_INTERNAL_H

#include "analyzers/profile/profile.h"

#define PROFILE_TEXTS_MAX 262144	     /* functions, files and their lines */
#define PROFILE_TEXT_BYTES_MAX (256UL << 20) /* of all of them */

/* Numbers of things by their hash: open addressing, 0 is an empty slot. */
struct profile_index {
	uint32_t *slot; /* number + 1 */
	size_t slots, used;
};

struct profile_function {
	const char *kind, *name, *file;
	bool by_line; /* lambdas and comprehensions share a name: each line is a function of its own */
	uint32_t line;
};

struct profile_line {
	struct stack_frame frame;
	uint32_t function;
};

struct profile_stack {
	int64_t id;
	uint32_t *line; /* outermost first */
	uint32_t lines;
	unsigned cut; /* PROFILE_CUT_* */
	bool python;
	bool communicates; /* its innermost Python frame, or a native one within it, is communication */
	bool backward;	   /* its innermost Python frame waits for the backward pass */
};

struct profile_step {
	int64_t start_ns, end_ns;
};

struct profile_stage {
	int64_t start_ns, end_ns, thread_id;
	const char *name;
};

struct profile_taken {
	int64_t start_ns, duration_ns, weight_ns; /* on the CPU it lasts 1 ns */
	uint32_t stack;
	uint32_t thread; /* of its rank */
	bool off_cpu;
};

struct profile_thread {
	int64_t thread_id;
	const char *name;
	bool main;
};

struct profile_rank {
	int64_t rank;
	struct profile_step *step;
	size_t steps, steps_capacity;
	struct profile_stage *stage;
	size_t stages, stages_capacity;
	struct profile_taken *sample;
	size_t samples, samples_capacity;
	struct profile_thread *thread;
	size_t threads, threads_capacity;
	int64_t step_thread; /* makes the steps; -1: unknown, so the main thread is taken */
	bool sorted;
};

struct profile {
	struct profile_rank *rank;
	size_t ranks, ranks_capacity;
	struct profile_stack *stack;
	size_t stacks, stacks_capacity;
	struct profile_function *function;
	size_t functions, functions_capacity;
	struct profile_line *line;
	size_t lines, lines_capacity;
	char **text;
	size_t texts, texts_capacity, text_bytes;
	struct profile_index stack_index, function_index, line_index, text_index;
	struct profile_totals totals;
};

/* The slot of the thing with that hash for which same() is true, or the free one for a new thing, whose number + 1 the
 * caller stores and counts in `used`. NULL: out of memory. */
uint32_t *profile_index_find(struct profile_index *index, uint64_t hash,
	bool (*same)(const struct profile *profile, uint32_t number, const void *key), const struct profile *profile,
	const void *key);

/* NULL: not fed. */
struct profile_rank *profile_find_rank(struct profile *profile, int64_t rank);

/* Sorts steps, stages and samples; the others need it. */
void profile_parts_sort(struct profile_rank *rank);
/* The innermost stage at that time; NULL: none. */
const struct profile_stage *profile_parts_stage(const struct profile_rank *rank, int64_t time_ns);
/* The thread that makes the steps. */
bool profile_parts_steps_here(const struct profile_rank *rank, uint32_t thread);

#endif
