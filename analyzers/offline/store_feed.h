/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store's rows, in the order of their ends, to the detectors: what the daemon feeds online, offline. Times are UTC
 * ns.
 *
 * Every table is read once, front to back, by a connection of its own; each row goes in when it ended. Rows lie in the
 * store nearly in that order, and the framer waits for late ones. Several stores (nodes) are fed side by side: the
 * caller takes the one whose next row is oldest.
 */
#ifndef RANKTRACE_OFFLINE_STORE_FEED_H
#define RANKTRACE_OFFLINE_STORE_FEED_H

#include <stddef.h>
#include <stdint.h>

#include "analyzers/detect/detect.h"

#define STORE_FEED_RANKS_MAX 65536 /* processes in a store; older ones are left out and counted */

struct store_feed_options {
	uint64_t since_ns, until_ns; /* 0: all */
	const char *job;	     /* only this one; NULL: all */
	void (*warning)(void *arg, const char *sentence);
	void *arg;
};

struct store_feed;

/* 0, or negative errno with a sentence in error. */
int store_feed_open(const char *state_dir, const struct store_feed_options *options, struct store_feed **ret,
	char *error, size_t error_size);
struct store_feed *store_feed_close(struct store_feed *feed);
/* UTC ns of the end of the next row; UINT64_MAX: there is none. */
uint64_t store_feed_next(const struct store_feed *feed);
/* Feeds that row. 0, or negative errno with the sentence (rows before it were fed). */
int store_feed_row(struct store_feed *feed, struct framer *framer, char *error, size_t error_size);

struct store_feed_counts {
	uint64_t rows, ranks, ranks_left_out;
	uint64_t first_ns, last_ns; /* of the rows fed, 0 where there was none */
};
void store_feed_counts(const struct store_feed *feed, struct store_feed_counts *ret);

#endif
