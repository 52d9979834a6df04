/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: samples of the threads of ranks, merged to call trees, and compared: what one rank does more of than its
 * peers, by function and line, as time a step. Pure; texts are copied, and may hold anything.
 *
 * Feed stacks, steps, stages and samples, in any order but stacks first; samples of stacks that are not fed are counted
 * as unknown. A rank is any number that the caller chooses: the job's own past may be further "ranks". Times are ns of
 * one clock. An add function yields 0, -ENOMEM, or -ENOSPC beyond a limit of this file.
 */
#ifndef RANKTRACE_PROFILE_PROFILE_H
#define RANKTRACE_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/base/stack.h"

#define PROFILE_RANKS_MAX 1024
#define PROFILE_STACKS_MAX 262144
#define PROFILE_FRAMES_MAX 512	    /* of a stack; outermost ones are left out beyond */
#define PROFILE_SAMPLES_MAX 4000000 /* of all ranks: 32 ranks of 200 threads, 10 s at 49 Hz */
#define PROFILE_STEPS_MAX 262144    /* of a rank; the same for stages */

struct profile;

struct profile *profile_new(void); /* NULL: out of memory */
struct profile *profile_free(struct profile *profile);

/* What is missing of a stack: bits of call_stacks.cut. */
#define PROFILE_CUT_PYTHON 1u
#define PROFILE_CUT_NATIVE 2u

/* frames: as stack_frames_text(). cut: PROFILE_CUT_*. A stack that is known keeps its frames. */
int profile_add_stack(struct profile *profile, int64_t id, const char *frames, unsigned cut);
int profile_add_step(struct profile *profile, int64_t rank, int64_t start_ns, int64_t duration_ns);
/* stage: "forward", "sync", ... */
int profile_add_stage(struct profile *profile, int64_t rank, int64_t thread_id, const char *stage, int64_t start_ns,
	int64_t duration_ns);

struct profile_sample {
	int64_t rank, thread_id;
	const char *thread_name;
	int64_t start_ns;    /* on the CPU: the instant; off it: when the thread left it */
	int64_t duration_ns; /* off the CPU: how long */
	int64_t weight_ns;   /* the time that it stands for: off the CPU at least duration_ns */
	int64_t stack;
	bool main, off_cpu;
};

int profile_add_sample(struct profile *profile, const struct profile_sample *sample);

struct profile_totals {
	uint64_t samples, unknown, stacks; /* unknown: stack not fed */
	uint64_t cut, native_cut;	   /* samples with outer Python frames, or native callers, missing */
	int64_t first_ns, last_ns;	   /* of samples; 0: none */
};

void profile_totals(const struct profile *profile, struct profile_totals *ret);

/* Frames have numbers from 0, equal ones the same. NULL beyond the last. Valid until the next stack is added. */
const struct stack_frame *profile_frame(const struct profile *profile, uint32_t number);

/* Folding: equal stacks as one. */

enum profile_cpu { PROFILE_ON_CPU = 1, PROFILE_OFF_CPU = 2, PROFILE_BOTH = 3 };

struct profile_folding {
	const int64_t *ranks;			   /* only these */
	size_t ranks_count;			   /* 0: all */
	enum profile_cpu cpu;			   /* 0: both */
	bool by_stage, by_rank, by_cpu, by_thread; /* equal stacks of different ones are kept apart */
};

struct profile_folded {
	const uint32_t *frame; /* numbers, see profile_frame(); outermost first */
	size_t frames;
	int64_t rank;	    /* with by_rank */
	const char *stage;  /* with by_stage; "" outside of stages */
	const char *thread; /* with by_thread; name */
	bool steps_here;    /* with by_thread: the thread that makes the steps */
	bool off_cpu;	    /* with by_cpu */
	bool cut;	    /* outer frames are missing */
	uint64_t samples, weight_ns;
};

/* Passes folded stacks, neighbours in a call tree one after another, until `row` returns nonzero. 0, -ENOMEM, or what
 * `row` returned. */
int profile_fold(struct profile *profile, const struct profile_folding *folding,
	int (*row)(void *arg, const struct profile_folded *folded), void *arg);

/*
 * Comparison of one rank with peers.
 *
 * Compared is own work: time on the CPU of the threads that run Python, and time off the CPU of the thread that makes
 * the steps, but not in waits for others: in communication, for the backward pass to end, for the device (stage sync).
 * What a rank waits mirrors the work of another one.
 *
 * Time of a function is that of all samples whose stack holds it (total), or ends in it (self). Each step of a rank
 * gives one value. A function counts (`sure`) where the rank's mean exceeds the median of its peers by more than
 * PROFILE_SHARE_MIN of a step and PROFILE_SIGMAS times the noise, of steps and of peers. Rows are ordered by
 * excess² / time of the rank: high where the excess is large and few of it is what peers do, too.
 */

#define PROFILE_SHARE_MIN 0.01 /* of a step: less is none of an operator's concern; PerfTracker's bound, too */
#define PROFILE_SIGMAS 4.0     /* 500 functions without a difference give less than one false row in 50 comparisons */
#define PROFILE_STEPS_MIN 8    /* fewer have no noise that could be estimated: seconds are compared instead */
#define PROFILE_PEERS_MAX 16   /* further ones are not compared */

struct profile_row {
	const struct stack_frame *frame;  /* line: the one in which the rank's excess is the greatest */
	const struct stack_frame *caller; /* the innermost caller outside of libraries; NULL: none */
	bool line;			  /* the figures are of this line, not of the function */
	bool library, sure;
	double total_ns, peers_total_ns; /* a step; peers: median */
	double self_ns, peers_self_ns;
	double excess_ns; /* of totals, beyond what profile_diff.factor explains */
	double noise_ns;  /* standard error of the excess */
	double score_ns;
};

struct profile_diff {
	int64_t rank;
	size_t peers;
	uint64_t steps;			 /* of the rank */
	double step_ns;			 /* mean length; a second, where there are too few steps */
	bool seconds;			 /* the parts that are compared are no steps, and figures are of each second */
	double own_ns, peers_own_ns;	 /* own work a step */
	double waits_ns, peers_waits_ns; /* waits for others, of the step's thread */
	const char *stage;		 /* of the comparison */
	bool past;			 /* set by the caller: the peers are the past of the job */
	double factor;			 /* all functions take so many times as long; 1: not so */
	struct profile_row *row;
	size_t rows; /* with an excess above 0, the largest score first */
};

struct profile_comparison {
	int64_t rank;
	const int64_t *peers;
	size_t peers_count; /* 0: all others */
	const char *stage;  /* of the step only this one; "": outside of all stages; NULL: the whole step */
};

/* 0; -ENOENT: the rank, or all peers, have no samples; -ENODATA: the rank has none in the stage; -ENOMEM. */
int profile_compare(struct profile *profile, const struct profile_comparison *of, struct profile_diff *ret);
void profile_diff_free(struct profile_diff *diff);

#define PROFILE_SENTENCE_BYTES 512u

/* "rank 1 spends 30 ms a step in burn (gpt.py:54), its peers 0"; "" where nothing is sure. */
const char *profile_sentence(const struct profile_diff *diff, char ret[PROFILE_SENTENCE_BYTES]);

#endif
