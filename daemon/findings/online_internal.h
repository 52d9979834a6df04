/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the parts of online detection: online.c (ranks and ticks), online_feed.c (events in), online_samples.c
 * (samples of the operating system), online_stall.c (progress of ranks), online_standing.c (its rows),
 * online_auto_level.c (levels), online_stacks.c (stacks of hung jobs), online_end.c (ranks that ended),
 * online_system.c (what the kernel did for a rank), online_publish.c (findings out), online_learned.c (what is usual,
 * for the next daemon) and online_recover.c (findings of a daemon that was killed).
 */
#ifndef RANKTRACE_DAEMON_FINDINGS_ONLINE_INTERNAL_H
#define RANKTRACE_DAEMON_FINDINGS_ONLINE_INTERNAL_H

#include "analyzers/base/stack.h"
#include "analyzers/detect/detect.h"
#include "analyzers/detect/preemptors.h"
#include "daemon/base/child.h"
#include "daemon/base/util.h"
#include "daemon/coll/coll_snapshot.h"
#include "daemon/core/level.h"
#include "daemon/findings/online.h"
#include "daemon/findings/online_observe.h"
#include "daemon/gauges/gauge.h"
#include "daemon/ranks/end_words.h"
#include "daemon/ranks/ranks.h"
#include "daemon/steps/rank_steps.h"

/*
 * Samples of the operating system's accounting for one process: /proc/PID/stat, the schedstat of its step thread and of
 * its busiest other threads, the CPU limits of its control groups, and the memory pressure of its own one. Never stops
 * the process. Counts that went back (a reused pid, another thread) are unknown.
 */

/*
 * Throttled time of a process's control groups under CPU limits (cpu.max, or cfs_quota_us of version 1). Any ancestor
 * may have a limit; unlimited groups are skipped until the next scan.
 */

#define HOST_CGROUPS_MAX 16 /* limited groups above a process; levels scanned */

/* A count of a control group that only grows. */
struct host_cgroup_count {
	char *path; /* NULL: none */
	uint64_t ns;
	bool fresh; /* not read yet: no difference */
};

struct host_cgroup {
	bool known; /* counts of the process's group are readable */
	size_t count;
	struct host_cgroup_count group[HOST_CGROUPS_MAX]; /* cpu.stat */
	struct host_cgroup_count
		memory; /* memory.pressure of its own group of version 2: limits above it show there, too */
};

/* Files of control groups that were read for the ranks of one round: most ranks of a node share them. */
#define HOST_FILES_MAX 64 /* further ones are read for each rank */

struct host_files {
	size_t count;
	struct host_file {
		char path[256]; /* longer ones are read for each rank */
		bool readable, limited;
		uint64_t ns;
	} file[HOST_FILES_MAX];
};

/* Rescans the process's groups and their limits. cgroup_root: "/sys/fs/cgroup"; fd: as of procfs_cgroup_again(). */
void host_cgroup_scan(struct host_cgroup *cgroup, struct host_files *files, const char *proc_root,
	const char *cgroup_root, uint32_t pid, int *fd);
/* Throttled time since the last call, of the most throttled group, summed over CPUs. False: unknown. */
bool host_cgroup_throttled(struct host_cgroup *cgroup, struct host_files *files, uint64_t *ret_throttled_ns);
void host_cgroup_free(struct host_cgroup *cgroup);

#define HOST_UNKNOWN UINT64_MAX
#define HOST_CGROUP_SCAN_NS (5 * NSEC_PER_SEC)	 /* between scans for limited control groups */
#define HOST_THREADS_SCAN_NS (10 * NSEC_PER_SEC) /* between scans for the busiest threads */

struct host_sample {
	uint64_t start_ns, duration_ns; /* CLOCK_MONOTONIC */
	/* In this interval; HOST_UNKNOWN: the kernel does not say. throttled_ns and memory_stall_ns are at most
	 * duration_ns. host_sampler_take() reads neither card_energy_mj nor what is no HOST_SAMPLED. */
	union {
		struct {
#define HOST_MEASURE(id, member, evidence, unit, scale, kind, cause) uint64_t member;
#include "analyzers/align/host_measures.def"
#undef HOST_MEASURE
		};
		uint64_t measure[HOST_MEASURE_MAX];
	};
	uint64_t resident_bytes, swapped_bytes; /* at the end; HOST_UNKNOWN */
	uint64_t cpu_total_ns;			/* since the process started */
	char state;				/* at the end: R, S, D, T, t, Z */
};

struct host_sampler;

/* Since the process started, but for state and memory; HOST_UNKNOWN where the kernel does not say. */
struct host_usage {
	uint64_t cpu_ns; /* of all threads */
	uint64_t major_faults;
	uint64_t resident_bytes, swapped_bytes;
	char state;
};

