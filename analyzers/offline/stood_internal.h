/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside stood: stood_spots.c (when), stood_rows.c (what is read of these times), stood.c (where everybody stood then).
 */
#ifndef RANKTRACE_OFFLINE_STOOD_INTERNAL_H
#define RANKTRACE_OFFLINE_STOOD_INTERNAL_H

#include "analyzers/offline/stood.h"

#define STOOD_NS 1000000000ULL
#define STOOD_TAIL_NS (3 * STOOD_NS) /* looked at after it is over, so that it is seen to be over */
#define STOOD_WORDS_MAX 256	     /* names of operations and data types */
#define STOOD_NEVER UINT64_MAX

/* A time to look at. */
struct stood_spot {
	uint64_t from_ns, to_ns;
};

struct stood_spots {
	size_t count, capacity;
	struct stood_spot *spot; /* by time, apart from each other */
};

/* A stage of a rank. */
struct stood_span {
	uint32_t rank; /* its place in store_ranks, as in all that follow */
	uint32_t thread_id;
	enum stage_kind kind;
	uint64_t start_ns, end_ns; /* end_ns: STOOD_NEVER, it had not ended */
};

struct stood_sample {
	uint32_t rank;
	char state;
	uint64_t start_ns, end_ns;
	uint64_t cpu_ns;    /* in it, FRAME_UNKNOWN */
	uint64_t before_ns; /* in those before it */
};

struct stood_op {
	uint32_t rank, place;		/* of its communicator, in the rank's places */
	uint64_t seq, start_ns, end_ns; /* end_ns: STOOD_NEVER, not known */
	uint64_t count, bytes;
	uint16_t op, dtype; /* words */
	uint8_t seq_from;
	bool tells; /* its end is that of the operation, not of the call */
};

/* A rank's operations of one communicator: by number, and after them, by time, those whose number may not be compared
 * with others'. */
struct stood_run {
	const struct stood *stood;
	size_t first, count, unsure;
	size_t entered; /* so many of those by number were called by the time of the look */
	bool tells;	/* of completion */
};

struct stood_part {
	size_t count, capacity;
	void *row;
};

enum stood_table { STOOD_STAGES, STOOD_CUT, STOOD_SAMPLES, STOOD_OPS, STOOD_TABLES };

struct stood {
	struct reader *reader;
	struct store_ranks *ranks;
	const struct store_feed_options *options;
	struct stood_spots still, ends; /* gaps in progress; ends of ranks */
	struct stood_spots all;		/* both together, for reading */
	size_t still_at, ends_at;
	uint64_t every_ns;	    /* looks at what stands still are that far apart, at least; 0: no matter */
	uint64_t known_ns, last_ns; /* see stood_known() */
	uint64_t step_ns;	    /* longest typical step of a job */
	size_t part_at, part_end;   /* of all, that is in memory */
	struct reader_scan *scan[STOOD_TABLES];
	sqlite3_stmt *flight; /* what is in flight is no log */
	struct stood_part spans, samples, ops;
	size_t runs;
	struct stood_run *run;
	size_t *run_of; /* of each rank, and one more: the first of its runs */
	size_t words;
	char word[STOOD_WORDS_MAX][OPS_NAME_BYTES];
	bool ops_overflow, warned;
};

/* stood_spots.c */
int stood_spots_find(struct stood *stood, char *error, size_t error_size);
void stood_spots_free(struct stood_spots *spots);
/* stood_rows.c: of the times around now_ns, if they are not in memory. */
int stood_rows_open(struct stood *stood, char *error, size_t error_size);
void stood_rows_load(struct stood *stood, uint64_t now_ns);
void stood_rows_close(struct stood *stood);
/* Once: that something could not be read. */
void stood_warn(struct stood *stood, const char *error);
/* The scan's rows one after the other, with the place of their rank; column 0 is the instance. False: over. */
bool stood_next(struct stood *stood, struct reader_scan *scan, uint32_t *ret_rank);
/* The place of the rank; false: it is not wanted. */
bool stood_wants(const struct stood *stood, int64_t instance, uint32_t *ret_rank);

#endif
