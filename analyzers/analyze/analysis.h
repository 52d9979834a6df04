/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores of nodes, or files of sysTrace, to findings: what `tracectl analyze` does between its options and what it
 * prints. Unreadable input is reported in a sentence (on stderr by default); the rest is judged.
 */
#ifndef RANKTRACE_ANALYZE_ANALYSIS_H
#define RANKTRACE_ANALYZE_ANALYSIS_H

#include "analyzers/align/align.h"
#include "analyzers/analyze/findings_rows.h"
#include "analyzers/detect/detector.h"

struct analysis_options {
	char *const *folder; /* stores, or folders of them */
	size_t folders;
	const char *systrace; /* a folder of its files, instead; NULL: none */
	const char *job;      /* only this one; NULL: all */
	uint64_t since_ns, until_ns;
	const struct detect_options *detectors; /* NULL: as they are by default */
	bool shows_progress;
	uint64_t enough_ns; /* of work, by the clock; what comes later is not judged. 0: all is */
	void (*warning)(void *arg, const char *sentence); /* NULL: to stderr */
	void *arg;
};

struct analysis {
	struct findings_made *made;
	json_t *stored; /* hangs and mismatches of stores without standings, as their daemons judged them; NULL: none */
	struct findings_watched watched;
	struct align_counts align;
	uint64_t end_ns; /* of the newest event; 0: there was none */
	uint64_t rows, sources;
	uint64_t ranks_left_out, dropped, left_out; /* left_out: records beyond the bounds */
	uint64_t ops, coll_not_joined;		    /* of sysTrace */
	uint64_t jobs_refused;			    /* jobs of sysTrace's files that cannot be judged */
	uint64_t clocks, clocks_apart_ns;	    /* stores whose clocks were corrected, and by how much at most */
	bool failed;				    /* not all could be read, or judged */
	bool enough;				    /* enough_ns was over: after end_ns nothing was judged */
};

/* 0, or the exit code, after the sentence. */
int analysis_run(const struct analysis_options *options, struct analysis *ret);
/* Also after an error. */
void analysis_free(struct analysis *analysis);
/* All findings, made and stored: an array as of findings_rows(); NULL: out of memory. */
json_t *analysis_rows(const struct analysis *analysis, const struct findings_filter *filter);

/*
 * Thresholds of the detectors as options of a program: each is called as its key in [findings] of ranktrace.conf (with
 * - for _), takes what that takes, within its limits (a test compares them).
 */

#define THRESHOLDS 11

struct threshold {
	const char *name;     /* "slow-percent" */
	const char *expected; /* in a sentence: "a whole number from 1 to 1000" */
	uint64_t min, max;    /* percent, or ns */
	bool is_duration;
};

extern const struct threshold thresholds[THRESHOLDS];

/* Of thresholds[which]: 0, or -EINVAL and nothing is set. */
int threshold_set(size_t which, const char *text, struct detect_options *options);

#endif