/* Keeps the process's files open from sample to sample (procfs.h). */
int host_sampler_new(const char *proc_root, const char *cgroup_root, uint32_t pid, struct host_sampler **ret);
struct host_sampler *host_sampler_free(struct host_sampler *sampler);
/* Reads what waits for nothing; the rest is given. */
int host_usage_read(struct host_sampler *sampler, uint64_t major_faults, struct host_usage *ret);
/*
 * 1: *ret covers the time since the last call. 0: first call, or no time passed: only state and totals are valid. files:
 * of the round, empty at its begin.
 */
int host_sampler_take(struct host_sampler *sampler, struct host_files *files, uint32_t thread_id,
	const struct host_usage *usage, uint64_t now_ns, struct host_sample *ret);

/*
 * Levels turned on by a suspicion, or as a routine, to see whether there is one, bounded three ways. Each lasts
 * [findings] raise_for, or twice that while something is suspected at its end. After a suspicion without a confirmed
 * finding, and after an operator set the level, it pauses for raise_pause. Its share of time is at most raise_percent;
 * at most one hour's share accumulates, of which the routine leaves half, or what exceeds one period if that is less.
 * If one with a confirmed finding ends while more is wanted, it is renewed without detaching: probes cannot attach
 * while they detach.
 */

struct context;

struct online_auto_level {
	uint64_t count;			  /* times a level was turned on */
	uint64_t budget_ns[LEVEL_MAX];	  /* time the level may still be on */
	uint64_t budget_at_ns[LEVEL_MAX]; /* time of budget_ns; 0: unused */
	uint64_t pause_until_ns[LEVEL_MAX];
	uint64_t prolonged_ns[LEVEL_MAX]; /* since turned on */
	bool turned_on[LEVEL_MAX];	  /* turned on here, end not yet seen */
	bool fruitful[LEVEL_MAX];	  /* a finding was confirmed since */
	bool is_routine[LEVEL_MAX];	  /* nothing was suspected since */
};

/* wants: bits of enum judge_want. */
void online_auto_level_want(struct online_auto_level *state, struct context *context, unsigned wants, const char *job,
	const char *why, uint64_t now_ns);
/* Call when a finding of a user who is not suspected is confirmed. */
void online_auto_level_confirmed(struct online_auto_level *state);
/* Call at least once a second: notes levels that ended, prolongs those that still have a suspicion. */
void online_auto_level_tick(struct online_auto_level *state, struct context *context, bool suspected, uint64_t now_ns);

#define FINDINGS_ENDED 64 /* ended ranks kept while their job lives */
#define FINDINGS_ENDED_NS (3600 * NSEC_PER_SEC)
#define ONLINE_PUBLISHED_MAX 512
#define ONLINE_WAIT_NS (50 * NSEC_PER_MSEC)  /* a fifth of the loop's longest stop; reads take 1 ms */
#define ONLINE_RECOVER_NS (5 * NSEC_PER_SEC) /* a daemon is ready within 5 s, whatever hangs */

/* A rank's process, as registered with the aligner. */
struct online_process {
	int64_t instance; /* 0: free slot */
	int process;	  /* the aligner's number */
	uint32_t pid, slot;
	uint64_t start_time_ns; /* as in /proc */
	int32_t rank;
	uint32_t world_size;
	uint32_t uid;
	uint64_t limited; /* kernel_limited_calls(), as reported to the aligner */
	char job[64];
	uint64_t ended_ns;		 /* 0: alive */
	uint32_t thread_id;		 /* step thread, 0 if unknown */
	uint64_t op_ns;			 /* end of the newest operation fed */
	uint64_t stack_ns;		 /* when a stack of its main thread was taken last, 0: never */
	enum standing_stack stack;	 /* what it showed */
	struct preemptors preemptors;	 /* of L3's waits since the last sample */
	struct rank_steps_progress last; /* if ended: its slot may be reused */
	uint64_t standing_ns;		 /* UTC of its newest row of standings, 0: none */
	uint64_t calls_ns, calls_hash;	 /* the same of standing_calls; of what they show */
	struct host_sampler *sampler;
	struct host_sample newest;
	struct host_sample sum; /* the unfinished row */
};

/* The last published state of a finding that is not over. */
struct online_published {
	uint64_t id;
	enum finding_state state;
	enum finding_cause cause;
	enum finding_severity severity;
	int32_t rank;  /* a job's finding becomes that of the rank that explains it */
	bool doubtful; /* its user was suspected then (rank_suspect.c) */
};

