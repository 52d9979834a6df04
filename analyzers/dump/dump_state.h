/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STATE_DIR/dump/state: progress of dumps and what was written last. Lines "WORD VALUES", replaced as a whole; the
 * replacement makes a dump's new files valid (dump_files.h). Lines that cannot be parsed are skipped.
 */
#ifndef RANKTRACE_DUMP_DUMP_STATE_H
#define RANKTRACE_DUMP_DUMP_STATE_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzers/dump/dump_text.h"

#define DUMP_DELAYS_MAX 65536 /* threads of ranks */
#define DUMP_REASON_BYTES 256

/* Last dump of a level. */
struct dump_wrote {
	uint64_t at_ns; /* ns since the epoch; 0: none yet */
	uint64_t files, rows, bytes;
};

struct dump_level_state {
	uint64_t segment; /* position in the store (struct reader_place) */
	int64_t row;
	uint64_t since_ns;  /* earlier rows are not dumped; 0: never dumped */
	uint64_t window_ns; /* start of the present window; 0: no files */
	struct dump_wrote wrote;
};

/* Cumulative run delay of a thread in its L3 file. */
struct dump_delay {
	int64_t instance, thread_id;
	uint64_t sum_ns;
};

struct dump_state {
	uint64_t run;	  /* number of the last complete dump */
	uint64_t next_id; /* of operations */
	struct dump_level_state level[DUMP_KIND_MAX];
	uint64_t kept_files, kept_bytes;
	char reason[DUMP_REASON_BYTES]; /* error of the last run, "" if none */
	struct dump_delay *delay;	/* by instance and thread; owned */
	size_t delays, delays_capacity;
};

/* 0 with an empty state if there is no file. */
int dump_state_load(const char *dump_dir, struct dump_state *ret);
/* Loads all but the delays, which are most of the file. Nothing to clear. */
int dump_state_load_summary(const char *dump_dir, struct dump_state *ret);
int dump_state_save(const char *dump_dir, const struct dump_state *state);
/* Parser of both; the file is untrusted. */
void dump_state_read(FILE *f, bool delays, struct dump_state *ret);
void dump_state_clear(struct dump_state *state);

/* Adds to a thread's sum and returns it. Beyond DUMP_DELAYS_MAX threads, returns delay_ns for new ones. */
uint64_t dump_delay_add(struct dump_state *state, int64_t instance, int64_t thread_id, uint64_t delay_ns);

#endif
