/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch of this process's finished records: one buffer of RT_MARKER_BATCH_MAX, passed to the USDT probe when it is
 * full, when its oldest record has waited BATCH_WAIT_NS (checked with the next record or call), or when nothing is in
 * flight (at most once per BATCH_QUIET_NS). A nop while no daemon traces the probe. Thread-safe; blocks only for the
 * copy.
 */
#ifndef RANKTRACE_MARKER_BATCH_H
#define RANKTRACE_MARKER_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/marker.h"

#define BATCH_WAIT_NS 100000000ULL
#define BATCH_QUIET_NS 20000000ULL /* a hit costs a step microseconds: limits a fast job to 50 hits a second */

/* A communicator's record, which precedes its first operation in each batch. */
struct batch_comm {
	uint64_t batch; /* the last one that has the record; owned by the batch */
	struct rt_marker_comm record;
};

/* The record of later batches; the batch fills in kind, size, clock pair and lost count. */
void batch_comm_set(struct batch_comm *comm, const struct rt_marker_comm *record);
/* now_ns: CLOCK_MONOTONIC. quiet: this was the last in flight. */
void batch_put(struct batch_comm *comm, const struct rt_marker_record *record, uint64_t now_ns, bool quiet);
/* Counts an operation that did not fit; the next record is flagged. */
void batch_count_lost(void);
/* Flushes a batch that has waited too long; otherwise cheap. */
void batch_poll(uint64_t now_ns);
/* Flushes unconditionally. */
void batch_flush(uint64_t now_ns);
uint64_t batch_now_ns(void);

#endif
