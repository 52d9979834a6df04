/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the probes cost a rank: hits by level and kind of probe, and of one hit in 16 the time of the program itself.
 * The map `costs` has an entry for each slot of the rank table. The programs write; the daemon reads, and adds what a
 * hit costs outside of the program, which daemon/guard/calibrate.h measures. Counts only rise.
 */
#ifndef RANKTRACE_COST_H
#define RANKTRACE_COST_H

#include "bpf/event.h"

/* Levels of proto/levels.def whose hits are counted, in its order. */
enum rt_cost_level { RT_COST_L0, RT_COST_L1, RT_COST_L2, RT_COST_L3, RT_COST_LEVELS };

enum rt_cost_kind {
	RT_COST_EMULATED,   /* the kernel emulates the instruction at the breakpoint */
	RT_COST_STEPPED,    /* it executes the instruction elsewhere, in a single step */
	RT_COST_RETURN,	    /* a return probe */
	RT_COST_TRACEPOINT, /* no trap */
	RT_COST_KINDS
};

struct rt_cost {
	uint64_t hits;
	uint64_t timed;	  /* of them */
	uint64_t run_ns;  /* of the timed ones: time in the program */
	uint64_t find_ns; /* part of it, the same in every program: to find this. Shows how cold the caches are */
};

struct rt_costs {
	struct rt_cost at[RT_COST_LEVELS][RT_COST_KINDS];
};

_Static_assert(sizeof(struct rt_costs) == 512, "the daemon maps them");

#endif
