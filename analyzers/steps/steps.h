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
 * Steps are read off the step thread: the one that calls the optimizer or, before one is seen, zero_grad or backward,
 * or else the data loader. Only marks that lie in no other mark of the loop (data loading, forward, zero_grad,
 * backward, optimizer) begin or end anything: a backward inside another or inside an optimizer (LBFGS) is a nested
 * stage.
 *  - A step is closed by the optimizer: the last optimizer end before the next data loading, forward or backward begins
 *    is the step's end, so several optimizers in a row are one step, and an optimizer that steps several times between
 *    two batches of a data loader is one step too. More than STEPS_ROUNDS_MAX times, and the loader is taken not to
 * drive the steps (one batch used over and over): then each was a step. Gradient accumulation, and AMP where it skips
 * the optimizer, have backward without an optimizer and stay in one step. Optimizers that step inside a backward close
 * the step at that backward's end.
 *  - A step starts where the one before it ended; the first one at its first mark (gc, sync and checkpoint aside), if
 * the rank was seen from its start or the mark is one that can open a step (dataloader, zero_grad, forward); otherwise
 *    (attached in mid-step) what comes before the first close belongs to no step.
 *  - Data loader iterations without backward in a job that has shown a backward are evaluation: no step, their stages
 *    have STEPS_NONE, and the next step starts after them. A single one is no evaluation but the loader's last call,
 * which finds no further batch, or one of two loaders side by side: it belongs to the step that follows.
 *  - In a job that has shown no backward yet such iterations are steps (inference; also a longer evaluation that a job
 *    begins with): from a data loading's begin to the next one's begin. They are told once there were four, or at the
 * end: fewer before the first backward are as above. The loader's last call opens a step that never closes, so N
 * batches give N steps. If iterations carry marks after the data loading, one without is such a last call and closes
 * nothing; without marks a further pass over the loader counts one step more, as nothing tells the two apart.
 *  - Where names cannot be read (steps_names_readable(false)), or three backwards came with no named mark at all, a
 * step ends with each backward; in the second case until an optimizer's mark is seen.
 *  - Forward where nothing marks it (a plain loop): from the end of the last data loading, zero_grad, optimizer or
 *    backward to backward's begin (inference: to the next data loading's begin), named "(derived)". Where zero_grad
 * comes between data loading and backward, the longer side of it.
 *
 * A stage of any thread belongs to the step that is open at its start. It is reported when it ends, if that step is
 * certain by then, and at the latest when the step closes; stages of a step come before the step, but for those that
 * end after it. Not certain is what starts after an optimizer that may or may not be the step's last, and all of an
 * iteration of a data loader until its backward or optimizer begins (or the job is known to be inference). Of such
 * stages at most STEPS_HELD_MAX wait; more are reported at once with STEPS_NONE and counted. A stage of a step that
 * never closes has the number which that step would have had.
 *
 * Lost marks: a begin that cannot lie in an open mark (a data loading in an optimizer, a DataLoader's next in itself)
 * shows that the open one's end was lost: it and all above it are counted as unpaired and not reported; an optimizer so
 * lost has ended at that begin, so that steps still close. An end without a begin is counted, no more.
 *
 * Names are bytes; nothing is escaped, longer ones are cut. Texts in a report are valid during the call. Times are
 * nanoseconds of one clock that the caller chooses and keeps; marks come in order on a thread and nearly so between.
 */
#ifndef RANKTRACE_STEPS_STEPS_H
#define RANKTRACE_STEPS_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEPS_NAME_BYTES 100  /* longest name, terminator included */
#define STEPS_DEPTH_MAX 64    /* open marks a thread; deeper ones are counted and left out */
#define STEPS_THREADS_MAX 256 /* threads with open marks a rank; the oldest idle one is forgotten beyond it */
#define STEPS_HELD_MAX 512    /* ended stages that wait for their step to be certain */
#define STEPS_ROUNDS_MAX 16   /* optimizer rounds within one data loading */
#define STEPS_IDLE_HELD 16    /* times idle_ns without a mark until steps_idle() reports what waits */
#define STEPS_NONE (-1)

enum steps_edge { STEPS_BEGIN, STEPS_END };

struct steps_mark {
	uint64_t time_ns;
	uint32_t thread_id;
	enum steps_edge edge;
	const char *stage; /* the stage where the source knows it ("backward"), NULL to take it from the name */
	const char
		*name; /* of a BEGIN; "" or NULL for an END: it ends the innermost begin of the same kind (see below) */
	uint64_t stack_pointer; /* of the thread, 0 if not known; stacks grow down */
	bool is_frame;          /* begin and end are a function's entry and return: while it is open, every mark of the thread
				   has a lower stack pointer. One that has not proves that an exception left the function */
};
/* An END with a stage ends the innermost open mark that was begun with that stage on its thread; an END without one
 * ends the innermost open mark that came from a name. Marks above it are dropped and counted as unpaired. */

struct steps_stage {
	int64_t step; /* from 1, or STEPS_NONE */
	const char *
		stage; /* dataloader, forward, zero_grad, backward, optimizer, checkpoint, gc, sync, or a user's name */
	const char *name; /* as marked */
	uint64_t start_ns;
	uint64_t duration_ns;
	uint32_t thread_id;
	uint32_t depth; /* open marks below it on its thread */
};

struct steps_step {
	int64_t step;
	uint64_t start_ns;
	uint64_t duration_ns;
	const char *kind; /* "train", "inference", "backward" (closed by backward alone) */
};

struct steps_open { /* something in flight */
	int64_t step;
	char stage[STEPS_NAME_BYTES];
	char name[STEPS_NAME_BYTES];
	uint64_t start_ns;
	uint32_t thread_id;
	uint32_t depth;
};

/* Called from within steps_feed(), steps_names_readable(), steps_idle() and steps_end(); must not call back in. */
struct steps_sink {
	void (*stage)(void *arg, const struct steps_stage *stage);
	void (*step)(void *arg, const struct steps_step *step);
	void *arg;
};

struct steps_counts {
	uint64_t marks;
	uint64_t unpaired; /* ends without a begin, begins dropped without an end */
	uint64_t too_deep;
	uint64_t names_cut;
	uint64_t not_held; /* stages reported with STEPS_NONE because too many waited */
};

struct steps;

/* first_step: number of the first step to report (1 for a new rank). from_start: the rank is seen from its exec on. */
struct steps *steps_new(const struct steps_sink *sink, int64_t first_step, bool from_start); /* NULL: out of memory */
struct steps *steps_free(struct steps *steps);
void steps_names_readable(struct steps *steps, bool readable);
void steps_feed(struct steps *steps, const struct steps_mark *mark);
/* Time has passed: if the step thread's newest mark is idle_ns old or older and an optimizer had ended the step, with
 * no forward or backward begun since, the step is reported. After STEPS_IDLE_HELD times that, so is every waiting
 * stage. */
void steps_idle(struct steps *steps, uint64_t now_ns, uint64_t idle_ns);
/* The rank ended at now_ns: a step that its optimizer had closed is reported, what was still open is not. */
void steps_end(struct steps *steps, uint64_t now_ns);
/* In flight, all threads, the step thread first, each outermost first; returns how many were written. A step that is
 * not certain is the likely one. */
size_t steps_in_flight(const struct steps *steps, struct steps_open *ret, size_t max);
/* The step thread, 0 while none is known. */
uint32_t steps_step_thread(const struct steps *steps);
void steps_counts(const struct steps *steps, struct steps_counts *ret);
/* The step that something which began at time_ns belongs to: the open one, the likely next one, or the one before;
 * STEPS_NONE. What lies farther back is not remembered here. */
int64_t steps_step_at(const struct steps *steps, uint64_t time_ns);
int64_t steps_next(const struct steps *steps); /* number that the next reported step will have: the open one's */

#endif
