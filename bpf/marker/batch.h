/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outgoing records of this process: one buffer of RT_MARKER_BATCH_MAX, passed to the USDT probe when full, when its
 * oldest record has waited BATCH_WAIT_NS (checked at the next record or call), or when nothing is in flight (at most
 * once in BATCH_QUIET_NS). A nop without tracer. Thread-safe; blocks only for the copy.
 */
#ifndef RANKTRACE_MARKER_BATCH_H
#define RANKTRACE_MARKER_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/marker.h"

#define BATCH_WAIT_NS 100000000ULL
#define BATCH_QUIET_NS 20000000ULL /* a hit costs microseconds: a job of 400 steps a second pays 50 of them */

/* Communicator description, sent before its first record in a batch. */
struct batch_comm {
	uint64_t batch; /* last batch that contains it; maintained by batch.c */
	struct rt_marker_comm record;
};

/* Sets the description for later batches; kind, size and lost count are filled in when sent. */
void batch_comm_set(struct batch_comm *comm, const struct rt_marker_comm *record);
/* now_ns: CLOCK_MONOTONIC. quiet: nothing else is in flight. */
void batch_put(struct batch_comm *comm, const struct rt_marker_record *record, uint64_t now_ns, bool quiet);
/* Counts a lost operation; reported with the next record. */
void batch_count_lost(void);
/* Sends records that waited too long; cheap if none. */
void batch_poll(uint64_t now_ns);
/* Sends everything now. */
void batch_flush(uint64_t now_ns);
uint64_t batch_now_ns(void);

#endif
