/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload of the ends collector: what the threads of a rank did when it ended, read in their own context while their
 * memory is mapped: at the delivery of a fatal signal, and at the exit of the thread that ends its process. And
 * exceptions that nobody caught, where Python shows them.
 *
 * And who sent the signal. Stacks are those of profile.h. The process is gone when they are named: each code object is
 * recorded.
 */
#ifndef RANKTRACE_ENDS_H
#define RANKTRACE_ENDS_H

#include "bpf/profile.h"

#define RT_END_THREADS_MAX 16	  /* of a rank: those that run Python, in the order in which they end */
#define RT_END_TRACEBACK_MAX 1024 /* entries; the limit of recursion is 1000 */
#define RT_END_WHAT_BYTES 48

enum rt_end_how {
	RT_END_SIGNAL = 1, /* a signal to this thread ends the process: a fault, abort() */
	RT_END_EXIT,	   /* this thread ends the process: exit(), _exit() */
	RT_END_KILLED,	   /* another thread, or another process, ends it */
	RT_END_EXCEPTION,  /* it lives; the traceback is the stack */
	RT_END_HOWS
};

struct rt_end_event {
	struct rt_event event; /* kind RT_KIND_END */
	uint32_t how;	       /* enum rt_end_how */
	uint32_t signal;       /* RT_END_SIGNAL: its number */
	uint64_t stack;	       /* rt_profile_stack_event.stack; 0: none */
	/* Where a thread is in native code: a file and the offset in it. Of an exception the name of its type. "":
	 * unknown. */
	uint64_t offset;
	char what[RT_END_WHAT_BYTES];
	char thread_name[RT_COMM_SIZE];
};

/* The newest signal of RT_END_ASKING that another process sent to the rank. */
struct rt_end_sender {
	uint32_t signal;	/* 0: none */
	uint32_t pid;		/* 0: the kernel */
	uint32_t out_of_memory; /* the kernel chose the rank, to free memory */
	char name[RT_COMM_SIZE];
};

/* Value of `end_ranks`, by the rank's slot. The daemon writes it. */
struct rt_end_rank {
	uint32_t pid;		  /* 0: not followed */
	uint32_t threads;	  /* recorded */
	uint64_t stacks, took_ns; /* of stages; what they took of its threads' time */
	struct rt_end_sender sender;
	struct rt_profile_python python;
};

/* Signals by which processes end others: SIGHUP, INT, QUIT, ABRT, KILL, USR1, USR2, TERM. */
#define RT_END_ASKING \
	((1ULL << 1) | (1ULL << 2) | (1ULL << 3) | (1ULL << 6) | (1ULL << 9) | (1ULL << 10) | (1ULL << 12) | \
		(1ULL << 15))

/* Signals that end no process by default: SIGCHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH. */
#define RT_END_HARMLESS \
	((1ULL << 17) | (1ULL << 18) | (1ULL << 19) | (1ULL << 20) | (1ULL << 21) | (1ULL << 22) | (1ULL << 23) | \
		(1ULL << 28))
#define RT_END_SIGKILL 9

#endif
