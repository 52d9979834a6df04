/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by judge.c (frames to ticks, the usual), judge_share.c (whose growth), judge_host.c (what the system took),
 * judge_start.c (slow from the start), judge_checkpoint.c, judge_claim.c (of detectors), judge_learned.c (what is kept),
 * judge_episode.c (evidence, episodes) and judge_moment.c (what findings show). */
#ifndef RANKTRACE_JUDGE_JUDGE_INTERNAL_H
#define RANKTRACE_JUDGE_JUDGE_INTERNAL_H

#include "analyzers/base/columns.h"
#include "analyzers/judge/judge.h"

#define NS 1e-9 /* s */
#define JUDGE_RANKS_MAX 16384
#define JUDGE_ALLOW 0.010    /* of the usual, a step: what jitter may lose without adding up */
#define JUDGE_TICKS_LEARN 10 /* before the first decision */
#define JUDGE_MANY 16	     /* ranks: of more, one spread serves all, with the rank itself in it */
#define JUDGE_L1_TICKS 5     /* that waits are learned for before they count: they may begin later than the steps */
#define JUDGE_CAUSE_HALF 0.5 /* of the lost time: what explains it is the cause */
#define JUDGE_NAMED 0.4 /* of what the job lost: a rank of which so much is its own work is named, and for all of it */

/* What is measured beside the steps (enum host_measure), and what the judge itself adds to that. */
enum {
	/* With L1, s: what a step takes beyond the longest own work (step less waits and transfers) of any rank in
	 * it. A late packet holds up one member of an operation, and in the next one the others wait for that member:
	 * no rank works longer. */
	JUDGE_OPERATIONS = HOST_MEASURE_MAX,
	JUDGE_MEASURE_MAX
};

/* As in align/host_measures.def. JOINT: the same of all ranks; it says something of the job alone. */
enum judge_host_kind { JUDGE_HOST_JOINT, JUDGE_HOST_COUNTS, JUDGE_HOST_HOLDS, JUDGE_HOST_SURE };

struct judge_host {
	const char *name, *unit;
	double scale; /* of frame_host's units to those of judge_mean */
	enum judge_host_kind kind;
	enum finding_cause cause; /* CAUSE_MAX: of none */
};
extern const struct judge_host judge_hosts[JUDGE_MEASURE_MAX];

/* Means a step. s; faults: a count; energy: J. */
struct judge_mean {
	double act[ACTIVITY_MAX], syncs;
	double sync_squares; /* s^2: of a step's time in synchronizations */
	double wait, xfer;   /* with L1: waited in operations; the shortest member's time in them */
	double lead;	     /* of an operation: its start on the device after the host's call */
	double host[JUDGE_MEASURE_MAX];
};

/* Sums, each over the steps that have it. */
struct judge_sum {
	struct judge_mean sum;
	double steps, l1_steps, leads, host_steps[JUDGE_MEASURE_MAX];
};

/* The tick of an episode that lost most. */
struct judge_moment {
	double rate;		       /* lost s a s; 0: none yet */
	double value, peers;	       /* of the finding's activity, s a step */
	bool before;		       /* peers: what it usually takes itself, as others are no comparison */
	enum activity also;	       /* another one in which the rank was slow at that time; ACTIVITY_MAX: none */
	double also_value, also_peers; /* of it */
	double step, usual;	       /* s */
	double syncs, syncs_usual;     /* a step, of a rank that synchronizes too often; else 0 */
	double host[JUDGE_MEASURE_MAX], host_peers[JUDGE_MEASURE_MAX]; /* peers: NAN where there are none */
	bool host_known[JUDGE_MEASURE_MAX];
	uint32_t preemptor_pid;
	char preemptor_name[16];
};

/* A finding that is open, or may be continued. */
struct judge_episode {
	struct finding finding; /* id 0: none */
	uint64_t published_ns;
	double lost, rate;		      /* s; s a s */
	double base;			      /* s that the steps of this time usually take */
	double known;			      /* s that the job was known for when it began */
	double cause_lost[JUDGE_MEASURE_MAX]; /* of lost: what each measure explains (judge_host_add_known()) */
	double carry[JUDGE_MEASURE_MAX];      /* as of a span */
	double sides[FINDING_SIDE_MAX];	      /* s lost while it was there */
	struct judge_moment worst;
	enum finding_cause published_cause;
	uint32_t cards;
};

