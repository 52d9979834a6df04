/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of the timeline; nobody else includes it.
 *
 *  timeline.c       stores one after the other, streams one after the other
 *  ranks.c          whose rows: processes and communicators
 *  tracks.c         tracks as they are needed, and the lanes of each
 *  flows.c          which slices belong together
 *  streams.c        the tables: where their rows come from, and what a row becomes
 *  scans.c          rows of large tables, sorted (sorted.h, row_texts.h)
 *  rows_*.c         rows that need more than that
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
 * Which of several tracks under one name takes a slice. On a track slices must lie one after the other or one within
 * the other; a slice that crosses those that are open on all tracks opens one more. Slices come by start, and of those
 * with one start the longest first. Memory is bounded by the two numbers below.
 */

#define LANES_MAX 128  /* tracks under one name */
#define LANES_DEPTH 32 /* slices within slices on one */

struct lane;

struct lanes {
	struct lane *lane;
	size_t count;
	bool nest; /* slices may lie within slices */
};

/* The track's index: up to the count before; -ENOSPC: all are taken; -ENOMEM. end_ns is not below start_ns. */
int lanes_place(struct lanes *lanes, int64_t start_ns, int64_t end_ns);
void lanes_clear(struct lanes *lanes);

/* A row as it is shown, wherever it was read: cells with names. */

#define ROW_CELLS_MAX 32
#define ROW_NAME_BYTES 320 /* of a name that is made of several */

enum cell_type { CELL_NULL, CELL_INT, CELL_REAL, CELL_TEXT };

struct cell {
	const char *name;
	enum cell_type type;
	int64_t integer; /* of a CELL_REAL: what is nearest */
	double real;	 /* of a CELL_INT, too */
	const char *text;
};

/* Texts are valid as long as the row is shown. */
struct row {
	size_t count;
	struct cell cell[ROW_CELLS_MAX];
	char name[ROW_NAME_BYTES]; /* room for one */
};

/* Of a statement that stands on a row; columns beyond ROW_CELLS_MAX are left out. */
void row_of(sqlite3_stmt *statement, struct row *ret);

/* Cells keep their names. */
static inline void cell_clear(struct cell *cell)
{
	*cell = (struct cell){.name = cell->name};
}

static inline void cell_set_int(struct cell *cell, int64_t value)
{
	*cell = (struct cell){.name = cell->name, .type = CELL_INT, .integer = value, .real = (double)value};
}

void cell_set_real(struct cell *cell, double value);

/* NULL makes it CELL_NULL. */
static inline void cell_set_text(struct cell *cell, const char *text)
{
	*cell = (struct cell){.name = cell->name, .type = text ? CELL_TEXT : CELL_NULL, .text = text};
}

static inline bool row_has(const struct row *row, size_t cell)
{
	return row->cell[cell].type != CELL_NULL;
}

/* 0 for what is no number. */
static inline int64_t row_int(const struct row *row, size_t cell)
{
	return row->cell[cell].integer;
}

static inline double row_real(const struct row *row, size_t cell)
{
	return row->cell[cell].real;
}

/* "" for what is no text. */
static inline const char *row_text(const struct row *row, size_t cell)
{
	return row->cell[cell].text ? row->cell[cell].text : "";
}

#define TIMELINE_RANKS_MAX 65536
#define TIMELINE_COMMS_MAX 262144 /* of one node */
#define TIMELINE_TRACKS_MAX 65536 /* with all lanes */
#define TIMELINE_LABEL_BYTES 96

/* Numbers that no process and thread has: above the kernel's highest, 2^22. */
#define TIMELINE_PID_FREE 8388608
#define TIMELINE_TID_FREE 16777216

struct timeline_rank {
	size_t node;
	int64_t instance, rank, pid;
	char job[64], host[64], card[32];
	uint64_t seen_ns;
	bool wanted, said;
	int64_t shown_pid; /* pid, or another one where two processes have that */
	uint64_t track;
	int64_t sampled_until_ns;	 /* end of its newest sample, 0: none yet */
	char state;			 /* of its newest sample */
	struct timeline_track *launches; /* counters of launches, linked by next */
};

struct timeline_comm {
	int64_t key, member; /* member -1: not known */
	char label[40];
};

enum track_class {
	TRACK_FINDINGS,
	TRACK_GAPS,
	TRACK_STEPS,
	TRACK_DEVICE, /* number: communicator */
	TRACK_THREAD, /* number: thread id; here and in those below it */
	TRACK_COLLECTIVES,
	TRACK_OFFCPU,
	TRACK_MEMORY,
	TRACK_COUNTER, /* number: thread id, 0 of the process; label: "NAME|UNIT" */
	TRACK_STATES,
	TRACK_DROPS,
	TRACK_CLOCK,
	TRACK_CLASSES,
};

struct timeline_track {
	size_t owner; /* index of the rank + 1; of a node SIZE_MAX - its index */
	enum track_class class;
	int64_t number;
	char label[TIMELINE_LABEL_BYTES];
	uint64_t hash;
	struct trace_track trace; /* of lane 0; its texts point into this */
	char name[TIMELINE_LABEL_BYTES], where[32];
	struct lanes lanes;
	uint64_t *lane_ids;
	double value; /* of a counter: the newest */
	struct timeline_track *next;
};

struct tracks;
struct flows;

