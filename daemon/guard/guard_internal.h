/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of guard/: what a hit costs (model, calibration), and what follows from it (plan). */
#ifndef RANKTRACE_DAEMON_GUARD_GUARD_INTERNAL_H
#define RANKTRACE_DAEMON_GUARD_GUARD_INTERNAL_H

#include "bpf/cost.h"
#include "daemon/core/level.h"
#include "daemon/findings/online.h"
#include "daemon/guard/guard.h"

#include <sched.h>

struct kernel;

/*
 * What a hit costs outside of its program, in ns, by kind of probe: with warm caches, as in a loop, and with cold ones,
 * as after much other work. Pure.
 */
struct guard_model {
	double hot_ns[RT_COST_KINDS], cold_ns[RT_COST_KINDS];
	double spread;			  /* standard deviation of repeated calibrations, as a part of the value */
	double find_hot_ns, find_cold_ns; /* struct rt_cost.find_ns of a hit */
};

/* One round of a calibration: a call without and with the probe, and what its program counts of the hits. */
struct guard_round {
	double without_ns, with_ns;
	struct rt_cost inside;
};

/* What a hit adds to a call, less the program's part, which is measured in ranks. */
struct guard_outside {
	double ns, find_ns, spread;
};

/* Medians of the rounds. -ENODATA: a round without a timed hit. */
int guard_model_outside(const struct guard_round *round, size_t count, struct guard_outside *ret);
/*
 * warm: by kind; cold: of RT_COST_EMULATED. The kernel's way to a program is the same for all kinds: cold caches make
 * it longer by the same factor, at least 1.
 */
void guard_model_fill(
	const struct guard_outside warm[RT_COST_KINDS], const struct guard_outside *cold, struct guard_model *ret);

/* Adds what these counts cost. Its bounds are two standard errors away. */
void guard_model_add(
	const struct guard_model *model, enum rt_cost_kind kind, const struct rt_cost *counts, struct guard_cost *sum);

/* Measures it, in 0.3 s: not in the loop. -EOPNOTSUPP: no probe can be attached here. */
int guard_calibrate(struct kernel *kernel, struct guard_model *ret);

/*
 * The plan: what part of the time a level may be on. Pure. Levels are given their part of the budget in the order of
 * their value to findings, so that the last one goes first.
 */
struct guard_need {
	bool on;	 /* at all */
	bool sampled;	 /* may be on in windows: levels_may_sample() */
	double share;	 /* of a rank's time that it costs while it is on; of the costliest rank */
	double between;	 /* part of share that is paid between windows, too */
	double own_cpus; /* of a CPU that it costs the daemon while it is on */
};

struct guard_limits {
	double rank_share; /* of a rank's time, for all levels */
	double own_cpus;   /* for what levels cost the daemon: what is left of own_budget; below 0: none */
	double own_budget; /* of the daemon, in CPUs */
};

/* ret, by level: 1 all the time, else the part of the time. before: what ret was last time. */
void guard_plan(const struct guard_limits *limits, const struct guard_need need[LEVEL_MAX],
	const double before[LEVEL_MAX], double ret[LEVEL_MAX]);

/*
 * Whether a rank pays more than the budget, with the parts of the time that the plan gives its levels
 * (guard_share_of()): by the lower bounds of the estimates, so that an uncertain one accuses nobody. Pure. Not known:
 * not on, or on for a suspicion, which is bounded elsewhere. before: what it was last time; it ends well within the
 * budget.
 */
struct guard_excess {
	bool over;
	const char *part; /* that costs most: a level, or a source of gauges */
	double share, part_share;
	uint64_t since_ns; /* by guard_excess_turn() */
};

/* Of a rank, or of the daemon itself. */
struct guard_turn {
	uint64_t over_ns; /* over the budget since then; 0: it is not */
	struct online_open finding;
	struct guard_excess excess; /* the largest since then: it ends below the budget */
};

/*
 * Notes the excess of now; 1: a finding is due, -1: the present one is over, 0: neither. known: another finding says
 * the same, as that of another rank of the job. Pure.
 */
int guard_excess_turn(
	struct guard_turn *turn, const struct guard_excess *excess, bool known, uint64_t lasts_ns, uint64_t now_ns);
