/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the system collector counts: time that the kernel took from a rank, or that its requests took, by cause. Value
 * of the map `system_sums` (bpf/system_sums.bpf.h), by slot; sums only rise, the daemon keeps differences.
 */
#ifndef RANKTRACE_SYSTEM_H
#define RANKTRACE_SYSTEM_H

#include "bpf/event.h"

enum rt_system_cause {
	RT_SYSTEM_RECLAIM,    /* a thread freed memory, of the machine or of its control group, to get some */
	RT_SYSTEM_COMPACTION, /* it moved pages, to get memory in one piece */
	RT_SYSTEM_IRQ,	      /* interrupts while one of its threads ran */
	RT_SYSTEM_SOFTIRQ,    /* the same, their later part: network, timers, block devices */
	RT_SYSTEM_BLOCK_READ, /* requests to block devices, from the queue to the end; several at a time count each */
	RT_SYSTEM_BLOCK_WRITE,
	RT_SYSTEM_RETRANSMIT, /* TCP segments that were sent again; no time */
	RT_SYSTEM_RESET,      /* TCP connections reset, by either side; no time */
	RT_SYSTEM_FENCE,      /* a thread waited in the kernel for work of a device: a DMA fence */
	RT_SYSTEM_MINOR_FAULT, /* page faults that read nothing, as threads leave a CPU; no time. From bpf/sched.bpf.c, as those below */
	RT_SYSTEM_MIGRATION, /* threads moved to another CPU; no time */
	RT_SYSTEM_NODE,	     /* threads moved to a CPU of another node of memory; no time */
	RT_SYSTEM_CAUSES
};

struct rt_system_sum {
	uint64_t count, time_ns, bytes;
};

struct rt_system_sums {
	struct rt_system_sum of[RT_SYSTEM_CAUSES];
};

#endif
