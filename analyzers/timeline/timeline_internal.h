/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of timeline/.
 *
 *  timeline.c       stores and streams, one after another
 *  ranks.c          processes and communicators
 *  tracks.c         tracks and their lanes
 *  flows.c          slices that belong together
 *  streams.c        the tables: source and conversion of rows
 *  scans.c          rows of large tables, sorted (sorted.c, base/text_pool.h)
 *  rows_*.c         special conversions
 */
#ifndef RANKTRACE_TIMELINE_TIMELINE_INTERNAL_H
#define RANKTRACE_TIMELINE_TIMELINE_INTERNAL_H

#include "analyzers/store/reader_scan.h"
#include "analyzers/timeline/timeline.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Lanes: tracks under one name. Slices of a track must be disjoint or nested; a slice that overlaps the open ones of
 * all lanes adds a lane. Slices come by start, the longest first.
 */

#define LANES_MAX 128  /* tracks under one name */
#define LANES_DEPTH 32 /* nested slices on one */

struct lane;

struct lanes {
	struct lane *lane;
	size_t count;
	bool nest; /* slices may nest */
};

/* Index of the lane, which may be new; -ENOSPC: LANES_MAX; -ENOMEM. end_ns >= start_ns. */
int lanes_place(struct lanes *lanes, int64_t start_ns, int64_t end_ns);
void lanes_clear(struct lanes *lanes);

/* A row of any source: named cells. */

#define ROW_CELLS_MAX 32
#define ROW_NAME_BYTES 320 /* of a composed name */

enum cell_type { CELL_NULL, CELL_INT, CELL_REAL, CELL_TEXT };

struct cell {
	const char *name;
	enum cell_type type;
	int64_t integer; /* of a CELL_REAL: rounded */
	double real;	 /* also of a CELL_INT */
	const char *text;
};

/* Texts are valid while the row is converted. */
struct row {
	size_t count;
	struct cell cell[ROW_CELLS_MAX];
	char name[ROW_NAME_BYTES]; /* storage for a composed name */
};

/* The current row of a statement, up to ROW_CELLS_MAX columns. */
void row_of(sqlite3_stmt *statement, struct row *ret);

/* Keeps the name. */
static inline void cell_clear(struct cell *cell)
{
	*cell = (struct cell){.name = cell->name};
}

static inline void cell_set_int(struct cell *cell, int64_t value)
{
	*cell = (struct cell){.name = cell->name, .type = CELL_INT, .integer = value, .real = (double)value};
}

/* NULL makes it CELL_NULL. */
static inline void cell_set_text(struct cell *cell, const char *text)
{
	*cell = (struct cell){.name = cell->name, .type = text ? CELL_TEXT : CELL_NULL, .text = text};
}

static inline bool row_has(const struct row *row, size_t cell)
{
	return row->cell[cell].type != CELL_NULL;
}

/* 0: not a number. */
static inline int64_t row_int(const struct row *row, size_t cell)
{
	return row->cell[cell].integer;
}

static inline double row_real(const struct row *row, size_t cell)
{
	return row->cell[cell].real;
}

/* "": not a text. */
static inline const char *row_text(const struct row *row, size_t cell)
{
	return row->cell[cell].text ? row->cell[cell].text : "";
}

#define TIMELINE_RANKS_MAX 65536
#define TIMELINE_COMMS_MAX 262144 /* of one node */
#define TIMELINE_TRACKS_MAX 65536 /* with all lanes */
#define TIMELINE_LABEL_BYTES 96

/* Numbers for tracks, above those of processes and threads (2^22). */
#define TIMELINE_PID_FREE 8388608
#define TIMELINE_TID_FREE 16777216

struct timeline_rank {
	size_t node;
	int64_t instance, rank, pid;
	char job[64], host[64], card[32];
	uint64_t seen_ns;
	bool wanted, written;
	int64_t shown_pid; /* pid, or a substitute if it is not unique */
	uint64_t track;
	int64_t sampled_until_ns;	 /* end of the newest sample, 0: none */
	char state;			 /* of the newest sample */
	struct timeline_track *launches; /* counters of launches, linked by next */
};

