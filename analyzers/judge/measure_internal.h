/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside measure*.c alone. What is kept between frames is who is of which class; all else is of the frame measured
 * last.
 */
#ifndef RANKTRACE_JUDGE_MEASURE_INTERNAL_H
#define RANKTRACE_JUDGE_MEASURE_INTERNAL_H

#include "analyzers/base/columns.h"
#include "analyzers/judge/measure.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define MEASURE_PENDING 4 /* operations of a rank in flight at once that are remembered: the longest waits */
#define MEASURE_COMMS 16  /* communicators of a rank that define its class */
#define MEASURE_TIME_MAX (1LL << 60)
#define MEASURE_RUN_BREAK 5 /* halves of the longest interval in a run: then it is another one */
#define MEASURE_PEERS_BITS 12
#define MEASURE_PEERS (1 << MEASURE_PEERS_BITS) /* rows */
#define MEASURE_PEERS_MIN 3
#define MEASURE_CLASS_EVERY 64 /* frames after which classes are checked again */
#define MEASURE_CLASS_EARLY 4  /* but in each of the first ones */
#define MEASURE_OVERLAPS_MIN 32
#define MEASURE_OVERLAPS_KEPT 0.9 /* of what was seen, from frame to frame */
#define MEASURE_OVERLAPS_SHARE 0.1

/* Of a group: the two shortest durations, however long. */
struct measure_shortest {
	uint64_t first_ns, second_ns;
	uint32_t first, second; /* whose; FRAME_NONE */
	uint32_t records;
};

/* What of a group its members' walks need. */
struct measure_meeting {
	uint64_t transfer_ns; /* its own, else that of its peers; UINT64_MAX: unknown */
	uint64_t kept_ns;     /* for so long the others waited for the last one, if there is one to blame */
	uint32_t last;	      /* who is; FRAME_NONE */
	uint32_t run;	      /* equal of operations that may be one asynchronous run, 0: blocks */
	bool p2p;
};

struct measure_flight {
	int64_t wait_end, end, full_end; /* end: less overlap_slack_ns() */
	bool in_run, p2p;
	bool overlapped, through; /* counted in measure_overlaps */
};

/* Operations of one name, kind and size of communicator, and bytes: how long they take once all are there. */
struct measure_peer {
	double transfer_ns; /* sum over groups of which all members have a record */
	double shortest_ns; /* of all */
	uint64_t key;	    /* 0: none yet */
	uint32_t groups;
	bool mixed; /* two kinds of operation fell on the row: not usable */
};

/* Operations of point to point that had not ended when the next one of the rank began; and those of them that had not
 * when that one was over and another began. Of all ranks and the last frames. */
struct measure_overlaps {
	double begun, through;
};

/* How far a rank has come on its way through the frame. */
struct measure_pace {
	int64_t start, newest_end; /* of its newest operation, INT64_MIN: none; end: less overlap_slack_ns() */
	uint64_t wait_ns, last_ns, passed_ns;
	uint64_t run_wait_ns;		 /* counted of the run that it is in */
	int64_t run_interval, run_start; /* longest from begin to begin in it, 0: not known; begin of its newest */
	uint32_t run;
};

struct measure_walk {
	struct measure_pace pace;
	uint32_t flights;
	struct measure_flight flight[MEASURE_PENDING];
};

struct measure_class_state {
	uint32_t *of; /* class of each rank, FRAME_NONE; kept between frames */
	uint32_t *next_of;
	size_t ranks, classes;
	uint64_t identity, next_identity; /* of the partition adopted, and of one seen once */
	uint64_t frames, next_check;	  /* frames so far; the next one to check */
	bool known;
	/* of one check */
	uint32_t *parent, *comms;
	uint32_t (*comm)[MEASURE_COMMS];
	uint32_t *lead, *pair;
	bool *split;
	struct columns by_rank, by_comm;
};

struct measure {
	struct measures result;
	struct measure_rank *rank;
	struct measure_group *group;
	/* Of a tame frame: the frame's own, or what was kept of it here. */
	const struct shortest *shortest;
	const size_t *stop;
	struct shortest *own_shortest;
	size_t *own_stop;
	struct measure_shortest *wild; /* of another one */
	struct measure_meeting *meeting;
	struct measure_walk *walk;
	uint32_t *class_ranks, *class_start, *by_class;
	double *scratch, *spread;
	struct measure_peer peer[MEASURE_PEERS];
	bool *here;
	uint32_t *most; /* records of a collective, by communicator */
	bool tame;	/* the frame is: see frame.h */
	bool odd;	/* a rank is left out that the frame has */
	struct columns by_rank, by_group, by_comm;
	struct measure_class_state classes;
	struct measure_overlaps overlaps;
};

/*
 * When an operation that seems to begin before another has ended did wait for it. Both are timed beside what they do,
 * and on streams of their own: in the public trace AR (tests/traces) a rank's next operation begins up to 140 us before
 * the recorded end of the one that held it, of 25 s. So what begins in the last 64th of an operation, or in its last 10
 * us, but not more than 1 ms early, comes after it.
 */
#define OVERLAP_SLACK_NS 10000
#define OVERLAP_SLACK_MAX_NS 1000000
#define OVERLAP_SLACK_PART 64

/* So much before its end it may be taken to have ended. */
static inline int64_t overlap_slack_ns(uint64_t duration_ns)
{
	uint64_t slack_ns = duration_ns / OVERLAP_SLACK_PART;

	if (slack_ns < OVERLAP_SLACK_NS)
		return OVERLAP_SLACK_NS;
	return slack_ns < OVERLAP_SLACK_MAX_NS ? (int64_t)slack_ns : OVERLAP_SLACK_MAX_NS;
}

/* Nothing is longer than that: no sum of some is out of range. */
static inline int64_t measure_clamp_length(uint64_t length_ns)
{
	return length_ns > (uint64_t)MEASURE_TIME_MAX ? MEASURE_TIME_MAX : (int64_t)length_ns;
}

/* -EINVAL: an index out of its range. Fills group and meeting. */
int measure_groups(struct measure *measure, const struct frame *frame);
/* measure_groups(), and fills wait, self and last of each rank. */
int measure_waits(struct measure *measure, const struct frame *frame);
/* Who is of which class (-ENOMEM), after measure_waits(). */
int measure_classify(struct measure *measure, const struct frame *frame);
/* Ranks that are here, by class: result.classes, class_ranks, class_start, by_class. */
void measure_by_class(struct measure *measure, const struct frame *frame);
/* ratio and z. */
void measure_compare(struct measure *measure, struct measure_rank *of);
void measure_class_free(struct measure_class_state *state);

#endif
