/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that openEuler's sysTrace wrote (or that we dump in its form) as a source of events: its own folder, one with
 * folders timeline and mspti in it, the daemon's dumps with their old windows, or a folder with those of several nodes.
 *
 *  - A rank is a timeline; the rank is what the file says, or its name. The world is as large as the highest rank.
 *  - A step begins where a data loader is asked for the next batch and lasts to the next time; without a loader, at the
 *    callback that begins a step, or ends with an optimizer, or a backward. Numbers of steps are those calls' own
 *    counters, which are equal on all ranks, where they rise.
 *  - Operations have no number there: of each group they are numbered by their order where all members show the same
 *    ones, else by their ends, which lie close together on all members.
 *  - Sends and receives do not name the other side, and a pipeline's communicator has many: they cannot be joined. What
 *    a rank waits for in them counts as its own work then, so that a job that sends and receives in its steps is not
 *    judged: nothing of it is fed, and a warning says so (systrace_pipeline.c).
 *
 * A file is not in the order of time, so that all of the range is read before the first event is fed:
 * SYSTRACE_EVENTS_MAX records of 48 bytes at most; more are left out and counted.
 */
#ifndef RANKTRACE_OFFLINE_SYSTRACE_SYSTRACE_FEED_H
#define RANKTRACE_OFFLINE_SYSTRACE_SYSTRACE_FEED_H

#include "analyzers/offline/source.h"

#define SYSTRACE_EVENTS_MAX 4194304
#define SYSTRACE_FILES_MAX 65536
#define SYSTRACE_NAMES_MAX 4096 /* of operations, and of groups */

struct systrace_options {
	uint64_t since_ns, until_ns; /* 0: all */
	const char *job;	     /* NULL: all */
	/* A file that cannot be read, or not wholly. */
	void (*warning)(void *arg, const char *sentence);
	/* Now and then, while files are read; may be NULL. */
	void (*progress)(void *arg, uint64_t files, uint64_t records);
	void *arg;
};

struct systrace_counts {
	uint64_t files, files_failed;
	uint64_t records, dropped, left_out;
	uint64_t ranks, steps, ops, coll_not_joined; /* ranks: that are judged */
	uint64_t jobs_refused, ranks_refused;
	uint64_t first_ns, last_ns;
};

struct systrace_feed;

/* Reads all files. 0; -ENOENT: there are none; or another negative errno, with the sentence. */
int systrace_feed_open(const char *folder, const struct systrace_options *options, struct systrace_feed **ret,
	char *error, size_t error_size);
struct systrace_feed *systrace_feed_close(struct systrace_feed *feed);
void systrace_feed_counts(const struct systrace_feed *feed, struct systrace_counts *ret);
extern const struct source_ops systrace_feed_source;

#endif
