/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a step, or a time, of one rank took as long as it did: its parts, beside its usual step and beside its peers.
 * Pure: fed with frames (align/frame.h) and, where they are known, the times at which the rank's step thread was off
 * the CPU.
 *
 * A part is an activity and what the rank did in it: waited for other ranks, was ready without a CPU, was off the CPU
 * for another reason, or worked. The parts of a step add up to the step. What is explained is the excess: the parts of
 * the chosen steps, in the mean, less those of the usual step: the mean over the second quarter, by length, of the
 * rank's other ordinary steps, so that half of them may be slow. Both are sums: excesses of parts add up to that of the
 * step. A rank that is late waits, sleeps and polls less: what it lost there cost nothing. So what shrank is taken off
 * what grew, in proportion, and no part has more than the step's excess.
 *
 * - Waiting: what measure.h says where operations are seen; of steps of stages alone, what an activity in which ranks
 * may
 *   wait has beyond the least of all ranks in the same step.
 * - Ready: the step thread was runnable and had no CPU; and what it slept longer than usual while another thread of the
 *   rank had none.
 * - Throttled: of what is ready beyond the usual, the share that cpu.max took by the samples.
 * - Blocked: off the CPU and not ready; known from off-CPU intervals (L3) alone.
 * - Work: the remainder.
 *
 * What a sample gives for a step (run delay, throttling) has no activity: it is taken from the work of activities in
 * the proportion in which they grew.
 */
#ifndef RANKTRACE_WHY_WHY_H
#define RANKTRACE_WHY_WHY_H

#include "analyzers/judge/measure.h"

#define WHY_STEPS_MAX 65536 /* of a job, kept; later ones are left out */
#define WHY_STEPS_USED 500  /* chosen, and usual ones: of more, some at equal distances */
#define WHY_JOBS_MAX 8
#define WHY_OTHERS_MAX 8 /* processes that took the CPU, named */

enum why_kind { WHY_WORK, WHY_WAITING, WHY_READY, WHY_THROTTLED, WHY_BLOCKED, WHY_KIND_MAX };

const char *why_kind_word(enum why_kind kind);	/* "waiting": in JSON */
const char *why_kind_title(enum why_kind kind); /* "waiting for other ranks" */

/* Of which steps: those that reach into (since_ns, until_ns), by the clock of the frames. */
struct why_options {
	int32_t rank;
	uint64_t since_ns, until_ns;
};

struct why_part {
	enum activity activity;
	enum why_kind kind;
	double chosen_ns, usual_ns; /* a step, in the mean */
	double excess_ns;	    /* the difference, less what shrank elsewhere */
	double peers_ns;	    /* the median of the peers, in the chosen steps; NAN: none, or not known of peers */
};

struct why_other {
	char name[16];
	uint32_t pid;
	double chosen_ns, usual_ns; /* a step, in the mean; usual NAN: not known */
};

struct why_result {
	struct frame_who who;
	enum frame_tier tier;	     /* the worst of the chosen steps */
	size_t chosen, usual, peers; /* steps; ranks beside it */
	uint64_t begin_ns, end_ns;   /* of the chosen steps */
	size_t of;	   /* steps that were chosen: of more than WHY_STEPS_USED, so many of them at equal distances */
	size_t left_out;   /* of these, steps of which less is known than of most */
	bool usual_within; /* the usual steps are some of the chosen ones: there are no others */
	bool thread_known, usual_known;		 /* by off-CPU intervals: all chosen steps; usual ones */
	double chosen_ns, usual_ns, peers_ns;	 /* a step, in the mean */
	double major_faults, major_faults_usual; /* a step; NAN: not measured */
	size_t parts;
	struct why_part part[ACTIVITY_MAX * WHY_KIND_MAX]; /* the greatest excess first; none of zero */
	double residual_ns;				   /* excess of the step less that of the parts */
	size_t others;
	struct why_other other[WHY_OTHERS_MAX]; /* preemptors; the greatest excess first */
};

struct why;

struct why *why_new(const struct why_options *options);
struct why *why_free(struct why *why);
/* Frames in order. job: a number of the caller's that no two jobs share. 0 or -ENOMEM. */
int why_frame(struct why *why, uint64_t job, const struct frame *frame);
/* The jobs in which the rank has chosen steps, from 0; false past the last. The one with the newest comes first. */
bool why_job(const struct why *why, size_t index, uint64_t *ret_job);
/*
 * The job to explain, after all frames. Then, where they are known, what the step thread of the rank went through: its
 * stages, the times off the CPU, long ones and sums of short ones, and from when to when such were seen (none then
 * means none). Intervals in order of their starts.
 */
int why_choose(struct why *why, uint64_t job);
/* From the first to the last step whose intervals are of use. */
void why_span(const struct why *why, uint64_t *ret_since_ns, uint64_t *ret_until_ns);
struct why_stage {
	enum activity activity;
	uint64_t start_ns, end_ns;
};
struct why_off {
	uint64_t start_ns, end_ns;
	uint64_t ready_ns; /* of it, at its end: ready without a CPU */
	uint32_t pid;	   /* who ran before it got the CPU; 0: nobody, or unknown */
	const char *name;  /* copied */
};
/* Times off the CPU that are too short for an interval each: the sums of a second. */
struct why_short {
	uint64_t start_ns; /* of the second */
	uint64_t off_ns, ready_ns;
};
int why_covered(struct why *why, uint64_t start_ns, uint64_t end_ns);
int why_stage(struct why *why, const struct why_stage *stage);
int why_off(struct why *why, const struct why_off *off);
int why_short(struct why *why, const struct why_short *sum);
/* Another thread of the rank was ready, without a CPU, all of that time; in order of their starts. */
int why_off_other(struct why *why, const struct why_off *off);

/* 0; -ENOENT: no step is chosen; -ENODATA: nothing to compare with. */
int why_explain(struct why *why, struct why_result *ret);

#endif
