/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open marks of one rank's threads: a stack a thread, and the bounds on both. Knows how begins and ends pair, not
 * what they mean for a step. Owned by steps.c.
 */
#ifndef RANKTRACE_STEPS_THREAD_H
#define RANKTRACE_STEPS_THREAD_H

#include "analyzers/stage_names.h"
#include "analyzers/steps.h"

#define STEPS_UNDECIDED (-2) /* which step a mark belongs to is not known yet */

struct steps_entry {
	uint64_t start_ns;
	int64_t step;
	enum stage_kind kind;
	uint64_t frame; /* stack pointer at the entry of the function that it is, 0 if it is none */
	bool once;
	bool from_name;	       /* ended by an END without a stage */
	bool optimizer_inside; /* a backward in which optimizers stepped */
	bool backward_inside;  /* an optimizer in which a backward ran */
	char stage[STEPS_NAME_BYTES];
	char name[STEPS_NAME_BYTES];
};

struct steps_thread {
	uint32_t id;
	uint64_t last_ns; /* newest mark; time does not go back on a thread */
	size_t depth, capacity;
	struct steps_entry *entries; /* [0] outermost */
	uint32_t left_out;	     /* begins beyond the depth, not ended yet */
};

struct steps_threads {
	struct steps_thread *rows;
	size_t count;
};

void steps_threads_done(struct steps_threads *threads);
struct steps_thread *steps_threads_find(const struct steps_threads *threads, uint32_t id);
/* Finds or adds; beyond STEPS_THREADS_MAX the one that was quiet for longest makes room, never thread keep. Adds what
 * it had open to *lost. NULL: out of memory. */
struct steps_thread *steps_threads_get(struct steps_threads *threads, uint32_t id, uint32_t keep, uint64_t *lost);

/* The new innermost entry, zeroed but for its texts; NULL when deeper than STEPS_DEPTH_MAX or out of memory. */
struct steps_entry *steps_thread_push(struct steps_thread *thread);
/* Which open mark an END means, or -1. */
int steps_thread_match(const struct steps_thread *thread, const char *stage);
/* The outermost mark of the training loop, or NULL. */
struct steps_entry *steps_thread_loop(const struct steps_thread *thread);

/* Copies text, cut between characters where it is UTF-8. Returns false if it was cut. */
bool steps_copy(char ret[STEPS_NAME_BYTES], const char *text);

#endif
