/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by why.c (steps of frames), why_thread.c (intervals of the step thread) and why_explain.c (parts). */
#ifndef RANKTRACE_WHY_WHY_INTERNAL_H
#define RANKTRACE_WHY_WHY_INTERNAL_H

#include "analyzers/why/why.h"

/* Of a step, ns each. */
struct why_split {
	double part[ACTIVITY_MAX][WHY_KIND_MAX];
	double short_ready_ns, short_blocked_ns; /* by sums: in work, until why_place_shorts() */
	double behind[ACTIVITY_MAX]; /* of what it was blocked: another thread of the rank was ready, without a CPU */
};

/* A step of the rank. Waiting is divided among activities, ready and throttled are not. */
struct why_step {
	uint64_t end_ns, step_ns;
	double activity_ns[ACTIVITY_MAX], waiting_ns[ACTIVITY_MAX];
	double ready_ns, throttled_ns; /* 0: none, or not measured */
	double faults;		       /* NAN: not measured */
	uint32_t preemptor_pid;
	double preemptor_ns;
	char preemptor_name[16];
	uint8_t tier;
	bool ordinary, chosen;
};

/* Sums over the chosen steps of one peer. */
struct why_peer {
	size_t steps;
	double step_ns;
	struct why_split split;
};

struct why_jobs {
	uint64_t job;
	struct frame_who who;
	size_t steps, capacity, chosen;
	struct why_step *step;
	size_t peers;
	struct why_peer *peer; /* by index in the frame; the rank's own is empty */
};

struct why_interval {
	uint64_t start_ns, end_ns, ready_ns;
	uint64_t off_ns; /* of sums: of that time */
	uint32_t pid;
	uint8_t activity;
	char name[16];
};

struct why_intervals {
	size_t count, capacity;
	struct why_interval *at;
};

struct why {
	struct why_options options;
	struct measure *measure;
	size_t jobs_count;
	struct why_jobs job[WHY_JOBS_MAX];
	const struct why_jobs *picked; /* of why_choose() */
	size_t chosen_count, usual_count;
	size_t chosen_all; /* before some were taken at equal distances */
	bool usual_within; /* there are no steps but the chosen ones */
	const struct why_step *chosen[WHY_STEPS_USED], *usual[WHY_STEPS_USED];
	struct why_intervals covered, stages, off, shorts;
	struct why_intervals off_others; /* union: they do not overlap */
};

#define WHY_INTERVALS_MAX 4000000

/* Whether intervals are known of the whole step. */
bool why_thread_covers(const struct why *why, const struct why_step *step);
/* The step by its intervals: ready and blocked of each activity, and preemptors (up to WHY_OTHERS_MAX; *count of
 * them, added to). */
void why_thread_split(const struct why *why, const struct why_step *step, struct why_split *ret,
	struct why_other *other, size_t *count, bool chosen);
/* Adds to whoever it is; the smallest is dropped where there are too many. */
void why_other_add(struct why_other *other, size_t *count, uint32_t pid, const char *name, double ns, bool chosen);

#endif
