/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches one BPF program to many sites of one file: through a uprobe_multi link (6.6; by the raw system call,
 * because libbpf may be older than the kernel), or a perf event per site.
 */
#ifndef RANKTRACE_DAEMON_KERNEL_UPROBE_H
#define RANKTRACE_DAEMON_KERNEL_UPROBE_H

#include "daemon/base/util.h"

/* BPF_TRACE_UPROBE_MULTI of linux/bpf.h 6.6; required at load for uprobe_attach_multi. */
#define UPROBE_MULTI_ATTACH_TYPE 48

struct uprobe_link;

struct uprobe_target {
	const char *path; /* /proc/self/fd/N works: resolved to the inode */
	uint64_t file;	  /* its inode number, for uprobe_detach_file() */
	size_t count;
	const uint64_t *offsets;       /* in the file */
	const uint64_t *semaphores;    /* file offsets of USDT semaphores, 0 for none; NULL: none at all */
	const uint64_t *cookies;       /* NULL: none */
};

/* All sites or none. on_return: uretprobe. */
int uprobe_attach_multi(int program_fd, const struct uprobe_target *target, bool on_return, struct uprobe_link **ret);
int uprobe_attach_perf(int program_fd, const struct uprobe_target *target, bool on_return, struct uprobe_link **ret);
/* Detached on return, which is slow (uprobe.c). Accepts NULL. */
void uprobe_detach(struct uprobe_link *link);
/* The same in a thread; hits continue until done. exit() waits for it. */
void uprobe_detach_async(struct uprobe_link *link);
/* Is an asynchronous detach pending? */
bool uprobe_is_detaching(void);
/* Waits for all pending detaches. */
void uprobe_detach_wait(void);
/* The same for one file (of that inode number): required before attaching to the same site, or hits count twice. */
void uprobe_detach_file(uint64_t file);

/* File offset of a function of this program, for feature probes. */
int uprobe_own_offset(uint64_t *ret);

#endif
