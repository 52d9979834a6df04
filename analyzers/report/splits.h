/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps split into activities (steps/activities.def), summed by rank and time: self time by nesting on the step thread,
 * and outside all stages what is left of the step. A window is a span of time of one job in equal buckets; a step
 * counts in the bucket of its begin, with all of its stages.
 *
 * Feed the steps of a store first, then its stages in stored order (each after those inside it).
 */
#ifndef RANKTRACE_REPORT_SPLITS_H
#define RANKTRACE_REPORT_SPLITS_H

#include "analyzers/report/model.h"

#define SPLITS_BUCKETS_MAX 100 /* a day of quarters, and one more where it begins within one */

/* Sums over the steps of a bucket. */
struct split {
	uint32_t steps, stages;
	double step_ns;
	float self_ns[ACTIVITY_MAX]; /* ACTIVITY_OUTSIDE: none until splits_at() */
};

struct split_window {
	uint64_t since_ns, until_ns;
	uint32_t buckets;
	uint32_t job;
	int32_t stride; /* ranks that are a multiple of it */
	int32_t also;	/* and this one; -1: none */
};

struct splits;

struct splits *splits_new(const struct report *report);
struct splits *splits_free(struct splits *splits);
/* Number of the window, or -ENOMEM. buckets: at most SPLITS_BUCKETS_MAX. */
int splits_add(struct splits *splits, const struct split_window *window);

const struct split_window *splits_window_of(const struct splits *splits, int window);

/* 0 or -ENOMEM. */
int splits_step(
	struct splits *splits, const struct report_rank *rank, uint64_t start_ns, uint64_t duration_ns, int64_t step);
struct split_stage {
	int64_t thread, step; /* step -1: in none */
	const char *stage;
	uint64_t start_ns, duration_ns;
};
int splits_stage(struct splits *splits, const struct report_rank *rank, const struct split_stage *stage);
/* Some window has ranks of that store; their span. */
bool splits_want(const struct splits *splits, uint32_t store, uint64_t *ret_since_ns, uint64_t *ret_until_ns);

/* Ranks of a window that have steps, ascending. The array is the window's. */
size_t splits_ranks(struct splits *splits, int window, const int32_t **ret);
/* Sums of a rank over buckets [first, first + count), its processes together. false: no steps. Without stages, or with
 * those of too few steps, ret->stages is 0: the steps cannot be split. */
bool splits_at(struct splits *splits, int window, int32_t rank, uint32_t first, uint32_t count, struct split *ret);

#endif
