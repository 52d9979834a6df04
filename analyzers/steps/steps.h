/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns marks into stages and steps. Pure: no I/O, no clock, no globals; the same code runs in the daemon, over a store
 * and in tests. One `struct steps` follows one rank.
 *
 * A mark is a begin or an end on a thread: of a record_function name, backward, a checkpoint, a garbage collection, a
 * synchronisation. Begins and ends pair on the thread's own stack. A table maps names to stages
 * (stage_names.c): `enumerate(DataLoader)#...__next__` is dataloader, `Optimizer.step#...` optimizer,
 * `Optimizer.zero_grad#...` zero_grad, `DistributedDataParallel.forward` and FSDP's forward; any other record_function
 * name is a stage of its own name.
 *
 * Steps follow the step thread: the one that calls the optimizer or, before one is seen, zero_grad or backward, or else
 * the data loader. Only marks outside any other mark of the loop (data loading, forward, zero_grad, backward,
 * optimizer) begin or end a step: a backward inside another or inside an optimizer (LBFGS) is a nested stage.
 *  - A step is closed by the optimizer: the last optimizer end before the next data loading, forward or backward begins
 *    is the step's end, so several optimizers in a row are one step, and an optimizer that steps several times between
 *    two batches of a data loader is one step too. After more than STEPS_ROUNDS_MAX of them the loader does not drive
 * the steps (one batch used repeatedly): each was a step. Gradient accumulation, and AMP where it skips the optimizer,
 *    have backward without an optimizer and remain one step. Optimizers inside a backward close the step at that
 *    backward's end.
 *  - A step starts at the end of the previous one; the first at its first mark (gc, sync and checkpoint aside), if the
 *    rank was seen from its start or the mark can open a step (dataloader, zero_grad, forward); otherwise (attached in
 *    mid-step) marks before the first close belong to no step.
 *  - Data loader iterations without backward in a job that has shown a backward are evaluation: no step, their stages
 *    have STEPS_NONE, and the next step starts after them. A single one is the loader's last call, which finds no
 * further batch, or one of two interleaved loaders: it belongs to the step that follows.
 *  - In a job without backward so far such iterations are steps (inference; also a longer evaluation at the start of a
 *    job): from a data loading's begin to the next one's begin. They are reported from the fourth on, or at the end:
 *    fewer before the first backward are as above. The loader's last call opens a step that never closes, so N batches
 *    give N steps. If iterations carry marks after the data loading, one without is such a last call and closes
 * nothing; without marks the two are indistinguishable, and a further pass over the loader counts one step more.
 *  - Where names cannot be read (steps_names_readable(false)), or STEPS_BACKWARDS_MAX backwards came and no optimizer (the
 *    script updates its parameters by itself), a step ends with each backward; in the second case until an optimizer's
 *    mark is seen. All of these backwards are one first step.
 *  - An unmarked forward (a plain loop) lasts from the end of the last data loading, zero_grad, optimizer or backward
 * to backward's begin (inference: to the next data loading's begin), named "(derived)". With a zero_grad between data
 *    loading and backward, it is the longer of the two sides.
 *
 * A stage of any thread belongs to the step that is open at its start. It is reported at its end if that step is
 * certain by then, at the latest when the step closes; stages precede their step, except those that end after it.
 * Uncertain are stages after an optimizer that may not be the step's last, and all of an iteration of a data loader
 * until its backward or optimizer begins (or the job is known to be inference). At most STEPS_HELD_MAX of them wait;
 * more are reported at once with STEPS_NONE and counted. A stage of a step that never closes has the number of that
 * step.
 *
 * Lost marks: a begin that cannot lie in an open mark (a data loading in an optimizer, a DataLoader's next in itself)
 * means that the open mark's end was lost: it and all above it are counted as unpaired and not reported; a lost
 * optimizer ends at that begin, so that steps still close. An end without a begin is only counted.
 *
 * Sampling: marks may be watched in windows, and between them those of backward alone. While steps_sample() is on, a
 * step ends with its last backward, in windows too: of a rank whose steps have equally many each (steps_may_sample()),
 * so that every step is counted and no boundary moves where a window begins. A step of which a part was not watched is
 * `unsplit`: its stages are not known, and none is not the same as 0. Where sampling begins one step is shorter by what
 * follows its backward, and where it ends one is longer by as much. An evaluation between windows is part of the step
 * that follows.
 *
 * Names are bytes, unescaped, cut where too long. Texts in a report are valid during the call. Times are nanoseconds of
 * one clock of the caller; marks are ordered on a thread and nearly so between threads.
 */
#ifndef RANKTRACE_STEPS_STEPS_H
#define RANKTRACE_STEPS_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEPS_NAME_BYTES 100  /* longest name, terminator included */
#define STEPS_DEPTH_MAX 64    /* open marks a thread; deeper ones are only counted */
#define STEPS_THREADS_MAX 256 /* threads with open marks a rank; beyond it the longest idle is dropped */
#define STEPS_HELD_MAX 512    /* ended stages with an uncertain step */
#define STEPS_ROUNDS_MAX 16   /* optimizer rounds within one data loading */
#define STEPS_IDLE_HELD 16    /* multiples of idle_ns until steps_idle() reports waiting stages */
#define STEPS_STEADY 32	      /* consecutive steps with as many backwards and optimizers: they are the job's */
#define STEPS_NONE (-1)

enum steps_edge { STEPS_BEGIN, STEPS_END };

struct steps_mark {
	uint64_t time_ns;
	uint32_t thread_id;
	enum steps_edge edge;
	const char *stage;	/* as the source names it ("backward"); NULL: derive it from the name */
	const char *name;	/* of a BEGIN; "" or NULL for an END */
	uint64_t stack_pointer; /* of the thread, 0: unknown; stacks grow down */
	/* Begin and end are a function's entry and return: marks within have lower stack pointers. Another one proves
	 * that an exception left the function. */
	bool is_frame;
};
/* An END with a stage ends the thread's innermost open mark of that stage; an END without one ends the innermost open
 * mark from a name. Marks above it are dropped and counted as unpaired. */

struct steps_stage {
	int64_t step; /* from 1, or STEPS_NONE */
	const char *
		stage; /* dataloader, forward, zero_grad, backward, optimizer, checkpoint, gc, sync, or a user's name */
	const char *name; /* as marked */
	uint64_t start_ns;
	uint64_t duration_ns;
	uint32_t thread_id;
	uint32_t depth; /* open marks around it on its thread */
};

struct steps_step {
	int64_t step;
	uint64_t start_ns;
	uint64_t duration_ns;
	const char *kind; /* "train", "inference", "backward" (closed by backward alone) */
	bool unsplit;	  /* only its length is known: not all of its marks were watched */
};

struct steps_open { /* something in flight */
	int64_t step;
	char stage[STEPS_NAME_BYTES];
	char name[STEPS_NAME_BYTES];
	uint64_t start_ns;
	uint32_t thread_id;
	uint32_t depth;
};

/* Called from within steps_feed(), steps_names_readable(), steps_idle() and steps_end(). Must not call back. */
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
	uint64_t not_held; /* stages reported with STEPS_NONE: too many waited */
};

