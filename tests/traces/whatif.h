/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The what-if of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025), as its authors
 * publish it with the traces: a step is replayed from the lengths of its operations and their dependencies, and again
 * with ideal lengths, equal for all operations of a type.
 *
 * Length of an operation of several ranks: its end less their latest start. Ideal: over all ranks and steps, the mean
 * of its type for computing, the median for communication. An operation starts after its dependencies: the previous one
 * of its rank's stream (computing; each kind of send and receive; parameters and gradients); of a send, the computation
 * that it sends; of a computation, its receive; of a receive, the computation before the one it feeds; of the first
 * backward send and receive, the computation before the last before them; of the first computation, the parameters.
 * After the last one, in sequence: gc, layernorm, embedding, gradients, clipping, optimizer.
 */
#ifndef RANKTRACE_TRACES_WHATIF_H
#define RANKTRACE_TRACES_WHATIF_H

#include "tests/traces/trace.h"

#define WHATIF_PLACES_MAX 64

/* Mean step lengths, in seconds, and quotients of them. */
struct whatif_case {
	double as_is_s, ideal_s;
	double s;			/* as_is / ideal */
	double s_dp[WHATIF_PLACES_MAX]; /* ideal except for this data-parallel rank / ideal */
	double s_stage[WHATIF_PLACES_MAX];
	uint32_t slowest_dp, slowest_stage; /* worker of the largest min(s_dp, s_stage) */
	double m_w;			    /* part of as_is - ideal gained by fixing that worker */
	double m_s;			    /* the same by fixing the last stage */
};

/* 0, negative errno. */
int whatif(const struct trace *trace, struct whatif_case *ret);

#endif
