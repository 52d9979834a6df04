/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the call engine leaves for the memory collector when a call that allocates or releases fails: the call's start,
 * and a tail call in the context of its return. One-way: call.bpf.c writes and calls, memory.bpf.c reads.
 */
#ifndef RANKTRACE_FAILED_BPF_H
#define RANKTRACE_FAILED_BPF_H

#include "bpf/call.h"
#include "bpf/probe.bpf.h"

/* Start of the last failed call of a thread, by tgid << 32 | thread; its reader deletes it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RT_FAILED_CALLS_MAX);
	__type(key, uint64_t);
	__type(value, uint64_t);
} failed_calls SEC(".maps");

#endif
