/* SPDX-License-Identifier: Apache-2.0 */
/* Inside detect: jobs, and detectors of the caller's choice for its tests. */
#ifndef RANKTRACE_DETECT_DETECT_INTERNAL_H
#define RANKTRACE_DETECT_DETECT_INTERNAL_H

#include "analyzers/detect/detect.h"
#include "analyzers/detect/hang_findings.h"
#include "analyzers/judge/judge.h"

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
/* For detectors' wish for more levels; arg: struct detect_session. */
void detect_want(void *arg, unsigned wants, const char *why);

#endif
