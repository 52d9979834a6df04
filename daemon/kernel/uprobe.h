/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches one BPF program to many sites of one file: through a uprobe_multi link (6.6; by the raw system call,
 * because libbpf may be older than the kernel), or a perf event per site.
 *
 * Both attach and detach wait for the memory map of each process that maps the file, which a process may hold for as
 * long as it wants, and detach waits for grace periods as well: 0.1 s in the usual case. The event loop therefore
 * leaves both to a thread, as jobs (uprobe_job_*). One thread, because the kernel does one at a time, and the order
 * matters: a probe that is attached again before it is detached counts twice.
 */
#ifndef RANKTRACE_DAEMON_KERNEL_UPROBE_H
#define RANKTRACE_DAEMON_KERNEL_UPROBE_H

#include "daemon/base/util.h"

/* BPF_TRACE_UPROBE_MULTI of linux/bpf.h 6.6; required at load of the program if `multi`. */
#define UPROBE_MULTI_ATTACH_TYPE 48

struct uprobe_link;

struct uprobe_target {
	int program_fd;
	bool multi;	/* uprobe_multi, else perf events */
	bool on_return; /* uretprobe */
	int file_fd;	/* O_PATH is enough */
	uint64_t file;	/* its inode number; of a job only */
	size_t count;
	const uint64_t *offsets;    /* in the file */
	const uint64_t *semaphores; /* file offsets of USDT semaphores, 0 for none; NULL: none at all */
	const uint64_t *cookies;    /* NULL: none */
};

/* All sites or none. Waits: not in the loop. */
int uprobe_attach(const struct uprobe_target *target, struct uprobe_link **ret);
/* Detached on return. Accepts NULL. */
void uprobe_detach(struct uprobe_link *link);

/* A probe of the loop's, from the order to attach it until the order to detach it. */
struct uprobe_job;

/*
 * Orders the target attached; copies it and its descriptors. Negative errno: not ordered. Orders for one inode number
 * are carried out in the order in which they were given; between files, attaching goes before detaching.
 */
int uprobe_job_attach(const struct uprobe_target *target, struct uprobe_job **ret);
/* 0: attached; -EINPROGRESS: not yet; or why it cannot be attached. */
int uprobe_job_result(const struct uprobe_job *job);
/* uprobe_job_result() once it is done, or at this time (CLOCK_MONOTONIC). */
int uprobe_job_wait(const struct uprobe_job *job, uint64_t until_ns);
/* Orders it detached, whatever its state; hits continue until done. The job is gone. Accepts NULL. */
void uprobe_job_detach(struct uprobe_job *job);

/* Is a detach ordered that is not done? */
bool uprobe_is_detaching(void);
/* Waits for all of them. */
void uprobe_detach_wait(void);
/* How long the kernel has been at work on the present order; 0: there is none. */
uint64_t uprobe_job_age_ns(void);

/* File offset of a function of this program; of any, for feature probes. */
int uprobe_offset(const void *function, uint64_t *ret);
int uprobe_own_offset(uint64_t *ret);

#endif