/* Steps that grew. */
struct judge_span {
	uint64_t onset_ns, onset_step;			   /* begin of the first one */
	double lost, total, cost;			   /* s: its own, the job's, and its own without clipping */
	double act[ACTIVITY_MAX], host[JUDGE_MEASURE_MAX]; /* of lost; of cost, what each measure explains */
	double carry[JUDGE_MEASURE_MAX];		   /* s that limits took beyond that in the last ticks */
	double base, steps;				   /* s that they usually take; so many; 0: none */
	double ticks, squares; /* s^2: of what each tick lost: how much a steady slow-down differs from tick to tick */
};

/* What a watch is of. */
enum watch_kind {
	WATCH_RANK,	  /* growth of a rank's own work */
	WATCH_START,	  /* a rank that is slow from the start, beside its peers */
	WATCH_CHECKPOINT, /* checkpoints of a rank */
	WATCH_JOB,	  /* growth that is no rank's */
	WATCH_CLAIM	  /* what a detector measures: judge_watch.of */
};

/* Evidence against one rank, or against the job as a whole. */
struct judge_watch {
	enum watch_kind kind;
	double evidence, top;	/* s above the allowance; its most since it was 0 */
	struct judge_span span; /* since it was 0 */
	struct judge_span rise; /* of it, the newest steps, which lose at least twice as much as those before */
	double quiet;		/* s that it lost less than half of the episode's rate */
	/* s^2: variance of what it loses a step while nothing is slow; learned from so many steps */
	double noise, noise_steps;
	double newest, before; /* s a step that it lost: by the newest tick, and by the one before */
	double gap_s; /* so long it may lose nothing and go on, as it loses in bursts; by its last tick that lost */
	double pending, pending_base;		/* cost and base since then */
	double pending_host[JUDGE_MEASURE_MAX]; /* of that cost */
	bool open;
	bool wanted;		       /* more levels, in this excursion */
	struct judge_episode *episode; /* the newest; NULL: none yet */
	const struct finding *of;      /* of a claim: what its detector says; else NULL */
};

#define JUDGE_CLAIMS_MAX 16 /* at once; a frame has one of each detector, so that few more than detectors are in use */

/* A slow-down that is no rank's, as detectors measure it on frames. */
struct judge_claim {
	struct judge_watch watch;
	struct finding newest, worst; /* worst: of the frame of this episode that lost most */
	double lost, most;	      /* s: since the last tick; in the worst frame */
};

/* What operations showed last of a rank that is slow from the start: so it goes on while there are none. */
struct judge_shown {
	double gain, part; /* s a step; of it, what it costs */
	double usual;	   /* the job's step without operations at that time, s; 0: peers show it without them */
};

struct judge_rank {
	int32_t rank;
	uint32_t pid; /* 0 not known */
	char host[64], card[32];
	struct judge_mean usual;
	double learned, l1_learned, host_learned[JUDGE_MEASURE_MAX]; /* steps */
	unsigned ticks;						     /* that it was learned for */
	bool steps;						     /* it has had one */
	bool here;						     /* in this tick's frames */
	struct judge_sum tick, recent;				     /* recent: fades with the seconds */
	uint32_t preemptor_pid;
	uint64_t preemptor_ns; /* of the tick's largest */
	char preemptor_name[16];
	double checkpoint;			    /* usual length, s; 0: not known */
	double checkpoint_slow_s, checkpoint_due_s; /* the newest slow one, s, and what it should have taken */
	double own, share, claim; /* claim: of the growth; share: the same, divided among those that grow at once */
	double act[ACTIVITY_MAX]; /* the same by activity */
	bool host_late;		  /* its host, as others wait for it and its card has nothing to do */
	bool grows;		  /* since the usual was learned: its last ticks were slow */
	double grown;		  /* s of this tick that the episode of `start` has beside the gain */
	struct judge_watch watch;
	struct judge_watch start; /* slow since the job began: known from its peers alone */
	struct judge_shown shown;
	uint64_t fast_ns[2]; /* when it was not slow beside its peers: without operations, and with them */
	struct judge_watch checkpoint_watch; /* its checkpoints */
	uint32_t class;			     /* ranks of one role; FRAME_NONE: not known */
	uint32_t role; /* the same, as operations showed it last; FRAME_NONE: compared with no rank */
};