/*
 * Stacks of a hung job, taken when the hang is suspected and when it is confirmed: rows of the table `stacks`, and what
 * they show is added to the finding's sentence and evidence. Also where hang detection wants to know who is in
 * communication. Of the newest ONLINE_STACKS_MAX hangs, where they are more those of the user with the most give way; a
 * budget of each user bounds how often: ONLINE_STACKS_BURST at once, then one in ONLINE_STACKS_NS.
 */

#define ONLINE_STACKS_MAX 8
#define ONLINE_STACKS_BURST 8
#define ONLINE_STACKS_USERS 8 /* with budgets; one more takes over the least used */
#define ONLINE_STACKS_NS (60 * NSEC_PER_SEC)

struct online_stacks_budget {
	uint32_t uid;
	uint64_t left_ns, at_ns; /* at 0: not used */
};

struct online_stacks {
	struct {
		uint64_t id;			     /* of the finding, 0: free */
		struct finding last;		     /* as it was published last, without what stacks show */
		char sentence[STACK_SENTENCE_BYTES]; /* "": not known yet */
		char place[64];			     /* of the lone rank; "" if there is none */
		uint32_t uid;			     /* of the ranks */
		uint64_t time_ns;		     /* when they were taken */
		bool owed;			     /* they could not be taken, and are to be with the next update */
	} hang[ONLINE_STACKS_MAX];
	unsigned next;
	struct online_stacks_budget budget[ONLINE_STACKS_USERS];
	uint64_t taken, skipped;
};

/* online_profile.c: comparisons of profiles. */

#define ONLINE_PROFILES_MAX 16 /* findings of slow ranks and jobs that last */

struct online_profile {
	struct finding last; /* as it was published last, without what the comparison shows; id 0: free */
	int64_t number;	     /* profile that was compared; 0: none */
	int32_t rank;	     /* that was compared */
	double own_ns, peers_ns;
	bool seconds;	     /* of each second; else of a step */
	uint64_t covered_ns; /* of the finding, by the profile that shows it */
	char place[64];	     /* function and line; "": nothing known */
};

struct online_profiles {
	struct online_profile of[ONLINE_PROFILES_MAX];
	unsigned next;
	int64_t number; /* of the newest profile that ended */
	uint64_t ended_ns;
	struct child child;		   /* the comparison */
	uint64_t began_ns, id, covered_ns; /* id: of its finding; covered_ns: of that, by the profile */
};

/* online_end.c: the newest ranks that ended. */

#define ONLINE_ENDS_MAX 256 /* a power of two; ranks of some jobs of a node end together */

struct online_end {
	int64_t instance; /* 0: free */
	uint64_t job;	  /* hash of what its ranks have in common */
	int32_t rank;
	uint32_t uid;
	int wait_status;
	enum end_kind kind;
	bool out_of_memory, published;
	uint64_t ended_ns;
	char name[64]; /* of the job */
	char host[65], card[64];
	char how[sizeof(((struct finding_evidence *)NULL)->detail)], place[64];
};

/* For as long as a rank's end waits for its names: the kernel says 10 in 5 s at most. */
#define ONLINE_OOM_LIMITS_MAX 32

/* What had no memory left when the kernel killed a process. */
struct online_oom_limit {
	int64_t pid;	   /* 0: free */
	uint64_t group_ns; /* when all processes of a control group were killed for it; 0: it alone */
	char object[GAUGE_OBJECT_BYTES];
};

struct online_ends {
	struct online_end of[ONLINE_ENDS_MAX];
	unsigned next;
	uint64_t published;
	struct online_oom_limit limit[ONLINE_OOM_LIMITS_MAX];
	unsigned limits; /* so far */
};

struct online {
	struct context *context;
	const struct online_observer *observer; /* NULL: none */
	void *observer_arg;
	struct detect *detect;
	struct align *align;	   /* owned by detect */
	struct hardware *hardware; /* the same; NULL: not judged */
	struct online_auto_level auto_level;
	struct system_causes *system; /* NULL: L3 was not on yet */
	struct online_stacks stacks;
	struct online_profiles profiles;
	struct online_ends ends;
	char proc_root[128], cgroup_root[128];
	struct job_thread *reader;  /* reads files of ranks */
	struct job_thread *writer;  /* writes the mark of open findings */
	struct thread_job *mark;    /* online_recover.c: by the writer; NULL: none */
	struct thread_job *learned; /* online_learned.c: the same */
	uint64_t learned_next_ns;
	bool remembers, learned_failed; /* its file has jobs; could not be written */
	uint64_t wait_ns;		/* the loop waits so long at most for the two */
	struct online_reads *reads;	/* online_samples.c: by the reader; NULL: none */
	uint64_t id_base;		/* added to ids: unique across starts */
	uint64_t of_ranks;		/* online_rank.c: published */
	uint64_t sample_next_ns, sample_last_ns, stall_next_ns, stall_ended_next_ns;
	uint64_t dense_until_ns, dense_budget_ns, dense_budget_at_ns; /* online_samples.c */
	bool watched;	     /* the aligner was notified that operations are observed */
	uint64_t watched_ns; /* last time they were */
	uint64_t drops;	     /* kernel drops reported to the aligner */
	uint64_t blind_ns;   /* records of before then were dropped: silence before then says nothing */
	bool ending;	     /* findings are published for the last time */
	bool marked;	     /* online_recover_mark() */
	bool unclosed;	     /* findings of an earlier daemon are still open: keep the mark for the next start */
	struct online_counts counts;
	size_t published_count;
	struct online_published published[ONLINE_PUBLISHED_MAX];
	struct online_process ended[FINDINGS_ENDED];
	unsigned ended_next;
	size_t slots, slots_used; /* slots from slots_used on never had a rank */
	struct online_process slot[];
};

