/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a rank is slow: where its excess over its peers (or, where it has none, over its own past) sits. Pure. Feed every
 * frame; ask about a rank.
 *
 * The excess of each measured part (data loading, checkpoint, garbage collection, run delay, throttling, faults,
 * launches, the rest of forward, backward and optimizer) is its trimmed mean over the last CAUSE_FRAMES frames of the
 * newest frame's class, less the same of the class's other ranks. What explains most of the rank's excess self time,
 * and at least CAUSE_SHARE of it, is the cause; parts that lie in others (run delay within data loading; garbage
 * collection within forward) are the deeper cause and win where they explain that share of what they lie in
 * (cause_parts.c). Where the parts that can be seen do not have it, the rest is computing; where nothing can be seen
 * beside steps, unknown. So it is where a rank that computes on the CPU used no more CPU than its peers: it waited for
 * something not seen here.
 */
#ifndef RANKTRACE_DETECT_CAUSE_H
#define RANKTRACE_DETECT_CAUSE_H

#include "analyzers/detect/finding.h"
#include "analyzers/detect/measure.h"

#define CAUSE_FRAMES 8
#define CAUSE_SHARE 0.5

struct cause;

struct cause *cause_new(void);
/* For cause_of_job() alone: nothing is kept of single ranks. */
struct cause *cause_new_of_job(void);
struct cause *cause_free(struct cause *cause);
void cause_frame(struct cause *cause, const struct frame *frame, const struct measures *measures);
/* Writes cause and evidence of rank index rank into finding. excess_ns: of its self time, a step. A rank that can be
 * compared with nobody is compared with its own past before finding->since_step (0: all of it). */
void cause_of(const struct cause *cause, uint32_t rank, double excess_ns, struct finding *finding);
/* The same for all ranks together, against their past before since_step. */
void cause_of_job(const struct cause *cause, uint64_t since_step, double excess_ns, struct finding *finding);

#endif
