/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STATE_DIR/dump/state: how far the store has been dumped, and what was written last. A file of lines "WORD VALUES",
 * replaced as a whole; that replacement is what makes a dump's new files valid (dump_files.h). A line that is not
 * understood is passed over, so that a damaged file costs no more than what was in it.
 */
#ifndef RANKTRACE_DUMP_DUMP_STATE_H
#define RANKTRACE_DUMP_DUMP_STATE_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzers/dump/dump_text.h"

#define DUMP_DELAYS_MAX 65536 /* threads of ranks */
#define DUMP_TROUBLE_BYTES 256

/* What a level's dump wrote last. */
struct dump_wrote {
	uint64_t at_ns; /* ns since the epoch; 0: nothing yet */
	uint64_t files, rows, bytes;
};

struct dump_level_state {
	uint64_t segment; /* place in the store (struct reader_place) */
	int64_t row;
	uint64_t since_ns;  /* rows of before then were nobody's wish; 0: none was dumped yet */
	uint64_t window_ns; /* start of the time that the files there are of; 0: there are none */
	struct dump_wrote wrote;
};

/* Run delay that an L3 file has given for a thread so far. */
struct dump_delay {
	int64_t instance, thread_id;
	uint64_t sum_ns;
};

struct dump_state {
	uint64_t run;	  /* number of the last dump that is whole */
	uint64_t next_id; /* of operations */
	struct dump_level_state level[DUMP_KIND_MAX];
	uint64_t kept_files, kept_bytes;
	char trouble[DUMP_TROUBLE_BYTES]; /* of the last run, "" if none */
	struct dump_delay *delay;	  /* by instance and thread; owned */
	size_t delays, delays_capacity;
};

/* A folder without the file: 0, and a state that is empty. */
int dump_state_load(const char *dump_dir, struct dump_state *ret);
/* The same without delays, which are most of it: for who only wants to know what was written. Nothing to clear. */
int dump_state_look(const char *dump_dir, struct dump_state *ret);
int dump_state_save(const char *dump_dir, const struct dump_state *state);
/* What both read: lines of a file that may hold anything. */
void dump_state_read(FILE *f, bool delays, struct dump_state *ret);
void dump_state_clear(struct dump_state *state);

/* Adds to the sum of a thread and returns it. Beyond DUMP_DELAYS_MAX threads a new one has no sum but this. */
uint64_t dump_delay_add(struct dump_state *state, int64_t instance, int64_t thread_id, uint64_t delay_ns);

#endif
