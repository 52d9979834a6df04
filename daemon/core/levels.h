/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of collection levels and of the switches within them: which are on, until when, and their dump intervals.
 * Survives a restart (STATE_DIR/levels, written atomically). Setting a level attaches or detaches at once, through the
 * collectors.
 */
#ifndef RANKTRACE_DAEMON_CORE_LEVELS_H
#define RANKTRACE_DAEMON_CORE_LEVELS_H

#include "daemon/core/level.h"

struct context;
struct collectors;

struct levels {
	bool on[LEVEL_MAX];	      /* attached now */
	bool sampled[LEVEL_MAX];      /* turned on without an end; `on` in windows, which the guard opens and closes */
	uint64_t until_ns[LEVEL_MAX]; /* CLOCK_MONOTONIC; 0: no end (set --for) */
	double interval_minutes[LEVEL_MAX]; /* 0: no interval */
	bool is_auto[LEVEL_MAX];	    /* on by levels_auto_on(), not by an operator; not saved */
	uint64_t suspected_ns; /* the steps of a job took longer: L0 is needed as a whole. CLOCK_MONOTONIC; 0: never */
	uint64_t save_wait_ns; /* of levels_save(); 0: 150 ms. For tests, which share their CPUs */
	uint64_t set_ns[LEVEL_MAX]; /* last set by an operator, CLOCK_MONOTONIC; 0: never */
	/* Attaches and detaches for the level (collectors_level()); NULL: nothing serves any. */
	int (*apply)(struct collectors *collectors, enum level level, bool on, char *report, size_t report_size);
	/* Attaches and detaches for a window of the level (collectors_window()). */
	int (*window)(struct collectors *collectors, enum level level, bool open, double duty);
};

/* Levels whose records are estimates from a sample anyway: the guard may always sample them. */
#define LEVELS_ESTIMATED LEVEL_BIT(LEVEL_L2)

/* Dump intervals are minutes above 0, a week at most. */
#define LEVEL_INTERVAL_MINUTES_MAX 10080
bool level_interval_good(double minutes);

void levels_defaults(struct levels *levels);
int levels_load(struct levels *levels, const char *state_dir);
/* Waits for a slow disk up to 150 ms: -ETIMEDOUT, or -EBUSY where it has not taken the last ones yet. */
int levels_save(const struct levels *levels, const char *state_dir);

/*
 * Turns a level on or off through every collector that serves it, saves, and writes the result to report, in sentences
 * ("L1 on: 14 probes in 2 libraries, 2 ranks; 3 symbols not found: ..."). for_ns 0: no end.
 */
int levels_set(struct context *context, enum level level, bool on, uint64_t for_ns, char *report, size_t report_size);

/*
 * Turns a level on for a time, to investigate `why` (a sentence for the log). Not saved. Ends with the time, the
 * daemon, or levels_set() of the level. -EALREADY: it is on.
 */
int levels_auto_on(struct context *context, enum level level, uint64_t for_ns, const char *why);

/* After a `set`: an operator investigates for less; what is on for longer is monitoring. */
#define LEVELS_WHOLE_NS (3600 * NSEC_PER_SEC)
/* Of L0 probes that count steps are attached between windows, too (daemon/collect/collect_call.c): it is never off. */
bool levels_may_sample(const struct levels *levels, enum level level, uint64_t now_ns);
/*
 * For the guard (daemon/guard): begins or ends the sampling of a level that is on without an end, and attaches or
 * detaches one that is sampled. Nothing of it is saved: the level is on. A level that a suspicion turned on, or an
 * operator for a time or within LEVELS_WHOLE_NS, is not sampled, because somebody needs all of its records;
 * LEVELS_ESTIMATED may be sampled at any time. -EBUSY: the guard may not sample the level (levels_may_sample()).
 */
int levels_sample(struct context *context, enum level level, bool sampled);
/* duty: part of the time that windows are open; 1: it is on as a whole. */
int levels_window(struct context *context, enum level level, bool open, double duty);

/* Extends a level turned on by levels_auto_on(); others are unchanged. */
void levels_prolong(struct levels *levels, enum level level, uint64_t by_ns);

/* Ends levels at their time limit. Called every second. */
void levels_tick(struct context *context, uint64_t now_ns);

#endif