/* lasts_ns, of a rank: windows need some turns of the plan to show what they save. */
#define GUARD_EXCESS_NS (60 * NSEC_PER_SEC)
/* Of the daemon's memory: longer than a library's symbols are read. */
#define GUARD_EXCESS_MEMORY_NS (60 * NSEC_PER_SEC)
/* Of the daemon: libraries, profiles and the L1 of a job that begins take some minutes. */
#define GUARD_EXCESS_OWN_NS (600 * NSEC_PER_SEC)

/* The excess of the daemon, in CPUs, of the last minute; then each of its parts, of which the costliest is kept. */
void guard_excess_own(double budget, double own_cpus, bool before, struct guard_excess *ret);
void guard_excess_part(struct guard_excess *excess, const char *part, double share);
/* Of its memory, bytes; it ends an eighth below the budget. */
void guard_excess_memory(double budget, double bytes, bool before, struct guard_excess *ret);

#define GUARD_LEVELS ((enum level)RT_COST_LEVELS) /* that have costs */

/* Share with windows for the part `duty` of the time. */
struct guard_share guard_share_of(const struct guard_share *on, const struct guard_share *between, double duty);
void guard_excess(double budget, const struct guard_share share[GUARD_LEVELS], bool before, struct guard_excess *ret);

/* Of a rank and level. */
struct guard_level {
	struct guard_cost cost, row; /* since watched_ns and row_watched_ns were 0 */
	uint64_t watched_ns, row_watched_ns;
	struct guard_share share;
	struct guard_cost cost_between; /* the same between windows */
	uint64_t between_ns;
	struct guard_share between;
};

struct guard_rank {
	int64_t instance;
	uint64_t row_ns; /* begin of the row, CLOCK_MONOTONIC */
	uint64_t job;	 /* hash of job and user */
	struct guard_turn turn;
	struct rt_costs last;
	struct guard_level level[RT_COST_LEVELS];
};

struct guard_window {
	double duty;	  /* 1: on all the time */
	uint64_t open_ns; /* the newest was opened */
	uint64_t next_ns; /* the next opens */
};

/* Time that suspicions may hold windows open. Pure. */
struct guard_hold {
	double left_ns;
	uint64_t at_ns; /* of left_ns; 0: not used yet */
};
/* Time has come to now_ns; open: a window was, since the last call. Whether it is held open. */
bool guard_hold_turn(struct guard_hold *hold, uint64_t suspected_ns, bool open, uint64_t now_ns);

struct guard_calibration;
struct job_thread;

struct guard {
	struct context *context;
	struct guard_model model;
	bool calibrated;
	int error; /* why not; 0: it runs, or no rank is there */
	struct job_thread *thread;
	struct guard_calibration *calibration; /* ordered */
	uint64_t measure_ns, second_ns, plan_ns;
	/* The daemon's own: CPU time at the begin of the present minute, and what was spent in the last one. */
	uint64_t own_ns, own_workers_ns, own_at_ns, own_loop_ns[LEVEL_MAX], own_loop_all_ns;
	double own_cpus, own_workers, own_level[LEVEL_MAX]; /* own_cpus: in all */
	bool own_known;
	uint64_t memory_bytes;
	struct guard_turn own_turn, memory_turn;
	cpu_set_t own_cpu_set, cpu_set; /* as it began; empty: not known. Where it runs now */
	struct guard_window window[LEVEL_MAX];
	struct guard_hold hold; /* of L0 */
	bool held;
	size_t slots;
	struct guard_rank *rank[]; /* by slot; NULL: none so far */
};

/* guard_cpus.c. Adds a rank's CPUs to those taken, if it is pinned. Pure. */
void guard_cpus_add(const cpu_set_t *own, const cpu_set_t *rank, cpu_set_t *taken);
/* Those that are left to the daemon. Pure. */
void guard_cpus_left(const cpu_set_t *own, const cpu_set_t *taken, cpu_set_t *ret);
void guard_cpus_begin(struct guard *guard);
/* Ranks may have come, gone or been pinned. */
void guard_cpus_turn(struct guard *guard);
/* guard_read.c: of the last second or more in which the level was on; between windows. */
void guard_rank_share(const struct guard *guard, const struct rank *rank, enum level level, struct guard_share *ret);
void guard_rank_between(const struct guard *guard, const struct rank *rank, enum level level, struct guard_share *ret);
/* guard_excess.c: findings of ranks over the budget, after a plan; that of a rank that ends. */
void guard_publish_excess(struct guard *guard, uint64_t now_ns);
void guard_end_excess(struct guard *guard, const struct rank *rank);
/* Closes those of the daemon itself: it ends. */
void guard_end_own_excess(struct guard *guard);

#endif
