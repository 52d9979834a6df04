/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of steps/: steps.c pairs marks and reports, steps_rules.c decides where steps begin and end. */
#ifndef RANKTRACE_STEPS_STEPS_INTERNAL_H
#define RANKTRACE_STEPS_STEPS_INTERNAL_H

#include "analyzers/steps/stage_names.h"
#include "analyzers/steps/steps.h"

/* Open marks of one rank: a bounded stack for each of a bounded number of threads (steps_thread.c). */

#define STEPS_UNDECIDED (-2) /* step of a mark not known yet */

struct steps_entry {
	uint64_t start_ns;
	int64_t step;
	enum stage_kind kind;
	uint64_t frame; /* stack pointer at a function's entry, 0: no function */
	bool once;
	bool from_name;	       /* ended by an END without a stage */
	bool optimizer_inside; /* backward: optimizers stepped in it */
	bool backward_inside;  /* optimizer: a backward ran in it */
	char stage[STEPS_NAME_BYTES];
	char name[STEPS_NAME_BYTES];
};

struct steps_thread {
	uint32_t id;
	uint64_t last_ns; /* newest mark; never decreases */
	size_t depth, capacity;
	struct steps_entry *entries; /* [0] outermost */
	uint32_t left_out;	     /* begins beyond the depth, not ended yet */
};

struct steps_threads {
	struct steps_thread *rows;
	size_t count, capacity;
	size_t entries; /* places in the stacks of all threads */
};

void steps_threads_done(struct steps_threads *threads);
struct steps_thread *steps_threads_find(const struct steps_threads *threads, uint32_t id);
/* Finds or adds; beyond STEPS_THREADS_MAX replaces the longest idle one except thread keep, and adds its open marks to
 * *lost. NULL: out of memory. */
struct steps_thread *steps_threads_get(struct steps_threads *threads, uint32_t id, uint32_t keep, uint64_t *lost);

/* The new innermost entry, zeroed except its texts; NULL: deeper than STEPS_DEPTH_MAX, or out of memory. */
struct steps_entry *steps_thread_push(struct steps_threads *threads, struct steps_thread *thread);
/* Index of the open mark of an END, or -1. */
int steps_thread_match(const struct steps_thread *thread, const char *stage);
/* Forgets open marks of all threads, but backwards: no end of theirs will come. */
void steps_threads_keep_backward(struct steps_threads *threads);
/* Outermost mark of the training loop, or NULL. */
struct steps_entry *steps_thread_loop(const struct steps_thread *thread);

/* Copies text, cut at a character. false: it was cut. */
bool steps_copy(char ret[STEPS_NAME_BYTES], const char *text);

/* Without an optimizer, more than jobs accumulate in a step: then backward alone ends it */
#define STEPS_BACKWARDS_MAX 64
#define STEPS_INFERENCE_MIN 4 /* iterations that make a job inference */

struct steps_held {
	struct steps_entry entry;
	uint64_t end_ns;
	uint32_t thread_id;
	uint32_t depth;
};

enum steps_ends {
	STEPS_ENDS_TRAIN,     /* of optimizers */
	STEPS_ENDS_INFERENCE, /* begins of data loadings, before any training */
};

enum steps_mode {
	STEPS_BY_NAMES,
	STEPS_BY_BACKWARD, /* until an optimizer's mark: none came */
	STEPS_NO_NAMES,	   /* steps_names_readable(false) */
	STEPS_SAMPLED,	   /* steps_sample(true) */
};

/* How a step ends, in numbers. */
struct steps_round {
	unsigned int backwards; /* outside of another one, wherever else */
	unsigned int optimizers;
};

struct steps {
	struct steps_sink sink;
	struct steps_counts counts;
	struct steps_threads threads;
	struct steps_held *held; /* ended stages with an undecided step */
	size_t held_count, held_capacity;

	enum steps_mode mode;
	bool from_start;
	bool trains;	       /* a backward or an optimizer was seen */
	bool loader_seen;      /* on the step thread */
	bool loader_drives;    /* a data loading has closed a step */
	bool optimizer_seen;   /* outside of backward */
	bool infers;	       /* iterations without backward are steps */
	bool inference_marked; /* inference iterations carry marks after their data loading */

	/* The open step, number `next`. mid: attached in mid-step, none is open. */
	int64_t next;
	bool open, mid;
	uint64_t start_ns;
	bool trained; /* has a backward or an optimizer */
	bool has_load;
	bool shown; /* a stage was reported with its number: its start is fixed */
	bool iteration_marked;
	unsigned int idle_loads;	 /* data loadings since its start without a backward */
	uint64_t ends[STEPS_ROUNDS_MAX]; /* candidate ends; undecided from ends[0] on */
	size_t n_ends;
	enum steps_ends ends_kind;
	bool sealed;	    /* a forward or backward began after the last candidate */
	bool trained_since; /* a backward did */

	/* Sampling. */
	struct steps_round round;  /* of the open step, so far */
	struct steps_round steady; /* of each of the last steady_steps */
	unsigned int steady_steps;
	uint64_t round_ns;   /* end of its newest backward */
	bool late_optimizer; /* one that comes is of the step before: sampling ended between backward and it */
	bool unwatched;	     /* marks of backward alone come */
	uint64_t watched_ns; /* all of them since then */

	uint64_t previous_start_ns, previous_end_ns; /* the previous step, for late marks */

	/* The step thread. */
	bool has_thread;
	uint32_t thread_id;
	unsigned int thread_rank, foreign;
	uint64_t clock_ns;    /* newest time of the rules */
	uint64_t backward_ns; /* duration of its last backward */

	/* Possible start of an unmarked forward. */
	bool has_anchor, anchor_is_load, forward_marked;
	uint64_t anchor_ns, gap_start_ns, gap_end_ns;
};

/* steps.c */
void steps_settle(struct steps *steps, uint64_t until_ns, int64_t number);
void steps_finish(
	struct steps *steps, const struct steps_entry *entry, uint32_t thread_id, uint32_t depth, uint64_t end_ns);
int64_t steps_find_step(const struct steps *steps, uint64_t start_ns);

/* steps_rules.c: marks of the step thread outside any other mark of the loop. depth: open marks around it. */
void steps_rule_begin(struct steps *steps, enum stage_kind kind, uint64_t now_ns, uint32_t depth);
void steps_rule_end(struct steps *steps, enum stage_kind kind, uint64_t now_ns, bool optimizer_inside);
void steps_rule_user(struct steps *steps, uint64_t now_ns);
void steps_rule_no_names(struct steps *steps);
void steps_rule_backward(struct steps *steps, uint64_t now_ns); /* one has ended that is in no other */
void steps_rule_closure(struct steps *steps);			/* a backward began inside the open optimizer */
void steps_rule_thread(struct steps *steps, uint32_t thread_id, enum stage_kind kind);
bool steps_rule_certain(const struct steps *steps);
void steps_rule_decide(struct steps *steps, bool over); /* over: no more marks will come; else: idle */

#endif
