/* SPDX-License-Identifier: Apache-2.0 */
/* Inside detect: jobs, hangs, and detectors of the caller's choice for its tests. */
#ifndef RANKTRACE_DETECT_DETECT_INTERNAL_H
#define RANKTRACE_DETECT_DETECT_INTERNAL_H

#include "analyzers/detect/detect.h"
#include "analyzers/detect/detector.h"
#include "analyzers/judge/judge.h"

/* hang_who.c: the culprit of a hung job. */
enum hang_flag { HANG_ACCUSED = 1, HANG_WAITS = 2, HANG_STANDS = 4 };

struct hang_who {
	enum finding_cause cause;
	double confidence;
	size_t culprits;	   /* 0: unknown */
	uint32_t *culprit;	   /* indices in who, space for snapshot.ranks */
	uint8_t *flags;		   /* scratch, space for snapshot.ranks: enum hang_flag of each index */
	uint32_t *at;		   /* scratch, the same: its index in standing */
	const struct stuck *stuck; /* that it was seen from, NULL: stages */
	bool outside;	   /* no rank that lives is in a stage, nor begun a step that another has not: nothing says
				    * that they are in a step at all */
	bool together;	   /* all that live are in the same stage, which holds no wait for others */
	bool by_stacks;	   /* stacks alone name the culprit */
	uint64_t since_ns; /* newest sign of life that counts */
};

/* ret->culprit, flags and at are the caller's. false: nothing to judge (no rank lives, or no sign of life was ever
 * seen). */
bool hang_who(const struct snapshot *snapshot, struct hang_who *ret);
bool hang_stopped(const struct standing *standing); /* by a signal, or in a debugger */
/* Its standing, NULL if there is none. After hang_who(). */
const struct standing *hang_standing(const struct snapshot *snapshot, const struct hang_who *who, uint32_t rank);
/* Where those stand that live and are no culprits, most first: "backward (5), sync (2)"; returns how many. */
size_t hang_where(const struct snapshot *snapshot, const struct hang_who *who, char *ret, size_t size);

/* hang_findings.c: the lifecycle of a job's hangs and mismatches. */
#define HANG_FINDINGS_MAX 64 /* at once a job, with those that may recur; further ones are left out */
#define HANG_SNAPSHOTS 3
#define HANG_REOPEN_NS 60000000000ULL
#define HANG_UPDATE_LEAST_NS 1000000000ULL
#define HANG_UPDATE_NS 5000000000ULL

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
void hang_findings_add(
	struct hang_findings *findings, const struct verdict *verdict, const struct hang_context *context);
/* A snapshot is over: publishes findings with a verdict, ages those without. */
void hang_findings_round(struct hang_findings *findings, uint64_t now_ns);
/* Whether confirmed hangs had at least half of this time. */
bool hang_findings_cover(const struct hang_findings *findings, uint64_t begin_ns, uint64_t end_ns);
/* The job is over: all are closed or dropped. */
void hang_findings_close(struct hang_findings *findings, uint64_t now_ns);
/* Nothing more to read: open and suspected ones are published once more as they are. */
void hang_findings_end(struct hang_findings *findings, uint64_t now_ns);

#define DETECT_DETECTORS_MAX 16

#define DETECT_ELSEWHERE UINT32_MAX /* number of a job whose frames are made elsewhere */

struct detect_job {
	struct detect *detect;
	char word[64];
	uint32_t number, world_size;
	uint32_t uid; /* of its ranks, ALIGN_UID_UNKNOWN */
	struct measure *measure;
	struct judge *judge;
	struct hang_findings *hangs;
	void *state[DETECT_DETECTORS_MAX];
	/* of the newest frame */
	enum frame_tier tier;
	uint64_t step;
	uint32_t cards;
	uint64_t first_ns; /* end of its first frame, 0 none yet */
	uint64_t used;	   /* counts up: which was used last */
};

/* One frame or snapshot of a job, while its detectors run. */
struct detect_session {
	struct detect_job *job;
	struct hang_context context; /* of a snapshot */
};

struct detect {
	struct detect_options options;
	struct detect_sink sink;
	const struct detector *const *detectors;
	size_t count;
	struct align *align;
	uint64_t next_id, now_ns, uses;
	json_t *learned; /* array of what was usual before; NULL: nothing is known */
	size_t jobs;
	struct detect_job *job[ALIGN_JOBS_MAX];
	size_t nodes;
	struct hardware *node[DETECT_NODES_MAX];
};

/* The table must outlive what is returned. NULL: out of memory, or more than DETECT_DETECTORS_MAX. */
struct detect *detect_new_with(const struct detect_options *options, const struct detect_sink *sink,
	const struct detector *const *detectors, size_t count);
/* The job of that number, word, size and user, made where there is none. NULL: out of memory. */
struct detect_job *detect_job_find(struct detect *detect, uint32_t number, const struct align_job_info *known);
/* NULL: out of memory. */
struct judge *detect_judge_new(struct detect_job *job);
/* detect_learned.c: before a frame that counts, which ended now. */
void detect_job_resume(struct detect_job *job, const struct frame *frame, uint64_t now_ns);
/* For detectors' wish for more levels; arg: struct detect_session. */
void detect_want(void *arg, unsigned wants, const char *why);

#endif
