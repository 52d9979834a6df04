/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the kernel took from ranks, by slot (bpf/system.h): any program adds, collect_system.c makes rows of it. */
#ifndef RANKTRACE_SYSTEM_SUMS_BPF_H
#define RANKTRACE_SYSTEM_SUMS_BPF_H

#include "bpf/probe.bpf.h"
#include "bpf/system.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader: slots */
	__type(key, uint32_t);
	__type(value, struct rt_system_sums);
} system_sums SEC(".maps");

static __always_inline struct rt_system_sums *system_sums_of(uint32_t slot)
{
	return bpf_map_lookup_elem(&system_sums, &slot);
}

#endif
