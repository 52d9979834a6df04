/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A detector: reads frames of one job (and, for hangs, where its ranks stand) and returns verdicts. Pure: no I/O, no
 * clock, no globals. To add one: its file and a row in detect/detectors.def.
 *
 * A detector keeps no record of its verdicts: it repeats one with every frame (or snapshot) while it holds. What frames
 * show goes to the judge as a loss (judge_claim()), what snapshots show to detect/hang_findings.c.
 */
#ifndef RANKTRACE_DETECT_DETECTOR_H
#define RANKTRACE_DETECT_DETECTOR_H

#include "analyzers/finding/finding.h"
#include "analyzers/align/frame.h"
#include "analyzers/judge/measure.h"
#include "analyzers/judge/judge.h"

/* Parameters; all have a default (detect_options_default() in detect.h). */
struct detect_options {
	double slow_ratio;	       /* 1.05: time of an operation over its peers' from which it is slow */
	double slow_z;		       /* 5 */
	unsigned slow_frames, slow_of; /* 5 of the last 8 */
	double gain_min;	       /* 0.03: the part of the step that slow operations or an imbalance must cost */
	uint64_t hang_ns;	       /* 30 s at most without progress */
	uint64_t hang_busy_ns;	       /* 10 min where the one that others wait for computes (compiling, evaluating) */
	uint64_t warm_ns; /* 5 s: a job's steps that end so soon after its first are of FRAME_FIRST, for workers
				    * that start, caches, autotuning; not judged */
	struct judge_options judge;
};

/* Its verdict on this frame or snapshot. Copied by emit(). Of finding: kind, cause, rank (as index in who, -1 none),
 * communicator, since_step, since_ns, confidence, severity (of a hang), evidence, others; the rest is filled in
 * later. */
struct verdict {
	struct finding finding;
	bool confirmed; /* of a hang; false: suspected */
	double lost_ns; /* of this step; of a hang since the last snapshot */
};

struct detector_out {
	void (*emit)(void *arg, const struct verdict *verdict);
	/* What would settle it: bits of enum judge_want; seen: a sentence for the log. */
	void (*want)(void *arg, unsigned wants, const char *why);
	void *arg;
};

/* Where its main thread is, as a stack shows that was taken since its newest sign of life (stack_communicates()). LOCK:
 * it waits for a lock (stack_waits_for_lock()), and no thread of the process runs or waits for a disk. OTHER: outside
 * of both. */
enum standing_stack {
	STANDING_STACK_UNKNOWN,
	STANDING_STACK_OTHER,
	STANDING_STACK_LOCK,
	STANDING_STACK_COMMUNICATION,
	STANDING_STACK_MAX
};
/* As the store has it: "lock"; "": unknown. Reverses it; UNKNOWN for other words. */
const char *standing_stack_word(enum standing_stack stack);
enum standing_stack standing_stack_of(const char *word);

/* Progress of a rank, about every second for each living rank: for hangs. */
struct standing {
	uint32_t rank; /* index in who */
	char state;    /* of its process: R, S, D, T (stopped), t (traced), Z; 0 not known */
	bool ended;    /* the process is gone */
	uint64_t ended_ns;
	uint64_t
		progress_ns; /* the newest sign of life: a stage's begin or end, a step, an operation; 0: nothing is known of it
				    * (it is on another node, or did nothing yet) */
	uint64_t step_end_ns;  /* of its newest step; 0 none */
	uint64_t steps;	       /* so many were seen */
	enum stage_kind stage; /* innermost stage of its step thread that is known by kind, STAGE_USER: none */
	uint64_t stage_since_ns;
	uint64_t cpu_ns; /* of the process, since it began; FRAME_UNKNOWN */
	enum standing_stack stack;
};

/* What coll_judge says of a communicator of the job (analyzers/coll/coll_judge.h): only those that are not RUNNING. */
struct stuck {
	char communicator[20];
	int state; /* enum coll_state */
	uint64_t seq;
	uint64_t waited_ns;
	size_t culprits; /* missing, or different; indices in who */
	const uint32_t *culprit;
	char called[64]; /* of a mismatch: what the culprits called, and what the others; else "" */
	char sentence[256];
	bool all_entered; /* no rank is missing and nothing differs, but it does not complete */
	size_t waiters;	  /* that have entered seq and wait in it, 0 not known: who is missing here and waits
				    * elsewhere is no culprit */
	const uint32_t *waiter;
};

struct snapshot {
	uint64_t now_ns;
	uint64_t step_ns;	/* median step of the job, 0 not known */
	uint64_t checkpoint_ns; /* longest checkpoint seen */
	uint64_t warm_ns,
		phase_ns; /* longest first step of a process, and longest other phase that was no training, see
				     * align_job_info */
	uint32_t world_size, cards;
	size_t ranks;
	const struct frame_who *who;
	const struct standing *standing; /* one a rank */
	size_t stucks;
	const struct stuck *stuck;
	bool operations; /* L1 is on and has seen the job's operations: stuck is complete */
};

struct detector {
	const char *name;
	/* NULL: out of memory. */
	void *(*new)(const struct detect_options *options);
	void *(*free)(void *state);
	void (*frame)(void *state, const struct frame *frame, const struct measures *measures,
		const struct detector_out *out); /* may be NULL */
	void (*snapshot)(
		void *state, const struct snapshot *snapshot, const struct detector_out *out); /* may be NULL */
};

#endif