struct timeline_comm {
	int64_t key, member; /* member -1: unknown */
	char label[40];
};

enum track_class {
	TRACK_FINDINGS,
	TRACK_GAPS,
	TRACK_STEPS,
	TRACK_DEVICE, /* number: communicator */
	TRACK_THREAD, /* number: thread id, also of the next four */
	TRACK_COLLECTIVES,
	TRACK_OFFCPU,
	TRACK_MEMORY,
	TRACK_WAITS,
	TRACK_COUNTER, /* number: thread id, 0: process; label: "NAME|UNIT" */
	TRACK_STATES,
	TRACK_DROPS,
	TRACK_CLOCK,
	TRACK_CLASSES,
};

struct timeline_track {
	size_t owner; /* rank: index + 1; node: SIZE_MAX - index */
	enum track_class class;
	int64_t number;
	char label[TIMELINE_LABEL_BYTES];
	uint64_t hash;
	struct trace_track trace; /* of lane 0; its texts point into this */
	char name[TIMELINE_LABEL_BYTES], where[32];
	struct lanes lanes;
	double value; /* newest, of a counter */
	struct timeline_track *next;
};

struct tracks;
struct flows;

struct timeline {
	const struct timeline_options *options;
	struct trace *trace;
	struct timeline_counts counts;
	size_t node;	       /* present one */
	struct reader *reader; /* of the node */
	size_t ranks_count, ranks_capacity;
	struct timeline_rank *rank; /* by (node, instance) */
	size_t comms_count, comms_capacity;
	struct timeline_comm *comm; /* of the node, by key */
	struct tracks *tracks;
	struct flows *flows;
	int64_t clock_offset_ns, clock_monotonic_ns; /* of the previous clock row; 0: none */
	char *error;
	size_t error_size;
};

/* First cells of all rows. */
enum { COL_INSTANCE, COL_START, COL_END, COL_THREAD, COL_NAME, COL_MORE };

/* A large table, read without SQL; rows come by start, the longest first. */
struct stream_scan {
	/* The first `cells` columns are the cells, with the duration in place of the end; then comes rank. */
	struct reader_scanning scanning;
	size_t cells;
	const char *names[READER_SCAN_COLUMNS_MAX]; /* of cells whose names differ from their columns' */
	bool before;				    /* include rows from TIMELINE_LOOKBACK_NS before the window */
	bool reaches;				    /* exclude rows that ended before the window */
	size_t order;				    /* third sort key; 0: none */
	/* Column of a second start, followed by a second duration: if known, the row comes twice, with COL_MORE 0 and
	 * 1. 0: none. */
	size_t other;
	const char *more;		 /* SELECT of further rows with these cells, as in stream.sql; or NULL */
	void (*finish)(struct row *row); /* derives cells; may be NULL */
};

struct stream {
	const char *what;
	const struct stream_scan *scan; /* or NULL: */
	/* Parameters :from (start of the window minus the lookback), :since, :until; RANKS: condition on rank.
	 * Ordered by start. */
	const char *sql;
	enum track_class class;
	const char *category;
	size_t args;  /* first cell that is an argument */
	bool of_node; /* rows without instance */
	void (*row)(struct timeline *timeline, const struct stream *stream, struct timeline_rank *rank,
		const struct row *row);
};

extern const struct stream timeline_streams[];
extern const size_t timeline_streams_count;

/* timeline.c */
/* Rows of a SELECT over the node's store. 0 or negative errno with the sentence. */
int timeline_each(struct timeline *timeline, const char *sql,
	int (*row)(struct timeline *timeline, void *arg, sqlite3_stmt *s), void *arg);
