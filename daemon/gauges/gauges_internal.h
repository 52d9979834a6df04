/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by gauges.c (sources, store), gauge_thread.c (reading), gauge_pace.c (how often), gauge_batch.c (what was
 * read), gauge_series.c (rows).
 */
#ifndef RANKTRACE_DAEMON_GAUGES_GAUGES_INTERNAL_H
#define RANKTRACE_DAEMON_GAUGES_GAUGES_INTERNAL_H

#include "analyzers/base/array.h"
#include "daemon/gauges/gauges.h"

/* What a thread has read in one second: filled by it (gauge.h), then owned and read by the loop. */

#define GAUGE_MESSAGES_MAX 32 /* a second and source; the others are counted */

struct gauge_read {
	const struct gauge *gauge;
	double value;
	unsigned group; /* of the source */
	char object[GAUGE_OBJECT_BYTES];
};

struct gauge_text {
	char kind[24], object[GAUGE_OBJECT_BYTES], text[GAUGE_MESSAGE_BYTES];
	int64_t number;
};

#define GAUGE_CARDS_MAX 64

struct gauge_batch {
	unsigned source;  /* index in gauge_sources */
	uint64_t time_ns; /* CLOCK_MONOTONIC, when it was read */
	unsigned group;	  /* of samples that come now */
	unsigned groups;  /* bits of those that were read */
	size_t count, capacity, max;
	uint64_t left_out; /* samples and messages beyond the bounds */
	struct gauge_read *read;
	size_t texts, of_programs; /* of the texts: those that programs can cause */
	struct gauge_text text[GAUGE_MESSAGES_MAX];
	size_t cards;
	struct gauge_card card[GAUGE_CARDS_MAX];
	struct gauge_batch *next;
};

struct gauge_batch *gauge_batch_new(unsigned source, size_t max);
struct gauge_batch *gauge_batch_free(struct gauge_batch *batch);

/* Samples to rows: what one source gives, each gauge and object a series. Pure. */

#define GAUGE_ROW_NS (10 * NSEC_PER_SEC)    /* a row whose samples differ covers no more */
#define GAUGE_STEADY_NS (60 * NSEC_PER_SEC) /* nor one whose samples are equal */
#define GAUGE_BURST_S 10		    /* rows of so many seconds at once */

struct gauge_row {
	const struct gauge *gauge;
	const char *object;
	uint64_t start_ns, duration_ns; /* CLOCK_MONOTONIC, from the sample before the first to the last */
	double value, least, most;
};

struct gauge_sink {
	void (*row)(void *arg, const struct gauge_row *row);
	/* Each sample, a rate as its increase a second. NULL: not wanted. */
	void (*sample)(void *arg, uint64_t time_ns, const struct gauge *gauge, const char *object, double value);
	void *arg;
};

struct gauge_series_set;

/* rows_per_second: stored at most, in the mean. */
struct gauge_series_set *gauge_series_set_new(unsigned rows_per_second, size_t max, const struct gauge_sink *sink);
/* Ends the open rows. */
struct gauge_series_set *gauge_series_set_free(struct gauge_series_set *set);
/* A second's samples; what is not among those of its group any more ends. */
void gauge_series_set_feed(struct gauge_series_set *set, const struct gauge_batch *batch);
/* Nothing came: all rows end, and rates begin again. */
void gauge_series_set_end(struct gauge_series_set *set);
void gauge_series_set_each(
	const struct gauge_series_set *set, const struct gauge_source *source, gauges_newest newest, void *arg);
size_t gauge_series_set_count(const struct gauge_series_set *set);
uint64_t gauge_series_set_rows(const struct gauge_series_set *set);
uint64_t gauge_series_set_left_out(const struct gauge_series_set *set);

/*
 * How often a group is read. All groups of all sources together keep a share of a CPU: each may take so much of it as
 * the others (`level`), and what the cheap ones do not need is for the costly ones. Pure but for gauge_pace_read().
 */

#define GAUGES_SHARE 0.5 /* of [budget] cpu_percent: the other half is for levels and findings */

struct gauge_pace {
	uint64_t read_ns; /* of the newest reading: begin of its round, CLOCK_MONOTONIC; 0: none */
	uint64_t cpu_ns;  /* CPU time that it took */
	uint64_t took_ns; /* the longer of that and its duration: a call that waits holds locks of the driver */
	uint64_t cost_ns; /* the lower took_ns of the newest two: a single one may have waited for a CPU */
};

/* In CPUs, if it is read as often as it may be. */
double gauge_pace_need(const struct gauge_pace *pace, const struct gauge_group *group);
/*
 * The level, in CPUs, that keeps the needs of the groups within share. urgent: of groups that are urgent, which comes
 * first, but leaves half of the share to the others.
 */
double gauge_pace_level(double share, double urgent, const double *need, size_t count);
/* It is read less often than it may be. */
bool gauge_pace_is_slow(const struct gauge_pace *pace, const struct gauge_group *group, double level);
uint64_t gauge_pace_interval_ns(const struct gauge_pace *pace, const struct gauge_group *group, double level);
bool gauge_pace_is_due(const struct gauge_pace *pace, const struct gauge_group *group, double level, uint64_t round_ns);
/* Reads the group, and measures what it costs. */
int gauge_pace_read(struct gauge_pace *pace, const struct gauge_group *group, void *state, struct gauge_batch *batch,
	uint64_t round_ns);

/*
 * A thread that reads what is due of sources once a second and hands over what they gave. It may hang in a driver: the
 * loop only takes what is there, and a thread that does not end is abandoned with what it uses.
 */

#define GAUGE_THREAD_SOURCES 16
#define GAUGE_BATCHES_MAX 64 /* that wait for the loop; beyond, seconds are not read */

struct gauge_thread;

struct gauge_opened {
	bool opened; /* tried */
	int result;  /* of open(), or of a read that ended it */
	char why[160];
	uint64_t busy_ns; /* since then the thread opens or reads, CLOCK_MONOTONIC; 0: it waits for the next second */
	struct gauge_pace pace[GAUGE_GROUPS_MAX];
};

/* source: indices in gauge_sources. */
int gauge_thread_new(const struct gauge_roots *roots, const unsigned *source, size_t sources, size_t samples_max,
	struct gauge_thread **ret);
/* Takes what was read, oldest first; the caller frees each. NULL: nothing. */
struct gauge_batch *gauge_thread_take(struct gauge_thread *thread);
/* What a group of its sources may take, in CPUs. */
void gauge_thread_level(struct gauge_thread *thread, double level);
/* How its source-th one is (as given to gauge_thread_new()). */
void gauge_thread_opened(struct gauge_thread *thread, size_t source, struct gauge_opened *ret);
/* Waits for its end for wait_ns at most. */
struct gauge_thread *gauge_thread_free(struct gauge_thread *thread, uint64_t wait_ns);

#endif
