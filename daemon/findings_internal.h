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

/* A process that is a rank, as the framer knows it. */
struct findings_process {
	int64_t instance; /* 0: the place is free */
	int process;	  /* of the framer */
	uint32_t pid, slot;
	uint64_t start_time_ns; /* as /proc has it */
	int32_t rank;
	uint32_t world_size;
	char job[64];
	uint64_t ended_ns;  /* 0: it lives */
	uint32_t thread_id; /* its step thread, 0 while not known */
	uint64_t op_ns;	    /* end of the newest operation that was told */
	struct hogs hogs;   /* of the waits that L3 told of since the sample before */
	struct steps_room_progress last; /* of one that ended: its place is another's */
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

struct findings_room {
	struct context *context;
	struct detect *detect;
	struct framer *framer; /* detect's */
	struct findings_raise raise;
	char proc_root[128], cgroup_root[128];
	uint64_t id_base; /* added to ids: no two starts give the same */
	uint64_t sample_next_ns, sample_last_ns, look_next_ns, look_ended_ns;
	uint64_t closer_until_ns, closer_left_ns, closer_at_ns; /* findings_samples.c */
	bool watched; /* the framer knows that operations are seen */
	uint64_t watched_ns; /* they were, at this time */
	uint64_t drops; /* of the kernel, that the framer knows of */
	bool ending;	/* what is told is told for the last time */
	bool marked;	/* findings_left_mark() */
	bool left;	/* some of an earlier daemon are open still: the mark stays for the next start */
	struct findings_counts counts;
	size_t told_count;
	struct findings_told told[FINDINGS_TOLD_MAX];
	struct findings_process ended[FINDINGS_ENDED];
	unsigned ended_next;
	size_t slots;
	struct findings_process slot[];
};

/* findings_feed.c: NULL where it is another's slot by now, or unknown to the framer. */
struct findings_process *findings_process(struct findings_room *online, uint32_t slot, int64_t instance);
/* findings_samples.c */
void findings_samples_take(struct findings_room *online, uint64_t now_ns);
/* A step was longer than usual: samples of a shorter time for a while. */
void findings_samples_closer(struct findings_room *online, uint64_t now_ns);
void findings_samples_end(struct findings_room *online, struct findings_process *process);
/* findings_look.c */
void findings_look(struct findings_room *online, uint64_t now_ns);
/* A rank has ended just now, others may live. */
void findings_look_ended(struct findings_room *online, uint64_t now_ns);
/* findings_tell.c: the sink of detect. */
void findings_tell(void *arg, const struct finding *finding);
/* findings_left.c: findings that a daemon left open which was killed are closed. */
void findings_left_close(struct findings_room *online);
/* That some are open, or none. */
void findings_left_mark(struct findings_room *online, bool open);

#endif
