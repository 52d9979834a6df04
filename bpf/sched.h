/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload of the off-CPU collector: a rank's thread left the CPU and returned.
 *
 * next_* is the task that ran after the thread left; previous_* is the task that ran before the thread returned: the
 * preemptor of a runnable thread; waker_* is the task that woke it. pid 0 is the idle task. run_delay_ns is the part of
 * duration_ns in which the thread was runnable, by the scheduler's count (sched_info.run_delay and, for the wait that
 * just ends, the run queue's clock); 0 if the kernel keeps none. Every pid is a process (tgid).
 */
#ifndef RANKTRACE_SCHED_H
#define RANKTRACE_SCHED_H

#include "bpf/event.h"

/* What a thread waited for as it left the CPU, in rt_offcpu_event.waits_on: the number of a system call, or one of
 * these. */
enum rt_waits_on {
	RT_WAITS_NOTHING = -1, /* ready: others were given the CPU */
	RT_WAITS_DISK = -2,    /* in the kernel's account of I/O */
	RT_WAITS_FAULT = -3,   /* in no system call: for a page */
	RT_WAITS_UNKNOWN = -4, /* kernels before 5.15, and without BTF */
};

/* Who woke a thread that was blocked. */
enum rt_waker {
	RT_WAKER_UNKNOWN,   /* it was ready to run, or its wake-up was not seen */
	RT_WAKER_TASK,	    /* the task waker_pid, waker_name, or an interrupt that came while it ran */
	RT_WAKER_INTERRUPT, /* an interrupt of an idle CPU: a timer, a device */
};

struct rt_offcpu_event {
	struct rt_event event; /* kind RT_KIND_OFFCPU; pid and thread_id are the rank's thread; time_ns is the return */
	uint64_t start_ns;
	uint64_t duration_ns;
	uint64_t run_delay_ns;
	uint32_t next_pid;
	uint32_t previous_pid;
	int32_t waits_on;
	uint32_t waker; /* enum rt_waker */
	uint32_t waker_pid;
	uint32_t pad0;
	uint64_t stack; /* of an rt_offcpu_stack_event that was sent before; 0: it was ready, or not known */
	char thread_name[RT_COMM_SIZE];
	char next_name[RT_COMM_SIZE];
	char previous_name[RT_COMM_SIZE];
	char waker_name[RT_COMM_SIZE];
};

#define RT_OFFCPU_STACK_MAX 12 /* functions, the innermost: those of the scheduler are some three of them */
#define RT_OFFCPU_NAME_BYTES 32

/* Not of a rank: whoever comes to it first sends it. */
struct rt_offcpu_stack_event {
	struct rt_event event; /* kind RT_KIND_OFFCPU_STACK */
	uint64_t stack;	       /* a hash of the functions' addresses, which do not leave the kernel */
	char name[RT_OFFCPU_STACK_MAX][RT_OFFCPU_NAME_BYTES]; /* the innermost first; "": none */
};

struct rt_offcpu_sum_event {
	struct rt_event event; /* kind RT_KIND_OFFCPU_SUM */
	uint64_t start_ns;     /* of the summed second */
	uint64_t duration_ns;  /* sum of off-CPU intervals below the threshold that ended in it */
	uint64_t run_delay_ns;
	uint64_t count;
	char thread_name[RT_COMM_SIZE];
};

/*
 * State of a rank's thread: value of the map `offcpu_threads`, by thread id. The daemon fetches pending sums when the
 * level goes off or the process ends.
 */
struct rt_offcpu_thread {
	uint64_t start_ns;     /* when it left the CPU; 0 while running */
	uint64_t run_delay_ns; /* sched_info.run_delay at that time */
	uint64_t ran_ns;       /* time on CPUs, at that time */
	uint64_t sum_start_ns; /* the second being summed */
	uint64_t sum_duration_ns;
	uint64_t sum_run_delay_ns;
	uint64_t sum_count;	/* 0: nothing pending */
	uint64_t faults, moves; /* minor page faults and migrations, at the time it left the CPU */
	uint32_t pid;
	uint32_t next_pid; /* task that ran next */
	uint32_t slot;	   /* of its rank */
	int32_t waits_on;
	uint32_t waker; /* enum rt_waker */
	uint32_t waker_pid;
	uint32_t node; /* of the CPU that it left */
	uint32_t pad0;
	char next_name[RT_COMM_SIZE];
	char waker_name[RT_COMM_SIZE];
	char thread_name[RT_COMM_SIZE]; /* as of the first interval of the sum */
};

#endif
