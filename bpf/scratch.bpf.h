/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Entries of profile_scratch for programs that others of their object may interrupt on their CPU: an entry is taken,
 * and given back at the end.
 */
#ifndef RANKTRACE_SCRATCH_BPF_H
#define RANKTRACE_SCRATCH_BPF_H

#include "bpf/profile_python.bpf.h"

#define SCRATCHES 2 /* of a CPU: probes of one thread may interrupt those of another */

/* Entries in use: CPU * SCRATCHES + entry. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, uint32_t);
	__type(value, uint32_t);
} scratch_busy SEC(".maps");

/* An entry of the scratch that nobody else has; SCRATCHES: none. */
static __always_inline uint32_t take_scratch(uint32_t cpu)
{
	uint32_t one = 1;

	for (uint32_t i = 0; i < SCRATCHES; i++) {
		uint32_t key = cpu * SCRATCHES + i;

		if (!bpf_map_update_elem(&scratch_busy, &key, &one, BPF_NOEXIST))
			return i;
	}
	return SCRATCHES;
}

static __always_inline void give_scratch(uint32_t cpu, uint32_t entry)
{
	uint32_t key = cpu * SCRATCHES + entry;

	bpf_map_delete_elem(&scratch_busy, &key);
}

#endif