struct steps;

/* first_step: number of the first step (1 for a new rank). from_start: the rank is seen from its exec on. */
struct steps *steps_new(const struct steps_sink *sink, int64_t first_step, bool from_start); /* NULL: out of memory */
struct steps *steps_free(struct steps *steps);
void steps_names_readable(struct steps *steps, bool readable);
/* Whether its steps can be counted by their backwards. It may end while they are: then the job has changed. */
bool steps_may_sample(const struct steps *steps);
/* On only if it may. Off: all marks are watched again. */
void steps_sample(struct steps *steps, bool on);
/* While sampled: all marks from from_ns on come; or those of backward alone, as open ones will not see their end. */
void steps_watch(struct steps *steps, bool all, uint64_t from_ns);
void steps_feed(struct steps *steps, const struct steps_mark *mark);
/* Reports a step ended by an optimizer once the step thread's newest mark is idle_ns old, without a forward or backward
 * since. After STEPS_IDLE_HELD times that, reports all waiting stages. */
void steps_idle(struct steps *steps, uint64_t now_ns, uint64_t idle_ns);
/* The rank ended: reports a step closed by its optimizer, but no open step. */
void steps_end(struct steps *steps, uint64_t now_ns);
/* Open marks of all threads, the step thread first, each outermost first; returns how many were written. An uncertain
 * step is the likely one. */
size_t steps_in_flight(const struct steps *steps, struct steps_open *ret, size_t max);
/* 0 while none is known. */
uint32_t steps_step_thread(const struct steps *steps);
void steps_counts(const struct steps *steps, struct steps_counts *ret);
/* Step at time_ns: the open one, the likely next one, or the previous one; STEPS_NONE, also for earlier times. */
int64_t steps_step_at(const struct steps *steps, uint64_t time_ns);
int64_t steps_next(const struct steps *steps); /* number of the open step */
/* Memory in use; never shrinks. */
size_t steps_bytes(const struct steps *steps);

#endif
