/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one interface of all verdicts: feed events, get findings. Pure: no I/O, no clock, no globals; the same code runs
 * in the daemon, over stores of one node or many, and in tests. Holds the aligner and, a job, the judge (slow), the
 * detectors of detectors.def and the lifecycle of hangs.
 *
 * A finding is published when it is suspected, opened, has changed enough to matter (cause, severity, or at most every
 * 30 s for its cost), closed or dropped. Times are of the clock that was fed.
 */
#ifndef RANKTRACE_DETECT_DETECT_H
#define RANKTRACE_DETECT_DETECT_H

#include <jansson.h>

#include "analyzers/detect/detector.h"
#include "analyzers/align/align.h"
#include "analyzers/gauges/hardware.h"

#define DETECT_NODES_MAX 4096 /* of which hardware is judged */

struct detect_sink {
	void (*finding)(void *arg, const struct finding *finding);
	/*
	 * More would be seen of the job with these levels on (enum judge_want), for so long; may be NULL. uid: the user
	 * of the job's ranks, ALIGN_UID_UNKNOWN.
	 */
	void (*want)(void *arg, unsigned wants, uint32_t uid, const char *job, const char *why);
	/* A frame that is judged, of the aligner's job of that number, and what was measured on it; may be NULL. */
	void (*frame)(void *arg, uint32_t job, const struct frame *frame, const struct measures *measures);
	/* The job goes on with what was given to detect_resume(); may be NULL. */
	void (*resumed)(void *arg, const char *job);
	void *arg;
};

struct detect;

void detect_options_default(struct detect_options *ret);
struct detect *detect_new(const struct detect_options *options, const struct detect_sink *sink);
struct detect *detect_free(struct detect *detect);
/* Events go in here. */
struct align *detect_align(struct detect *detect);
/* What the hardware of a node says of itself goes in here. NULL: out of memory, or more than DETECT_NODES_MAX nodes. */
struct hardware *detect_hardware(struct detect *detect, const char *host);
/* Where ranks stand: rank members are processes of the aligner, stuck.culprit too. Jobs without a rank in it are not
 * judged. stuck_job[i]: the job's word; of jobs of one word, it is the one that has its first culprit. */
void detect_snapshot(struct detect *detect, uint64_t now_ns, const struct standing *standing, size_t standings,
	const struct stuck *stuck, const char *const *stuck_job, size_t stucks, bool operations);
/* A frame made elsewhere (simulator, another's traces), of a job of that word; not together with aligner events of
 * it. */
void detect_frame(struct detect *detect, const char *job, const struct frame *frame);
/* What is usual in its jobs, and was in those that it has not seen yet, for another process that goes on with them: an
 * array with an object a job. A new reference; NULL: out of memory. */
json_t *detect_learned(const struct detect *detect);
/* Jobs of these whose processes are the same, and that have not learned yet, go on with it; the others learn what is
 * usual. */
void detect_resume(struct detect *detect, json_t *learned);
/* Time has come to here. Findings of jobs of which no rank lives are closed. */
void detect_advance(struct detect *detect, uint64_t now_ns);
/* The end of what there is to read: open findings are reported once more as they are. */
void detect_end(struct detect *detect);

#endif
