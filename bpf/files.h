/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload of the file collector: a rank's thread read, wrote or synchronized a regular file, and it took threshold_ns or
 * more. Shorter calls are counted in the map `file_sums`, which the daemon reads once a second.
 */
#ifndef RANKTRACE_FILES_H
#define RANKTRACE_FILES_H

#include "bpf/event.h"

enum rt_file_op { RT_FILE_READ, RT_FILE_WRITE, RT_FILE_SYNC, RT_FILE_OPS };

#define RT_FILE_NAME_SIZE 64
#define RT_FILE_SYSCALLS 512 /* numbers of system calls below it */

struct rt_file_event {
	struct rt_event event; /* kind RT_KIND_FILE; time_ns is the call's end */
	uint64_t start_ns;
	uint64_t duration_ns;
	uint64_t bytes; /* read or written; 0: none, or an error */
	uint32_t op;    /* enum rt_file_op */
	uint32_t pad;
	char folder[RT_FILE_NAME_SIZE]; /* the name of its folder, without those above it */
	char name[RT_FILE_NAME_SIZE];   /* both may be cut; terminated */
};

/* Value of `file_sums`, by slot * RT_FILE_OPS + op. Only rises: the daemon keeps differences. */
struct rt_file_sum {
	uint64_t count, bytes, duration_ns;
};

#endif