/* online_feed.c: NULL if the slot was reused or the aligner has no such rank. */
struct online_process *online_process(struct online *online, uint32_t slot, int64_t instance);
/* online_samples.c */
/* Stages and steps, operations and communicators of ranks; arg: struct online. */
extern const struct rank_steps_observer online_steps_observer;
extern const struct rank_coll_observer online_coll_observer;

void online_samples_take(struct online *online, uint64_t now_ns);
/* A step was longer than the job's usual one: sample densely for a while. */
void online_samples_densify(struct online *online, uint64_t now_ns);
void online_samples_end(struct online *online, struct online_process *process);
/* What is being read is not used. */
void online_samples_forget(struct online *online);
/* online_stall.c: now_ns: up to when all that happened was read. */
void online_stall_tick(struct online *online, uint64_t now_ns);
/* A rank has just ended; others may live. */
void online_stall_ended(struct online *online, uint64_t now_ns);
/* online_standing.c: what a check knows of the process, as rows if they are due. snapshot: NULL, operations were not
 * read. silent_ns: since its newest progress; ended: a rank has just ended. */
void online_standing_put(struct online *online, struct online_process *process, const struct standing *standing,
	const struct coll_snapshot *snapshot, uint64_t silent_ns, uint64_t now_ns, bool ended);
/* online_publish.c: the sink of detect. */
void online_publish(void *arg, const struct finding *finding);
/* Puts the finding's row: for online_stacks.c. */
void online_publish_put_row(const struct online *online, const struct finding *f);
/* What a suspected user's jobs seem to need would cost those of others: their findings turn no level on, and keep none
 * on. */
bool online_doubts(const struct online *online, uint32_t uid);
/* online_publish.c: is a finding suspected whose user is not? */
bool online_publish_suspects(const struct online *online);
/* online_profile.c: remembers the finding as published; adds what the comparison of its profile found. */
void online_profile_note(struct online *online, const struct finding *finding);
void online_profile_add(struct online *online, struct finding *finding);
void online_profile_tick(struct online *online, uint64_t now_ns);
void online_profile_end(struct online *online);
/* online_stacks.c: takes stacks where a hang is suspected or confirmed. changed: it is another state than before. */
void online_stacks_take(struct online *online, const struct finding *finding, bool changed);
/* Takes stacks of the job's ranks without a finding. */
void online_stacks_want(struct online *online, const char *job, uint32_t uid);
/* Adds what stacks have shown to a hang. */
void online_stacks_add(const struct online *online, struct finding *finding);
/* online_end.c: a message of the kernel, which may say what had no memory left when it kills a process. */
struct gauges_message;
void online_end_message(struct online *online, uint64_t time_ns, const struct gauges_message *message);
/* Of a hang that the end of a rank caused, how it ended. */
void online_end_add(const struct online *online, struct finding *finding);
/* Ranks that ended just now, with an error or by a signal. */
void online_end_each(
	const struct online *online, void (*callback)(void *arg, const struct online_stack_info *info), void *arg);
/* online_recover.c: closes findings left open by a daemon that was killed, as many as it reads within `timeout_ns`. */
void online_recover_close(struct online *online, uint64_t timeout_ns);
/* online_learned.c: what is usual, for the next daemon. */
void online_learned_load(struct online *online);
/* As of detect_sink; arg: struct online. */
void online_learned_used(void *arg, const char *job);
void online_learned_tick(struct online *online, uint64_t now_ns);
void online_learned_save(struct online *online);
void online_learned_forget(struct online *online);
/* Records whether findings are open. */
void online_recover_mark(struct online *online, bool open);
/* What is being written is not waited for. */
void online_recover_forget(struct online *online);

/* online_system.c */
void online_system_explain(const struct online *online, struct finding *finding);

#endif
