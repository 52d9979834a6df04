/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Payload of the process collector: a process executed a new image or ended, or a rank forked. */
#ifndef RANKTRACE_PROC_H
#define RANKTRACE_PROC_H

#include "bpf/event.h"

struct rt_proc_event {
	struct rt_event event; /* kind RT_KIND_EXEC, RT_KIND_EXIT or RT_KIND_FORK; pid is the process, or the rank */
	uint32_t parent_pid;
	uint32_t wait_status; /* RT_KIND_EXIT: as wait(2) gives it */
	uint32_t uid;	      /* real user, as of the event */
	uint32_t child_pid;   /* RT_KIND_FORK; else 0 */
	char comm[RT_COMM_SIZE];
};

#endif
