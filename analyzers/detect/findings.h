/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lives of one job's findings: opinions in, findings out. What is one finding: equal kind, rank and communicator. Of a
 * hang also: standing still since before it was spoken of last, though the rank that is named for it is another now.
 *
 * Said during a round (a frame or a look), told at its end. Suspected with the first opinion, open with the first confirmed
 * one; told anew when its cause changes, and for its cost when it is twice as old as when it was told,
 * every FINDINGS_TELL_NS at least. Closed after relief_frames frames
 * (FINDINGS_LOOKS looks, of hangs and mismatches) without it; until: the last opinion's time. Dropped where it was not
 * confirmed in three times as many. One that comes back within FINDINGS_REOPEN_NS of its end is the same one, and each time it
 * does so it takes twice as long (16 times at most) to be closed again: what comes and goes is one finding.
 *
 * Cause: the one with most weight (confidence) over its life; not known weighs a quarter. Evidence and others are of the
 * newest opinion of that cause, slowdown is the mean. Cost grows by lost_ns * cards with each opinion.
 *
 * A slow_job waits for 2 * suspect_frames frames: where something more specific is there for it (see findings_explain.c), it is not
 * opened, and closed or dropped with evidence "explained" if it was told. Two kinds for one rank at once are both kept. If more than
 * half of the job's ranks are said to be slow in one round, that tells of the model and not of the ranks: no slow_rank is opened then.
 * Where most of a node's ranks are slow, each finding names the others.
 */
#ifndef RANKTRACE_DETECT_FINDINGS_H
#define RANKTRACE_DETECT_FINDINGS_H

#include "analyzers/detect/detector.h"

#define FINDINGS_MAX 256 /* at once a job, those that may come back included; more are left out */
#define FINDINGS_LOOKS 3
#define FINDINGS_TELL_NS 30000000000ULL
#define FINDINGS_TELL_LEAST_NS 1000000000ULL
#define FINDINGS_REOPEN_NS 600000000000ULL
#define FINDINGS_REOPEN_LOOK_NS 60000000000ULL /* of hangs and mismatches */

struct findings_sink {
	void (*finding)(void *arg, const struct finding *finding);
	void *arg;
};

struct findings;

/* next_id: the first number that is free, counted up; shared by all jobs of a source. NULL: out of memory. */
struct findings *findings_new(const struct detect_options *options, const char *job, const struct findings_sink *sink, uint64_t *next_id);
struct findings *findings_free(struct findings *findings);
/* opinion->finding.rank: index in who. An opinion that makes no sense (such an index out of range) is left out. */
void findings_say(struct findings *findings, const struct verdict *verdict, const struct frame_who *who, size_t ranks, uint32_t cards,
	enum frame_tier tier, uint64_t step, uint64_t now_ns);
/* A frame (or a look) is over: what was said is told, those not said of it come nearer their end. hang: it was a look. */
void findings_round(struct findings *findings, bool hang, uint64_t step, uint64_t now_ns);
/* The job is over: all are closed or dropped. */
void findings_close(struct findings *findings, uint64_t now_ns);
/* Nothing more to read: open and suspected ones are told once more as they are. */
void findings_end(struct findings *findings, uint64_t now_ns);
/* Open and suspected ones, as they are told. */
size_t findings_open(const struct findings *findings, struct finding *ret, size_t max);

#endif
