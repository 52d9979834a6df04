/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects the collectors that see marks (collect_call) to the analyzer (analyzers/steps/steps.h): names the rank,
 * feeds the analyzer, writes its stages and steps to the store. Nothing here judges.
 */
#ifndef RANKTRACE_DAEMON_STEPS_RANK_STEPS_H
#define RANKTRACE_DAEMON_STEPS_RANK_STEPS_H

#include "analyzers/steps/steps.h"
#include "daemon/ranks/ranks.h"

#define RANK_STEPS_PAST 128 /* closed steps kept per rank */

struct context;
struct rank_steps;

/* Called at each stage and step that ended, after its row. Members may be NULL. */
struct rank_steps_observer {
	void (*stage)(void *arg, uint32_t slot, int64_t instance, const struct steps_stage *stage);
	void (*step)(void *arg, uint32_t slot, int64_t instance, const struct steps_step *step);
};

int rank_steps_new(struct context *context, struct rank_steps **ret);
struct rank_steps *rank_steps_free(struct rank_steps *rank_steps);

#define RANK_STEPS_OBSERVERS 2 /* findings and metrics */
/* An observer for each arg, called in order of registration; NULL ends arg's. *observer outlives the observation. More
 * than RANK_STEPS_OBSERVERS: -ENOSPC. */
int rank_steps_observe(struct rank_steps *rank_steps, const struct rank_steps_observer *observer, void *arg);

/* A mark of a rank's thread; times as in analyzers/steps/steps.h. */
void rank_steps_mark(struct rank_steps *rank_steps, const struct rank *rank, const struct steps_mark *mark);
/* Whether record_function names of this rank are readable: if not, the end of backward closes steps. */
void rank_steps_names_readable(struct rank_steps *rank_steps, const struct rank *rank, bool readable);
/* No marks from now on (L0 off): open stages become unknown, no step spans the gap. */
void rank_steps_gap(struct rank_steps *rank_steps);
/*
 * L0 in windows (analyzers/steps/steps.h, "Sampling"): whether the rank may be; all ranks are or are not; and whether
 * all marks from from_ns on come, or those of boundaries alone. A rank may be after RANK_STEPS_STEADY_NS of steps with
 * equal numbers of backward passes and optimizers, which is also the time after which its windows come back. Not one
 * that is silent: what it does instead of steps has other marks.
 */
/* Steps that exceed a budget of a thousandth are shorter than a tenth of it */
#define RANK_STEPS_SILENT_NS NSEC_PER_SEC
/* The judge learns what is usual from ten seconds, of all but the first steps */
#define RANK_STEPS_STEADY_NS (20 * NSEC_PER_SEC)
bool rank_steps_may_sample(const struct rank_steps *rank_steps, const struct rank *rank, uint64_t now_ns);
void rank_steps_sample(struct rank_steps *rank_steps, bool on);
void rank_steps_watch(struct rank_steps *rank_steps, bool all, uint64_t from_ns);
/* Refreshes the in-flight table and closes idle steps; every 100 ms. */
void rank_steps_tick(struct rank_steps *rank_steps, uint64_t now_ns);
/* Innermost open stage of the rank's step thread, for `tracectl ranks`; false if none. */
bool rank_steps_current(struct rank_steps *rank_steps, const struct rank *rank, struct steps_open *ret);

/* Progress of a rank. */
struct rank_steps_progress {
	uint64_t mark_ns;     /* newest mark of any thread; 0: none since start or gap */
	uint64_t steps;	      /* ended steps */
	uint64_t step_end_ns; /* of the newest step, 0: none */
	uint32_t thread_id;   /* step thread, 0: unknown */
	bool in_stage;	      /* the step thread is in a stage; `stage` is the innermost */
	struct steps_open stage;
};
bool rank_steps_progress(
	const struct rank_steps *rank_steps, uint32_t slot, int64_t instance, struct rank_steps_progress *ret);

/* Step of the rank at time_ns, among the last RANK_STEPS_PAST and the one that just ended; STEPS_NONE. */
int64_t rank_steps_step(const struct rank_steps *rank_steps, const struct rank *rank, uint64_t time_ns);
/* Innermost open stage of this thread, else of the rank's step thread; false if none. */
bool rank_steps_stage(
	const struct rank_steps *rank_steps, const struct rank *rank, uint32_t thread_id, struct steps_open *ret);

#endif
