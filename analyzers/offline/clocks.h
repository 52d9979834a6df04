/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far the clocks of nodes are apart, from what their stores have in common, so that their rows can be merged by
 * time: an operation ends on all its members at once, and so, more coarsely, does a step of ranks that were seen from
 * their start. Of each store the same few thousand of them are looked at (those of the lowest hashes), and the median
 * of the differences counts; over a day clocks drift apart by less than what the aligner waits for.
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

struct clocks_sample;

struct clocks_store {
	const char *path;
	bool is_db;
	uint64_t since_ns, until_ns; /* 0: all */
	/* Output: offset of this store's clock to that of the first related store. 0: none, or unknown. */
	int64_t offset_ns;
	struct clocks_sample *sample; /* in between */
};

/* What cannot be read is left out silently: who feeds it will say so. Returns 0 or -ENOMEM. */
int clocks_compare(struct clocks_store *stores, size_t count);

/* Inside clocks: clocks.c (what is read of a store), clocks.c (how far it is from the others'). */

#define KEPT 2048	       /* of a store, of operations and of steps */
#define ENDS_MAX 64	       /* of one hash: of more runs than that, the first ones */
#define ENOUGH 8	       /* in common */
#define SPREAD_NS 5000000000LL /* differences farther from their median are ignored, or a quarter of it */

enum { OPS, STEPS, KINDS };

struct clock_mark {
	uint64_t hash; /* of what is common */
	int64_t end_ns;
	uint64_t job; /* of a step: see struct owner */
	uint32_t store, group;
};

/* Those of the lowest hashes, in order. */
struct marks {
	size_t count;
	uint64_t limit; /* the highest hash that is wanted */
	struct clock_mark *mark;
};

/* The store has a step of that rank of the job, in what is read. */
struct held {
	uint64_t job;
	int32_t rank;
	const struct clocks_sample *sample;
};

struct clocks_sample {
	bool placed;
	struct marks marks[KINDS];
	size_t common[KINDS]; /* ends of its hashes that are in place */
	size_t due[KINDS];    /* marks in place that trigger another pass */
	size_t holds;	      /* ranks of jobs */
	struct held *held;
};

/* Leaves in the store a sample, also of what cannot be read. 0 or -ENOMEM. */
int clocks_sample_read(struct clocks_store *store);
void clocks_sample_free(struct clocks_sample *sample);
/* In order. Ranks of a node end a step at about the same time: the earliest counts. One that lies farther is of another
 * run of its job. Returns how many are left, at most ENDS_MAX of each. */
size_t clocks_sort_apart(struct clock_mark *mark, size_t count);
bool clocks_is_near(int64_t a_ns, int64_t b_ns);
/* Of stores with samples: finds their offsets. 0 or -ENOMEM. */
int clocks_place(struct clocks_store *stores, size_t count);

#endif
