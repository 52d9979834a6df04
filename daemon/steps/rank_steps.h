/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Glue between collectors that see marks (collect_call) and the pure analyzer (analyzers/steps/steps.h): names the rank,
 * feeds the analyzer, and writes its stages and steps to the store. Nothing here judges.
 */
#ifndef RANKTRACE_DAEMON_STEPS_RANK_STEPS_H
#define RANKTRACE_DAEMON_STEPS_RANK_STEPS_H

#include "analyzers/steps/steps.h"
#include "daemon/ranks/ranks.h"

#define RANK_STEPS_PAST 128 /* closed steps a rank of which times are remembered */

struct context;
struct rank_steps;

/* Called at each stage and step that ended, after its row. Members may be NULL. */
struct rank_steps_observer {
	void (*stage)(void *arg, uint32_t slot, int64_t instance, const struct steps_stage *stage);
	void (*step)(void *arg, uint32_t slot, int64_t instance, const struct steps_step *step);
};

int rank_steps_new(struct context *context, struct rank_steps **ret);
struct rank_steps *rank_steps_free(struct rank_steps *rank_steps);

/* One observer; NULL: none. *observer outlives the observation. */
void rank_steps_observe(struct rank_steps *rank_steps, const struct rank_steps_observer *observer, void *arg);

/* A mark of a rank's thread. time and duration as analyzers/steps/steps.h says. */
void rank_steps_mark(struct rank_steps *rank_steps, const struct rank *rank, const struct steps_mark *mark);
/* Whether this rank's record_function can be read: if not, steps close at backward's end. */
void rank_steps_names_readable(struct rank_steps *rank_steps, const struct rank *rank, bool readable);
/* Marks are not told from now on (L0 goes off): what is open is not known any more, and no step goes on over the gap. */
void rank_steps_gap(struct rank_steps *rank_steps);
/* Refreshes the in-flight table and closes what has been over for a while; every 100 ms. */
void rank_steps_tick(struct rank_steps *rank_steps, uint64_t now_ns);
/* What the rank is in right now (innermost stage of its step thread), for `tracectl ranks`; false where nothing. */
bool rank_steps_current(struct rank_steps *rank_steps, const struct rank *rank, struct steps_open *ret);

/* How far a rank is. */
struct rank_steps_progress {
	uint64_t mark_ns;      /* its newest mark, of any thread; 0: none yet, or none since a gap */
	uint64_t steps;        /* that ended since it is followed */
	uint64_t step_end_ns;  /* of the newest one, 0: none yet */
	uint32_t thread_id;    /* its step thread, 0: not known */
	bool in_stage;         /* of that thread, and then the innermost one: */
	struct steps_open stage;
};
bool rank_steps_progress(
	const struct rank_steps *rank_steps, uint32_t slot, int64_t instance, struct rank_steps_progress *ret);

/* The step that was open in the rank at time_ns, of the last STEPS_ROOM_PAST ones; STEPS_NONE. Also of one that just ended. */
int64_t rank_steps_step(const struct rank_steps *rank_steps, const struct rank *rank, uint64_t time_ns);
/* The innermost stage that is open on this thread now, else on the rank's step thread; false where nothing is. */
bool rank_steps_stage(
	const struct rank_steps *rank_steps, const struct rank *rank, uint32_t thread_id, struct steps_open *ret);

#endif
