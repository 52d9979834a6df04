/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard: what the daemon's probes cost ranks, and what the daemon itself costs the node, measured and held within
 * the budget of [budget] in ranktrace.conf.
 *
 * Cost of a rank: hits that its programs count (bpf/cost.h), times what a hit costs: the time in the program, measured
 * in the rank, and that outside of it, calibrated in this process when the first rank is found. All hits of a rank's
 * threads count, as if each of them delayed it.
 *
 * Over budget, levels are on in windows, at random times, so that they cover all parts of a step and nodes do not fall
 * in step: GUARD_WINDOW_NS each, or what a collector of the level needs (struct collector.window_end_ns). Not levels
 * that somebody needs as a whole (levels_may_sample()). Of L2 only the reports of the framework's allocator are
 * sampled, which are estimates from a sample anyway. L0 goes last, with [budget] sample_l0, when it exceeds the budget
 * alone, and not wholly: between windows the probes that count steps are attached, so that number and time of steps are
 * exact and only stages are sampled. This needs steps of all ranks of the node that backward alone counts
 * (rank_steps_may_sample()). Windows of all ranks are at the same time, as probes are attached by library: ranks of a
 * job are compared in steps that windows cover in all of them. A suspicion (levels.suspected_ns) opens a window at
 * once, and keeps it open.
 *
 * A level is sampled if every user with ranks has one that is over budget: probes are attached for all processes, and
 * one user's calls must not blind the others. A rank that pays more all the same, for a minute, is a finding
 * (online_overhead()): one a job.
 */
#ifndef RANKTRACE_DAEMON_GUARD_GUARD_H
#define RANKTRACE_DAEMON_GUARD_GUARD_H

#include "daemon/core/level.h"
#include "daemon/ranks/ranks.h"

struct context;
struct guard;

#define GUARD_WINDOW_NS (5 * NSEC_PER_SEC) /* some operations of each communicator, and steps of slow jobs */
#define GUARD_DUTY_MIN (1.0 / 60)	   /* at least a window in 5 minutes: what is never on shows nothing */

/* Since the newest suspicion, which the judge repeats each second while it lasts */
#define GUARD_HOLD_NS (10 * NSEC_PER_SEC)
/* What suspicions may hold windows open in addition: a tenth of the time, and of an hour's share at once. */
#define GUARD_HELD_PART 0.1
#define GUARD_HELD_NS (360 * NSEC_PER_SEC)

struct guard_cost {
	uint64_t hits;
	double ns, low_ns, high_ns; /* estimate and its bounds */
};

int guard_new(struct context *context, struct guard **ret);
struct guard *guard_free(struct guard *guard);
/* Every 100 ms. */
void guard_tick(struct guard *guard, uint64_t now_ns);

/* Share of a rank's time that a level costs it. */
struct guard_share {
	double share, low, high;
	double hits_per_s;
	bool known;
};
/* In the mean over windows and the time between them. */
void guard_rank_paid(const struct guard *guard, const struct rank *rank, enum level level, struct guard_share *ret);

struct guard_status {
	const char *reason; /* why hits are counted without what they cost outside of the programs; "" */
	bool calibrated;
	double hot_ns, cold_ns, spread; /* of a hit on an emulated instruction */
	double own_cpus;		/* of the daemon, in the last minute */
	bool own_known;
};
void guard_status(const struct guard *guard, struct guard_status *ret);
/* Part of the time that the level is on; 1: all. */
double guard_coverage(const struct guard *guard, enum level level);

#endif
