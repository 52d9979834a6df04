/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame: one training step of one job, as all of its ranks that we know of went through it. What every detector reads
 * (detect/detector.h), and what the aligner (align/align.h), the simulator and traces of others make. Plain data, no
 * clock.
 *
 * Times of a rank are ns since its own step began, on its own node's clock, so that nothing here needs clocks that
 * agree: what is compared between ranks are durations. An operation that began before the step has a negative start.
 *
 * A group is one operation of a communicator: all its members' records under one (communicator, seq). A record lies in
 * the frame of the step in which its rank began it.
 */
#ifndef RANKTRACE_ALIGN_FRAME_H
#define RANKTRACE_ALIGN_FRAME_H

#include "analyzers/coll/comm_kind.h"
#include "analyzers/steps/activity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Who came last to a group: the shortest of its records is that of the one that all others waited for, and the second
 * shows by how much. Each record is a key, its duration and its rank in 64 bits, so that the shortest two are found
 * without a guess: who comes last is chance, and a processor that guesses it guesses wrong. Of equal durations the
 * lower rank's key is the shorter one.
 */

#define SHORTEST_RANK_BITS 24
#define SHORTEST_RANKS (1ULL << SHORTEST_RANK_BITS)	/* the last number is not a rank's */
#define SHORTEST_NS (1ULL << (64 - SHORTEST_RANK_BITS)) /* 18 minutes: durations are shorter */

/* Of a group. */
struct shortest {
	uint64_t first, second; /* keys, UINT64_MAX: there is none */
	uint32_t records;
};

static inline struct shortest shortest_none(void)
{
	return (struct shortest){UINT64_MAX, UINT64_MAX, 0};
}

static inline void shortest_add(struct shortest *of, uint64_t duration_ns, uint64_t rank)
{
	uint64_t key = duration_ns << SHORTEST_RANK_BITS | rank;
	uint64_t first = of->first, longer = key > first ? key : first;

	of->first = key < first ? key : first;
	of->second = longer < of->second ? longer : of->second;
}

/* Of a key that is there. */
static inline uint64_t shortest_ns(uint64_t key)
{
	return key >> SHORTEST_RANK_BITS;
}

static inline uint32_t shortest_rank(uint64_t key)
{
	return (uint32_t)(key & (SHORTEST_RANKS - 1));
}

#define FRAME_UNKNOWN UINT64_MAX
#define FRAME_NONE UINT32_MAX
#define FRAME_TAME_NS (SHORTEST_NS / 2)

/* How much of the waiting can be seen. A frame is never of two tiers. */
enum frame_tier {
	FRAME_TIER_STAGES, /* steps and stages alone (L0): waits show only as stages that are longer than a peer's */
	FRAME_TIER_HOST,   /* operations, timed on the host from call to completion (gloo with L1) */
	FRAME_TIER_DEVICE, /* operations, timed on the device (marker library) */
	FRAME_TIER_MAX
};

/* Steps that are no measure for others. */
enum frame_class {
	FRAME_TRAIN,
	FRAME_FIRST,	  /* the first ones of a process, or after a long pause */
	FRAME_CHECKPOINT, /* with a checkpoint in it */
	FRAME_EVALUATION, /* after an evaluation */
	FRAME_CLASS_MAX
};

enum host_measure {
#define HOST_MEASURE(id, member, evidence, unit, scale, kind, cause) HOST_##id,
#include "analyzers/align/host_measures.def"
#undef HOST_MEASURE
	HOST_MEASURE_MAX
};

/* What was measured beside the steps of a rank, in the step: each FRAME_UNKNOWN where nothing measured it. */
struct frame_host {
	union {
		struct {
#define HOST_MEASURE(id, member, evidence, unit, scale, kind, cause) uint64_t member;
#include "analyzers/align/host_measures.def"
#undef HOST_MEASURE
		};
		uint64_t measure[HOST_MEASURE_MAX];
	};
	uint64_t preemptor_ns;	/* of run_delay_ns, time of the largest preemptor; 0 if unknown */
	uint32_t preemptor_pid; /* who that was; 0 not known */
	char preemptor_name[16];
};

