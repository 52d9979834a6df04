/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The what-if of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025), as its authors
 * publish it with the traces: a step is replayed from the lengths of its operations and from what each needs, and once
 * more with the lengths that it would have had were all its likes alike.
 *
 * Length of an operation that others take part in: its end less the latest start of them. Ideal: the mean of its type
 * over all ranks and steps where it computes, the median where it communicates. An operation starts once all it needs
 * is there: the one before it of its rank's stream (computing; each kind of send and receive; parameters and
 * gradients); a send, what it sends; what is computed, its receive; a receive, what was computed before what it is for;
 * the first backward send and receive, the computation before the last before them; the first computation, the
 * parameters; and after the last one, in a row, gc, layernorm, embedding, gradients, clipping, optimizer.
 */
#ifndef RANKTRACE_TRACES_WHATIF_H
#define RANKTRACE_TRACES_WHATIF_H

#include "tests/traces/trace.h"

#define WHATIF_PLACES_MAX 64

/* Mean step lengths, in seconds, and quotients of them. */
struct whatif_case {
	double as_is_s, ideal_s;
	double s;			/* as_is / ideal */
	double s_dp[WHATIF_PLACES_MAX]; /* ideal but for this data-parallel rank / ideal */
	double s_stage[WHATIF_PLACES_MAX];
	uint32_t slowest_dp, slowest_stage; /* worker of the largest min(s_dp, s_stage) */
	double m_w;			    /* what fixing that worker wins of as_is - ideal */
	double m_s;			    /* what fixing the last stage wins */
};

/* 0, negative errno. */
int whatif(const struct trace *trace, struct whatif_case *ret);

#endif
