/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `tracectl memory` share: the allocators of a store, one for each device of a process, with their
 * curves and the lines that hold memory.
 */
#ifndef RANKTRACE_CLI_MEMORY_READ_H
#define RANKTRACE_CLI_MEMORY_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "analyzers/base/stack.h"
#include "analyzers/memory/memory.h"
#include "analyzers/memory/segments.h"
#include "analyzers/tool/options.h"
#include "analyzers/tool/tool_rows.h"

#define MEMORY_POOLS_MAX 1024 /* processes and devices */

/* A line that allocates. */
struct memory_place {
	char text[STACK_PLACE_BYTES];
	double live, blocks, alloc, alloc_blocks;
	double error2, below2,
		above2;	   /* squares of its standard error, and of the distances to the ends of its 95 % interval */
	double live_first; /* of the first snapshot in the window */
};

struct memory_name {
	char text[66];
};

/* One device of one process. */
struct memory_pool {
	int64_t instance, rank, device; /* device -1: none */
	struct memory_name kind, host, job;
	int64_t pid;
	bool ended;
	bool calls_only; /* the allocator's reports were not seen: no curve, no lines; kind is "" */
	int64_t first_ns, last_ns, peak_ns;
	double allocated, peak, reserved, reserved_peak, before;
	int64_t end_ns;	  /* of the newest row of the curve */
	int64_t on_ns;	  /* since then L2 is on: lines hold nothing that was allocated before */
	int64_t until_ns; /* of the newest row of L2 */
	double seen_ns,
		span_ns; /* reports were seen in so much of the time until end_ns in which they were seen in windows */
	struct memory_history history;
	struct memory_card card;    /* as of until_ns; of a process that has ended it is unknown */
	int64_t snapshot_ns;	    /* newest; 0: none */
	int64_t snapshot_first_ns;  /* that live_first of its places is of; 0: none */
	int64_t snapshot_allocated; /* then; -1: unknown */
	size_t places, place_capacity;
	struct memory_place *place;
};

struct cmd_memory {
	const char *state_dir, *job;
	struct ranges ranks;
	uint64_t since_ns;
	bool json, allocated;
	const char *output, *format; /* of a picture; NULL: none */
	struct reader *reader;
	size_t pools;
	struct memory_pool *pool;
	json_t *list; /* with --json: what is shown */
	size_t rows;
};

struct memory_text {
	char text[96];
};

/* Columns of a row. */
struct memory_name cmd_memory_name(sqlite3_stmt *row, int column);
int64_t cmd_memory_int(sqlite3_stmt *row, int column);
/* -1: NULL. */
int64_t cmd_memory_number(sqlite3_stmt *row, int column);

/* Columns of a table m of the pool since the chosen time; rest: further conditions, order, limit. */
int cmd_memory_each_of(struct cmd_memory *cmd, const struct memory_pool *pool, const char *columns, const char *table,
	const char *rest, int (*row)(void *arg, sqlite3_stmt *statement), void *arg);
#define MEMORY_SEGMENT_COLUMNS "start_ns, address, bytes, used_bytes, gap_bytes, blocks, expandable"
enum { SEGMENT_START, SEGMENT_ADDRESS, SEGMENT_BYTES, SEGMENT_USED, SEGMENT_GAP, SEGMENT_BLOCKS, SEGMENT_EXPANDABLE };
/* All curves of the ranks, job and time, by job and rank. An allocator that never held a byte is left out; one whose
 * reports were not seen, as no window of L2 was open, is there by its calls of the driver. */
int cmd_memory_read_curves(struct cmd_memory *cmd);
/* In so much of its time, 0 to 1, its reports were seen. */
double cmd_memory_seen_share(const struct memory_pool *pool);
/* The cards of all devices of processes that run. */
int cmd_memory_read_cards(struct cmd_memory *cmd);
/* Its fields, null where unknown. */
void cmd_memory_json_card(json_t *object, const struct memory_card *card);
/* The newest snapshot until then, and with from_ns that which is the first since then. */
int cmd_memory_read_places(struct cmd_memory *cmd, struct memory_pool *pool, int64_t from_ns, int64_t until_ns);
/* memory_places.c: a table of those that hold most; grown: since the first snapshot, in the place of what was
 * allocated. */
void cmd_memory_print_places(const struct memory_pool *pool, bool grown, size_t shown);
json_t *cmd_memory_json_places(const struct memory_pool *pool);
/* Segments of the newest snapshot until then; 0 in *ret_ns: none. */
int cmd_memory_read_pieces(struct cmd_memory *cmd, const struct memory_pool *pool, int64_t until_ns,
	struct memory_pieces *ret, int64_t *ret_ns);
/* NULL: too many. */
struct memory_pool *cmd_memory_pool(struct cmd_memory *cmd, int64_t instance, const char *kind, int64_t device);
/*
 * The line of a stack; without frames of Python, the function and the thread. frames, thread: NULL if unknown. sites:
 * stacks in the row.
 */
void cmd_memory_place(const char *frames, const char *thread, int64_t sites, char ret[STACK_PLACE_BYTES]);

/* "rank 0 (node1, pid 4711), cuda:0: ", and of one with calls alone the line that says so. */
void cmd_memory_print_pool(const struct memory_pool *pool);
struct memory_text cmd_memory_bytes(double bytes);
/* "cuda:0" */
struct memory_text cmd_memory_device(const struct memory_pool *pool);

/*
 * Writes what is held, or with `allocated` what was allocated, by stack: memory_picture.c. format: NULL: by the file's
 * name; output: NULL or "-": standard output. 0, or the exit code after a sentence.
 */
bool cmd_memory_has_format(const char *format, const char *output);
int cmd_memory_picture(struct cmd_memory *cmd, const char *format, const char *output, bool allocated);
/* Writes the page of segments over time: memory_map.c. */
int cmd_memory_map(struct cmd_memory *cmd, const char *output);

/* Views: memory_live.c, memory_pieces.c, memory_copies.c, memory_calls.c. */
int cmd_memory_live(struct cmd_memory *cmd);
int cmd_memory_leaks(struct cmd_memory *cmd);
int cmd_memory_copies(struct cmd_memory *cmd);
int cmd_memory_fragmentation(struct cmd_memory *cmd);
int cmd_memory_oom(struct cmd_memory *cmd);
int cmd_memory_errors(struct cmd_memory *cmd);

#endif