struct judge {
	struct judge_options options;
	struct judge_sink sink;
	uint64_t *next_id;
	char job[64];
	size_t ranks;
	struct judge_rank *rank;
	struct columns columns;	  /* scratch, by rank: */
	struct judge_watch whole; /* the job */
	size_t claims;
	struct judge_claim *claim;   /* JUDGE_CLAIMS_MAX, NULL: none yet */
	double common[ACTIVITY_MAX]; /* growth of the mean of all ranks */
	double *column, *scratch;
	uint32_t *index;		/* ranks of which the newest steps are known */
	double *self, *waits, *usually; /* of judge_start.c */
	uint64_t *order;		/* the same: class and rank of those that are here, sorted */
	bool cards;
	enum frame_tier tier;
	uint32_t card_count;
	/* of this tick */
	double steps, elapsed_s;
	double covered_s;	     /* of elapsed_s, steps whose activities are known (frame_rank.unsplit) */
	double due;		     /* elapsed_s, when it was a second or a step; 0: not yet */
	bool stalled;		     /* in one of its steps */
	double clipped, clipped_job; /* s: growth of its steps, each so far as it counts against a rank, and the job */
	double named;		     /* s that open episodes of ranks lost: no other finding may claim them */
	double unexplained;    /* s lost beside a slow rank that no rank's own work explains, without operations */
	double run, run_least; /* s: growth of its steps so far, and its least */
	uint64_t onset_ns, onset_step; /* the step after that: from there on they grew */
	double onset_steps;	       /* before it */
	uint64_t begin_ns, now_ns, first_ns;
	uint64_t usual_since_ns; /* what was learned before does not count */
	uint64_t learned_ns;	 /* what began later is growth */
	uint64_t routine_ns;	 /* when operations are wanted next; 0: not known yet */
	double routine_s;	 /* so long after that, where none are seen then */
	uint64_t begin_step, step;
	/* the usual */
	double usual, usual_unseen; /* unseen: when there were no operations last; 0: never */
	double real_sum;	    /* of all ticks: some of the time is in steps that are no measure */
	unsigned ticks, l1_ticks;
	double faster, rank_peak, whole_peak;
	double checkpoints;	   /* share of steps with one */
	bool frequent;		   /* they are a part of the step */
	bool without_checkpoint;   /* this step counts without them */
	double checkpoint_longest; /* s: of the newest step */
	double single_growth_s;	   /* s: growth of the last step that was judged alone */
	double lost;		   /* share of the last frames with operations that lack records */
	double waited,
		waited_apart; /* s of all ranks, with L1; of them in operations apart from stages that hold waits */
	bool was_checkpoint, was_long; /* the step before */
	double even;		       /* steps in a row, with activities, that took no longer than usual */
	unsigned calm;		       /* steps since one that took much longer */
	/* L0 in windows */
	bool windows; /* steps without activities were seen */
	double probe_cost_s,
		probe_cost_steps; /* s that those are shorter, as fewer probes are in them; learned from so many */
	bool counted;		  /* the newest frame is in this tick */
	uint64_t seen;
};

/* Whether ranks may wait for others in it, as the judge knows it. l1: what waits apart hold is in backward
 * (activity_s()). */
bool judge_may_wait(const struct judge *judge, enum activity a, bool cards, bool l1);
/* judge_share.c: fills own, share and act of each rank, and common; growth in s a step, positive. */
void judge_share(struct judge *judge, double growth);
/* It synchronizes far more often than usual, as by .item() or empty_cache(). */
bool judge_share_syncs_often(const struct judge_rank *rank);
/* How often in a step, in the newest tick of which that is known. */
double judge_share_syncs(const struct judge_rank *rank);
/* Synchronization, and where code runs that synchronizes: Python outside all stages, a closure of the optimizer, a hook
 * of backward. */
bool judge_share_syncs_in(enum activity a);

/* So many ranks, from now on. 0, -EINVAL: too many, -ENOMEM. */
int judge_reserve(struct judge *judge, size_t ranks);
void judge_take_who(struct judge *judge, const struct frame *frame);
/* The last seconds become the usual: what was learned before was not. */
void judge_rebase(struct judge *judge);
/* Learns anew, as in the first ticks: the steps to come are others than before. */
void judge_relearn(struct judge *judge);
/* A rank has an open finding. */
bool judge_has_slow_rank(const struct judge *judge);
/* A finding is open or near: what happens to the steps of now is evidence. */
bool judge_suspects(const struct judge *judge);
/* judge_host.c */
/* Of a step, in judge_mean's units; NAN: not known. */
double judge_host_of(const struct frame_host *host, int h);
/* The most that one of the sure ones took (a stop, a limit of a control group); NAN: that is not known. It is no
 * noise. */
