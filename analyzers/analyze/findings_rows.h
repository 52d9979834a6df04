/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of a store, as `tracectl findings` wants them: JSON objects of the columns of the view, evidence as an
 * array. */
#ifndef RANKTRACE_ANALYZE_FINDINGS_ROWS_H
#define RANKTRACE_ANALYZE_FINDINGS_ROWS_H

#include "analyzers/finding/finding.h"
#include "analyzers/store/reader.h"
#include "analyzers/tool/tool.h"

#include <jansson.h>

#define FINDINGS_ROWS_MAX 100000

struct findings_filter {
	uint64_t since_ns;   /* what was so then or later; ns since the epoch */
	struct ranges ranks; /* of these ranks, or concerning them */
	const char *job;     /* of this one; NULL: any */
	bool all;	     /* suspected and dropped ones, too */
	bool hangs;	     /* only hangs and mismatches, from a store */
};

/* An array of objects, oldest beginning first; NULL with the sentence in error. */
json_t *findings_rows(struct reader *reader, const struct findings_filter *filter, char *error, size_t error_size);

/* Of the job and the ranks that are asked for. */
bool findings_row_is_wanted(const struct findings_filter *filter, const json_t *row);
/* A text from outside as a string that harms no terminal; null where memory is out. */
json_t *findings_row_text(const char *text);

/*
 * What the newest stacks of a finding show, from the table `stacks`: lines for people on the main threads of ranks,
 * equal stacks once, the rank that is alone first: "rank 1 is alone, waits: read 5 (pipe:[7]): <module> (gpt.py:90) >
 * burn (gpt.py:54)". An array, empty where no stacks are stored; NULL with the sentence in error.
 */
json_t *findings_stacks(struct reader *reader, int64_t finding, char *error, size_t error_size);
/*
 * The same for a rank that ended with an error, from the table `ends`: "thread python3 (main), exception, ValueError:
 * <module> (gpt.py:90) > load (gpt.py:54)". An exception comes first, then the thread that ended it.
 */
json_t *findings_ends(struct reader *reader, int64_t finding, char *error, size_t error_size);

struct findings_watched {
	uint64_t first_ns, last_ns; /* of the samples since then; 0: none, so nobody was watched */
	uint64_t ranks;
	bool chosen;	 /* certain ranks were asked for */
	const char *job; /* or those of this job; NULL: of any */
	bool only_them;	 /* and only those count here; else all */
};
/* Of the job and the ranks that the filter asks for. */
int findings_watched(struct reader *reader, const struct findings_filter *filter, struct findings_watched *ret,
	char *error, size_t error_size);
/* Records and rows that were lost since then, as on a full disk: of what the filter asks for, or of any rank. */
int findings_lost(
	struct reader *reader, const struct findings_filter *filter, uint64_t *ret, char *error, size_t error_size);

/*
 * Converts findings of detectors to the rows that a store would hold of them (findings_rows.h): of each the newest
 * telling. For tools that judge by themselves.
 */

#define FINDINGS_MADE_MAX 16384 /* 2 KiB each, and more */

struct findings_made;

struct findings_made *findings_made_new(void); /* NULL: out of memory */
struct findings_made *findings_made_free(struct findings_made *made);
/* For struct detect_sink.finding; arg is the findings_made. */
void findings_made_publish(void *arg, const struct finding *finding);
/* An array of objects as of findings_rows(), oldest beginning first; NULL: out of memory. */
json_t *findings_made_rows(const struct findings_made *made, const struct findings_filter *filter);
/* The i-th, by its number; NULL past the last. */
const struct finding *findings_made_at(const struct findings_made *made, size_t i);
/* So many were more than FINDINGS_MADE_MAX, and left out. */
uint64_t findings_made_left_out(const struct findings_made *made);

#endif
