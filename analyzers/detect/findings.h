/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lives of one job's findings: opinions in, findings out. A finding is suspected with the first opinion, opened with the
 * first confirmed one, told anew as detect.h says, and closed when relief_frames frames (or a look that shows progress, of a
 * hang) came without it. Where a rank is named, a slow_job of the same time is closed in its favour ("explained by"), and not
 * opened. Two kinds for one rank at once are both kept; of one kind and rank the cause with the most weight over its life
 * wins. Cost grows by lost_ns * cards with each opinion.
 */
#ifndef RANKTRACE_DETECT_FINDINGS_H
#define RANKTRACE_DETECT_FINDINGS_H

#include "analyzers/detect/detector.h"

#define FINDINGS_MAX 256 /* open at once a job; more are left out */

struct findings_sink {
	void (*finding)(void *arg, const struct finding *finding);
	void *arg;
};

struct findings;

struct findings *findings_new(const struct detect_options *options, const char *job, const struct findings_sink *sink, uint64_t *next_id);
struct findings *findings_free(struct findings *findings);
void findings_say(struct findings *findings, const struct opinion *opinion, const struct frame_who *who, size_t ranks, uint32_t cards,
	enum frame_tier tier, uint64_t step, uint64_t now_ns);
/* A frame (or a look) is over: those not said of it come nearer their end. hang: it was a look. */
void findings_round(struct findings *findings, bool hang, uint64_t step, uint64_t now_ns);
void findings_end(struct findings *findings, uint64_t now_ns);
size_t findings_open(const struct findings *findings, struct finding *ret, size_t max);

#endif
