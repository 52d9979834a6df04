/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by profiles.c (which ranks, how long) and profile_rank.c (stacks, names and rows of one rank).
 * collect/collect_memory.c has the stacks of allocations named here, without samples.
 */
#ifndef RANKTRACE_DAEMON_STACKS_PROFILE_INTERNAL_H
#define RANKTRACE_DAEMON_STACKS_PROFILE_INTERNAL_H

#include "analyzers/base/hash.h"
#include "daemon/stacks/profiles.h"
#include "stacks/reply/reply.h"

struct profile_rank {
	struct context *context;
	int64_t profile;
	bool used;
	bool sampled; /* the probe has it */
	bool ended;   /* the process has */
	bool laid_out; /* the worker has answered */
	struct reply_layout layout;
	struct reply_pid asked;
	uint32_t uid;
	int32_t rank;
	int64_t instance;
	char job[PROFILES_JOB_BYTES];
	uint64_t request; /* to the worker; 0: none */
	struct hash_table stacks; /* struct profile_stack, by the kernel's hash */
	struct hash_table named;  /* the same, one for each id */
	size_t stack_count, waiting_count; /* known; without an answer */
	struct hash_table codes;     /* struct profile_code, by address */
	struct list_link code_order; /* the same, oldest first */
	size_t code_bytes;
	uint64_t request_number; /* of the newest request: codes are put in once each */
	struct list_link waiting; /* of struct profile_stack, without a request */
	struct list_link asking;  /* the same, in the request */
	struct list_link held;	  /* struct profile_held, oldest first */
	size_t held_count;
	uint64_t name_at_ns, name_interval_ns;
	uint64_t rows, refused, lost; /* lost: here, beyond a limit or without a stack */
	struct rt_profile_process counts; /* of the probe, when it was last asked */
};

/* The layout was asked for; profile->laid_out is set by the answer. */
int profile_rank_begin(struct profile_rank *profile);
void profile_rank_free(struct profile_rank *profile);
void profile_rank_stack(struct profile_rank *profile, const struct rt_profile_stack_event *stack);
/* What names the frames of stacks that come after it. */
void profile_rank_code(struct profile_rank *profile, const struct rt_profile_code_event *code);
/* The row of call_stacks of a stack; false: it has no names, or none yet. */
bool profile_rank_id(const struct profile_rank *profile, uint64_t stack, int64_t *ret);
void profile_rank_sample(struct profile_rank *profile, const struct rt_profile_sample_event *sample);
/* Asks the worker for names if it is time, or at once. True: there are none to ask for, and none asked for. */
bool profile_rank_name(struct profile_rank *profile, uint64_t now_ns, bool at_once);
/* Nothing will be named any more. */
void profile_rank_give_up(struct profile_rank *profile);

#endif
