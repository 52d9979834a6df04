/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collection levels and the switches within them: which are on, until when, and the dump intervals. State survives a restart
 * (STATE_DIR/levels, written atomically). Turning a level on or off attaches or detaches at once, through the
 * collectors, and says what happened.
 */
#ifndef RANKTRACE_DAEMON_CORE_LEVELS_H
#define RANKTRACE_DAEMON_CORE_LEVELS_H

#include "daemon/core/level.h"

struct context;
struct collectors;

struct levels {
	bool on[LEVEL_MAX];
	uint64_t until_ns[LEVEL_MAX];       /* CLOCK_MONOTONIC; 0: no end (set --for) */
	double interval_minutes[LEVEL_MAX]; /* 0: has none */
	bool raised[LEVEL_MAX];             /* on by levels_raise(), not by anybody's wish: is not saved */
	uint64_t set_ns[LEVEL_MAX];         /* when somebody set it last, CLOCK_MONOTONIC; 0: not since start */
	/* Attaches and detaches what serves the level (collectors_level()); NULL: nothing serves any. */
	int (*apply)(struct collectors *collectors, enum level level, bool on, char *report, size_t report_size);
};

/* Dump intervals are minutes above 0, a week at most. */
#define LEVEL_INTERVAL_MINUTES_MAX 10080
bool level_interval_good(double minutes);

void levels_defaults(struct levels *levels);
int levels_load(struct levels *levels, const char *state_dir);
int levels_save(const struct levels *levels, const char *state_dir);

/*
 * Turns a level on or off, asks every collector that serves it, saves, and writes one or more sentences on what
 * happened to report ("L1 on: 14 probes in 2 libraries, 2 ranks; 3 symbols not found: ..."). for_ns 0: until changed.
 */
int levels_set(struct context *context, enum level level, bool on, uint64_t for_ns, char *report, size_t report_size);

/*
 * Turns a level on that is off, for a time, because more must be seen; why: a sentence for the log. It is not saved and ends
 * with the time or the daemon; levels_set() of the same level ends it, and has its own way. -EALREADY: it is on.
 */
int levels_raise(struct context *context, enum level level, uint64_t for_ns, const char *why);

/* A level that levels_raise() turned on stays on for so much longer; others are left as they are. */
void levels_prolong(struct levels *levels, enum level level, uint64_t by_ns);

/* Ends levels whose time is over. Called every second. */
void levels_tick(struct context *context, uint64_t now_ns);

#endif
