/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Wire format between kernel and daemon: the header of every record in the ring.
 *
 * Fixed-width fields, no holes (checked by -Wpadded where available), native endian: the ring never leaves the
 * machine. Numbers of kinds are never reused. A collector's payload is in its own header (call.h, sched.h, proc.h) and
 * starts with struct rt_event. Times are CLOCK_MONOTONIC nanoseconds (bpf_ktime_get_ns).
 */
#ifndef RANKTRACE_EVENT_H
#define RANKTRACE_EVENT_H

#ifndef __bpf__
#include <stdint.h>
#else
#include "bpf/core.h"
#endif

enum rt_kind {
	RT_KIND_NONE = 0,
	RT_KIND_CALL = 1,	   /* call.h: entry of a probed function, its return, or both */
	RT_KIND_OFFCPU = 2,	   /* sched.h: one off-CPU interval above the threshold */
	RT_KIND_OFFCPU_SUM = 3,	   /* sched.h: shorter off-CPU intervals, summed per second */
	RT_KIND_EXEC = 4,	   /* proc.h: a process has a new image */
	RT_KIND_EXIT = 5,	   /* proc.h: a process ended (last thread) */
	RT_KIND_MARKER = 6,	   /* marker.h: records of a marker library */
	RT_KIND_LAUNCHES = 7,	   /* launches.h: no record, only a counter of drops: launches beyond the map's bound */
	RT_KIND_SAMPLE = 8,	   /* profile.h: a sample of a profiled thread */
	RT_KIND_STACK = 9,	   /* profile.h: a stack that samples refer to */
	RT_KIND_MEMORY_STACK = 10, /* memory.h: a stack that allocations refer to, as RT_KIND_STACK */
	RT_KIND_MEMORY_FAILED = 11, /* memory.h: a request for memory that failed, or a call and its stack */
	RT_KIND_FILE = 12,	    /* syscalls.h: a slow call on a file */
	RT_KIND_CODE = 13,	    /* profile.h: a code object of the stacks that follow */
	RT_KIND_END = 14,	    /* ends.h: a thread of a rank that ends, or an exception that nobody caught */
	RT_KIND_END_STACK = 15,	    /* ends.h: its stack, as RT_KIND_STACK */
	RT_KIND_END_CODE = 16,	    /* ends.h: a code object of such a stack, as RT_KIND_CODE */
	RT_KIND_STAGE_STACK = 17,   /* ends.h: the stack of the stage that the thread has begun in the record before */
	RT_KIND_OFFCPU_STACK = 18,  /* sched.h: where in the kernel a thread waited, once for many intervals */
	RT_KIND_WAIT = 19,	    /* syscalls.h: a system call that took long, of a thread that runs Python */
	RT_KIND_WAIT_STACK = 20,    /* syscalls.h: a stack that such calls refer to, as RT_KIND_STACK */
	RT_KIND_MEMORY_CODE = 21,   /* memory.h: a code object of the stacks that follow, as RT_KIND_CODE */
	RT_KIND_FORK = 22,	    /* proc.h: a rank forked a process */
	RT_KIND_MAX
};

struct rt_event {
	uint64_t time_ns;    /* creation of the record, CLOCK_MONOTONIC */
	uint16_t kind;	     /* enum rt_kind */
	uint16_t flags;	     /* of the kind */
	uint32_t size_bytes; /* of the whole record, header included */
	uint32_t pid;	     /* process (tgid) in the initial PID namespace */
	uint32_t thread_id;  /* thread in the initial PID namespace */
};

_Static_assert(sizeof(struct rt_event) == 24, "the wire header has no holes");

#define RT_COMM_SIZE 16

#endif
