/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rank slows its job, in which activity, since when and at what cost. Pure: frames of one job in, findings
 * (slow_rank, slow_job) out; one finding is one episode. docs/judgement.md derives the method; in short:
 *
 *   usual    mean of each activity of each rank, learned while nothing is slow
 *   growth   what the job's step takes beyond its usual; all ranks of a synchronous job grow alike
 *   own      the part of a rank's growth that is its own work (judge_share.c); the others' growth is waiting
 *   share    each rank's part of the growth; the rest is the job's, and nobody is named for it
 *   evidence sum of share x growth, less an allowance: an episode opens above a limit (judge_episode.c)
 *
 * Times are ns of the clock that the frames have, durations in between are seconds.
 */
#ifndef RANKTRACE_JUDGE_JUDGE_H
#define RANKTRACE_JUDGE_JUDGE_H

#include <jansson.h>

#include "analyzers/align/frame.h"
#include "analyzers/judge/measure.h"
#include "analyzers/finding/finding.h"

enum judge_grades { JUDGE_CRITICAL, JUDGE_SUDDEN, JUDGE_WARNING, JUDGE_SOON, JUDGE_NOTICE, JUDGE_GRADES };

/* The growth of the step over its usual from which an episode that lasts so long is of that severity. */
struct judge_grade {
	enum finding_severity severity;
	double growth; /* 0.05: 5 % */
	uint64_t lasts_ns;
};

struct judge_options {
	struct judge_grade grade[JUDGE_GRADES]; /* enum judge_grades; the first that fits counts */
	double job_growth; /* 0.10: a slow-down of the job without a rank that is less is counted, not announced */
};

/* Levels that would show more. */
enum judge_want {
	JUDGE_WANT_OPERATIONS = 1,
	JUDGE_WANT_SYSTEM = 2,
	JUDGE_WANT_LAUNCHES = 4,
	JUDGE_WANT_STAGES = 8,
	JUDGE_WANT_STACKS = 16,
	JUDGE_WANT_ROUTINE = 32, /* operations for a while, though nothing is suspected */
};

struct judge_sink {
	void (*finding)(void *arg, const struct finding *finding);
	/* More would be seen with these levels (enum judge_want); why: a sentence for the log. */
	void (*want)(void *arg, unsigned wants, const char *why);
	/* Whether a hang was reported for this time. */
	bool (*hung)(void *arg, uint64_t begin_ns, uint64_t end_ns);
	void *arg;
};

struct judge;

void judge_options_default(struct judge_options *ret);
/* next_id: the first free number of a finding, counted up. NULL: out of memory. */
struct judge *judge_new(
	const struct judge_options *options, const char *job, const struct judge_sink *sink, uint64_t *next_id);
struct judge *judge_free(struct judge *judge);
/* measures: waits of the frame's ranks; used where the frame has operations. 0, -ENOMEM, or -EINVAL: too many ranks. */
int judge_frame(struct judge *judge, const struct frame *frame, const struct measures *measures);
/* A detector's verdict on the newest frame: a slow-down that is no rank's, and lost so much of the step. Used of `of`:
 * kind, cause, tier, confidence, host, communicator, others, evidence, and when it began (0: with the tick). Copied.
 * What makes no sense is left out. */
void judge_claim(struct judge *judge, const struct finding *of, double lost_ns);
/* The job is over: open episodes are closed. */
void judge_close(struct judge *judge);
/* Nothing more to read: open episodes are published once more as they are. */
void judge_end(struct judge *judge);

/* judge_learned.c: what it has learned of its job, for one that goes on. A new reference; NULL: it has not learned
 * enough, or out of memory. */
json_t *judge_learned(const struct judge *judge);
bool judge_has_learned(const struct judge *judge);
/* Its newest frame is too long ago to go on with it now. */
bool judge_learned_is_old(const json_t *learned, uint64_t now_ns);
/* A name as it is kept: clean, UTF-8; and whether that is what was kept. */
json_t *judge_learned_text(const char *text);
bool judge_learned_is_text(const json_t *kept, const char *text);
/* Into a judge that has had no frame; frame: its first, that ended now. 0, -EINVAL: it is too old, or not of the same
 * ranks (number, host and pid), or damaged; -ENOMEM. After an error the judge is of no use. */
int judge_resume(struct judge *judge, const json_t *learned, const struct frame *frame, uint64_t now_ns);

/* A rank of one job, as means of some time: where there are no frames, as of many nodes. All in s a step. */
struct judge_row {
	double now[ACTIVITY_MAX], usual[ACTIVITY_MAX];
	double wait, wait_usual;  /* in operations, with the transfer; NAN: not known */
	double own;		  /* filled in: its own part of the growth */
	double act[ACTIVITY_MAX]; /* the same by activity */
};

/* judge_table.c: whose growth it is. growth: of the job's step, positive. ret_common: growth of the mean of all rows,
 * by activity. 0, -EINVAL: too many, -ENOMEM. */
int judge_table(struct judge_row *row, size_t rows, bool cards, double growth, double ret_common[ACTIVITY_MAX]);

#endif
