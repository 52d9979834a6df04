/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: the threads of some ranks are sampled for a while, on and off the CPU, into the tables profiles, samples
 * and call_stacks. One profile at a time. The probe (daemon/collect/collect_profile.c) samples; here is who is sampled
 * and for how long, the names of what was sampled, and the rows.
 *
 * A profile begins once the worker `stack` has found out where each rank's Python keeps its frames. During it, and
 * after its end, the worker names new stacks in batches, at intervals that double: most stacks are seen early. Samples
 * wait in memory for the name of their stack.
 */
#ifndef RANKTRACE_DAEMON_STACKS_PROFILES_H
#define RANKTRACE_DAEMON_STACKS_PROFILES_H

#include "bpf/profile.h"
#include "daemon/base/util.h"

#define PROFILES_RANKS_MAX 16u
#define PROFILES_FOR_MAX_NS (60 * NSEC_PER_SEC)
#define PROFILES_HZ 49u /* no multiple of the timers that programs use */
#define PROFILES_HZ_MAX 999u
#define PROFILES_JOB_BYTES 64u

struct context;
struct rank;
struct profiles;

int profiles_new(struct context *context, struct profiles **ret);
struct profiles *profiles_free(struct profiles *profiles);

/* What samples: provided by the collector. Functions return 0 or a negative errno. */
struct profile_probe {
	int (*start)(void *arg, uint64_t period_ns);
	void (*stop)(void *arg);
	int (*add)(void *arg, uint32_t pid, const struct rt_profile_process *process);
	/* Its counts; -ENOENT: unknown. With `remove` it is sampled no more. */
	int (*counts)(void *arg, uint32_t pid, bool remove, struct rt_profile_process *ret);
	void *arg;
};

/* NULL: none any more; what runs ends. */
void profiles_serve(struct profiles *profiles, const struct profile_probe *probe);

enum profile_reason { PROFILE_ASKED, PROFILE_SUSPECTED, PROFILE_HOURLY };
/* A running profile is cancelled for a more urgent one. PROFILE_OF_USER: of a user who may only see his own ranks. */
enum profile_urgency { PROFILE_OF_HOUR, PROFILE_OF_USER, PROFILE_OF_JOB, PROFILE_NOW };

struct profile_wish {
	bool (*wanted)(void *arg, const struct rank *rank); /* called for ranks during the call */
	void *arg;
	enum profile_reason reason;
	enum profile_urgency urgency;
	uint64_t for_ns;
	uint32_t frequency_hz;
	bool limited; /* `uid` has a part of the time only */
	uint32_t uid;
};

/*
 * 0: *ret_number is the profile's. -ENOENT: no rank is wanted. -EBUSY: another one runs. -EDQUOT: the user had his
 * part. -EOPNOTSUP: the kernel refuses the probe. An hourly one that gave way begins again later.
 */
int profiles_start(
	struct profiles *profiles, const struct profile_wish *wish, int64_t *ret_number, size_t *ret_left_out);

/*
 * Each job is profiled for 10 s, up to 4 of its ranks, at the configured interval: what a job that became slower as a
 * whole is compared with. The first one comes 2 minutes after its ranks are seen, when it has done with preparing.
 *
 * A rank is suspected of slowing its job, or the job is slower as a whole (its first rank): it and up to 3 of its peers
 * are profiled for 10 s, unless the configuration says no, one runs, the job had its part of the time, or its user is
 * suspected. NULL: it is not on this node.
 */
void profiles_suspect(struct profiles *profiles, const struct rank *rank, bool of_job);

struct profile_rank_progress {
	int32_t rank;
	uint32_t pid, uid;
	int64_t instance;
	uint64_t samples, refused, lost;
	char job[PROFILES_JOB_BYTES];
	char reason[128]; /* why there are no Python frames; "" */
};

struct profile_progress {
	int64_t number;
	bool running;	   /* false: all rows are in the store's queue */
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	uint64_t remaining_ns;
	uint32_t frequency_hz;
	size_t ranks;
	struct profile_rank_progress rank[PROFILES_RANKS_MAX];
};

/* Of the current profile or one of the last few; number 0: the newest. -ENOENT: not known (any more). */
int profiles_progress(const struct profiles *profiles, int64_t number, struct profile_progress *ret);

/* From the probe, in the order of the ring. */
void profiles_sample(struct profiles *profiles, const struct rt_profile_sample_event *sample);
void profiles_stack(struct profiles *profiles, const struct rt_profile_stack_event *stack);
void profiles_code(struct profiles *profiles, const struct rt_profile_code_event *code);
/* A rank has ended: what is not named yet has no names any more. */
void profiles_ended(struct profiles *profiles, uint32_t pid);
void profiles_tick(struct profiles *profiles, uint64_t now_ns);

struct profiles_status {
	uint64_t profiles, suspected; /* started, and of these for suspicions */
	uint64_t samples, refused, lost;
	uint64_t took_ns;    /* of the ranks' time, in the probe */
	uint64_t seen, read; /* samples and waits; those whose stack was read, within the budget */
	bool running;
};

void profiles_status(const struct profiles *profiles, struct profiles_status *ret);

#endif