struct timeline {
	const struct timeline_options *options;
	struct trace *trace;
	struct timeline_counts counts;
	size_t node;	       /* that is read now */
	struct reader *reader; /* of it */
	size_t ranks_count, ranks_capacity;
	struct timeline_rank *rank; /* by (node, instance) */
	size_t comms_count, comms_capacity;
	struct timeline_comm *comm; /* of the node that is read now, by key */
	struct tracks *tracks;
	struct flows *flows;
	int64_t clock_offset_ns, clock_monotonic_ns; /* of the clock row before; 0: none */
	char *error;
	size_t error_size;
};

/* A row of a stream. All begin with these five cells. */
enum { COL_INSTANCE, COL_START, COL_END, COL_THREAD, COL_NAME, COL_MORE };

/* A large table, read without SQL; rows come by their start, those of one start with the longest first. */
struct stream_scan {
	/* So many columns are the row's cells; in place of the end the duration is read. Then comes rank. */
	struct reader_scanning scanning;
	size_t cells;
	const char *names[READER_SCAN_COLUMNS_MAX]; /* of cells that are called otherwise than their columns */
	bool before;				    /* also what began up to TIMELINE_LOOKBACK_NS before the window */
	bool reaches;				    /* not what ended before the window */
	size_t order; /* cell that rows with the same times come by; 0: as they are stored */
	/* Column of another start, and after it another duration: with them, where they are known, the row comes once
	 * more. COL_MORE then is 0, and 1 of the other one. 0: it has none. */
	size_t other;
	const char *more;		 /* SELECT of more rows with these cells, as in stream.sql; NULL: none */
	void (*finish)(struct row *row); /* makes cells of others; may be NULL */
};

struct stream {
	const char *what;
	const struct stream_scan *scan; /* or NULL: */
	/* :from (start of the window less the lookback), :since, :until; RANKS where rank is to be chosen; ends by
	 * start */
	const char *sql;
	enum track_class class;
	const char *category;
	size_t args;  /* cell from which all are arguments, by their names */
	bool of_node; /* rows have no instance */
	void (*row)(struct timeline *timeline, const struct stream *stream, struct timeline_rank *rank,
		const struct row *row);
};

extern const struct stream timeline_streams[];
extern const size_t timeline_streams_count;

/* timeline.c */
/* One SELECT over the node's store, row by row. 0 or negative errno with the sentence. */
int timeline_each(struct timeline *timeline, const char *sql,
	int (*row)(struct timeline *timeline, void *arg, sqlite3_stmt *s), void *arg);
/* The same in two parts. 0 or negative errno with the sentence; 1: it stands on a row, 0: over, or the same. */
int timeline_prepare(struct timeline *timeline, const char *sql, sqlite3_stmt **ret);
int timeline_step(struct timeline *timeline, sqlite3_stmt *s);
/* Start of the window less the lookback. */
int64_t timeline_before(const struct timeline *timeline);
/* One more row of a stream. 0, or what the trace failed with. */
int timeline_row(struct timeline *timeline, const struct stream *stream, const struct row *row);

/* scans.c */
/* All rows of a stream that is a scan. 0 or negative errno with the sentence. */
int timeline_scan(struct timeline *timeline, const struct stream *stream);
/* By the rank in a column of a scan's row. */
bool timeline_rank_chosen(const struct timeline *timeline, const struct reader_row *row, size_t column);

/* ranks.c */
int timeline_ranks_load(struct timeline *timeline); /* of all nodes' stores; said are those that have rows */
int timeline_ranks_sort(struct timeline *timeline);
int timeline_comms_load(struct timeline *timeline);
struct timeline_rank *timeline_rank_find(struct timeline *timeline, size_t node, int64_t instance);
/* The newest process of that rank and job; NULL. Any host where that is NULL. */
struct timeline_rank *timeline_rank_named(struct timeline *timeline, int64_t rank, const char *job, const char *host);
const struct timeline_comm *timeline_comm_find(const struct timeline *timeline, int64_t key);

/* tracks.c */
int tracks_new(struct tracks **ret);
struct tracks *tracks_free(struct tracks *tracks);
/* The track of a rank (NULL: of the node that is read now), said if it is new; NULL: there are too many. */
struct timeline_track *timeline_track(struct timeline *timeline, struct timeline_rank *rank, enum track_class class,
	int64_t number, const char *label);
/* A better name for a thread than its number; the first one stays. */
void timeline_thread_name(struct timeline *timeline, struct timeline_rank *rank, int64_t thread, const char *name);
/* Puts the event onto a lane of the track and writes it; false: no lane is free. ret_end may be NULL. */
bool timeline_put(
	struct timeline *timeline, struct timeline_track *track, struct trace_event *event, struct trace_end *ret_end);
void timeline_value(struct timeline *timeline, struct timeline_track *track, int64_t time_ns, double value);

/* flows.c */
struct flows *flows_new(size_t nodes);
struct flows *flows_free(struct flows *flows);
uint64_t flow_id(const char *kind, const char *communicator, const int64_t *numbers, size_t count);
/* This slice has that flow: an arrow from the one that had it before. */
void flows_join(struct flows *flows, struct trace *trace, uint64_t id, const struct trace_event *event,
	const struct trace_end *end);

/* streams.c */
/* The row's times, text and arguments; false: it has no usable start. A row with no end is an instant. */
bool timeline_event(
	struct timeline *timeline, const struct stream *stream, const struct row *row, struct trace_event *ret);

/* rows_*.c */
typedef void timeline_rows(
	struct timeline *timeline, const struct stream *stream, struct timeline_rank *rank, const struct row *row);
timeline_rows rows_collective, rows_allocation, rows_offcpu, rows_values, rows_launches, rows_sample, rows_drops,
	rows_clock, rows_finding;
int rows_memory_before(struct timeline *timeline); /* what was taken before the window */

#endif
