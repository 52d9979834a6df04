/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lifecycle of a job's hangs and mismatches: verdicts of snapshots in, findings out. (What is slow has episodes instead:
 * judge/judge_episode.c.) Suspected with the first verdict, open with the first confirmed one; published again when it
 * changes, and for its cost when it is twice as old as at its last update, every 30 s at least. Closed after
 * HANG_SNAPSHOTS snapshots without it; dropped where it was not confirmed in three times as many.
 *
 * One finding: equal kind, rank and communicator; of a hang also a standstill that began before its newest verdict,
 * though another rank is named for it now. It keeps what the surest verdict says. What recurs within HANG_REOPEN_NS is
 * the same one, and each time it takes twice as long (16 times at most) to be closed.
 */
#ifndef RANKTRACE_DETECT_HANG_FINDINGS_H
#define RANKTRACE_DETECT_HANG_FINDINGS_H

#include "analyzers/detect/detector.h"

#define HANG_FINDINGS_MAX 64 /* at once a job, with those that may recur; further ones are left out */
#define HANG_SNAPSHOTS 3
#define HANG_REOPEN_NS 60000000000ULL
#define HANG_UPDATE_LEAST_NS 1000000000ULL
#define HANG_UPDATE_NS 30000000000ULL

struct hang_findings_sink {
	void (*finding)(void *arg, const struct finding *finding);
	void *arg;
};

/* Where a verdict comes from. */
struct hang_context {
	const struct frame_who *who;
	size_t ranks;
	uint32_t cards;
	enum frame_tier tier;
	uint64_t step, now_ns;
};

struct hang_findings;

/* next_id: the first free number, counted up; shared by all findings of a source. NULL: out of memory. */
struct hang_findings *hang_findings_new(const char *job, const struct hang_findings_sink *sink, uint64_t *next_id);
struct hang_findings *hang_findings_free(struct hang_findings *findings);
/* verdict->finding.rank: index in who; one out of range is left out. */
void hang_findings_add(struct hang_findings *findings, const struct verdict *verdict, const struct hang_context *context);
/* A snapshot is over: publishes findings with a verdict, ages those without. */
void hang_findings_round(struct hang_findings *findings, uint64_t now_ns);
/* The job is over: all are closed or dropped. */
void hang_findings_close(struct hang_findings *findings, uint64_t now_ns);
/* Nothing more to read: open and suspected ones are published once more as they are. */
void hang_findings_end(struct hang_findings *findings, uint64_t now_ns);

#endif
