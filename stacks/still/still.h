/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proof that a thread of another process did not run between two moments, without stopping it. Memory that only this
 * thread writes (its stacks, its interpreter frames) is then one consistent state.
 *
 *	still_begin()     the thread is off the CPU now: blocked, stopped, or runnable on the CPU where the caller runs
 *	... reads ...
 *	still_check()     and has not been on one since
 *
 * A blocked thread is read as it is. For a runnable one the caller moves to that thread's CPU for the time of the reads
 * (sched_setaffinity of itself): two threads do not run on one CPU at once, and the kernel counts each switch. The
 * thread waits there as for any other process. If it runs in between, it is not delayed: still_check() says so and the
 * caller tries again.
 *
 * Not thread-safe: it moves the calling thread between CPUs, back with still_close().
 */
#ifndef RANKTRACE_STACKS_STILL_STILL_H
#define RANKTRACE_STACKS_STILL_STILL_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct still {
	char root[64]; /* mount point of procfs */
	pid_t pid, tid;
	uint64_t switches;    /* context switches of the thread at still_begin() */
	uint64_t start_ticks; /* when the thread started, in kernel ticks since boot: detects a reused id */
	int cpu;	      /* of the thread, where it waits for the caller; -1: blocked or stopped */
	char state;	      /* of still_begin(): letter of /proc/PID/stat */
	bool moved;
	int here;	    /* CPU the caller moved to; -1: none */
	cpu_set_t own_cpus; /* of the caller before it moved */
};

/* `root`: "/proc", or a fixture. 0; -ENAMETOOLONG. */
int still_open(struct still *still, const char *root);
/* Moves the caller back to all of its CPUs. May be called again. */
void still_close(struct still *still);
/*
 * 0: the thread is off the CPU. -EAGAIN: not at this moment, try again. -EPERM: may not be traced, or it runs on a CPU
 * that the caller may not use. -ESRCH: ended.
 */
int still_begin(struct still *still, pid_t pid, pid_t tid);
/* 0: has not run since still_begin(). -EAGAIN: may have. -ESRCH: ended. */
int still_check(struct still *still);

#endif
