/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collector: a source of events with a user side (daemon/collect/collect_NAME.c) and, if it has probes, a kernel
 * side (bpf/NAME.bpf.c, bpf/NAME.h). To add one: those files and a row in daemon/collect/collectors.def.
 */
#ifndef RANKTRACE_DAEMON_COLLECT_COLLECTOR_H
#define RANKTRACE_DAEMON_COLLECT_COLLECTOR_H

#include "bpf/event.h"
#include "daemon/core/level.h"
#include "daemon/ranks/ranks.h"
#include "daemon/base/util.h"

struct context;

/* Counters and notes for `tracectl status`. A note is one sentence. */
#define COLLECTOR_NOTES_MAX 32
#define COLLECTOR_NOTE_BYTES 256

struct collector_status {
	uint64_t probes_attached;
	uint64_t level_probes[LEVEL_MAX]; /* the same by level, if it serves several */
	uint64_t libraries;
	bool attaching; /* libraries of ranks are being read, or not all of their probes are attached */
	uint64_t events;
	uint64_t drops;
	uint64_t notes_left_out;
	uint32_t levels_empty;	/* LEVEL_BIT()s it serves without anything to attach */
	uint32_t levels_shared; /* LEVEL_BIT()s whose probes `call` attaches and counts */
	const char *lacks;	/* of the kernel, while it is off, too; owned by the collector; NULL: nothing */
	unsigned notes;
	char note[COLLECTOR_NOTES_MAX][COLLECTOR_NOTE_BYTES];
};

/* Adds a note; counts it in notes_left_out if full. */
void collector_note(struct collector_status *status, const char *format, ...) _printf_(2, 3);

struct collector {
	const char *name;
	const char *summary; /* one line for help and documentation */
	uint32_t levels;     /* LEVEL_BIT()s it serves; 0: always on */
	uint32_t kinds;	     /* 1 << enum rt_kind it decodes */
	/* Loads; attaches nothing that a level controls. If it cannot work here: 0, with the reason in a note. */
	int (*open)(struct context *context, void **ret_state);
	/* Attaches or detaches for the level. Writes the result, without newline. May be NULL. */
	int (*level)(void *state, enum level level, bool on, char *report, size_t report_size);
	/*
	 * A level that is sampled: opens or closes a window, which are on for the part `duty` of the time; 1: from now
	 * on it is on as a whole. NULL: as .level. What a collector keeps attached between windows is its own choice.
	 */
	int (*window)(void *state, enum level level, bool open, double duty);
	/* When the open window of the level, which was opened at open_ns, may close. NULL: GUARD_WINDOW_NS later. */
	uint64_t (*window_end_ns)(const void *state, enum level level, uint64_t open_ns);
	void (*rank)(void *state, const struct rank *rank, enum rank_change change); /* may be NULL */
	void (*event)(void *state, const struct rt_event *event, size_t size_bytes); /* may be NULL */
	void (*tick)(void *state, uint64_t now_ns);				     /* every 100 ms; may be NULL */
	void (*status)(void *state, struct collector_status *ret);
	void (*close)(void *state);
};

/* All collectors of the build, running. */
struct collectors;

int collectors_open(struct context *context, struct collectors **ret);
struct collectors *collectors_close(struct collectors *collectors);
int collectors_level(struct collectors *collectors, enum level level, bool on, char *report, size_t report_size);
int collectors_window(struct collectors *collectors, enum level level, bool open, double duty);
/* The latest of those that the level's collectors ask for; 0: none does. */
uint64_t collectors_window_end_ns(const struct collectors *collectors, enum level level, uint64_t open_ns);
/* Dispatches a record of the ring after checking size and kind. */
void collectors_event(struct collectors *collectors, const void *data, size_t size_bytes);
void collectors_tick(struct collectors *collectors, uint64_t now_ns);
/* i from 0; false past the last. */
bool collectors_status(struct collectors *collectors, unsigned i, const struct collector **ret_collector,
	struct collector_status *ret);
/* Time in all collectors since start; by level, of those that serve it: equal parts, of one that serves several. */
uint64_t collectors_work_ns(const struct collectors *collectors, uint64_t ret_level[LEVEL_MAX]);
/* Records of unknown kind or bad size. */
uint64_t collectors_refused(const struct collectors *collectors);
/* Records of ranks, ended ones too, beyond their part of ring, maps and the daemon's memory. */
uint64_t collectors_limited(const struct collectors *collectors);

#endif
