/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of ranks to frames of jobs. Pure. Fed by the daemon as things happen, by tracectl analyze from stores, by
 * tests: in about the order of time over all ranks, with align_advance() in between; who feeds one rank after the
 * other gets frames of one rank each. align_rank_new() of all ranks that are known comes first.
 *
 * A job is what has the same job word, world size and user, and ranks whose lives overlap; ranks without a job word are
 * of one job where they are of one world size and were started within two minutes of each other; of several such jobs a
 * rank is of the one that the same process of its host started, else of the one that began closest. A rank number that
 * appears again (a restart) takes the place of the one before it, if that has ended; else it is of another job. A world
 * size that changes is another job.
 *
 * Steps of ranks are brought together by what they have in common, best first: the operations (communicator, seq) that
 * they took part in, with the most frequent difference of step numbers over the last operations; the time, of ranks of
 * one node (whose step ends lie closest); the step number, of ranks seen from their start. A place once found changes
 * only where operations, or 16 step ends in a row that lie whole steps off, say so. Without such evidence the rank is
 * left out of frames and counted. Numbers of frames are those of the first rank with a place, and only rise: where all
 * ranks of a job restart one by one, and count from 1, they go on.
 *
 * A frame goes out once all its ranks that live have ended the step and, where operations are seen, those begun in it
 * are there (as many as in the rank's step before, or one of the step after the next has come) and, where the host is
 * sampled more often than every ALIGN_SETTLE_NS, the samples of it; or ALIGN_SETTLE_NS after its first rank ended it.
 * A rank that lags behind is waited for longer (ALIGN_STALL_NS in align_internal.h) until another has ended steps for
 * ALIGN_SETTLE_NS after it, and as long again: a rank that stalls stops the others, of which some run ahead. What
 * did not come in time is not waited for again until it comes; the first operations after they were off only mean
 * that the next ones are waited for. Frames go out in the order of their steps. A frame's tier is that of the worst
 * of its records: it has operations only where most ranks have them. A rank's step in which its operations began or
 * ceased to be seen counts as without. Where a rank's step has more operations than the one before, the others' are
 * expected to have as many more.
 *
 * Ranks without steps (frameworks whose loop is not seen): steps come from the repeating pattern of their collectives:
 * autocorrelation of the sequence of (operation, communicator, bytes), the shortest lag up to ALIGN_PERIOD_MAX at
 * which 95 % agree and no longer one does clearly better, then a step is a period; the phase is where the longest gap
 * lies.
 *
 * Bounded: ALIGN_JOBS_MAX jobs, ALIGN_OPEN_MAX open frames a job, ALIGN_OPS_MAX waiting records a job; what is
 * beyond is left out and counted. Times are ns of the node's clock (CLOCK_MONOTONIC online, UTC from stores); they must
 * be of one clock a node.
 */
#ifndef RANKTRACE_ALIGN_ALIGN_H
#define RANKTRACE_ALIGN_ALIGN_H

#include "analyzers/align/frame.h"

#define ALIGN_JOBS_MAX 64
#define ALIGN_JOBS_USER_MAX 48 /* that live, of one known user: the others are for others */
#define ALIGN_RANKS_MAX 16384  /* a job */
#define ALIGN_OPEN_MAX 4096    /* fewer for jobs of many ranks, never less than 64 */
#define ALIGN_OPS_MAX 4194304
#define ALIGN_PERIOD_MAX 4096
#define ALIGN_OURS "ranktraced"
#define ALIGN_SETTLE_NS 5000000000ULL
#define ALIGN_LEAD_UNKNOWN INT64_MIN
#define ALIGN_UID_UNKNOWN UINT32_MAX /* (uid_t)-1, which is no user */

struct align_rank {	 /* a process */
	const char *job; /* job word, "" if none */
	int32_t rank;
	uint32_t world_size;
	uint32_t pid; /* 0 not known */
	const char *host;
	const char *card;
	uint64_t start_ns; /* of the process */
	uint16_t port; /* where the job's ranks meet, 0 not known: ranks of which it differs are of different jobs */
	uint64_t launcher; /* who started it on its host, a number of the caller's; 0 not known */
	bool from_start;   /* its steps are counted from its start */
	uint32_t uid;	   /* user: ranks of two users are never of one job. ALIGN_UID_UNKNOWN fits any */
};

struct align_stage {
	int64_t step; /* its rank's, STEPS_NONE if none. Those that come after their step are left out */
	enum stage_kind kind;
	uint64_t start_ns, duration_ns;
	uint32_t thread_id, depth;
};

struct align_step {
	int64_t step;
	uint64_t start_ns, duration_ns;
	bool unsplit; /* not all of its stages were watched: none counts */
};

/* Cheapest where those of a step come in the order of their starts, as those of the step before did. */
struct align_op {
	const char *communicator; /* "" : not known, left out */
	uint64_t seq;		  /* 0: cannot be joined, left out */
	const char *op;
	int64_t step;			/* its rank's, STEPS_NONE: by time */
	uint64_t start_ns, duration_ns; /* of the tier */
	uint64_t bytes;
	int64_t lead_ns;      /* from the end of the host's call to its start on the device; ALIGN_LEAD_UNKNOWN */
	int32_t peer, member; /* of point to point: both sides in the communicator's numbers; peer -1: collective. A
			       * receive is the same operation as the send of the same (sender, receiver, seq) */
	bool counted;	      /* of point to point: seq is counted from some time on, by each rank from another one */
	enum frame_tier tier; /* HOST only where the duration is until completion */
};

/* CPU, memory and so on, of a time. What lies across a step's end is divided by time. FRAME_UNKNOWN: not measured. */
struct align_host {
	uint64_t start_ns, duration_ns;
	union {
		struct {
#define HOST_MEASURE(id, member, evidence, unit, scale, kind, cause) uint64_t member;
#include "analyzers/align/host_measures.def"
#undef HOST_MEASURE
		};
		uint64_t measure[HOST_MEASURE_MAX];
	};
	uint32_t preemptor_pid; /* of preemptors_most() (preemptors.h); 0 if none */
	uint64_t preemptor_ns;	/* of run_delay_ns, what it took */
	const char *
		preemptor_name; /* "" if none. FRAMER_OURS, the name of who watches, is none: what it takes is a cost of
			       * watching, at most, and no data of a rank */
};

/* Of a sample, by the state in which the process was at its end (host_samples.state). */
static inline uint64_t align_host_stopped(char state, uint64_t duration_ns)
{
	return state == 'T' || state == 't' ? duration_ns : 0;
}

static inline struct align_host align_host_unknown(uint64_t start_ns, uint64_t duration_ns)
{
	struct align_host ret = {.start_ns = start_ns, .duration_ns = duration_ns, .preemptor_name = ""};

	for (int h = 0; h < HOST_MEASURE_MAX; h++)
		ret.measure[h] = FRAME_UNKNOWN;
	return ret;
}

struct align_sink {
	/* job: as of align_job_info(). The frame is valid during the call, which may ask the aligner and must not feed
	 * it.
	 */
	void (*frame)(void *arg, uint32_t job, const struct frame *frame);
	void *arg;
};

struct align_counts {
	uint64_t frames, ops, coll_left_out, ranks_left_out, late;
	uint64_t stages_left_out; /* too many in a step: their time is that of what encloses them */
	uint64_t dropped;	  /* events that make no sense: twice, out of range, times that are none */
};

struct align;

struct align *align_new(const struct align_sink *sink);
struct align *align_free(struct align *align);
/* Number of the process, from 0, used in all that follows; negative errno: EINVAL for a rank that cannot be, ENOSPC,
 * ENOMEM. It is given again when the job, or a restarted rank, has taken its place and 4096 others were given up since.
 */
int align_rank_new(struct align *align, const struct align_rank *rank);
void align_rank_end(struct align *align, int process, uint64_t end_ns);
/* Its card, which was not known when it began: of frames that go out from now on. */
void align_rank_card(struct align *align, int process, const char *card);
void align_comm(struct align *align, int process, const char *communicator, enum comm_kind kind, uint32_t members,
	int32_t member);
void align_stage(struct align *align, int process, const struct align_stage *stage);
void align_step(struct align *align, int process, const struct align_step *step);
void align_op(struct align *align, int process, const struct align_op *op);
void align_host(struct align *align, int process, const struct align_host *host);
/* Records of this process were lost: operations of its open steps are not waited for. */
void align_lost(struct align *align, int process, uint64_t records);
/* From then on all operations of all ranks that live now are seen, or none any more: steps that begin later are whole,
 * the first one with operations too; those that end later count as without, and what has not come by now is not waited
 * for. Where this is unknown, the first one with operations counts as without, and the first ones without are waited
 * for. */
void align_watched(struct align *align, bool on, uint64_t from_ns);
/* Time has come to here; goes out what has settled. */
void align_advance(struct align *align, uint64_t now_ns);
void align_end(struct align *align); /* everything goes out */
void align_counts(const struct align *align, struct align_counts *ret);

struct align_job_info {
	uint64_t id; /* never used again: distinguishes it from the job that had its number before */
	const char *job;
	uint32_t world_size;
	uint32_t uid; /* of its ranks, ALIGN_UID_UNKNOWN */
	size_t ranks;
	const struct frame_who *who;
	const int *process;	/* of each rank, the newest */
	uint64_t step_ns;	/* median of the last steps, 0 not known */
	uint64_t checkpoint_ns; /* longest one seen */
	uint64_t warm_ns;	/* longest of the first steps of a process */
	uint64_t phase_ns; /* longest time to the end of a step from the end of the one before, where a checkpoint, an
				 * evaluation or a pause was in it */
	bool ended;	   /* no rank of it lives */
};
/* job from 0; false past the last. A job that is over keeps its number until it is needed again. */
bool align_job_info(const struct align *align, uint32_t job, struct align_job_info *ret);
/* Job and index in who of a process; false if it is of none. */
bool align_locate(const struct align *align, int process, uint32_t *ret_job, uint32_t *ret_index);

#endif
