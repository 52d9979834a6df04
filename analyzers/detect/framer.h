/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of ranks to frames of jobs. Pure. Fed by the daemon as things happen, by tracectl analyze from stores, by
 * tests: in about the order of time over all ranks, with framer_advance() in between; who feeds one rank after the
 * other gets frames of one rank each. framer_rank_new() of all ranks that are known comes first.
 *
 * A job is what has the same job word and world size, and ranks whose lives overlap; ranks without a job word are of
 * one job where they are of one world size and were started within two minutes of each other. A rank number that
 * appears again (a restart) takes the place of the one before it, if that has ended; else it is of another job. A world
 * size that changes is another job.
 *
 * Steps of ranks are brought together by what they have in common, best first: the operations (communicator, seq) that
 * they took part in, with the most frequent difference of step numbers over the last operations; the time, of ranks of
 * one node (whose step ends lie closest); the step number, of ranks seen from their start. A place once found changes
 * only where operations, or 16 step ends in a row that lie whole steps off, say so. Where nothing tells, the rank is
 * left out of frames and counted. Numbers of frames are those of the first rank with a place, and only rise: where all
 * ranks of a job restart one by one, and count from 1, they go on.
 *
 * A frame goes out once all its ranks that live have ended the step and, where operations are seen, those begun in it
 * are there (as many as in the rank's step before, or one of the step after the next has come) and, where the host is
 * sampled more often than every FRAMER_SETTLE_NS, the samples of it; or FRAMER_SETTLE_NS after its first rank ended it.
 * A rank that lags behind is waited for longer (FRAMER_STALL_NS in framer_internal.h) as long as no other is two steps
 * on: then there is nothing else to tell. What did not come in time is not waited for again until it comes; the first
 * operations after they were off are only what tells to wait for the next ones. Frames go out in the order of their
 * steps. A frame's tier is that of the worst of its records: it has operations only where most ranks have them. A
 * rank's step in which its operations began or ceased to be seen counts as without. Where a rank's step has more
 * operations than the one before, the others' are expected to have as many more.
 *
 * Ranks without steps (frameworks whose loop is not seen): steps come from the repeating pattern of their collectives:
 * autocorrelation of the sequence of (operation, communicator, bytes), the shortest lag up to FRAMER_PERIOD_MAX at
 * which 95 % agree and no longer one does clearly better, then a step is a period; the phase is where the longest gap
 * lies.
 *
 * Bounded: FRAMER_JOBS_MAX jobs, FRAMER_OPEN_MAX open frames a job, FRAMER_OPS_MAX waiting records a job; what is
 * beyond is left out and counted. Times are ns of the node's clock (CLOCK_MONOTONIC online, UTC from stores); they must
 * be of one clock a node.
 */
#ifndef RANKTRACE_DETECT_FRAMER_H
#define RANKTRACE_DETECT_FRAMER_H

#include "analyzers/detect/frame.h"

#define FRAMER_JOBS_MAX 64
#define FRAMER_RANKS_MAX 16384 /* a job */
#define FRAMER_OPEN_MAX 4096   /* fewer for jobs of many ranks, never less than 64 */
#define FRAMER_OPS_MAX 4194304
#define FRAMER_PERIOD_MAX 4096
#define FRAMER_OURS "ranktraced"
#define FRAMER_SETTLE_NS 5000000000ULL

struct framer_rank {	 /* a process */
	const char *job; /* job word, "" if none */
	int32_t rank;
	uint32_t world_size;
	const char *host;
	const char *card;
	uint64_t start_ns; /* of the process */
	uint16_t port;	   /* where the job's ranks meet, 0 not known: ranks of which it differs are of different jobs */
	bool from_start;   /* its steps are counted from its start */
};

struct framer_stage {
	int64_t step; /* its rank's, STEPS_NONE if none. Those that come after their step are left out */
	enum stage_kind kind;
	uint64_t start_ns, duration_ns;
	uint32_t thread_id, depth;
};

struct framer_step {
	int64_t step;
	uint64_t start_ns, duration_ns;
};

/* Cheapest where those of a step come in the order of their starts, as those of the step before did. */
struct framer_op {
	const char *communicator; /* "" : not known, left out */
	uint64_t seq;		  /* 0: cannot be joined, left out */
	const char *op;
	int64_t step;			/* its rank's, STEPS_NONE: by time */
	uint64_t start_ns, duration_ns; /* of the tier */
	uint64_t bytes;
	int32_t peer, member; /* of point to point: both sides in the communicator's numbers; peer -1: collective. A
			       * receive is the same operation as the send of the same (sender, receiver, seq) */
	enum frame_tier tier; /* HOST only where the duration is until completion */
};

/* CPU, memory and so on, of a time. What lies across a step's end is divided by time. FRAME_UNKNOWN: not measured. */
struct framer_host {
	uint64_t start_ns, duration_ns;
	uint64_t cpu_ns, run_delay_ns, throttled_ns, major_faults, launch_gap_ns;
	uint32_t hog_pid;     /* of hogs_most() (hogs.h); 0 if none */
	uint64_t hog_ns;      /* of run_delay_ns, what it took */
	const char *hog_name; /* "" if none. FRAMER_OURS, the name of who watches, is none: what it takes is a cost of
			       * watching, at most, and never what is told of a rank */
};

struct framer_sink {
	/* job: as of framer_job(). The frame is valid during the call, which may ask the framer and must not feed it.
	 */
	void (*frame)(void *arg, uint32_t job, const struct frame *frame);
	void *arg;
};

struct framer_counts {
	uint64_t frames, ops, ops_left_out, ranks_left_out, late;
	uint64_t dropped; /* events that make no sense: twice, out of range, times that are none */
};

struct framer;

struct framer *framer_new(const struct framer_sink *sink);
struct framer *framer_free(struct framer *framer);
/* Number of the process, from 0, used in all that follows; negative errno: EINVAL for a rank that cannot be, ENOSPC,
 * ENOMEM. It is given again when the job, or a restarted rank, has taken its place and 4096 others were given up since.
 */
int framer_rank_new(struct framer *framer, const struct framer_rank *rank);
void framer_rank_end(struct framer *framer, int process, uint64_t end_ns);
/* Its card, which was not known when it began: of frames that go out from now on. */
void framer_rank_card(struct framer *framer, int process, const char *card);
void framer_comm(struct framer *framer, int process, const char *communicator, enum comm_kind kind, uint32_t members,
	int32_t member);
void framer_stage(struct framer *framer, int process, const struct framer_stage *stage);
void framer_step(struct framer *framer, int process, const struct framer_step *step);
void framer_op(struct framer *framer, int process, const struct framer_op *op);
void framer_host(struct framer *framer, int process, const struct framer_host *host);
/* Records of this process were lost: operations of its open steps are not waited for. */
void framer_lost(struct framer *framer, int process, uint64_t records);
/* From then on all operations of all ranks that live now are seen, or none any more: steps that begin later are whole,
 * the first one with operations too; those that end later count as without, and what has not come by now is not waited
 * for. Where this is not told, the first one with operations counts as without, and the first ones without are waited
 * for. */
void framer_watched(struct framer *framer, bool on, uint64_t from_ns);
/* Time has come to here; goes out what has settled. */
void framer_advance(struct framer *framer, uint64_t now_ns);
void framer_end(struct framer *framer); /* everything goes out */
void framer_counts(const struct framer *framer, struct framer_counts *ret);

struct framer_job {
	uint64_t id; /* never used again: tells it from the job that had its number before */
	const char *job;
	uint32_t world_size;
	size_t ranks;
	const struct frame_who *who;
	const int *process;	/* of each rank, the newest */
	uint64_t step_ns;	/* median of the last steps, 0 not known */
	uint64_t checkpoint_ns; /* longest one seen */
	bool ended;		/* no rank of it lives */
};
/* job from 0; false past the last. A job that is over keeps its number until it is needed again. */
bool framer_job(const struct framer *framer, uint32_t job, struct framer_job *ret);
/* Job and index in who of a process; false if it is of none. */
bool framer_where(const struct framer *framer, int process, uint32_t *ret_job, uint32_t *ret_index);

#endif
