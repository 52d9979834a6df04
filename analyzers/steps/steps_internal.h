/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the steps analyzer: steps.c pairs marks, finds each stage's step and reports; steps_rules.c decides
 * where steps begin and end. Nobody else includes this.
 */
#ifndef RANKTRACE_STEPS_STEPS_INTERNAL_H
#define RANKTRACE_STEPS_STEPS_INTERNAL_H

#include "analyzers/steps/stage_names.h"
#include "analyzers/steps/steps.h"

/*
 * The open marks of one rank's threads: a stack a thread, and the bounds on both. Knows how begins and ends pair, not
 * what they mean for a step. Owned by steps.c.
 */

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

#define STEPS_BACKWARDS_MAX 3 /* backwards with no named mark before they close steps by themselves */
#define STEPS_INFERENCE_MIN 4 /* iterations that make a job inference; fewer are what a training job may begin with */

struct steps_held {
	struct steps_entry entry;
	uint64_t end_ns;
	uint32_t thread_id;
	uint32_t depth;
};

enum steps_ends {
	STEPS_ENDS_TRAIN,     /* of optimizers */
	STEPS_ENDS_BACKWARD,  /* of backwards, while no name was seen */
	STEPS_ENDS_INFERENCE, /* begins of data loadings, while nothing has trained */
};

enum steps_mode {
	STEPS_BY_NAMES,
	STEPS_BY_BACKWARD, /* found out: backwards came and nothing else; an optimizer's mark ends it */
	STEPS_NO_NAMES,	   /* told so */
};

struct steps {
	struct steps_sink sink;
	struct steps_counts counts;
	struct steps_threads threads;
	struct steps_held *held; /* ended stages whose step is not decided */
	size_t held_count, held_capacity;

	enum steps_mode mode;
	bool from_start;
	bool named;	       /* some mark told a name or a stage other than backward's and the system's */
	bool trains;	       /* a backward or an optimizer was seen */
	bool loader_seen;      /* on the step thread */
	bool loader_drives;    /* a data loading has closed a step */
	bool optimizer_seen;   /* one that was not inside a backward */
	bool infers;	       /* took iterations without backward for steps */
	bool inference_marked; /* inference iterations carry marks after their data loading */

	/* The open step; its number is next. mid: attached in the middle of a step, none is open. */
	int64_t next;
	bool open, mid;
	uint64_t start_ns;
	bool trained; /* it has a backward or an optimizer */
	bool has_load;
	bool shown; /* a stage was reported with its number, so its start stays */
	bool iteration_marked;
	unsigned int idle_loads;	 /* data loadings since its start that no backward followed */
	uint64_t ends[STEPS_ROUNDS_MAX]; /* where it may have ended; undecided from ends[0] on */
	size_t n_ends;
	enum steps_ends ends_kind;
	bool sealed;	    /* a forward or backward began after the last of them */
	bool trained_since; /* a backward did */

	uint64_t previous_start_ns, previous_end_ns; /* the step before, for marks that come late */

	/* The step thread. */
	bool has_thread;
	uint32_t thread_id;
	unsigned int thread_rank, foreign;
	uint64_t clock_ns;    /* newest time that the rules saw */
	uint64_t backward_ns; /* duration of its last backward */

	/* Where an unmarked forward may have begun. */
	bool has_anchor, anchor_is_load, forward_marked;
	uint64_t anchor_ns, gap_start_ns, gap_end_ns;
};

/* steps.c */
void steps_settle(struct steps *steps, uint64_t until_ns, int64_t number);
void steps_finish(
	struct steps *steps, const struct steps_entry *entry, uint32_t thread_id, uint32_t depth, uint64_t end_ns);
int64_t steps_place(const struct steps *steps, uint64_t start_ns);

/* steps_rules.c: marks of the step thread that lie in no other mark of the loop. depth: marks open around it. */
void steps_rule_begin(struct steps *steps, enum stage_kind kind, uint64_t now_ns, uint32_t depth);
void steps_rule_end(struct steps *steps, enum stage_kind kind, uint64_t now_ns, bool optimizer_inside);
void steps_rule_user(struct steps *steps, uint64_t now_ns);
void steps_rule_named(struct steps *steps);
void steps_rule_no_names(struct steps *steps);
void steps_rule_closure(struct steps *steps); /* a backward began inside the open optimizer */
void steps_rule_thread(struct steps *steps, uint32_t thread_id, enum stage_kind kind);
bool steps_rule_certain(const struct steps *steps);
void steps_rule_decide(struct steps *steps, bool over); /* nothing more will come, or (not over) not for long */

#endif