static inline struct frame_host frame_host_unknown(void)
{
	struct frame_host ret = {.preemptor_name = ""};

	for (int h = 0; h < HOST_MEASURE_MAX; h++)
		ret.measure[h] = FRAME_UNKNOWN;
	return ret;
}

struct frame_rank {
	bool here;	  /* false: no record of it for this step; nothing else is set then */
	uint64_t step_ns; /* length of its step */
	uint64_t end_ns;  /* of its step, ns of its node's clock: for "since", never compared between nodes */
	bool unsplit; /* L0 did not watch all of its step (steps.h, "Sampling"): activities and syncs are 0, not known */
	/* Self time of each activity on the step thread: they add up to step_ns. COMPUTE is 0. */
	uint64_t activity_ns[ACTIVITY_MAX];
	/* From the first begin to the last end, since its step began, of activities in which it may wait for others; 0
	 * and 0: it has none, or that is not known. */
	int64_t may_wait_from_ns, may_wait_until_ns;
	uint32_t syncs;	  /* device synchronizations in it */
	uint32_t leads;	  /* operations of which lead_ns is known */
	uint64_t lead_ns; /* sum over them: from the end of the host's call to their start on the device */
	struct frame_host host;
};

struct frame_op {
	uint32_t group;	  /* index in frame.group */
	uint32_t rank;	  /* index in frame.rank */
	int64_t start_ns; /* since its step began */
	uint64_t duration_ns;
};

struct frame_group {
	uint32_t comm;	  /* index in frame.comm */
	uint32_t members; /* how many take part: the communicator's, or 2 of point to point */
	uint64_t bytes;
	uint16_t op; /* the caller's number of the operation's name: equal names, equal numbers */
	bool p2p;
};

struct frame_comm {
	char communicator[20]; /* identity */
	enum comm_kind kind;
	uint32_t members;
};

/* A rank of the job, the same index in all frames. */
struct frame_who {
	int32_t rank;	/* global */
	uint32_t pid;	/* of its newest process, on its host; 0 not known */
	uint32_t node;	/* index of its node in the job; FRAME_NONE not known */
	uint32_t stage; /* pipeline stage where it is known from outside, FRAME_NONE: from classes */
	char host[64];	/* the node's name */
	char card[32];	/* "" if none */
};

struct frame {
	uint64_t step; /* of the reference rank: the same instance as long as it lives */
	enum frame_class class;
	enum frame_tier tier;
	uint32_t world_size; /* ranks of the job, those on other nodes that we do not see included */
	uint32_t cards;	     /* that it holds; world_size where nothing else is known */
	size_t ranks;	     /* that we know of */
	const struct frame_who *who;
	const struct frame_rank *rank;
	size_t comms;
	const struct frame_comm *comm;
	size_t groups;
	const struct frame_group *group;
	size_t ops; /* in any order; those of a rank are in the order of their starts */
	const struct frame_op *op;
	uint64_t lost; /* records that should be here and are not, as far as known */
	/* What who made the frame may have kept while it wrote: both or none, NULL where it did not. Where they are
	 * here the frame is tame: operations lie by rank, and those of a rank in the order of their starts; ranks'
	 * numbers are below SHORTEST_RANKS, durations below SHORTEST_NS, and starts less than FRAME_TAME_NS off the
	 * step's begin. */
	const struct shortest *shortest; /* of each group */
	const size_t *stop; /* of each rank: where in op its operations end, as they begin where the one before's end */
};

/* Activities of all ranks are known: what is compared between ranks is. */
static inline bool frame_is_split(const struct frame *frame)
{
	for (size_t i = 0; i < frame->ranks; i++)
		if (frame->rank[i].here && frame->rank[i].unsplit)
			return false;
	return true;
}

#endif
