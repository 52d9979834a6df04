/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far the clocks of nodes are apart, from what their stores have in common, so that their rows can be merged by
 * time: an operation ends on all its members at once, and so, more coarsely, does a step of ranks that were seen from
 * their start. Of each store the same thousand of them are compared (those of the lowest hashes). The difference that
 * most of them have counts; over a day clocks drift apart by less than what the aligner waits for.
 *
 * Steps have the same numbers in each run of a job. They give clock offsets only where the job has a word, and no rank
 * of it made steps in two stores, in what is read: else it ran on other nodes before.
 *
 * Findings need no such thing, as they compare durations; only the order of rows does.
 */
#ifndef RANKTRACE_OFFLINE_CLOCKS_H
#define RANKTRACE_OFFLINE_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLOCKS_APART_NS 500000000LL /* less is not corrected: rows that late are waited for */

struct clocks_store {
	const char *path;
	bool is_db;
	uint64_t since_ns, until_ns; /* 0: all */
	/* Output: offset of this store's clock to that of the first related store. 0: none, or unknown. */
	int64_t offset_ns;
};

/* What cannot be read is left out silently: who feeds it will say so. Returns 0 or -ENOMEM. */
int clocks_compare(struct clocks_store *stores, size_t count);

#endif
