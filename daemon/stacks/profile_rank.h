/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks, names and rows of one rank: of its profiles (profiles.c), and without samples of its allocations, its waits
 * and its end (collect/, memory/). The struct is the caller's: zeroed, with context, rank and layout filled in;
 * profile_rank_init() or profile_rank_begin(), then profile_rank_free(). And the stacks of its stages (stage_stacks.c).
 */
#ifndef RANKTRACE_DAEMON_STACKS_PROFILE_RANK_H
#define RANKTRACE_DAEMON_STACKS_PROFILE_RANK_H

#include "analyzers/base/hash.h"
#include "analyzers/steps/steps.h"
#include "bpf/syscalls.h"
#include "daemon/stacks/profiles.h"
#include "stacks/reply/reply.h"

struct profile_rank {
	struct context *context;
	int64_t profile;
	bool used;
	bool sampled;	     /* the probe has it */
	bool ended;	     /* the process has */
	bool laid_out;	     /* the worker has answered */
	bool recorded;	     /* the process has ended: names come from recorded code objects alone */
	bool asked_recorded; /* the request is of that kind */
	struct reply_layout layout;
	struct reply_pid asked;
	uint32_t uid;
	int32_t rank;
	int64_t instance;
	char job[PROFILES_JOB_BYTES];
	/* Called for each stack that is named; NULL: not. */
	void (*on_named)(void *arg, uint64_t stack, const char *frames);
	void *on_named_arg;
	bool keeps_places;		   /* profile_rank_place() has them */
	uint64_t request;		   /* to the worker; 0: none */
	struct hash_table stacks;	   /* struct profile_stack, by the kernel's hash */
	struct hash_table named;	   /* the same, one for each id */
	size_t stack_count, waiting_count; /* known; without an answer */
	struct hash_table codes;	   /* struct profile_code, by address */
	struct list_link code_order;	   /* the same, oldest first */
	size_t code_bytes;
	size_t stack_bytes;	  /* of stacks, and of their events while they wait */
	uint64_t request_number;  /* of the newest request: codes are put in once each */
	struct list_link waiting; /* of struct profile_stack, without a request */
	struct list_link asking;  /* the same, in the request */
	struct list_link held;	  /* struct profile_held, oldest first */
	size_t held_count;
	uint64_t name_at_ns, name_interval_ns;
	uint64_t rows, refused, lost;	  /* lost: here, beyond a limit or without a stack */
	struct rt_profile_process counts; /* of the probe, when it was last asked */
};

/* What is needed to know stacks, without a layout, which profile->recorded has from elsewhere. */
int profile_rank_init(struct profile_rank *profile);
/* As profile_rank_init(), where the layout was asked for: the answer sets profile->laid_out. */
int profile_rank_begin(struct profile_rank *profile);
void profile_rank_free(struct profile_rank *profile);
void profile_rank_stack(struct profile_rank *profile, const struct rt_profile_stack_event *stack);
/* What names the frames of stacks that come after it. */
void profile_rank_code(struct profile_rank *profile, const struct rt_profile_code_event *code);
/* The row of call_stacks of a stack; false: it has no names, or none yet. */
bool profile_rank_id(const struct profile_rank *profile, uint64_t stack, int64_t *ret);
/* Is its name still to come? */
bool profile_rank_waits(const struct profile_rank *profile, uint64_t stack);
/* The line of a stack; "": it has no names, or none yet. */
const char *profile_rank_place(const struct profile_rank *profile, uint64_t stack);
void profile_rank_sample(struct profile_rank *profile, const struct rt_profile_sample_event *sample);
/* Memory of stacks and codes. */
size_t profile_rank_bytes(const struct profile_rank *profile);
/* Asks the worker for names if it is time, or at once. True: there are none to ask for, and none asked for. */
bool profile_rank_name(struct profile_rank *profile, uint64_t now_ns, bool at_once);
/* Nothing will be named any more. */
void profile_rank_give_up(struct profile_rank *profile);

/*
 * stage_stacks.c: stacks of stages, once for each kind of stage of a rank, which is its stage and its name. The kernel
 * reads the stacks of some hits in a row (rt_quota.stacks_wanted), seldom; each belongs to the stage that its thread
 * has just begun.
 */

#define STAGE_STACKS_MAX 32		   /* kinds of stages of a rank; a training has some ten */
#define STAGE_STACKS_HITS 32		   /* in a row: more than a step has begins. A stack takes some 5 us */
#define STAGE_STACKS_FIRST_NS NSEC_PER_SEC /* after the first stage; then the interval doubles */
#define STAGE_STACKS_LAST_NS (64 * NSEC_PER_SEC)
/* A stack comes after the begin of its stage in one hit; the time between is that of the record. */
#define STAGE_STACKS_APART_NS NSEC_PER_MSEC

struct stage_stack {
	char stage[STEPS_NAME_BYTES], name[STEPS_NAME_BYTES];
	uint64_t stack; /* the kernel's hash */
	uint64_t start_ns;
	uint32_t thread_id;
	bool put;
};

struct stage_stacks {
	uint64_t next_ns, interval_ns; /* when stacks are wanted again */
	size_t count;
	struct stage_stack of[STAGE_STACKS_MAX];
};

/* Is it time to want stacks of the next hits? */
bool stage_stacks_due(struct stage_stacks *stacks, uint64_t now_ns);
/* The stack of a stage that is open on this thread. True: it is the first of its kind, and is to be named. */
bool stage_stacks_add(
	struct stage_stacks *stacks, const struct steps_open *open, const struct rt_profile_stack_event *event);
/* Rows of those that have a name by now. */
void stage_stacks_put(struct stage_stacks *stacks, const struct profile_rank *names);

/*
 * wait_stacks.c: long system calls of a rank whose stack the kernel has read (bpf/syscalls.bpf.c): rows of
 * `wait_stacks`, once the worker has named the stack.
 */

/* Without a name yet: a thread has at most 100 a second, and most stacks have one already */
#define WAIT_STACKS_MAX 256
#define WAIT_STACKS_FOR_NS (12 * NSEC_PER_SEC) /* more than a request for names may take */

struct wait_stacks {
	struct rt_wait_event wait[WAIT_STACKS_MAX];
	size_t count;
	uint64_t lost; /* beyond the limit, or their stacks got no names */
};

void wait_stacks_add(struct wait_stacks *waits, const struct rt_wait_event *wait);
/* Rows of those that have names by now; those that have waited for too long are lost. */
void wait_stacks_put(struct wait_stacks *waits, const struct profile_rank *names, uint64_t now_ns);

#endif
