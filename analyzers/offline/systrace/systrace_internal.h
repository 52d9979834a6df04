/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files that convert sysTrace's records to events.
 *
 *   systrace_feed.c   files to records
 *   systrace_emit.c   records to the aligner in the order of time
 *   systrace_events.c the list of records
 *   systrace_steps.c  stages of a process to its steps
 *   systrace_join.c   operations of all processes to the numbers by which they are joined
 *   systrace_pipeline.c  which jobs cannot be judged from such files
 */
#ifndef RANKTRACE_OFFLINE_SYSTRACE_SYSTRACE_INTERNAL_H
#define RANKTRACE_OFFLINE_SYSTRACE_SYSTRACE_INTERNAL_H

#include "analyzers/base/text_pool.h"
#include "analyzers/detect/detect.h"
#include "analyzers/offline/systrace/systrace_feed.h"

enum systrace_what { SYSTRACE_BEGIN, SYSTRACE_STAGE, SYSTRACE_OP, SYSTRACE_STEP, SYSTRACE_END };

/* At the same time, in the order of what. */
struct systrace_event {
	uint64_t start_ns, end_ns;
	uint64_t number; /* of a stage as it was read, then of its step plus one (0: none), as of a step itself; of an
			  * operation, by which it is joined (0: it is not) */
	uint64_t bytes;
	uint32_t process;
	uint16_t op, comm; /* of an operation: numbers of names. Of a stage op is its word's rank */
	uint8_t what, kind;
	bool opens, closes; /* a stage that begins a step at its start, or ends one at its end */
	bool is_host;	    /* an operation, with its times on the host */
};

struct systrace_process {
	char host[64], job[64];
	int32_t rank;
	uint32_t pid;
	int number; /* the aligner's, -1 */
	uint64_t first_ns, last_ns;
	uint64_t transfers;				/* its sends and receives, */
	uint64_t transfers_first_ns, transfers_last_ns; /* and when they were */
	bool is_pipeline;				/* of a job that is not judged */
};

struct systrace_events {
	size_t count, capacity;
	struct systrace_event *event;
	uint64_t left_out; /* beyond SYSTRACE_EVENTS_MAX */
};

/* 0 or -ENOMEM. Those that are too many are counted, no more. */
int systrace_events_add(struct systrace_events *events, const struct systrace_event *event);
void systrace_events_sort(struct systrace_events *events);

/* Of all processes. 0 or -ENOMEM. */
int systrace_events_steps(struct systrace_events *events);

struct systrace_feed {
	struct systrace_options options;
	struct systrace_counts counts;
	struct systrace_events events;
	struct text_pool *ops, *groups;
	uint32_t members[SYSTRACE_NAMES_MAX + 1]; /* of a group: processes that have shown an operation of it */
	size_t processes, processes_capacity;
	struct systrace_process *process;
	size_t next; /* event to be fed */
};

/* Makes all that is not in the files: steps, numbers, begins and ends. 0 or -ENOMEM. */
int systrace_emit_prepare(struct systrace_feed *feed);

/* After systrace_emit_prepare(): marks the processes of jobs that cannot be judged, and warns of each job. */
void systrace_pipeline_mark(struct systrace_feed *feed);

struct systrace_word {
	enum stage_kind kind;
	bool opens, closes;
	uint8_t rank; /* of those that open or close, evidence for the step thread */
};
/* What sysTrace's name of a function means; also our own words in dumps of that form. */
struct systrace_word systrace_word_of(const char *name);

/* Stages of one process (as read, in any order) get their step's number; steps are added. Of those that open
 * or close steps, those of the best rank count. 0 or -ENOMEM. */
int systrace_steps_make(struct systrace_events *events, uint32_t process, size_t first, size_t end);

/* Operations of the same communicator get the same number where they are the same. 0 or -ENOMEM. */
int systrace_join(struct systrace_events *events, size_t processes);

#endif
