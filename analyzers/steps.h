/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks to stages to steps. Pure: no I/O, no clock, no globals; the same code runs in the daemon, over a store and in
 * tests. One `struct steps` follows one rank.
 *
 * A mark is a begin or an end of something on a thread: a record_function name, backward, a checkpoint, a garbage
 * collection, a synchronisation. Begins and ends pair on the thread's own stack. Names become stages by a table
 * (stage_names.c): `enumerate(DataLoader)#...__next__` is dataloader, `Optimizer.step#...` optimizer,
 * `Optimizer.zero_grad#...` zero_grad, `DistributedDataParallel.forward` and FSDP's forward; any other record_function
 * name is a stage of its own name.
 *
 * Steps:
 *  - closed by the optimizer: the last optimizer end before the next data loading, forward or backward begins is the
 *    step's end (so several optimizers in a row are one step, and an optimizer that steps twice between two batches of a
 *    data loader is one step too); gradient accumulation has backward without an optimizer and stays in one step;
 *  - a step starts where the one before it ended; the first one at its first mark, if the rank was seen from its start
 *    or the mark is one that can open a step (dataloader, zero_grad, forward); otherwise (attached in mid-step) what comes
 *    before the first close belongs to no step;
 *  - data loader iterations without backward in a job that has an optimizer are evaluation: no step, and the next step
 *    starts after them; in a job that has shown no backward yet they are steps (inference), opened by the data loader's
 *    next and closed by the one after;
 *  - where names cannot be read (steps_names_readable(false)), or several backwards came with no named mark at all, a
 *    step ends with each backward.
 *  - forward where nothing marks it (a plain loop): from the end of the last data loading, zero_grad or optimizer of the
 *    step thread to backward's begin, named "(derived)".
 * Times are nanoseconds of one clock that the caller chooses and keeps.
 */
#ifndef RANKTRACE_STEPS_H
#define RANKTRACE_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEPS_NAME_BYTES 100     /* longest name, terminator included */
#define STEPS_DEPTH_MAX 64       /* open marks a thread; deeper ones are counted and left out */
#define STEPS_THREADS_MAX 256    /* threads with open marks a rank; the oldest idle one is forgotten beyond it */
#define STEPS_NONE (-1)

enum steps_edge { STEPS_BEGIN, STEPS_END };

struct steps_mark {
	uint64_t time_ns;
	uint32_t thread_id;
	enum steps_edge edge;
	const char *stage; /* the stage where the source knows it ("backward"), NULL to take it from the name */
	const char *name;  /* of a BEGIN; "" or NULL for an END: it ends the innermost begin of the same kind (see below) */
};
/* An END with a stage ends the innermost open mark of that stage on its thread (marks above it are closed at the same
 * time and counted as unpaired); an END without one ends the innermost open mark that came from a name. */

struct steps_stage {
	int64_t step;          /* from 1, or STEPS_NONE */
	const char *stage;     /* dataloader, forward, zero_grad, backward, optimizer, checkpoint, gc, sync, or a user's name */
	const char *name;      /* as marked */
	uint64_t start_ns;
	uint64_t duration_ns;
	uint32_t thread_id;
	uint32_t depth;        /* open marks below it on its thread */
};

struct steps_step {
	int64_t step;
	uint64_t start_ns;
	uint64_t duration_ns;
	const char *kind;      /* "train", "inference", "backward" (closed by backward alone) */
};

struct steps_open {        /* something in flight */
	int64_t step;
	char stage[STEPS_NAME_BYTES];
	char name[STEPS_NAME_BYTES];
	uint64_t start_ns;
	uint32_t thread_id;
	uint32_t depth;
};

/*
 * Called from within steps_feed(), steps_idle() and steps_end(). A stage is reported when the step that it belongs to is
 * known, at the latest when that step closes; stages of one step come before the step itself.
 */
struct steps_sink {
	void (*stage)(void *arg, const struct steps_stage *stage);
	void (*step)(void *arg, const struct steps_step *step);
	void *arg;
};

struct steps_counts {
	uint64_t marks;
	uint64_t unpaired;   /* ends without a begin, begins closed by force */
	uint64_t too_deep;
	uint64_t names_cut;
};

struct steps;

/* first_step: number of the first step to report (1 for a new rank). from_start: the rank is seen from its exec on. */
struct steps *steps_new(const struct steps_sink *sink, int64_t first_step, bool from_start); /* NULL: out of memory */
struct steps *steps_free(struct steps *steps);
void steps_names_readable(struct steps *steps, bool readable);
void steps_feed(struct steps *steps, const struct steps_mark *mark);
/* Time has passed: a step whose closing optimizer ended idle_ns ago or more, with nothing since, is reported. */
void steps_idle(struct steps *steps, uint64_t now_ns, uint64_t idle_ns);
/* The rank ended at now_ns: a step that its optimizer had closed is reported, what was still open is not. */
void steps_end(struct steps *steps, uint64_t now_ns);
/* In flight, outermost first, all threads; returns how many were written. */
size_t steps_in_flight(const struct steps *steps, struct steps_open *ret, size_t max);
void steps_counts(const struct steps *steps, struct steps_counts *ret);
int64_t steps_next(const struct steps *steps); /* number that the next reported step will have */

#endif
