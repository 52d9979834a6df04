/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts: one `struct detect` (analyzers/detect/detect.h), fed with what other rooms see, with samples of what the
 * system gives the ranks, and every second with where they stand; what it tells goes to the store, the journal and
 * `tracectl status`, and what it wants to see turns levels on for a while (findings_raise.h). Nothing here judges.
 *
 * Others tell by the slot and instance of a rank, with times of CLOCK_MONOTONIC. The room may be NULL ([findings]
 * enabled = no): then nothing happens. What is told of a rank that is not known is left out.
 */
#ifndef RANKTRACE_FINDINGS_ROOM_H
#define RANKTRACE_FINDINGS_ROOM_H

#include "analyzers/ops.h"
#include "analyzers/steps.h"
#include "daemon/util.h"

struct context;
struct findings_room;

struct findings_counts {
	uint64_t suspected, open; /* now */
	uint64_t closed, dropped; /* since start */
	uint64_t frames, ranks_left_out, raises, samples;
};

/* *ret stays NULL where findings are off. */
int findings_room_new(struct context *context, struct findings_room **ret);
/* What is open is told as over: nobody watches any more. */
struct findings_room *findings_room_free(struct findings_room *online);
/* Every 100 ms. */
void findings_room_tick(struct findings_room *online, uint64_t now_ns);
void findings_room_counts(const struct findings_room *online, struct findings_counts *ret);

void findings_room_stage(struct findings_room *online, uint32_t slot, int64_t instance, const struct steps_stage *stage);
void findings_room_step(struct findings_room *online, uint32_t slot, int64_t instance, const struct steps_step *step);
/* step: STEPS_NONE where none was open. member: of the rank in the communicator, -1 if not known. */
void findings_room_op(struct findings_room *online, uint32_t slot, int64_t instance, const struct ops_row *op,
	int64_t step, int32_t member);
void findings_room_communicator(
	struct findings_room *online, uint32_t slot, int64_t instance, const struct ops_communicator *communicator);

/* A thread was ready to run, for run_delay_ns of that time, and another had the CPU. */
struct findings_wait {
	uint32_t thread_id;
	uint64_t start_ns, duration_ns, run_delay_ns;
	uint32_t hog_pid; /* 0: not known */
	const char *hog_name;
};
void findings_room_wait(struct findings_room *online, uint32_t slot, int64_t instance, const struct findings_wait *wait);
/* In this window the rank launched nothing for at most gap_ns. */
void findings_room_launches(struct findings_room *online, uint32_t slot, int64_t instance, uint64_t start_ns,
	uint64_t duration_ns, uint64_t gap_ns);

#endif
