/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the room of findings: what online.c (who is watched, when what is done), online_feed.c (events in),
 * online_samples.c (samples of the system), online_stall.c (where ranks stand) and online_publish.c (findings out)
 * share.
 */
#ifndef RANKTRACE_DAEMON_FINDINGS_ONLINE_INTERNAL_H
#define RANKTRACE_DAEMON_FINDINGS_ONLINE_INTERNAL_H

#include "analyzers/detect/detect.h"
#include "analyzers/detect/preemptors.h"
#include "daemon/findings/host_sample.h"
#include "daemon/findings/online.h"
#include "daemon/core/level.h"
#include "daemon/ranks/ranks.h"
#include "daemon/coll/rank_coll.h"
#include "daemon/steps/rank_steps.h"

/*
 * More levels for a while, because a suspicion needs them. Bounded three ways: each for [findings] raise_for, or twice that
 * where something is suspected when it ends, which turning it off would put off; after one that came to nothing, and
 * after somebody set the level, a pause of raise_pause; and of all time at most raise_percent a level, an hour's worth
 * of which may be saved up. Where one ends that came to something and more is wanted, the level stays on for another,
 * as nothing can be attached while it is being detached.
 */

struct context;

struct online_auto_level {
	uint64_t count;			  /* times that a level was turned on */
	uint64_t budget_ns[LEVEL_MAX];	  /* that it may still be on */
	uint64_t budget_at_ns[LEVEL_MAX]; /* as of then; 0: not used yet */
	uint64_t pause_until_ns[LEVEL_MAX];
	uint64_t prolonged_ns[LEVEL_MAX]; /* since it was turned on */
	bool raised[LEVEL_MAX]; /* by us, and not seen to be over yet */
	bool fruitful[LEVEL_MAX]; /* something was confirmed since */
};

/* wants: bits of enum detect_want. */
void online_auto_level_want(struct online_auto_level *raise, struct context *context, unsigned wants, const char *job,
	const char *why, uint64_t now_ns);
/* A finding was confirmed. */
void online_auto_level_confirmed(struct online_auto_level *raise);
/* Every second at least: those that are over, and those that are to go on as something is suspected now. */
void online_auto_level_tick(struct online_auto_level *raise, struct context *context, bool suspected, uint64_t now_ns);

#define FINDINGS_ENDED 64 /* ranks that ended and are remembered, while their job lives */
#define FINDINGS_ENDED_NS (3600 * NSEC_PER_SEC)
#define FINDINGS_TOLD_MAX 512

/* A process that is a rank, as the aligner knows it. */
struct online_process {
	int64_t instance; /* 0: the place is free */
	int process;	  /* of the aligner */
	uint32_t pid, slot;
	uint64_t start_time_ns; /* as /proc has it */
	int32_t rank;
	uint32_t world_size;
	char job[64];
	uint64_t ended_ns;  /* 0: it lives */
	uint32_t thread_id; /* its step thread, 0 while not known */
	uint64_t op_ns;	    /* end of the newest operation that was told */
	struct preemptors preemptors;   /* of the waits that L3 told of since the sample before */
	struct rank_steps_progress last; /* of one that ended: its place is another's */
	struct host_sampler *sampler;
	struct host_sample newest;
	struct host_sample sum; /* of the row that is being made */
};

/* A finding that was told and is not over: what was said of it last. */
struct findings_told {
	uint64_t id;
	enum finding_state state;
	enum finding_cause cause;
	enum finding_severity severity;
};

struct online {
	struct context *context;
	struct detect *detect;
	struct align *align; /* detect's */
	struct online_auto_level raise;
	char proc_root[128], cgroup_root[128];
	uint64_t id_base; /* added to ids: no two starts give the same */
	uint64_t sample_next_ns, sample_last_ns, look_next_ns, look_ended_ns;
	uint64_t closer_until_ns, closer_left_ns, closer_at_ns; /* online_samples.c */
	bool watched; /* the aligner knows that operations are seen */
	uint64_t watched_ns; /* they were, at this time */
	uint64_t drops; /* of the kernel, that the aligner knows of */
	bool ending;	/* what is told is told for the last time */
	bool marked;	/* online_recover_mark() */
	bool left;	/* some of an earlier daemon are open still: the mark stays for the next start */
	struct online_counts counts;
	size_t told_count;
	struct findings_told told[FINDINGS_TOLD_MAX];
	struct online_process ended[FINDINGS_ENDED];
	unsigned ended_next;
	size_t slots;
	struct online_process slot[];
};

/* online_feed.c: NULL where it is another's slot by now, or unknown to the framer. */
struct online_process *online_process(struct online *online, uint32_t slot, int64_t instance);
/* online_samples.c */
/* Stages and steps, operations and communicators of ranks; arg: struct online. */
extern const struct rank_steps_observer online_steps_observer;
extern const struct rank_coll_observer online_coll_observer;

void online_samples_take(struct online *online, uint64_t now_ns);
/* A step was longer than usual: samples of a shorter time for a while. */
void online_samples_closer(struct online *online, uint64_t now_ns);
void online_samples_end(struct online *online, struct online_process *process);
/* online_stall.c */
void online_stall_snapshot(struct online *online, uint64_t now_ns);
/* A rank has ended just now, others may live. */
void online_stall_ended(struct online *online, uint64_t now_ns);
/* online_publish.c: the sink of detect. */
void online_publish(void *arg, const struct finding *finding);
/* online_recover.c: findings that a daemon left open which was killed are closed. */
void online_recover_close(struct online *online);
/* That some are open, or none. */
void online_recover_mark(struct online *online, bool open);

#endif
