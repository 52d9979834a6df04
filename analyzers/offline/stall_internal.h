/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by stall_intervals.c (times of stalls), stall_rows.c (rows of these times), stall.c (standings).
 */
#ifndef RANKTRACE_OFFLINE_STALL_INTERNAL_H
#define RANKTRACE_OFFLINE_STALL_INTERNAL_H

#include "analyzers/offline/stall.h"

#define STALL_NS 1000000000ULL
#define STALL_TAIL_NS (3 * STALL_NS) /* checked after its end, so that the end is seen */
#define STALL_WORDS_MAX 256	     /* names of operations and data types */
#define STALL_NEVER UINT64_MAX

/* A time to check. */
struct stall_interval {
	uint64_t from_ns, to_ns;
};

struct stall_intervals {
	size_t count, capacity;
	struct stall_interval *interval; /* by time, apart from each other */
};

/* A stage of a rank. */
struct stall_span {
	uint32_t rank; /* its place in store_ranks, as in all that follow */
	uint32_t thread_id;
	enum stage_kind kind;
	uint64_t start_ns, end_ns; /* end_ns: STOOD_NEVER, it had not ended */
};

struct stall_sample {
	uint32_t rank;
	char state;
	uint64_t start_ns, end_ns;
	uint64_t cpu_ns;    /* in it, FRAME_UNKNOWN */
	uint64_t before_ns; /* in those before it */
};

struct stall_op {
	uint32_t rank, place;		/* of its communicator, in the rank's places */
	uint64_t seq, start_ns, end_ns; /* end_ns: STOOD_NEVER, not known */
	uint64_t count, bytes;
	uint16_t op, dtype; /* words */
	uint8_t seq_from;
	bool is_complete_end; /* its end is that of the operation, not of the call */
};

/* A rank's operations of one communicator: by number, and after them, by time, those whose number may not be compared
 * with others'. */
struct stall_run {
	const struct stall *stall;
	size_t first, count, unsure;
	size_t entered; /* of those by number, called by the time of the check */
	bool completion_known;
};

struct stall_part {
	size_t count, capacity;
	void *row;
};

enum stall_table { STALL_STAGES, STALL_CUT, STALL_SAMPLES, STALL_OPS, STALL_TABLES };

struct stall {
	struct reader *reader;
	struct store_ranks *ranks;
	const struct store_feed_options *options;
	struct stall_intervals still, ends; /* gaps in progress; ends of ranks */
	struct stall_intervals all;		/* both together, for reading */
	size_t still_at, ends_at;
	uint64_t every_ns;	    /* minimum distance of checks of a stall; 0: none */
	uint64_t known_ns, last_ns; /* see stall_known() */
	uint64_t step_ns;	    /* longest typical step of a job */
	size_t part_at, part_end;   /* of all, that is in memory */
	struct reader_scan *scan[STALL_TABLES];
	sqlite3_stmt *flight; /* what is in flight is no log */
	struct stall_part spans, samples, ops;
	size_t runs;
	struct stall_run *run;
	size_t *run_of; /* of each rank, and one more: the first of its runs */
	size_t words;
	char word[STALL_WORDS_MAX][COLL_NAME_BYTES];
	bool coll_overflow, warned;
};

/* stall_intervals.c */
int stall_intervals_find(struct stall *stall, char *error, size_t error_size);
void stall_intervals_free(struct stall_intervals *intervals);
/* stall_rows.c: of the times around now_ns, if they are not in memory. */
int stall_rows_open(struct stall *stall, char *error, size_t error_size);
void stall_rows_load(struct stall *stall, uint64_t now_ns);
void stall_rows_close(struct stall *stall);
/* Once: that something could not be read. */
void stall_warn(struct stall *stall, const char *error);
/* The scan's rows one after the other, with the place of their rank; column 0 is the instance. False: over. */
bool stall_next(struct stall *stall, struct reader_scan *scan, uint32_t *ret_rank);
/* The place of the rank; false: it is not wanted. */
bool stall_wants(const struct stall *stall, int64_t instance, uint32_t *ret_rank);

#endif
