/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the system collector counts: time that the kernel took from a rank, or that its requests took, by cause. Value
 * of the map `system_sums` (bpf/system_sums.bpf.h), by slot; sums only rise, the daemon keeps differences.
 */
#ifndef RANKTRACE_SYSTEM_H
#define RANKTRACE_SYSTEM_H

#include "bpf/event.h"

enum rt_system_cause {
	RT_SYSTEM_RECLAIM,	 /* a thread freed memory of the machine, to get some */
	RT_SYSTEM_LIMIT_RECLAIM, /* the same of a control group that is at its limit */
	RT_SYSTEM_COMPACTION,	 /* it moved pages, to get memory in one piece */
	RT_SYSTEM_IRQ,		 /* interrupts while one of its threads ran */
	RT_SYSTEM_SOFTIRQ,	 /* the same, their later part: network, timers, block devices */
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

/*
 * Devices of a rank with sums of their own: those of its data, of checkpoints and of the system, and one that another is
 * made of (dm-0 of nvme0n1). Requests of more are in the sums of their causes.
 */
#define RT_SYSTEM_DEVICES 4
#define RT_SYSTEM_DEVICE_IDLE_NS 10000000000ULL /* then another may have its place: the daemon has read it since */
#define RT_SYSTEM_MINOR_BITS 20			/* of a device's number: as the kernel's dev_t */

struct rt_system_device {
	uint64_t last_ns; /* its newest request */
	uint32_t device;  /* number of a disk; 0: none */
	uint32_t pad0;
	struct rt_system_sum of[2]; /* RT_SYSTEM_BLOCK_READ, RT_SYSTEM_BLOCK_WRITE */
};

struct rt_system_sums {
	struct rt_system_sum of[RT_SYSTEM_CAUSES]; /* of requests to block devices: those of no device below */
	struct rt_system_device device[RT_SYSTEM_DEVICES];
};

/*
 * The sum of a request. Of two devices that take a place at the same moment, one may count the other's request: kernels
 * before 5.12 have no instruction for it.
 */
static inline __attribute__((always_inline)) struct rt_system_sum *rt_system_block_sum(
	struct rt_system_sums *sums, uint32_t device, uint32_t is_write, uint64_t now_ns)
{
	struct rt_system_device *unused = 0;

	for (uint32_t i = 0; device && i < RT_SYSTEM_DEVICES; i++) {
		struct rt_system_device *of = &sums->device[i];

		if (of->device == device) {
			of->last_ns = now_ns;
			return &of->of[is_write & 1];
		}
		if (!unused && (!of->device || of->last_ns + RT_SYSTEM_DEVICE_IDLE_NS < now_ns))
			unused = of;
	}
	if (!unused)
		return &sums->of[is_write ? RT_SYSTEM_BLOCK_WRITE : RT_SYSTEM_BLOCK_READ];
	unused->device = device;
	unused->last_ns = now_ns;
	return &unused->of[is_write & 1];
}

#endif
