/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts: one `struct detect` (analyzers/detect/detect.h), fed with what other rooms see, with samples of what the
 * system gives the ranks, and every second with where they stand; what it tells goes to the store, the journal and
 * `tracectl status`, and what it wants to see turns levels on for a while (online_internal.h). Nothing here judges.
 *
 * Others tell by the slot and instance of a rank, with times of CLOCK_MONOTONIC. The room may be NULL ([findings]
 * enabled = no): then nothing happens. What is told of a rank that is not known is left out.
 */
#ifndef RANKTRACE_DAEMON_FINDINGS_ONLINE_H
#define RANKTRACE_DAEMON_FINDINGS_ONLINE_H

#include "analyzers/coll/coll.h"
#include "analyzers/steps/steps.h"
#include "daemon/base/util.h"

struct context;
struct online;

struct online_counts {
	uint64_t suspected, open; /* now */
	uint64_t closed, dropped; /* since start */
	uint64_t frames, ranks_left_out, raises, samples;
};

/* *ret stays NULL where findings are off. */
int online_new(struct context *context, struct online **ret);
/* What is open is told as over: nobody watches any more. */
struct online *online_free(struct online *online);
/* Every 100 ms. */
void online_tick(struct online *online, uint64_t now_ns);
void online_counts_get(const struct online *online, struct online_counts *ret);

/* A thread was ready to run, for run_delay_ns of that time, and another had the CPU. */
struct online_wait_info {
	uint32_t thread_id;
	uint64_t start_ns, duration_ns, run_delay_ns;
	uint32_t preemptor_pid; /* 0: not known */
	const char *preemptor_name;
};
void online_wait(struct online *online, uint32_t slot, int64_t instance, const struct online_wait_info *wait);
/* In this window the rank launched nothing for at most gap_ns. */
void online_launches(struct online *online, uint32_t slot, int64_t instance, uint64_t start_ns,
	uint64_t duration_ns, uint64_t gap_ns);

#endif