double judge_limits_took(const double took[JUDGE_MEASURE_MAX]);
/* What took at least half of the lost time; CAUSE_UNKNOWN: nothing did. */
enum finding_cause judge_host_cause(const double took[JUDGE_MEASURE_MAX], double lost);
/* Adds what the operating system took in this tick from a rank that lost so much. start: of what its peers show. carry:
 * of what is sure, the rest may be lost in the next seconds, for a rank stalls in one step, and the others wait for it
 * in a later one; NULL: it is not kept. */
void judge_host_add(const struct judge *judge, const struct judge_rank *rank, bool start, double lost,
	double carry[JUDGE_MEASURE_MAX], double to[JUDGE_MEASURE_MAX]);
/* As judge_host_add(), of what a watch lost: of the job, what the system took from all ranks, and its work. */
void judge_host_add_known(const struct judge *judge, const struct judge_watch *watch, const struct judge_rank *rank,
	double lost, double carry[JUDGE_MEASURE_MAX], double to[JUDGE_MEASURE_MAX]);
/* What its steps grew by in this tick is work. */
bool judge_job_works(const struct judge *judge);
/* judge_checkpoint.c: judges the frame's checkpoints, and leaves the length of each, without waits, in judge->column.
 * True: because of them the frame is no measure of a step. ret_step: its mean step, from which they are taken if
 * judge->without_checkpoint. */
bool judge_checkpoint(struct judge *judge, const struct frame *frame, double *ret_step);
/* judge_start.c: ranks that were slower than their peers from the start; once a tick, after the usual has changed. */
void judge_start(struct judge *judge);

/* judge_moment.c: a tick that lost so much, s, loses more than any of the watch's episode before. */
bool judge_moment_is_worst(const struct judge *judge, const struct judge_watch *watch, double lost);
/* Keeps the tick as the evidence of the watch's episode if it lost more, `lost` s, than any before.
 * rank: NULL: of the job. */
void judge_moment_take(
	const struct judge *judge, const struct judge_rank *rank, struct judge_watch *watch, double lost);
/* On cards forward, backward and compute are one, and of a rank that synchronizes too often, that and the code around
 * it. rank: NULL: of the job. */
bool judge_same_work(const struct judge *judge, const struct judge_rank *rank, enum activity a, enum activity b);

/* judge_episode.c */
double judge_open_at(const struct judge *judge);
double judge_open_rank(const struct judge *judge); /* the same of a rank, raised by noise */
double judge_quiet_s(const struct judge *judge);   /* without loss, ends an episode */
void judge_watch_tick(
	struct judge *judge, struct judge_watch *watch, struct judge_rank *rank, double claim, double share);
/* After each tick: learns what it loses though nothing is slow, if that is so. most: steps that are remembered. */
void judge_watch_learn(const struct judge *judge, struct judge_watch *watch, double most, bool quiet);
/* What a watch lost in a tick. */
struct judge_loss {
	double lost, cost; /* s; lost: each step counts so much at most */
	double usual;	   /* s that the steps usually take */
	const double *act; /* growth by activity, ACTIVITY_MAX of them: how the loss is divided */
};
void judge_watch_add(
	struct judge *judge, struct judge_watch *watch, struct judge_rank *rank, const struct judge_loss *loss);
/* It is open, or what it lost so far is enough of what the job lost: else others lose as much, and it is the job's. */
bool judge_watch_may_open(const struct judge_watch *watch);
void judge_watch_reset(struct judge_watch *watch, uint64_t now_ns, uint64_t step);
/* Opens an episode of that activity, or continues the last one. */
void judge_watch_open(struct judge *judge, struct judge_watch *watch, struct judge_rank *rank, enum activity activity,
	double lost, double cost);
/* A tick of an open episode that lost `lost` s. */
void judge_watch_slow(
	struct judge *judge, struct judge_watch *watch, struct judge_rank *rank, double lost, double cost);
/* A rank is slow, and so much of the tick's growth, s, is no rank's own work: may want operations. */
void judge_unexplained_add(struct judge *judge, double lost);
/* Ends its episode. */
void judge_watch_close(struct judge *judge, struct judge_watch *watch);
/* Ends all episodes: what is slow from now on is another one. */
void judge_interrupt(struct judge *judge);
/* judge_claim.c: a tick is over. */
void judge_claims(struct judge *judge);
/* s of this tick's growth that open episodes of communicators explain: it is not the job's. */
double judge_claimed(const struct judge *judge);
bool judge_claims_quiet(const struct judge *judge);
enum activity judge_most(const double act[ACTIVITY_MAX]);
/* No rank is slow, nor the job, but for work that it took on. */
bool judge_quiet(const struct judge *judge);

#endif
