/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Online detection: one `struct detect` (analyzers/detect/detect.h), fed with events of other modules, with samples of
 * the operating system, and every second with each rank's progress. Findings go to the store, the journal and
 * `tracectl status`; suspicions turn levels on for a while (online_internal.h). Nothing here judges.
 *
 * Callers name a rank by slot and instance; times are CLOCK_MONOTONIC. `online` may be NULL ([findings] enabled = no):
 * calls then do nothing. Events of unknown ranks are ignored.
 */
#ifndef RANKTRACE_DAEMON_FINDINGS_ONLINE_H
#define RANKTRACE_DAEMON_FINDINGS_ONLINE_H

#include "analyzers/coll/coll.h"
#include "analyzers/memory/memory.h"
#include "analyzers/steps/steps.h"
#include "daemon/base/util.h"

struct context;
struct online;
struct rank;

struct online_counts {
	uint64_t suspected, open; /* now */
	uint64_t closed, dropped; /* since start */
	uint64_t frames, ranks_left_out, raises, samples;
};

/* *ret is NULL if findings are off. */
int online_new(struct context *context, struct online **ret);
/* Closes open findings: nothing watches any longer. */
struct online *online_free(struct online *online);
/* Every 100 ms. */
void online_tick(struct online *online, uint64_t now_ns);
void online_counts_get(const struct online *online, struct online_counts *ret);

/* A runnable thread waited run_delay_ns of this time for a CPU. */
struct online_wait_info {
	uint32_t thread_id;
	uint64_t start_ns, duration_ns, run_delay_ns;
	uint32_t preemptor_pid; /* 0: unknown */
	const char *preemptor_name;
};
void online_wait(struct online *online, uint32_t slot, int64_t instance, const struct online_wait_info *wait);
/* gap_ns: the longest time without a launch in this window. */
void online_launches(struct online *online, uint32_t slot, int64_t instance, uint64_t start_ns, uint64_t duration_ns,
	uint64_t gap_ns);

/* A finding that lasts, of the caller, zeroed at first. What it says may change until it is over. */
struct online_open {
	uint64_t number; /* 0: none is open */
	uint64_t noticed_ns;
};

/* Memory of a device that a rank leaks, while it does; and that it is over. */
struct online_leak_info {
	const struct rank *rank;
	const char *device; /* "cuda:0" */
	uint64_t since_ns;
	double grown_bytes, hourly_bytes; /* since then; as it is now */
	const char *place;		  /* the line that holds most of it; "": unknown */
};
void online_leak(struct online *online, const struct online_leak_info *info, bool over, struct online_open *open);

/* Calls that give back memory of devices and take it again, of a rank. */
struct online_calls_info {
	const struct rank *rank;
	const char *place; /* the line with the longest one; "": unknown */
	uint64_t since_ns;
	double percent; /* of its time */
};
/* As online_leak(). */
void online_calls(struct online *online, const struct online_calls_info *info, bool over, struct online_open *open);

/* A request of memory of a device that could not be served. */
struct online_oom_info {
	const struct rank *rank;
	const char *device, *place; /* "cuda:0"; the line that asked, "": unknown */
	uint64_t time_ns;
	double asked_bytes, allocated_bytes, reserved_bytes; /* reserved: 0: unknown */
	double leaked_bytes;				     /* growth by a leak; 0: none, or unknown */
	struct memory_card card;
};
void online_oom(struct online *online, const struct online_oom_info *info);

/* Probes cost a rank more than [budget] rank_percent; percent of its time. Without a rank: the daemon takes more than
 * cpu_percent of a CPU, or more memory. */
struct online_overhead_info {
	const struct rank *rank;
	const char *part; /* that costs most: a level; of the daemon also a source of gauges */
	double percent, part_percent, budget_percent;
	uint64_t since_ns;
	double bytes, budget_bytes; /* of memory; 0: percent count */
};
/* As online_leak(). */
void online_overhead(
	struct online *online, const struct online_overhead_info *info, bool over, struct online_open *open);

/* L3 is on for the rank in this second; then what the kernel did for it, which its findings show
 * (analyzers/gauges/system_causes.h). */
void online_system_watch(struct online *online, const struct rank *rank, uint64_t now_ns);
void online_system_add(struct online *online, const struct rank *rank, uint64_t now_ns, const char *word,
	const char *name, uint64_t duration_ns);

/* A rank that has ended, once its stack is named: also one that ended as it should. */
struct online_end_info {
	const struct rank *rank;
	uint64_t ended_ns;
	const struct end_sender *sender; /* NULL: not known */
	const char *how;		 /* end_words.h */
	const char *place;		 /* of its exception, or its main thread; "": unknown */
};
void online_ended(struct online *online, const struct online_end_info *info);

/* What stacks of the jobs that hang now have shown (online_stacks.c), and of ranks that ended just now
 * (online_end.c). */
struct online_stack_info {
	const char *job, *sentence;
	uint32_t uid;
	uint64_t time_ns; /* when they were taken */
	bool ended;
};
void online_stacks_each(
	const struct online *online, void (*callback)(void *arg, const struct online_stack_info *info), void *arg);

#endif