/* timeline_each() in two parts: 0 or negative errno with the sentence; step: 1: a row, 0: end. */
int timeline_prepare(struct timeline *timeline, const char *sql, sqlite3_stmt **ret);
int timeline_step(struct timeline *timeline, sqlite3_stmt *s);
/* Start of the window minus the lookback. */
int64_t timeline_before(const struct timeline *timeline);
/* Converts a row. 0, or the error of the trace. */
int timeline_row(struct timeline *timeline, const struct stream *stream, const struct row *row);

/* scans.c */
/* All rows of a scanned stream. 0 or negative errno with the sentence. */
int timeline_scan(struct timeline *timeline, const struct stream *stream);
/* The rank in a column of a scan's row is selected. */
bool timeline_rank_chosen(const struct timeline *timeline, const struct reader_row *row, size_t column);

/* ranks.c */
int timeline_ranks_load(struct timeline *timeline); /* of the present node; only those with rows are written */
int timeline_ranks_sort(struct timeline *timeline);
int timeline_comms_load(struct timeline *timeline);
struct timeline_rank *timeline_rank_find(struct timeline *timeline, size_t node, int64_t instance);
/* Newest process of that rank, or NULL. job and host: NULL matches any. */
struct timeline_rank *timeline_rank_named(struct timeline *timeline, int64_t rank, const char *job, const char *host);
const struct timeline_comm *timeline_comm_find(const struct timeline *timeline, int64_t key);

/* tracks.c */
int tracks_new(struct tracks **ret);
struct tracks *tracks_free(struct tracks *tracks);
/* Track of a rank (NULL: of the node), written on first use; NULL: too many tracks. */
struct timeline_track *timeline_track(struct timeline *timeline, struct timeline_rank *rank, enum track_class class,
	int64_t number, const char *label);
/* Sets the name of a thread, once. */
void timeline_thread_name(struct timeline *timeline, struct timeline_rank *rank, int64_t thread, const char *name);
/* Writes the event on a lane of the track; false: counted as crowded: no free lane, or track is NULL. ret_end may be
 * NULL. */
bool timeline_put(
	struct timeline *timeline, struct timeline_track *track, struct trace_event *event, struct trace_end *ret_end);
void timeline_value(struct timeline *timeline, struct timeline_track *track, int64_t time_ns, double value);

/* flows.c */
struct flows *flows_new(size_t nodes);
struct flows *flows_free(struct flows *flows);
uint64_t flow_id(const char *kind, const char *communicator, const int64_t *numbers, size_t count);
/* Adds the slice to the flow, with an arrow from the previous one. */
void flows_join(struct flows *flows, struct trace *trace, uint64_t id, const struct trace_event *event,
	const struct trace_end *end);

/* streams.c */
/* Times, name and arguments of a row; an instant if it has no end. false: invalid start. */
bool timeline_event(
	struct timeline *timeline, const struct stream *stream, const struct row *row, struct trace_event *ret);

/* rows_*.c */
typedef void timeline_rows(
	struct timeline *timeline, const struct stream *stream, struct timeline_rank *rank, const struct row *row);
timeline_rows rows_collective, rows_allocation, rows_offcpu, rows_values, rows_launches, rows_sample, rows_stack,
	rows_clock, rows_finding;
int rows_memory_before(struct timeline *timeline); /* allocations before the window */

/*
 * Sorts any number of records by key with SQLite's sorter, which holds a few MB and spills to temporary files
 * (SQLITE_TMPDIR, TMPDIR, else /var/tmp). Records are opaque bytes; equal keys keep their order.
 */

#define SORTED_KEYS 3 /* most significant first, ascending */

struct sorted_record {
	int64_t key[SORTED_KEYS];
	const void *bytes; /* valid until the next call */
	int size;
};

struct sorting {
	/* 1: a record; 0: end; or negative errno, which aborts. */
	int (*next)(void *arg, struct sorted_record *ret);
	/* Records in order. 0, or negative errno, which aborts. */
	int (*take)(void *arg, const void *bytes, int size);
	void *arg;
};

/* 0; negative result of next or take; or another negative errno with the sentence in error, else unchanged. */
int sorted_each(const struct sorting *sorting, char *error, size_t error_size);

#endif
