/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gauges: what the machine, its cards and its links measure of themselves, once a second, beside the ranks. Sources are
 * files gauge_NAME.c and rows of sources.def; they are read in threads, which the loop never waits for. Rows go to
 * the tables `gauges` and `kernel_messages`.
 *
 * All sources together take half of [budget] cpu_percent: groups of gauges that cost too much for that are read less
 * often. Whoever reads gauges has the newest value until the next reading of its group.
 *
 * A row covers a time: mean, least and greatest sample. It ends when a sample is off its mean by more than the gauge's
 * step, after 10 s if anything differs, else after 60 s. A source has so many rows a second; beyond, rows cover longer
 * times, and nothing is lost but resolution. All sources together: 29 rows a second at most,
 * which is 145 MB a day (58 bytes a row, 2.5 million rows); a node of two CPUs without cards writes some 13 MB.
 */
#ifndef RANKTRACE_DAEMON_GAUGES_GAUGES_H
#define RANKTRACE_DAEMON_GAUGES_GAUGES_H

#include "daemon/base/util.h"
#include "daemon/gauges/gauge.h"

struct context;
struct card_gauges;
struct network_gauges;
struct gauges;

#define GAUGES_MAX 4096 /* gauges of all sources, times objects */

/* Opens all sources that the machine has, in threads: returns at once. */
int gauges_new(struct context *context, struct gauges **ret);
/* As gauges_new(), with other folders of the system; roots: NULL members are the defaults. */
int gauges_new_at(struct context *context, const struct gauge_roots *roots, struct gauges **ret);
/* Ends open rows. Threads that hang in a driver are abandoned. */
struct gauges *gauges_free(struct gauges *gauges);
/* Every second: stores what was read. */
void gauges_tick(struct gauges *gauges, uint64_t now_ns);

/* A row of kernel_messages. */
struct gauges_message {
	const char *kind, *object, *text;
	int64_t number;
};

enum gauges_state { GAUGES_OPENING, GAUGES_ABSENT, GAUGES_READ, GAUGES_REFUSED, GAUGES_SILENT };

struct gauges_group_status {
	const char *name;
	uint64_t interval_ns; /* between two readings */
	bool slow;	      /* they cost too much for the usual one */
	double cpus;	      /* CPU time that they take */
};

struct gauges_status {
	const struct gauge_source *source;
	enum gauges_state state;
	char why[160]; /* of GAUGES_REFUSED: a sentence */
	size_t groups; /* that are read */
	struct gauges_group_status group[GAUGE_GROUPS_MAX];
	double cpus;		 /* of all of them */
	size_t count;		 /* gauges that it gives now */
	uint64_t rows, left_out; /* since start; samples beyond GAUGES_MAX */
};
/* index from 0; false past the last. */
bool gauges_status(const struct gauges *gauges, unsigned index, struct gauges_status *ret);

/* What sources give, as it is taken from them in the loop. One observer. */
struct gauges_observer {
	void (*card)(void *arg, const struct gauge_card *card);
	void (*sample)(void *arg, uint64_t time_ns, const char *object, const char *name, double value);
	void (*message)(void *arg, uint64_t time_ns, const struct gauges_message *message);
};
void gauges_observe(struct gauges *gauges, const struct gauges_observer *observer, void *arg);

/* The newest sample of each gauge and object; a rate as its increase a second. Not of sources that are silent. */
typedef void (*gauges_newest)(
	void *arg, const struct gauge_source *source, const struct gauge *gauge, const char *object, double value);
void gauges_each(const struct gauges *gauges, gauges_newest newest, void *arg);

/* For card_gauges_explain(); NULL of NULL. */
struct card_gauges *gauges_cards(const struct gauges *gauges);
/* For network_gauges_explain(); NULL of NULL. */
struct network_gauges *gauges_network(const struct gauges *gauges);

extern const struct gauge_source *const gauge_sources[];
extern const unsigned gauge_sources_count;

#endif
