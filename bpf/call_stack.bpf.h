/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the call engine leaves for the memory collector where it wants the stack of a call: one that allocates memory of
 * a device, or one that fails, of such memory or of those that wait for the device. It is the call's start, and a tail
 * call in the context of its return. One-way: call.bpf.c writes and calls, memory.bpf.c reads.
 */
#ifndef RANKTRACE_CALL_STACK_BPF_H
#define RANKTRACE_CALL_STACK_BPF_H

#include "bpf/call.h"
#include "bpf/probe.bpf.h"

/* The last such call of a thread, by tgid << 32 | thread; its reader deletes it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RT_STACK_CALLS_MAX);
	__type(key, uint64_t);
	__type(value, struct rt_stack_call);
} stack_calls SEC(".maps");

#endif
