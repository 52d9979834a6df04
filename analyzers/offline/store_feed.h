/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store's rows, in the order of their ends, to the aligner: what the daemon feeds online, offline. Times are UTC ns.
 *
 * Every table is read once, front to back; rows lie in it nearly in the order of time, and the aligner waits for late
 * ones. Where the clock of the node was set back, rows go on in the order in which they were written. Samples of the
 * system go in when they begin, as they are longer than most steps, together with the
 * preemptors that L3 recorded in their time. Several stores (nodes) are fed side by side: source.h.
 *
 * What is in the store of the ends of ranks, of records that the kernel lost and of communicators is passed on as
 * online.
 */
#ifndef RANKTRACE_OFFLINE_STORE_FEED_H
#define RANKTRACE_OFFLINE_STORE_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/offline/source.h"
#include "analyzers/store/reader_scan.h"

#define STORE_FEED_RANKS_MAX 16384		/* processes in a store; more are left out and counted */
#define STORE_FEED_LONGEST_NS 86400000000000ULL /* longer ones make no sense */

struct store_feed_options {
	uint64_t since_ns, until_ns; /* 0: all; of what began then, by the clock that offset_ns leads to */
	const char *job;	     /* only this one; NULL: all */
	int64_t offset_ns;	     /* added to all times of the store */
	bool is_db;		     /* the folder is the one of the segments */
	bool many;		     /* of many stores: with less memory each */
	void (*warning)(void *arg, const char *sentence);
	void *arg;
};

struct store_feed;

/* 0, or negative errno with a sentence in error. */
int store_feed_open(const char *state_dir, const struct store_feed_options *options, struct store_feed **ret,
	char *error, size_t error_size);
struct store_feed *store_feed_close(struct store_feed *feed);
/* What offline/merge.h wants; arg is the feed. */
extern const struct source_ops store_feed_source;

struct store_feed_counts {
	uint64_t rows, ranks, ranks_left_out;
	uint64_t dropped;	    /* rows whose times make no sense */
	uint64_t first_ns, last_ns; /* of the rows fed, 0 where there was none */
	bool has_standings;	    /* else its hangs cannot be judged */
};
void store_feed_counts(const struct store_feed *feed, struct store_feed_counts *ret);

/* Begins a scan of what the options ask for, by time. As reader_scan_begin(). */
int store_feed_begin(
	struct reader_scan *scan, const struct store_feed_options *options, char *error, size_t error_size);
/* A time of the store by the clock that is fed; 0: none, or one that makes no sense. */
uint64_t store_feed_time(const struct store_feed_options *options, int64_t time_ns);

#endif
