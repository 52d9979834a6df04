/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finished records of this process on their way out: one buffer of RT_MARKER_BATCH_MAX, handed to the USDT probe when it
 * is full, when its oldest record has waited BATCH_WAIT_NS (noticed with the next record or call), or when nothing is in
 * flight any more (at most once in BATCH_QUIET_NS). Nobody listening: a nop. Thread-safe; never blocks but for the copy.
 */
#ifndef RANKTRACE_MARKER_BATCH_H
#define RANKTRACE_MARKER_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/marker.h"

#define BATCH_WAIT_NS 100000000ULL
#define BATCH_QUIET_NS 20000000ULL /* a hit costs a step microseconds: a job of 400 steps a second pays 50 of them */

/* What a batch says of a communicator before its first record. */
struct batch_comm {
	uint64_t batch; /* the last one that tells of it; the batch's own */
	struct rt_marker_comm record;
};

/* From now on batches tell this; its kind, size, pair and count of lost are filled in when it is told. */
void batch_comm_set(struct batch_comm *comm, const struct rt_marker_comm *record);
/* now_ns: CLOCK_MONOTONIC. quiet: this was the last in flight. */
void batch_put(struct batch_comm *comm, const struct rt_marker_record *record, uint64_t now_ns, bool quiet);
/* An operation found no room: the next record says so. */
void batch_count_lost(void);
/* Hands over what has waited too long; cheap where nothing has. */
void batch_poll(uint64_t now_ns);
/* Hands over everything now. */
void batch_flush(uint64_t now_ns);
uint64_t batch_now_ns(void);

#endif
