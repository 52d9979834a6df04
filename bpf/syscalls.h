/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * System calls of ranks: the map `syscall_sums`, which the daemon reads once a second, has their count and time by
 * number, and those of reads, writes and synchronizations of regular files, of opens, and of sends to sockets, that took less
 * than threshold_ns; longer ones are records. And where in Python a thread was in a call that took long.
 */
#ifndef RANKTRACE_SYSCALLS_H
#define RANKTRACE_SYSCALLS_H

#include "bpf/event.h"

#define RT_SYSCALLS_MAX 512 /* numbers of system calls are below it: a power of two, the highest of Linux 6.18 is 469 */

#define RT_SYSCALL_SLOTS 64 /* of a part of the sums, 0.8 MB: most nodes need one, and a node with 1,024 ranks has 16 */

/* What a system call is to the programs, by its number: data of the loader, since numbers differ between machines. */
enum rt_syscall_kind {
	RT_SYSCALL_PLAIN,
	RT_SYSCALL_LEFT_OUT, /* its thread does not return from it, or not under its number; or polls with it and loses nothing */
	RT_SYSCALL_FILE /* and above: RT_SYSCALL_FILE + enum rt_file_op; the first argument is the file's number, of RT_FILE_OPEN the result */
};

/* RT_FILE_SEND: to a socket, also by what writes to files. RT_FILE_OPEN: of any file; one that fails is in the sums. */
enum rt_file_op { RT_FILE_READ, RT_FILE_WRITE, RT_FILE_SYNC, RT_FILE_SEND, RT_FILE_OPEN, RT_FILE_OPS };
/* RT_FILE_OPS up to a power of two: verifiers before Linux 6.2 see that a masked index is in bounds */
#define RT_FILE_SUMS 8

#define RT_FILE_NAME_SIZE 64

struct rt_file_event {
	struct rt_event event; /* kind RT_KIND_FILE; time_ns is the call's end */
	uint64_t start_ns;
	uint64_t duration_ns;
	uint64_t bytes;	 /* read or written; 0: none, or an error */
	uint32_t op;	 /* enum rt_file_op */
	uint16_t family; /* of a socket's peer: AF_INET, AF_INET6; 0: none that has an address, or a file */
	uint16_t port;	 /* in network order, as the address */
	uint8_t address[16];
	char folder[RT_FILE_NAME_SIZE]; /* the name of its folder, without those above it */
	char name[RT_FILE_NAME_SIZE];	/* both may be cut; terminated */
};

/*
 * The stack of a thread that runs Python is read at the end of a call that took this long. To read it takes 9 us, or 17
 * of 64 frames (tests/bench/RESULTS.md): 0.2 % of the thread's time at most.
 */
#define RT_WAIT_MIN_NS 10000000

struct rt_wait_event {
	struct rt_event event; /* kind RT_KIND_WAIT; time_ns is the call's end */
	uint64_t start_ns;
	uint64_t duration_ns;
	uint64_t stack;	 /* rt_profile_stack_event.stack of an RT_KIND_WAIT_STACK that was sent before */
	uint32_t number; /* of the call */
	uint32_t pad0;
};

/* Sums of calls that ended since the daemon took them, which it does by setting them to 0. */
struct rt_file_sum {
	uint64_t count, bytes, duration_ns;
};

struct rt_syscall_sum {
	uint64_t count, duration_ns;
	uint64_t longest_ns; /* of two calls that end at the same time, either */
};

/* Value of the maps in `syscall_sums`, by slot. Their memory is shared with the daemon. */
struct rt_syscall_sums {
	struct rt_syscall_sum of[RT_SYSCALLS_MAX]; /* by number */
	struct rt_file_sum file[RT_FILE_SUMS];	   /* by enum rt_file_op */
	int32_t held;				   /* entries of `syscalls` */
	int32_t pad0;
};

/* Value of `syscalls`, by thread: it is in a system call. */
struct rt_syscall {
	uint64_t start_ns;
	uint64_t file; /* struct file: a regular one, a socket to send to, or what was opened; 0: none */
	uint32_t slot;
	uint16_t number;
	uint16_t op; /* enum rt_file_op, with file; RT_FILE_OPEN also without */
};

#endif
