/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a source of gauges, and what a source gives: samples, and messages.
 *
 * A source runs in a thread of daemon/gauges, never in the loop: a driver may block for seconds. It gives only what the
 * machine has: what cannot be read is no sample, never a zero. To add a source: gauge_NAME.c and a row in sources.def.
 */
#ifndef RANKTRACE_DAEMON_GAUGES_GAUGE_H
#define RANKTRACE_DAEMON_GAUGES_GAUGE_H

#include "daemon/base/util.h"

#define GAUGE_OBJECT_BYTES 72 /* of a card: its UUID; of a process on it: UUID/PID name */
#define GAUGE_MESSAGE_BYTES 256

enum gauge_kind {
	GAUGE_LEVEL, /* as read: temperature; noise below `step` writes no row before its time */
	GAUGE_COUNT, /* as read: a counter of errors, a width; every change is a row */
	GAUGE_RATE,  /* read as a counter, kept as its increase a second */
	/* As the two before, of what the network lost or held back: findings show where it grew, with `help`. */
	GAUGE_LOSS_COUNT,
	GAUGE_LOSS_RATE,
};

/* What is measured. Names and units are public (docs/gauges.md). */
struct gauge {
	const char *name, *unit;
	enum gauge_kind kind;
	double scale; /* of what is read, to the unit; 0: 1 */
	double step;  /* a change by more than this begins a new row at once; 0: any change */
	const char *help;
};

static inline bool gauge_is_rate(const struct gauge *gauge)
{
	return gauge->kind == GAUGE_RATE || gauge->kind == GAUGE_LOSS_RATE;
}

static inline bool gauge_is_loss(const struct gauge *gauge)
{
	return gauge->kind == GAUGE_LOSS_COUNT || gauge->kind == GAUGE_LOSS_RATE;
}

/* Where the machine shows itself; of tests: folders and libraries of their own. */
struct gauge_roots {
	const char *proc, *sys, *kernel_log; /* "/proc", "/sys", "/dev/kmsg" */
	const char *nvml, *dcmi;	     /* names of the libraries */
};

/* Where samples go: gauge_sample() and gauge_message() fill it, in the source's thread. */
struct gauge_batch;

/* value: as read, in the unit before `scale`. object: "" of the node as a whole; truncated, made printable. */
void gauge_sample(struct gauge_batch *batch, const struct gauge *gauge, const char *object, double value);
/*
 * Something that happened. kind, object, text: copied; number: of the kind's own (Xid), 0: none. is_device: programs
 * cannot cause it.
 */
void gauge_message(struct gauge_batch *batch, const char *kind, bool is_device, const char *object, int64_t number,
	const char *text);

/* A card that answers: once, in the first second. Texts are made printable; "" and -1: unknown. */
struct gauge_card {
	char object[GAUGE_OBJECT_BYTES]; /* as in its samples */
	char pci[16], serial[32], name[64];
	int minor; /* number of its device node */
};
void gauge_card(struct gauge_batch *batch, const struct gauge_card *card);

/*
 * What is read together, once a second; less often where reading costs the daemon more than its budget has for it
 * (gauge_pace.c), so that what is cheap, or says most, had better be a group of its own.
 */
struct gauge_group {
	const char *name; /* as status shows it */
	/* Negative errno: nothing of the source is read any more. */
	int (*read)(void *state, struct gauge_batch *batch);
	unsigned every_s; /* of what hardly changes; 0: 1 */
	bool is_urgent;	  /* every second, whatever it costs */
};

#define GAUGE_GROUPS_MAX 8 /* of a source */

struct gauge_source {
	const char *name; /* stored in gauges.source */
	const char *summary;
	const struct gauge *gauges; /* all that it may give, ends with a NULL name */
	/* May block: has a thread of its own. The others share one. */
	bool blocks;
	unsigned rows_per_second; /* stored at most, in the mean; beyond, rows cover longer times */
	/*
	 * Opens it: *ret is its state. -ENOENT: this machine has none of it, which is no fault. Another negative errno:
	 * it is there and cannot be read; why: one sentence.
	 */
	int (*open)(const struct gauge_roots *roots, void **ret, char *why, size_t why_size);
	struct gauge_group group[GAUGE_GROUPS_MAX]; /* ends with one without a function, or the array */
	void (*close)(void *state);
};

/* Reads a whole small file; -ENOENT and others. Terminated; more than size-1 bytes are cut. */
int gauge_file(const char *path, char *ret, size_t size);
/* One number of a small file below folder. False: there is none. */
bool gauge_file_number(const char *folder, const char *name, double *ret);

#endif
