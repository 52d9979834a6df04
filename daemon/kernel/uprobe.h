/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching one BPF program to many places of one file, in the two ways that kernels have: a uprobe_multi link (6.6; made
 * by the raw system call, because the C library of BPF may be older than the kernel), or a perf event a place.
 */
#ifndef RANKTRACE_DAEMON_KERNEL_UPROBE_H
#define RANKTRACE_DAEMON_KERNEL_UPROBE_H

#include "daemon/base/util.h"

/* BPF_TRACE_UPROBE_MULTI of linux/bpf.h 6.6; a program must be loaded with it to be attached with uprobe_attach_multi. */
#define UPROBE_MULTI_ATTACH_TYPE 48

struct uprobe_link;

struct uprobe_target {
	const char *path;              /* /proc/self/fd/N works: the kernel follows it to the inode */
	size_t count;
	const uint64_t *offsets;       /* in the file */
	const uint64_t *semaphores;    /* file offsets of USDT semaphores, 0 for none; NULL: none at all */
	const uint64_t *cookies;       /* NULL: none */
};

/* All places or none. on_return: at the return of the function that starts there (uretprobe). */
int uprobe_attach_multi(int program_fd, const struct uprobe_target *target, bool on_return, struct uprobe_link **ret);
int uprobe_attach_perf(int program_fd, const struct uprobe_target *target, bool on_return, struct uprobe_link **ret);
/* Detached in the kernel when this returns, which takes long: see uprobe.c. Takes NULL. */
void uprobe_detach(struct uprobe_link *link);
/* The same by a thread, so that the caller goes on: until it is done, hits still come. exit() waits for it. */
void uprobe_detach_async(struct uprobe_link *link);
/* Whether some are not detached yet that uprobe_detach_async() was given. */
bool uprobe_is_detaching(void);
/* Until all are: to be called before the same place is attached to again, or each hit would be seen twice. */
void uprobe_detach_wait(void);

/* File offset of a function of this very program, for feature probes. */
int uprobe_own_offset(uint64_t *ret);

#endif
