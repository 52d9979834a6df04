/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lifecycles of one job's findings: verdicts in, findings out. What is one finding: equal kind, rank and communicator. Of a
 * hang also: standing still since before it was spoken of last, though the rank that is named for it is another now.
 *
 * Verdicts come during a round (a frame or a snapshot), findings go out at its end. Suspected with the first verdict,
 * open with the first confirmed
 * one; updated when its cause changes, and for its cost when it is twice as old as at its last update,
 * every FINDINGS_UPDATE_NS at least. Closed after relief_frames frames
 * (FINDINGS_SNAPSHOTS snapshots, of hangs and mismatches) without it; until: the last verdict's time. Dropped where it was not
 * confirmed in three times as many. What comes back after it was closed is another finding. Only a hang or mismatch that
 * comes back within FINDINGS_REOPEN_NS of its end is the same one, and each time it does so it takes twice as long (16
 * times at most) to be closed again.
 *
 * Cause: the one with most weight (confidence) over its life; not known weighs a quarter. Evidence and others are of the
 * newest verdict of that cause, slowdown is the mean. Cost grows by lost_ns * cards with each verdict.
 */
#ifndef RANKTRACE_DETECT_FINDINGS_H
#define RANKTRACE_DETECT_FINDINGS_H

#include "analyzers/detect/detector.h"

#define FINDINGS_MAX 256 /* at once a job, those that may come back included; more are left out */
#define FINDINGS_SNAPSHOTS 3
#define FINDINGS_UPDATE_NS 30000000000ULL
#define FINDINGS_UPDATE_LEAST_NS 1000000000ULL
#define FINDINGS_REOPEN_NS 60000000000ULL

struct findings_sink {
	void (*finding)(void *arg, const struct finding *finding);
	void *arg;
};

struct findings;

/* next_id: the first number that is free, counted up; shared by all jobs of a source. NULL: out of memory. */
struct findings *findings_new(const struct detect_options *options, const char *job, const struct findings_sink *sink, uint64_t *next_id);
struct findings *findings_free(struct findings *findings);
/* verdict->finding.rank: index in who. A verdict that makes no sense (such an index out of range) is left out. */
void findings_add_verdict(struct findings *findings, const struct verdict *verdict, const struct frame_who *who, size_t ranks, uint32_t cards,
	enum frame_tier tier, uint64_t step, uint64_t now_ns);
/* A frame (or a snapshot) is over: publishes findings with a verdict, ages those without. hang: it was a snapshot. */
void findings_round(struct findings *findings, bool hang, uint64_t now_ns);
/* The job is over: all are closed or dropped. */
void findings_close(struct findings *findings, uint64_t now_ns);
/* Nothing more to read: open and suspected ones are reported once more as they are. */
void findings_end(struct findings *findings, uint64_t now_ns);
/* Open and suspected ones, as they are reported. */
size_t findings_open(const struct findings *findings, struct finding *ret, size_t max);

/* Lifecycle of one finding, from its first verdict until it can no longer recur. For findings.c. */

struct lifecycle {
	struct finding finding; /* id 0: not published yet */
	double weight[CAUSE_MAX];
	double slowdowns, lost_ns; /* sums over confirmed verdicts (over all while there is none) */
	double verdicts;	   /* so many */
	bool confirmed;		   /* once, in this episode */
	bool reported, reported_confirmed; /* in this round */
	bool lasting;		   /* in this round: would be confirmed, but must last longer */
	bool changed;		   /* worth telling */
	unsigned quiet;		   /* rounds without */
	unsigned unconfirmed;	   /* rounds since it was confirmed last, or since it was suspected */
	unsigned returns;	   /* of a hang or mismatch: times it recurred after it was closed */
	uint64_t last_ns, last_step; /* of the last verdict */
};

struct findings {
	struct detect_options options;
	struct findings_sink sink;
	uint64_t *next_id;
	char job[64];
	size_t lifecycles;
	struct lifecycle *lifecycle[FINDINGS_MAX];
};

/* Published: suspected or open now. */
static inline bool lifecycle_is_up(const struct lifecycle *lifecycle)
{
	return lifecycle->finding.id && (lifecycle->finding.state == FINDING_SUSPECTED || lifecycle->finding.state == FINDING_OPEN);
}

/* Comes from snapshots, and ends with them. */
static inline bool lifecycle_of_snapshots(const struct lifecycle *lifecycle)
{
	return lifecycle->finding.kind == FINDING_HANG || lifecycle->finding.kind == FINDING_MISMATCH;
}

/* Takes a verdict in. index: of its rank in who, -1 none. */
void lifecycle_add(struct lifecycle *lifecycle, const struct verdict *verdict, uint32_t cards, enum frame_tier tier, uint64_t step,
	uint64_t now_ns);

#endif
