/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the room of findings: what findings_room.c (who is watched, when what is done), findings_feed.c (events in),
 * findings_samples.c (samples of the system), findings_look.c (where ranks stand) and findings_tell.c (findings out)
 * share.
 */
#ifndef RANKTRACE_FINDINGS_INTERNAL_H
#define RANKTRACE_FINDINGS_INTERNAL_H

#include "analyzers/detect/detect.h"
#include "analyzers/detect/hogs.h"
#include "daemon/findings_raise.h"
#include "daemon/findings_room.h"
#include "daemon/host_sample.h"
#include "daemon/ranks.h"
#include "daemon/steps_room.h"

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
	uint64_t closer_until_ns, closer_left_ns, closer_at_ns; /* findings_samples.c */
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

/* findings_feed.c: NULL where it is another's slot by now, or unknown to the framer. */
struct online_process *online_process(struct online *online, uint32_t slot, int64_t instance);
/* findings_samples.c */
void online_samples_take(struct online *online, uint64_t now_ns);
/* A step was longer than usual: samples of a shorter time for a while. */
void online_samples_closer(struct online *online, uint64_t now_ns);
void online_samples_end(struct online *online, struct online_process *process);
/* findings_look.c */
void online_stall_snapshot(struct online *online, uint64_t now_ns);
/* A rank has ended just now, others may live. */
void online_stall_ended(struct online *online, uint64_t now_ns);
/* findings_tell.c: the sink of detect. */
void online_publish(void *arg, const struct finding *finding);
/* findings_left.c: findings that a daemon left open which was killed are closed. */
void online_recover_close(struct online *online);
/* That some are open, or none. */
void online_recover_mark(struct online *online, bool open);

#endif
